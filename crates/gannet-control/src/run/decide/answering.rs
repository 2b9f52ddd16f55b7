//! How answers leave: datagrams of the deciding thread to whoever waits for them.

use std::net::SocketAddr;
use std::sync::Arc;

use gannet_ingest::udp::{UdpSink, UdpSinkConfig};
use gannet_ingest::{Datagram, Error, Sink};
use gannet_measure::counter::Counter;
use gannet_measure::ledger::Account;
use gannet_measure::quantity::Span;
use gannet_readout::trigger::{AnswerDrop, Answers};

/// Longest time that the deciding thread waits for the network to take answers.
const WAIT: Span = Span::ms(1);
/// Datagrams that are given to the network at once.
const BATCH: usize = 64;

/// What became of answers.
#[derive(Debug, Default)]
pub(in crate::run) struct AnswerAccount {
    /// Answers that left or were dropped.
    pub datagrams: Account<AnswerDrop>,
    /// Reports of the network that nobody listens.
    pub refused: Counter,
}

/// Sends answers.
pub(in crate::run) struct AnswerSender {
    sink: UdpSink,
    account: Arc<AnswerAccount>,
    has_failed: bool,
}

impl AnswerSender {
    /// A sender to `address`.
    ///
    /// # Errors
    /// When there is no socket or no route.
    pub fn connect(address: SocketAddr) -> Result<Self, Error> {
        let config = UdpSinkConfig { wait: WAIT, ..UdpSinkConfig::default() };
        let sink = UdpSink::connect(address, &config)?;
        Ok(Self { sink, account: Arc::default(), has_failed: false })
    }

    /// What became of the answers.
    pub fn account(&self) -> Arc<AnswerAccount> {
        Arc::clone(&self.account)
    }

    /// Sends all of `answers`. Those that the network does not take are counted.
    pub fn send(&mut self, answers: &Answers) {
        let mut answers = answers.iter();
        loop {
            let mut batch = [Datagram { header: &[], body: &[] }; BATCH];
            let mut count = 0;
            for (place, answer) in batch.iter_mut().zip(&mut answers) {
                place.header = answer;
                count += 1;
            }
            if count == 0 {
                return;
            }
            self.send_batch(&batch[..count]);
        }
    }

    fn send_batch(&mut self, batch: &[Datagram<'_>]) {
        let account = &self.account.datagrams;
        account.offer(batch.len() as u64);
        let sent = match self.sink.send(batch) {
            Ok(sent) => {
                self.account.refused.add(sent.refused);
                sent.datagrams
            }
            Err(error) => {
                if !self.has_failed {
                    tracing::error!(%error, "answers cannot be sent");
                }
                self.has_failed = true;
                0
            }
        };
        account.deliver(sent);
        account.discard(AnswerDrop::Unsent, batch.len() as u64 - sent);
    }
}
