//! Counts datagrams on their way into a socket's queue.
//!
//! A kernel with `UDP_GRO` drops a coalesced message whole and counts that as one drop, whatever
//! the number of datagrams in it. So the only way to know how many were lost is to count them
//! before the queue. This is a BPF socket filter of a dozen instructions that lets everything
//! pass and adds each message and its datagrams to two counters in memory shared with us.
//! Loading it needs `CAP_BPF` on most systems.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::bpf::code::{
    ADD, ADD_ATOMIC_64, ADD_REGISTER, DIVIDE, EXIT, JUMP, JUMP_IF_EQUAL, LOAD_64, LOAD_WORD, MOVE,
    PSEUDO_MAP_VALUE,
};
use super::bpf::{Instruction, SharedCounters, instruction, load};

const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;

/// Bytes of the UDP header, which the filter still sees.
const UDP_HEADER_LEN: i32 = 8;
/// `offsetof(struct __sk_buff, len)`.
const LEN_OFFSET: i16 = 0;
/// `offsetof(struct __sk_buff, gso_size)`: length of the coalesced datagrams, 0 for one alone.
const GSO_SIZE_OFFSET: i16 = 176;

/// The program. Registers: r1 the message, r3 its datagrams, r4 their length.
fn program(map: libc::c_int) -> [Instruction; 15] {
    [
        instruction(LOAD_WORD, 3, 1, LEN_OFFSET, 0),
        instruction(LOAD_WORD, 4, 1, GSO_SIZE_OFFSET, 0),
        instruction(JUMP_IF_EQUAL, 4, 0, 4, 0),
        // Several datagrams: payload / length, rounded up.
        instruction(ADD, 3, 0, 0, -UDP_HEADER_LEN - 1),
        instruction(ADD_REGISTER, 3, 4, 0, 0),
        instruction(DIVIDE, 3, 4, 0, 0),
        instruction(JUMP, 0, 0, 1, 0),
        instruction(MOVE, 3, 0, 0, 1),
        // Messages first, then datagrams: the reader depends on this order.
        instruction(LOAD_64, 2, PSEUDO_MAP_VALUE, 0, map),
        instruction(0, 0, 0, 0, 0), // second half of the load: place in the value
        instruction(MOVE, 5, 0, 0, 1),
        instruction(ADD_ATOMIC_64, 2, 5, 0, 0),
        instruction(ADD_ATOMIC_64, 2, 3, 8, 0),
        // Keep the whole message.
        instruction(MOVE, 0, 0, 0, i32::MAX),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// Messages and the datagrams in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Messages: what the kernel queues, drops and hands over as one.
    pub(crate) messages: u64,
    /// Datagrams in these messages.
    pub(crate) datagrams: u64,
}

/// The loaded program and its two counters.
#[derive(Debug)]
pub(crate) struct ArrivalCounter {
    program: OwnedFd,
    counters: SharedCounters,
}

impl ArrivalCounter {
    /// Loads the program.
    pub(crate) fn load() -> io::Result<Self> {
        let counters = SharedCounters::new()?;
        let program = load(BPF_PROG_TYPE_SOCKET_FILTER, 0, &program(counters.raw()))?;
        Ok(Self { program, counters })
    }

    /// The program, for attaching it to a socket.
    pub(crate) fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// The counters now; `None` when a message came in between.
    pub(crate) fn read(&self) -> Option<Tally> {
        let [messages, datagrams] = self.counters.get();
        let before = messages.load(Ordering::Acquire);
        let datagrams = datagrams.load(Ordering::Acquire);
        let after = messages.load(Ordering::Acquire);
        (before == after).then_some(Tally { messages: before, datagrams })
    }
}
