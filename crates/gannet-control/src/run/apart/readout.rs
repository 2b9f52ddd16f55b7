//! The thread of a readout that serves its builder.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gannet_fabric::clop::Backend;
use gannet_fabric::meet::{Meet, OverShm, OverUdp};
use gannet_fabric::messenger::Messenger;
use gannet_readout::remote::{LinkError, ReadoutEnd};
use gannet_trigger::Item;
use gannet_wire::record::Record;

use super::{Meeting, REST, Shared, over_ofi};

/// Time after which a readout looks for the builder again.
const RETRY: Duration = Duration::from_millis(100);

/// The readout's thread.
pub(in crate::run) struct ReadoutLink<I> {
    pub meeting: Meeting,
    pub end: ReadoutEnd<I>,
    pub shared: Shared,
}

impl<I: Item + Record> ReadoutLink<I> {
    /// Serves the builder, and looks for it when it is gone, until no items come any more and it needs nothing.
    pub fn run(self) {
        let config = &self.meeting.config;
        let (listen, ofi) = (config.listen.clone(), over_ofi(config));
        match config.backend {
            Backend::Shm => self.serve_all(&OverShm(listen.into())),
            Backend::Udp => self.serve_all(&OverUdp(listen)),
            Backend::Ofi => self.serve_all(&ofi),
        }
    }

    fn serve_all<M: Meet>(mut self, place: &M) {
        let mut is_told = false;
        while !self.end.has_ended() && !self.shared.drain.is_cut_short() {
            let Meeting { limits, trust, .. } = &self.meeting;
            match place.connect(limits, trust) {
                Ok(joined) => {
                    if let Some(messenger) = self.meeting.messenger(joined)
                        && !self.serve(messenger, &mut is_told)
                    {
                        return;
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_told, true) {
                        let listen = &self.meeting.config.listen;
                        tracing::warn!(%error, "no builder at {listen}; looking for it");
                    }
                }
            }
            let begin = Instant::now();
            while begin.elapsed() < RETRY && !self.end.has_ended() {
                self.end.lose(RETRY.saturating_sub(begin.elapsed()));
            }
        }
    }

    /// Gives whether to look for another builder. That there is none `is_told` once.
    fn serve(&mut self, mut messenger: Messenger, is_told: &mut bool) -> bool {
        let mut is_known = false;
        let again = loop {
            let step = self.end.step(self.shared.clock.now_ns(), &mut messenger, REST);
            if self.end.is_joined() && !std::mem::replace(&mut is_known, true) {
                self.shared.joined.store(true, Ordering::Release);
                *is_told = false;
            }
            match step {
                Err(error @ LinkError::Refused(_)) => {
                    self.shared.life.fail(error.to_string());
                    break false;
                }
                Err(error) => {
                    if !std::mem::replace(is_told, true) {
                        tracing::warn!(%error, "the builder is gone");
                    }
                    break true;
                }
                Ok(()) if self.end.is_done() => {
                    if !self.end.has_ended() {
                        tracing::warn!("the builder has ended its run");
                    }
                    break !self.end.has_ended();
                }
                Ok(()) if self.shared.drain.is_cut_short() => break false,
                // It has not come to say anything, and has nothing to say any more.
                Ok(()) if self.end.has_ended() && !self.end.is_joined() => break false,
                Ok(()) => {}
            }
        };
        self.end.leave();
        again
    }
}
