//! The module's end of slow control, as a state machine without clock or socket.

use std::collections::VecDeque;

use gannet_wire::slow_control::{Address, Answer, LEN_MAX, Repr};
use serde::Serialize;

/// Sessions that a module remembers.
pub const SESSIONS_MAX: usize = 16;

/// What the module makes of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The value is set.
    Applied,
    /// It is not, for this reason.
    Refused(String),
    /// There is no such key.
    UnknownKey,
}

impl Verdict {
    fn answer(&self) -> Answer<'_> {
        match self {
            Self::Applied => Answer::Applied,
            Self::Refused(reason) => Answer::Refused(reason),
            Self::UnknownKey => Answer::UnknownKey,
        }
    }
}

/// What came to a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Received {
    /// Commands that were applied.
    pub applied: u64,
    /// Commands that were refused, or whose key is not known.
    pub refused: u64,
    /// Commands that came again: they were answered as the first time.
    pub doubled: u64,
    /// Commands that came after a later one of their session: they were left.
    pub overtaken: u64,
    /// Datagrams that are no command to this module.
    pub damaged: u64,
}

/// Takes the commands to one module, and applies each once.
///
/// Commands of a session come with growing numbers, one at a time: the last number and its answer are
/// all that there is to remember of a session. The last 16 sessions are remembered.
#[derive(Debug, Default)]
pub struct Responder {
    module: u32,
    /// Session, last number and its answer; the session heard of last is the last.
    sessions: VecDeque<(u64, u32, Verdict)>,
    received: Received,
}

impl Responder {
    /// The end of the module with this identifier.
    pub fn new(module: u32) -> Self {
        Self { module, ..Self::default() }
    }

    /// Takes a datagram; a new command is handed to `apply` with key and value. Writes the
    /// acknowledgement to `answer` and gives its length, if there is one.
    pub fn take(
        &mut self,
        bytes: &[u8],
        apply: impl FnOnce(&str, &str) -> Verdict,
        answer: &mut [u8; LEN_MAX],
    ) -> Option<usize> {
        let (address, key, value) = match Repr::parse(bytes) {
            Ok(Repr::Command { address, key, value }) if address.module == self.module => {
                (address, key, value)
            }
            _ => {
                self.received.damaged += 1;
                return None;
            }
        };
        let known = self.sessions.iter().position(|(session, ..)| *session == address.session);
        let known = known.and_then(|place| self.sessions.remove(place));
        let entry = match known {
            Some(entry) if address.number < entry.1 => {
                self.received.overtaken += 1;
                self.sessions.push_back(entry);
                return None;
            }
            Some(entry) if address.number == entry.1 => {
                self.received.doubled += 1;
                entry
            }
            _ => {
                let verdict = apply(key, value);
                let is_applied = verdict == Verdict::Applied;
                self.received.applied += u64::from(is_applied);
                self.received.refused += u64::from(!is_applied);
                (address.session, address.number, verdict)
            }
        };
        if self.sessions.len() == SESSIONS_MAX {
            self.sessions.pop_front();
        }
        let len = acknowledge(address, &entry.2, answer);
        self.sessions.push_back(entry);
        Some(len)
    }

    /// What came so far.
    pub fn received(&self) -> Received {
        self.received
    }
}

fn acknowledge(address: Address, verdict: &Verdict, bytes: &mut [u8; LEN_MAX]) -> usize {
    let acknowledgement = Repr::Acknowledgement { address, answer: verdict.answer() };
    acknowledgement.emit(bytes);
    acknowledgement.buffer_len()
}
