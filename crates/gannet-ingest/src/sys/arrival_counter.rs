//! Counts datagrams on their way into a socket's queue.
//!
//! A kernel with `UDP_GRO` drops a coalesced message whole and counts that as one drop, whatever
//! the number of datagrams in it. So the only way to know how many were lost is to count them
//! before the queue. This is a BPF socket filter of a dozen instructions that lets everything
//! pass and adds each message and its datagrams to two counters in memory shared with us.
//! Loading it needs `CAP_BPF` on most systems.
//!
//! Format: `linux/bpf.h` (instructions, `union bpf_attr`, `struct __sk_buff`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_PROG_TYPE_SOCKET_FILTER: u32 = 1;
/// Marks a 64-bit load as the address of the value in the map of the given descriptor.
const BPF_PSEUDO_MAP_VALUE: u8 = 2;

/// Bytes of the map's one value: two counters.
const VALUE_LEN: u32 = 16;
/// Bytes of the map in memory: one page.
const MAP_LEN: usize = 4096;
/// Bytes of the UDP header, which the filter still sees.
const UDP_HEADER_LEN: i32 = 8;
/// `offsetof(struct __sk_buff, len)`.
const LEN_OFFSET: i16 = 0;
/// `offsetof(struct __sk_buff, gso_size)`: length of the coalesced datagrams, 0 for one alone.
const GSO_SIZE_OFFSET: i16 = 176;

/// First part of `union bpf_attr` for `BPF_MAP_CREATE`.
#[repr(C)]
#[derive(Default)]
struct MapAttributes {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// First part of `union bpf_attr` for `BPF_PROG_LOAD`.
#[repr(C)]
struct ProgramAttributes {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
}

/// One BPF instruction.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    /// Destination register in the low four bits, source register in the high four.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: src << 4 | dst, offset, immediate }
}

/// The program. Registers: r1 the message, r3 its datagrams, r4 their length.
fn program(map: libc::c_int) -> [Instruction; 15] {
    const LOAD_WORD: u8 = 0x61; // BPF_LDX | BPF_MEM | BPF_W
    const LOAD_64: u8 = 0x18; // BPF_LD | BPF_IMM | BPF_DW
    const ADD_ATOMIC_64: u8 = 0xdb; // BPF_STX | BPF_ATOMIC | BPF_DW
    const MOVE: u8 = 0xb7; // BPF_ALU64 | BPF_MOV | BPF_K
    const ADD: u8 = 0x07; // BPF_ALU64 | BPF_ADD | BPF_K
    const ADD_REGISTER: u8 = 0x0f; // BPF_ALU64 | BPF_ADD | BPF_X
    const DIVIDE: u8 = 0x3f; // BPF_ALU64 | BPF_DIV | BPF_X
    const JUMP_IF_EQUAL: u8 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const JUMP: u8 = 0x05; // BPF_JMP | BPF_JA
    const EXIT: u8 = 0x95; // BPF_JMP | BPF_EXIT
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
        instruction(LOAD_64, 2, BPF_PSEUDO_MAP_VALUE, 0, map),
        instruction(0, 0, 0, 0, 0), // second half of the load: place in the value
        instruction(MOVE, 5, 0, 0, 1),
        instruction(ADD_ATOMIC_64, 2, 5, 0, 0),
        instruction(ADD_ATOMIC_64, 2, 3, 8, 0),
        // Keep the whole message.
        instruction(MOVE, 0, 0, 0, i32::MAX),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// Calls bpf(2) for a command that makes a descriptor.
fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    let len = size_of::<T>();
    // SAFETY: `attributes` is valid for `len` bytes; the addresses in it are valid by the callers.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_ref(attributes), len) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
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
    counters: NonNull<[AtomicU64; 2]>,
}

// SAFETY: the mapping is not tied to a thread, and its words are only accessed as atomics.
unsafe impl Send for ArrivalCounter {}

impl ArrivalCounter {
    /// Loads the program.
    pub(crate) fn load() -> io::Result<Self> {
        let map = bpf(
            BPF_MAP_CREATE,
            &MapAttributes {
                map_type: BPF_MAP_TYPE_ARRAY,
                key_size: 4,
                value_size: VALUE_LEN,
                max_entries: 1,
                map_flags: BPF_F_MMAPABLE,
            },
        )?;
        let instructions = program(map.as_raw_fd());
        let program = bpf(
            BPF_PROG_LOAD,
            &ProgramAttributes {
                prog_type: BPF_PROG_TYPE_SOCKET_FILTER,
                insn_cnt: instructions.len() as u32,
                insns: instructions.as_ptr() as u64,
                license: c"".as_ptr() as u64,
                log_level: 0,
                log_size: 0,
                log_buf: 0,
            },
        )?;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            let (kind, fd) = (libc::MAP_SHARED, map.as_raw_fd());
            libc::mmap(ptr::null_mut(), MAP_LEN, libc::PROT_READ, kind, fd, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let counters = NonNull::new(base.cast())
            .ok_or_else(|| io::Error::other("the kernel mapped page zero"))?;
        Ok(Self { program, counters })
    }

    /// The program, for attaching it to a socket.
    pub(crate) fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// The counters now; `None` when a message came in between.
    pub(crate) fn read(&self) -> Option<Tally> {
        // SAFETY: the mapping lives as long as `self`, is page-aligned, and the program adds to
        // its words atomically.
        let [messages, datagrams] = unsafe { self.counters.as_ref() };
        let before = messages.load(Ordering::Acquire);
        let datagrams = datagrams.load(Ordering::Acquire);
        let after = messages.load(Ordering::Acquire);
        (before == after).then_some(Tally { messages: before, datagrams })
    }
}

impl Drop for ArrivalCounter {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned by `self` and no borrow of it can outlive `self`.
        unsafe { libc::munmap(self.counters.as_ptr().cast(), MAP_LEN) };
    }
}
