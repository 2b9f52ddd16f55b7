//! Who calls the library for a cable: whoever has it, or, where a call may never return, a thread of its own.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use gannet_memory::Access;

use super::apart::Apart;
use super::provider::remove_memory;
use super::sys::{Cable, CallError, Event, Lent, Mapped, PIECES_MAX, Piece, Reach};

/// Time for a byte on the slowest path that is waited for, ns: 10 MB/s.
pub(super) const NS_PER_BYTE: u64 = 100;
/// Times that a thread asks the provider before it tells what there was.
const POLLS_MAX: usize = 16;

/// A cable, and how it is driven.
#[derive(Debug)]
pub(super) enum Drive {
    /// By who has it.
    Here(Cable),
    /// By a thread of its own.
    Apart(Errands),
}

impl Drive {
    /// Drives a cable with up to `transfers` under way by a thread of its own, which is abandoned when it does not answer
    /// within the deadline. `name` is that of the cable.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn apart(
        cable: Cable,
        name: Vec<u8>,
        transfers: usize,
        deadline: Duration,
    ) -> io::Result<Self> {
        let apart = Apart::new(cable, Load::new(transfers), Load::carry, deadline)?;
        let waiting = VecDeque::with_capacity(transfers);
        let errands =
            Errands { apart, waiting, under_way: 0, transfers, is_to_be_taken: false, name };
        Ok(Self::Apart(errands))
    }

    /// Whether its thread was abandoned: nothing is told any more.
    #[inline]
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Apart(errands) => errands.apart.is_lost(),
        }
    }

    /// As [`Cable::add_memory`].
    pub fn add_memory(&mut self, memory: Arc<Mapped>) -> Result<(), CallError> {
        match self {
            Self::Here(cable) => cable.add_memory(memory),
            Self::Apart(errands) => errands.ask(move |cable| cable.add_memory(memory))?,
        }
    }

    /// As [`Cable::lend`].
    pub fn lend(
        &mut self,
        memory: usize,
        range: (usize, usize),
        access: Access,
    ) -> Result<(Lent, Reach), CallError> {
        match self {
            Self::Here(cable) => cable.lend(memory, range, access),
            Self::Apart(errands) => errands.ask(move |cable| cable.lend(memory, range, access))?,
        }
    }

    /// As [`Cable::withdraw`].
    pub fn withdraw(&mut self, lent: Lent) {
        match self {
            Self::Here(cable) => cable.withdraw(lent),
            // Who was abandoned moves nothing any more.
            Self::Apart(errands) => errands.ask(move |cable| cable.withdraw(lent)).unwrap_or(()),
        }
    }

    /// As [`Cable::write`]; what the provider refuses may also be told as a failure of the transfer.
    #[inline]
    pub fn write(
        &mut self,
        pieces: &[Piece],
        data: Option<u64>,
        is_placed: bool,
        tag: u64,
    ) -> Result<bool, CallError> {
        match self {
            Self::Here(cable) => cable.write(pieces, data, is_placed, tag),
            Self::Apart(errands) => Ok(errands.post(pieces, tag, Way::Write { data, is_placed })),
        }
    }

    /// As [`Cable::read`]; the rest as for [`write`](Self::write).
    pub fn read(&mut self, piece: &Piece, tag: u64) -> Result<bool, CallError> {
        match self {
            Self::Here(cable) => cable.read(piece, tag),
            Self::Apart(errands) => Ok(errands.post(std::slice::from_ref(piece), tag, Way::Read)),
        }
    }

    /// As [`Cable::poll`]; nothing while the thread has not answered.
    #[inline]
    pub fn poll(&mut self, told: impl FnMut(Event)) -> Option<usize> {
        match self {
            Self::Here(cable) => Some(cable.poll(told)),
            Self::Apart(errands) => errands.poll(told),
        }
    }
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug)]
enum Way {
    Write { data: Option<u64>, is_placed: bool },
    Read,
}

/// A transfer that was not posted yet.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    pieces: [Piece; PIECES_MAX],
    count: usize,
    tag: u64,
    way: Way,
}

impl Transfer {
    fn bytes(&self) -> u64 {
        self.pieces[..self.count].iter().map(|piece| piece.bytes as u64).sum()
    }

    fn post(&self, cable: &mut Cable) -> Result<bool, CallError> {
        match self.way {
            Way::Write { data, is_placed } => {
                cable.write(&self.pieces[..self.count], data, is_placed, self.tag)
            }
            Way::Read => cable.read(&self.pieces[0], self.tag),
        }
    }
}

/// What the thread gets to post, in order, and gives back with what it was told.
struct Load {
    transfers: VecDeque<Transfer>,
    events: Vec<Event>,
}

impl Load {
    fn new(transfers: usize) -> Self {
        let events = Vec::with_capacity(transfers + POLLS_MAX * Cable::EVENTS_MAX);
        Self { transfers: VecDeque::with_capacity(transfers), events }
    }

    /// What the thread does with it.
    fn carry(cable: &mut Cable, load: &mut Self) {
        while let Some(transfer) = load.transfers.front() {
            match transfer.post(cable) {
                Ok(true) => {}
                Ok(false) => break,
                Err(CallError { code, .. }) => {
                    load.events.push(Event::Failed { tag: Some(transfer.tag), code });
                }
            }
            load.transfers.pop_front();
        }
        for _ in 0..POLLS_MAX {
            if cable.poll(|event| load.events.push(event)) == 0 {
                break;
            }
        }
    }
}

/// What is to be done by the thread that has the cable.
#[derive(Debug)]
pub(super) struct Errands {
    apart: Apart<Cable, Load>,
    /// Posted here since the thread was given its load.
    waiting: VecDeque<Transfer>,
    /// Transfers posted here that are not told to be done, and how many there may be.
    under_way: usize,
    transfers: usize,
    /// Whether the load has what nobody was told yet.
    is_to_be_taken: bool,
    /// Name of the cable.
    name: Vec<u8>,
}

impl Errands {
    fn post(&mut self, pieces: &[Piece], tag: u64, way: Way) -> bool {
        if self.under_way >= self.transfers || self.apart.is_lost() {
            return false;
        }
        let mut all = [pieces[0]; PIECES_MAX];
        all[..pieces.len()].copy_from_slice(pieces);
        self.waiting.push_back(Transfer { pieces: all, count: pieces.len(), tag, way });
        self.under_way += 1;
        true
    }

    /// Gives the load to the thread, or, at the next call, takes it back and tells what is in it. So nothing is with the
    /// thread after a call that tells something, or that there was nothing.
    fn poll(&mut self, mut told: impl FnMut(Event)) -> Option<usize> {
        self.is_to_be_taken |= self.apart.take();
        let Some(load) = self.apart.here() else {
            return self.apart.is_lost().then_some(0);
        };
        if std::mem::take(&mut self.is_to_be_taken) {
            let count = load.events.len();
            for event in load.events.drain(..) {
                let is_over =
                    matches!(event, Event::Done { .. } | Event::Failed { tag: Some(_), .. });
                self.under_way -= usize::from(is_over);
                told(event);
            }
            return Some(count);
        }
        load.transfers.append(&mut self.waiting);
        let bytes: u64 = load.transfers.iter().map(Transfer::bytes).sum();
        self.apart.give(Duration::from_nanos(NS_PER_BYTE.saturating_mul(bytes)));
        None
    }

    fn ask<R: Send + 'static>(
        &mut self,
        question: impl FnOnce(&mut Cable) -> R + Send + 'static,
    ) -> Result<R, CallError> {
        let is_there = self.apart.here().is_none();
        let answer = self.apart.ask(question);
        // What was there has come back before the question was asked.
        self.is_to_be_taken |= is_there;
        answer.ok_or_else(|| CallError {
            what: "waiting for the provider",
            code: libc::ETIMEDOUT,
            text: "it did not return within the deadline".to_owned(),
        })
    }
}

impl Drop for Errands {
    fn drop(&mut self) {
        if !self.apart.close() {
            tracing::warn!(
                "a call of the provider of libfabric does not return: its thread and memory are kept until this process ends"
            );
            // The provider removes nothing any more.
            remove_memory(&self.name);
        }
    }
}
