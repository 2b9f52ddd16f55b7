//! AF_XDP: packets of one queue of a network card, before the kernel's own network code.
//!
//! Format: `Documentation/networking/af_xdp.rst` and `linux/if_xdp.h` of the kernel.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gannet_memory::Region;

use super::bpf::code::{
    ADD, ADD_ATOMIC_64, CALL, EXIT, JUMP_IF_ABOVE, JUMP_IF_ANY_BIT, JUMP_IF_NOT, JUMP_IF_NOT_32,
    LOAD_64, LOAD_BYTE, LOAD_HALF, LOAD_WORD, MOVE, MOVE_REGISTER, PSEUDO_MAP, PSEUDO_MAP_VALUE,
};
use super::bpf::{Instruction, SharedCounters, SocketMap, instruction, link_xdp, load};
use super::socket::wait_for;

const BPF_PROG_TYPE_XDP: u32 = 6;
/// The program takes packets that lie in several pieces of memory, as jumbo frames do.
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
const XDP_PASS: i32 = 2;
const XDP_REDIRECT: i32 = 4;
const BPF_FUNC_REDIRECT_MAP: i32 = 51;

/// Bytes that the kernel may use of a chunk, its headroom of 256 included.
const CHUNK_LEN: usize = 4096;
/// Distance of chunks: each has its headroom in the end of the one before, which nobody uses. So
/// the pieces of a packet, which lie in chunks one after the other, are one piece of memory.
const CHUNK_STRIDE: usize = CHUNK_LEN - 256;
/// Low bits of an address: where the chunk begins. Above them is where in it the packet begins.
const CHUNK_BITS: u32 = 48;
/// Longest packet in bytes: as many pieces as the kernel gives a packet at most.
const PACKET_LEN_MAX: usize = 18 * CHUNK_STRIDE;
/// A queue is given back some time after its last socket was closed.
const BUSY_FOR: Duration = Duration::from_secs(2);

/// Where packets are taken, and who moves them to user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// The card writes them there.
    ZeroCopy,
    /// The kernel copies them in the driver.
    Driver,
    /// The kernel copies them after the driver.
    Generic,
}

/// What was tried, and the answer of the operating system.
pub(crate) type Failure = (&'static str, io::Error);

/// Turns the usual return value into a result.
fn check(value: libc::c_int) -> io::Result<libc::c_int> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// Number of the interface `name`.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(io::Error::other)?;
    // SAFETY: the name is a text that ends in a zero byte.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// A ring of descriptors that is shared with the kernel.
struct Ring {
    base: NonNull<u8>,
    len: usize,
    offsets: libc::xdp_ring_offset,
    mask: u32,
}

impl Ring {
    fn map(
        fd: &OwnedFd,
        offsets: libc::xdp_ring_offset,
        page: libc::off_t,
        entries: u32,
        entry_len: usize,
    ) -> io::Result<Self> {
        let len = offsets.desc as usize + entries as usize * entry_len;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
            libc::mmap(ptr::null_mut(), len, access, kind, fd.as_raw_fd(), page)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast())
            .ok_or_else(|| io::Error::other("the kernel mapped page zero"))?;
        Ok(Self { base, len, offsets, mask: entries - 1 })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel gives offsets of aligned words inside the mapping, which lives as long
        // as `self`; both sides access them as atomics.
        unsafe { self.base.add(offset as usize).cast().as_ref() }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    /// Whether the kernel asks to be called before it goes on.
    fn needs_wakeup(&self) -> bool {
        self.word(self.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Place of an entry; entries are of `T`.
    fn entry<T>(&self, index: u32) -> *mut T {
        let offset = self.offsets.desc as usize + (index & self.mask) as usize * size_of::<T>();
        assert!(offset + size_of::<T>() <= self.len, "outside of the ring");
        // SAFETY: the place is inside the mapping by the assertion.
        unsafe { self.base.as_ptr().add(offset).cast() }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned by `self`, and no reference into it outlives it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A socket for the packets of one queue, and the program that brings them there.
pub(crate) struct XdpSocket {
    // Dropped in this order: first nothing comes any more, at last the memory is given back.
    link: Option<OwnedFd>,
    program: OwnedFd,
    sockets: SocketMap,
    redirected: SharedCounters,
    fill: Ring,
    received: Ring,
    fd: OwnedFd,
    memory: Region,
    chunks: u32,
    interface: u32,
    queue: u32,
    path: Path,
    scratch: Vec<u8>,
}

// SAFETY: the mappings of the rings are not tied to a thread.
unsafe impl Send for XdpSocket {}

impl XdpSocket {
    /// A socket of `queue` of an interface with at least `bytes` of memory for packets that wait. The
    /// program takes UDP to `target`, whose address may be unspecified; it is not attached yet.
    pub(crate) fn new(
        interface: u32,
        queue: u32,
        path: Path,
        bytes: u64,
        target: SocketAddrV4,
    ) -> Result<Self, Failure> {
        let to = |what| move |cause| (what, cause);
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes no pointers.
        let fd = check(unsafe { libc::socket(libc::AF_XDP, kind, 0) }).map_err(to("open"))?;
        // SAFETY: the descriptor was just made and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let chunks = (bytes as usize).div_ceil(CHUNK_STRIDE).next_power_of_two() as u32;
        let memory = Region::map(chunks as usize * CHUNK_STRIDE + CHUNK_LEN)
            .map_err(|error| ("map memory for", io::Error::other(error)))?;
        register(&fd, &memory).map_err(to("register memory with"))?;
        let (fill, received) = rings(&fd, chunks).map_err(to("make the rings of"))?;
        let sockets = SocketMap::new(queue).map_err(to("make a map for"))?;
        let redirected = SharedCounters::new().map_err(to("make counters for"))?;
        let program = program(&sockets, &redirected, target);
        let program = load(BPF_PROG_TYPE_XDP, BPF_F_XDP_HAS_FRAGS, &program)
            .map_err(to("load a program for"))?;
        let scratch = Vec::with_capacity(PACKET_LEN_MAX);
        let socket = Self {
            link: None,
            program,
            sockets,
            redirected,
            fill,
            received,
            fd,
            memory,
            chunks,
            interface,
            queue,
            path,
            scratch,
        };
        socket.recycle((0..chunks).map(|chunk| u64::from(chunk) * CHUNK_STRIDE as u64));
        socket.bind().map_err(to("bind to"))?;
        Ok(socket)
    }

    /// Memory for packets that wait, in bytes.
    pub(crate) fn memory_len(&self) -> u64 {
        u64::from(self.chunks) * CHUNK_STRIDE as u64
    }

    /// Takes the queue.
    fn bind(&self) -> io::Result<()> {
        let kind = match self.path {
            Path::ZeroCopy => libc::XDP_ZEROCOPY,
            Path::Driver | Path::Generic => libc::XDP_COPY,
        };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: kind | libc::XDP_USE_SG | libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: self.interface,
            sxdp_queue_id: self.queue,
            sxdp_shared_umem_fd: 0,
        };
        let len = size_of_val(&address) as libc::socklen_t;
        let until = Instant::now() + BUSY_FOR;
        loop {
            // SAFETY: `address` is a valid address of `len` bytes.
            let bound = check(unsafe {
                libc::bind(self.fd.as_raw_fd(), ptr::from_ref(&address).cast(), len)
            });
            match bound {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    if Instant::now() > until {
                        return Err(error);
                    }
                    thread::sleep(Duration::from_millis(20));
                }
                bound => return bound.map(drop),
            }
        }
    }

    /// Attaches the program; packets still go on to the kernel's own network code.
    pub(crate) fn attach(&mut self) -> io::Result<()> {
        let flags =
            if self.path == Path::Generic { XDP_FLAGS_SKB_MODE } else { XDP_FLAGS_DRV_MODE };
        self.link = Some(link_xdp(&self.program, self.interface, flags)?);
        Ok(())
    }

    /// Lets packets come by this socket, or no more.
    pub(crate) fn redirect(&self, on: bool) -> io::Result<()> {
        self.sockets.set(self.queue, on.then_some(&self.fd))
    }

    /// Packets that were to come by this socket.
    pub(crate) fn redirected(&self) -> u64 {
        self.redirected.get()[0].load(Ordering::Acquire)
    }

    /// Packets of these for which there was no room.
    pub(crate) fn dropped(&self) -> io::Result<u64> {
        // SAFETY: all-zero is a valid value of this plain structure.
        let mut statistics = unsafe { std::mem::zeroed::<libc::xdp_statistics>() };
        get(&self.fd, libc::XDP_STATISTICS, &mut statistics)?;
        Ok(statistics.rx_dropped + statistics.rx_ring_full)
    }

    /// Waits until there is a packet.
    pub(crate) fn wait(&self, wait: Duration) -> io::Result<()> {
        wait_for(self.fd.as_raw_fd(), libc::POLLIN, wait).map(drop)
    }

    /// Gives `each` at most `max` packets from the Ethernet header on, and their memory back to the
    /// kernel. Returns how many there were.
    pub(crate) fn take(&mut self, max: usize, mut each: impl FnMut(&[u8])) -> usize {
        let end = self.received.producer().load(Ordering::Acquire);
        let begin = self.received.consumer().load(Ordering::Relaxed);
        let (mut next, mut taken) = (begin, 0);
        while next != end && taken < max {
            let Some(pieces) = self.pieces(next, end) else { break };
            self.scratch.clear();
            each(packet(&self.memory, &self.received, next, pieces, &mut self.scratch));
            next = next.wrapping_add(pieces);
            taken += 1;
        }
        let count = next.wrapping_sub(begin);
        self.recycle((0..count).map(|n| {
            let descriptor = descriptor(&self.received, begin.wrapping_add(n));
            descriptor.addr & ((1 << CHUNK_BITS) - 1)
        }));
        self.received.consumer().store(next, Ordering::Release);
        if self.fill.needs_wakeup() {
            self.wake();
        }
        taken
    }

    /// Descriptors of the packet that begins with `first`; `None` when the last is yet to come.
    fn pieces(&self, first: u32, end: u32) -> Option<u32> {
        (1..=end.wrapping_sub(first)).find(|count| {
            let last = descriptor(&self.received, first.wrapping_add(count - 1));
            last.options & libc::XDP_PKT_CONTD == 0
        })
    }

    /// Gives chunks back to the kernel, which has them all at most.
    fn recycle(&self, chunks: impl Iterator<Item = u64>) {
        let mut next = self.fill.producer().load(Ordering::Relaxed);
        for chunk in chunks {
            // SAFETY: the ring has an entry for each chunk, so this one is not the kernel's now.
            unsafe { self.fill.entry::<u64>(next).write(chunk) };
            next = next.wrapping_add(1);
        }
        self.fill.producer().store(next, Ordering::Release);
    }

    /// Has the driver look at the chunks that were given back.
    fn wake(&self) {
        let (fd, none) = (self.fd.as_raw_fd(), ptr::null_mut());
        // What it answers is of no account: packets that cannot come are counted as dropped.
        // SAFETY: asks for no bytes and no name.
        let _answer = unsafe {
            libc::recvfrom(fd, none, 0, libc::MSG_DONTWAIT, ptr::null_mut(), ptr::null_mut())
        };
    }
}

fn descriptor(received: &Ring, index: u32) -> libc::xdp_desc {
    // SAFETY: the caller has seen that the kernel has written this entry and not taken it back.
    unsafe { received.entry::<libc::xdp_desc>(index).read() }
}

/// The packet of so many descriptors, put together in `scratch` if it is not in one piece.
fn packet<'a>(
    memory: &'a Region,
    received: &Ring,
    first: u32,
    pieces: u32,
    scratch: &'a mut Vec<u8>,
) -> &'a [u8] {
    let piece = |n: u32| {
        let descriptor = descriptor(received, first.wrapping_add(n));
        let begin = (descriptor.addr & ((1 << CHUNK_BITS) - 1)) + (descriptor.addr >> CHUNK_BITS);
        (begin as usize, descriptor.len as usize)
    };
    let (begin, mut len) = piece(0);
    let is_whole = (1..pieces).all(|n| {
        let (next, more) = piece(n);
        let follows = next == begin + len;
        len += more;
        follows
    });
    let bytes = |(begin, len): (usize, usize)| {
        let start = memory.address(begin, len);
        // SAFETY: the range is mapped by the check of `address`. The kernel writes no chunk again
        // that it has not got back, and this one gets it back after its packet was looked at.
        unsafe { slice::from_raw_parts(start.as_ptr(), len) }
    };
    if is_whole {
        return bytes((begin, len));
    }
    (0..pieces).for_each(|n| scratch.extend_from_slice(bytes(piece(n))));
    scratch
}

/// Sets an option to a value of any plain type.
fn set<T>(fd: &OwnedFd, name: libc::c_int, value: &T) -> io::Result<()> {
    let (value, len) = (ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: `value` is valid for `len` bytes, which the kernel copies.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, value, len) }).map(drop)
}

/// Reads an option that is a plain structure of integers.
fn get<T>(fd: &OwnedFd, name: libc::c_int, value: &mut T) -> io::Result<()> {
    let (value, mut len) = (ptr::from_mut(value).cast(), size_of::<T>() as libc::socklen_t);
    let fd = fd.as_raw_fd();
    // SAFETY: `value` is valid for `len` bytes, and the kernel writes no more.
    check(unsafe { libc::getsockopt(fd, libc::SOL_XDP, name, value, &mut len) }).map(drop)
}

/// Lets the kernel or the card write packets to `memory`.
fn register(fd: &OwnedFd, memory: &Region) -> io::Result<()> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut umem = unsafe { std::mem::zeroed::<libc::xdp_umem_reg>() };
    umem.addr = memory.address(0, memory.len()).as_ptr() as u64;
    umem.len = memory.len() as u64;
    umem.chunk_size = CHUNK_LEN as u32;
    umem.flags = libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG;
    set(fd, libc::XDP_UMEM_REG, &umem)
}

/// The rings of memory given to the kernel and of packets received.
fn rings(fd: &OwnedFd, chunks: u32) -> io::Result<(Ring, Ring)> {
    // A packet is never sent, but the kernel wants a ring for it.
    let sizes = [
        (libc::XDP_UMEM_FILL_RING, chunks),
        (libc::XDP_UMEM_COMPLETION_RING, 2),
        (libc::XDP_RX_RING, chunks),
    ];
    sizes.iter().try_for_each(|(name, size)| set(fd, *name, size))?;
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut offsets = unsafe { std::mem::zeroed::<libc::xdp_mmap_offsets>() };
    get(fd, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    let page = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
    let fill = Ring::map(fd, offsets.fr, page, chunks, size_of::<u64>())?;
    let page = libc::XDP_PGOFF_RX_RING as libc::off_t;
    let received = Ring::map(fd, offsets.rx, page, chunks, size_of::<libc::xdp_desc>())?;
    Ok((fill, received))
}

/// The program: UDP over IPv4 to `target`, not in fragments and without IP options, comes by the
/// socket of its queue and is counted. All else goes on to the kernel's own network code.
///
/// Format: `struct xdp_md` of `linux/bpf.h`: begin of the packet at 0, end at 4, queue at 16.
fn program(
    sockets: &SocketMap,
    redirected: &SharedCounters,
    target: SocketAddrV4,
) -> Vec<Instruction> {
    /// Stands for the distance to the end.
    const PASS: i16 = i16::MAX;
    let network = |value: u16| i32::from(value.to_be());
    let (ip, port) = (target.ip(), network(target.port()));
    let mut program = vec![
        instruction(LOAD_WORD, 2, 1, 0, 0),
        instruction(LOAD_WORD, 3, 1, 4, 0),
        instruction(MOVE_REGISTER, 4, 2, 0, 0),
        instruction(ADD, 4, 0, 0, 14 + 20 + 8),
        instruction(JUMP_IF_ABOVE, 4, 3, PASS, 0),
        instruction(LOAD_HALF, 5, 2, 12, 0),
        instruction(JUMP_IF_NOT, 5, 0, PASS, network(0x0800)), // IPv4
        instruction(LOAD_BYTE, 5, 2, 14, 0),
        instruction(JUMP_IF_NOT, 5, 0, PASS, 0x45), // version 4, header of 5 words
        instruction(LOAD_HALF, 5, 2, 20, 0),
        instruction(JUMP_IF_ANY_BIT, 5, 0, PASS, network(0x3fff)), // a fragment
        instruction(LOAD_BYTE, 5, 2, 23, 0),
        instruction(JUMP_IF_NOT, 5, 0, PASS, 17), // UDP
        instruction(LOAD_HALF, 5, 2, 36, 0),
        instruction(JUMP_IF_NOT, 5, 0, PASS, port),
    ];
    if !ip.is_unspecified() {
        program.extend([
            instruction(LOAD_WORD, 5, 2, 30, 0),
            instruction(JUMP_IF_NOT_32, 5, 0, PASS, ip.to_bits().to_be() as i32),
        ]);
    }
    program.extend([
        instruction(LOAD_WORD, 2, 1, 16, 0),
        instruction(LOAD_64, 1, PSEUDO_MAP, 0, sockets.0.as_raw_fd()),
        instruction(0, 0, 0, 0, 0),           // second half of the load
        instruction(MOVE, 3, 0, 0, XDP_PASS), // what happens if there is no socket
        instruction(CALL, 0, 0, 0, BPF_FUNC_REDIRECT_MAP),
        instruction(JUMP_IF_NOT, 0, 0, 4, XDP_REDIRECT),
        instruction(LOAD_64, 1, PSEUDO_MAP_VALUE, 0, redirected.raw()),
        instruction(0, 0, 0, 0, 0), // second half of the load: place in the value
        instruction(MOVE, 2, 0, 0, 1),
        instruction(ADD_ATOMIC_64, 1, 2, 0, 0),
        instruction(EXIT, 0, 0, 0, 0),
        instruction(MOVE, 0, 0, 0, XDP_PASS),
        instruction(EXIT, 0, 0, 0, 0),
    ]);
    let pass = program.len() - 2;
    for (at, step) in program.iter_mut().enumerate().filter(|(_, step)| step.offset == PASS) {
        step.offset = (pass - at - 1) as i16;
    }
    program
}
