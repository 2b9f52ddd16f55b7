//! BPF programs and the memory they share with us, by bpf(2).
//!
//! Format: `linux/bpf.h` (instructions, `union bpf_attr`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_MAP_DELETE_ELEM: libc::c_int = 3;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_F_MMAPABLE: u32 = 1 << 10;
/// Attach type of a program that sees packets as the driver got them.
const BPF_XDP: u32 = 37;

/// Bytes of the value of [`SharedCounters`].
const VALUE_LEN: u32 = 16;
/// Bytes of [`SharedCounters`] in memory: one page.
const MAP_LEN: usize = 4096;

/// Codes of the instructions in use.
pub(crate) mod code {
    pub(crate) const LOAD_BYTE: u8 = 0x71; // BPF_LDX | BPF_MEM | BPF_B
    pub(crate) const LOAD_HALF: u8 = 0x69; // BPF_LDX | BPF_MEM | BPF_H
    pub(crate) const LOAD_WORD: u8 = 0x61; // BPF_LDX | BPF_MEM | BPF_W
    pub(crate) const LOAD_64: u8 = 0x18; // BPF_LD | BPF_IMM | BPF_DW
    pub(crate) const ADD_ATOMIC_64: u8 = 0xdb; // BPF_STX | BPF_ATOMIC | BPF_DW
    pub(crate) const MOVE: u8 = 0xb7; // BPF_ALU64 | BPF_MOV | BPF_K
    pub(crate) const MOVE_REGISTER: u8 = 0xbf; // BPF_ALU64 | BPF_MOV | BPF_X
    pub(crate) const ADD: u8 = 0x07; // BPF_ALU64 | BPF_ADD | BPF_K
    pub(crate) const ADD_REGISTER: u8 = 0x0f; // BPF_ALU64 | BPF_ADD | BPF_X
    pub(crate) const DIVIDE: u8 = 0x3f; // BPF_ALU64 | BPF_DIV | BPF_X
    pub(crate) const JUMP_IF_EQUAL: u8 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    pub(crate) const JUMP_IF_NOT: u8 = 0x55; // BPF_JMP | BPF_JNE | BPF_K
    pub(crate) const JUMP_IF_NOT_32: u8 = 0x56; // BPF_JMP32 | BPF_JNE | BPF_K
    pub(crate) const JUMP_IF_ANY_BIT: u8 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
    pub(crate) const JUMP_IF_ABOVE: u8 = 0x2d; // BPF_JMP | BPF_JGT | BPF_X
    pub(crate) const JUMP: u8 = 0x05; // BPF_JMP | BPF_JA
    pub(crate) const CALL: u8 = 0x85; // BPF_JMP | BPF_CALL
    pub(crate) const EXIT: u8 = 0x95; // BPF_JMP | BPF_EXIT
    /// Marks a 64-bit load as the address of the map of the given descriptor.
    pub(crate) const PSEUDO_MAP: u8 = 1;
    /// Marks a 64-bit load as the address of the value in the map of the given descriptor.
    pub(crate) const PSEUDO_MAP_VALUE: u8 = 2;
}

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

/// `union bpf_attr` for one element of a map.
#[repr(C)]
struct ElementAttributes {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
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
    kern_version: u32,
    prog_flags: u32,
}

/// First part of `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
struct LinkAttributes {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// One BPF instruction.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Instruction {
    code: u8,
    /// Destination register in the low four bits, source register in the high four.
    registers: u8,
    pub(crate) offset: i16,
    immediate: i32,
}

pub(crate) const fn instruction(
    code: u8,
    dst: u8,
    src: u8,
    offset: i16,
    immediate: i32,
) -> Instruction {
    Instruction { code, registers: src << 4 | dst, offset, immediate }
}

/// Calls bpf(2).
///
/// # Safety
/// `T` is what the kernel expects of `command`, and the addresses in it are valid for the call.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    let len = size_of::<T>();
    // SAFETY: `attributes` is valid for `len` bytes; the addresses in it are valid by the caller.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_ref(attributes), len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

/// Calls bpf(2) for a command that makes a descriptor.
///
/// # Safety
/// As [`bpf`].
unsafe fn bpf_made<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: by the caller.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Loads a program of type `prog_type`.
pub(crate) fn load(
    prog_type: u32,
    prog_flags: u32,
    instructions: &[Instruction],
) -> io::Result<OwnedFd> {
    let attributes = ProgramAttributes {
        prog_type,
        insn_cnt: instructions.len() as u32,
        insns: instructions.as_ptr() as u64,
        license: c"".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags,
    };
    // SAFETY: the structure is that of the command; instructions and licence outlive the call.
    unsafe { bpf_made(BPF_PROG_LOAD, &attributes) }
}

/// Attaches an XDP program to an interface until the link is closed, as it is when the process ends.
pub(crate) fn link_xdp(program: &OwnedFd, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let prog_fd = program.as_raw_fd() as u32;
    let link = LinkAttributes { prog_fd, target_ifindex: interface, attach_type: BPF_XDP, flags };
    // SAFETY: the structure is that of the command and has no addresses in it.
    unsafe { bpf_made(BPF_LINK_CREATE, &link) }
}

/// The AF_XDP sockets to which a program may redirect packets, one a queue.
#[derive(Debug)]
pub(crate) struct SocketMap(pub(crate) OwnedFd);

impl SocketMap {
    /// A map with room for queues up to `queue_last`.
    pub(crate) fn new(queue_last: u32) -> io::Result<Self> {
        let (map_type, max_entries) = (BPF_MAP_TYPE_XSKMAP, queue_last.saturating_add(1));
        let attributes =
            MapAttributes { map_type, key_size: 4, value_size: 4, max_entries, map_flags: 0 };
        // SAFETY: the structure is that of the command and has no addresses in it.
        unsafe { bpf_made(BPF_MAP_CREATE, &attributes) }.map(Self)
    }

    /// Lets packets of `queue` come by `socket`, or no more by any.
    pub(crate) fn set(&self, queue: u32, socket: Option<&OwnedFd>) -> io::Result<()> {
        let value = socket.map_or(0, |socket| socket.as_raw_fd());
        let command = if socket.is_some() { BPF_MAP_UPDATE_ELEM } else { BPF_MAP_DELETE_ELEM };
        let element = ElementAttributes {
            map_fd: self.0.as_raw_fd() as u32,
            pad: 0,
            key: ptr::from_ref(&queue) as u64,
            value: if socket.is_some() { ptr::from_ref(&value) as u64 } else { 0 },
            flags: 0,
        };
        // SAFETY: the structure is that of both commands; key and value outlive the call and have
        // the sizes of the map.
        unsafe { bpf(command, &element) }.map(drop)
    }
}

/// Two counters that a program adds to and we read.
#[derive(Debug)]
pub(crate) struct SharedCounters {
    map: OwnedFd,
    counters: NonNull<[AtomicU64; 2]>,
}

// SAFETY: the mapping is not tied to a thread, and its words are only accessed as atomics.
unsafe impl Send for SharedCounters {}

impl SharedCounters {
    pub(crate) fn new() -> io::Result<Self> {
        let attributes = MapAttributes {
            map_type: BPF_MAP_TYPE_ARRAY,
            key_size: 4,
            value_size: VALUE_LEN,
            max_entries: 1,
            map_flags: BPF_F_MMAPABLE,
        };
        // SAFETY: the structure is that of the command and has no addresses in it.
        let map = unsafe { bpf_made(BPF_MAP_CREATE, &attributes) }?;
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
        Ok(Self { map, counters })
    }

    /// Number by which instructions name the map.
    pub(crate) fn raw(&self) -> libc::c_int {
        self.map.as_raw_fd()
    }

    pub(crate) fn get(&self) -> &[AtomicU64; 2] {
        // SAFETY: the mapping lives as long as `self`, is page-aligned, and the program adds to
        // its words atomically.
        unsafe { self.counters.as_ref() }
    }
}

impl Drop for SharedCounters {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned by `self` and no borrow of it can outlive `self`.
        unsafe { libc::munmap(self.counters.as_ptr().cast(), MAP_LEN) };
    }
}
