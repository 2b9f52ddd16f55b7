//! What an engine tells its host.

use std::fmt;

use gannet_lattice::Node;
use gannet_memory::Refusal;
use thiserror::Error;

/// A PUT or GET that was posted; unique among those that are not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request(pub(super) u32);

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {:#x}", self.0)
    }
}

/// An event of the completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// A PUT of this node is done: its data are in the far memory, or an error says why perhaps
    /// not.
    TxDone {
        /// The PUT.
        request: Request,
        /// Node that it went to.
        destination: Node,
        /// Tag of its descriptor.
        tag: u32,
        /// Whether it succeeded.
        outcome: Result<(), Failure>,
    },
    /// A GET of this node is done: its data are in the memory of this node, or an error says why
    /// perhaps not.
    GetDone {
        /// The GET.
        request: Request,
        /// Node that the data came from.
        source: Node,
        /// Tag of its descriptor.
        tag: u32,
        /// Whether it succeeded.
        outcome: Result<(), Failure>,
    },
    /// A PUT of another node has placed all its data in the memory of this node.
    RxDone {
        /// Node that the data came from.
        source: Node,
        /// Process whose memory was written.
        process: u16,
        /// Virtual address of the first byte.
        address: u64,
        /// Bytes.
        length: u32,
        /// Tag of the descriptor on the other side.
        tag: u32,
    },
}

/// Why a PUT or GET failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Failure {
    /// The memory asked for may not be accessed.
    #[error("refused: {0}")]
    Refused(Reason),
    /// The other node was given up after the last allowed repetition stayed without an answer.
    #[error(
        "no answer from the other node after the last repetition; it is given up until the next request"
    )]
    Unreachable,
}

/// Why memory may not be accessed, as it travels in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Reason {
    /// The address or length is wrong.
    #[error(transparent)]
    Access(#[from] Refusal),
    /// The node answers as many GETs as it can. The engine asks again by itself, but not for ever
    /// ([`Replay::get_timeout_ns`](super::Replay::get_timeout_ns)).
    #[error("the node answers as many GETs as it can; post again later, or allow it more replies")]
    Busy,
}

impl Reason {
    const ALL: [Self; 4] = [
        Self::Access(Refusal::Unknown),
        Self::Access(Refusal::OutOfRange),
        Self::Access(Refusal::ReadOnly),
        Self::Busy,
    ];

    /// The number that stands for the reason in a packet.
    pub(super) fn number(self) -> u32 {
        Self::ALL.iter().position(|&reason| reason == self).unwrap_or(0) as u32
    }

    /// The reason of a number; a number of a later version reads as an unknown address.
    pub(super) fn from_number(number: u32) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or(Self::ALL[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_keep_their_numbers() {
        for (number, &reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(reason.number(), number as u32);
            assert_eq!(Reason::from_number(number as u32), reason);
        }
        assert_eq!(Reason::from_number(99), Reason::Access(Refusal::Unknown));
    }
}
