//! A UDP socket and the options of it that matter here.
#![allow(unsafe_code)]

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

use crate::sys::address::{NAME_LEN, Name};

/// Option that reads the queue of a socket (`asm-generic/socket.h`).
const SO_MEMINFO: libc::c_int = 55;
/// Option that attaches a BPF program as filter (`asm-generic/socket.h`).
const SO_ATTACH_BPF: libc::c_int = 50;
/// Number of figures that `SO_MEMINFO` gives.
const MEMINFO_LEN: usize = 9;

/// The receive queue of a socket as the kernel counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    /// Kernel memory that waiting messages take, in bytes.
    pub(crate) used: u32,
    /// Memory above which messages are dropped, in bytes.
    pub(crate) limit: u32,
    /// Messages dropped since the socket was made and until it was closed, modulo 2^32. `SO_RXQ_OVFL` and
    /// `/proc/net/udp` show the same counter.
    pub(crate) drops: u32,
}

/// A UDP socket. Each call says whether it may block.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    /// Drops before the socket was closed to all; those since are refusals.
    drops_before_close: OnceLock<u32>,
}

/// Turns the usual return value into a result.
fn check(value: libc::c_int) -> io::Result<libc::c_int> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

impl Socket {
    /// A socket for the address family of `address`, not bound yet.
    pub(crate) fn new(address: &SocketAddr) -> io::Result<Self> {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        // SAFETY: takes no pointers.
        let fd = check(unsafe { libc::socket(family, kind, 0) })?;
        // SAFETY: the descriptor was just made and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, drops_before_close: OnceLock::new() })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn raw(&self) -> libc::c_int {
        self.fd.as_raw_fd()
    }

    pub(crate) fn bind(&self, address: &SocketAddr) -> io::Result<()> {
        let (name, len) = Name::encode(address);
        // SAFETY: `name` holds a valid address of `len` bytes.
        check(unsafe { libc::bind(self.raw(), name.0.as_ptr().cast(), len) }).map(drop)
    }

    /// Makes `address` the target of sends and the only sender that is heard.
    pub(crate) fn connect(&self, address: &SocketAddr) -> io::Result<()> {
        let (name, len) = Name::encode(address);
        // SAFETY: `name` holds a valid address of `len` bytes.
        check(unsafe { libc::connect(self.raw(), name.0.as_ptr().cast(), len) }).map(drop)
    }

    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        let (mut name, mut len) = (Name::default(), NAME_LEN as libc::socklen_t);
        // SAFETY: `name` has `len` bytes, and the kernel writes no more.
        check(unsafe { libc::getsockname(self.raw(), name.0.as_mut_ptr().cast(), &mut len) })?;
        name.decode().ok_or_else(|| io::Error::other("the socket has no IP address"))
    }

    /// Sets an option to a value of any plain type.
    fn set<T>(&self, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
        let len = size_of::<T>() as libc::socklen_t;
        // SAFETY: `value` is valid for `len` bytes, which the kernel copies.
        let result =
            unsafe { libc::setsockopt(self.raw(), level, name, ptr::from_ref(value).cast(), len) };
        check(result).map(drop)
    }

    fn set_flag(&self, level: libc::c_int, name: libc::c_int, on: bool) -> io::Result<()> {
        self.set(level, name, &libc::c_int::from(on))
    }

    /// Reads an option that consists of integers; returns how many bytes the kernel wrote.
    fn read<const N: usize>(
        &self,
        level: libc::c_int,
        name: libc::c_int,
        out: &mut [u32; N],
    ) -> io::Result<usize> {
        let mut len = size_of_val(out) as libc::socklen_t;
        let (fd, target) = (self.raw(), out.as_mut_ptr().cast());
        // SAFETY: `out` is valid for `len` bytes, and the kernel writes no more.
        check(unsafe { libc::getsockopt(fd, level, name, target, &mut len) })?;
        Ok(len as usize)
    }

    /// Confines the socket to IPv6 and to one interface, before it is bound; needs no rights from Linux 5.7 on.
    pub(crate) fn confine(&self, interface: &str) -> io::Result<()> {
        let mut name = [0; libc::IFNAMSIZ];
        // The last byte stays zero, as the end of the name.
        let place = name[..libc::IFNAMSIZ - 1].get_mut(..interface.len());
        let place = place.ok_or_else(|| io::Error::other("no interface has so long a name"))?;
        place.copy_from_slice(interface.as_bytes());
        self.set_flag(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, true)?;
        self.set(libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name)
    }

    /// Forbids that IPv4 packets are cut up on their way. Those of a socket without a target then all have
    /// the identification 0.
    pub(crate) fn never_fragment(&self) -> io::Result<()> {
        self.set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &libc::IP_PMTUDISC_DO)
    }

    /// Has a socket without a target be told, too, that nobody listens.
    pub(crate) fn report_refusals(&self) -> io::Result<()> {
        self.set_flag(libc::IPPROTO_IP, libc::IP_RECVERR, true)
    }

    /// Bytes of the longest IPv4 packet on the way to the target.
    pub(crate) fn path_mtu(&self) -> io::Result<usize> {
        let mut mtu = [0];
        self.read(libc::IPPROTO_IP, libc::IP_MTU, &mut mtu)?;
        Ok(mtu[0] as usize)
    }

    /// Whether another socket may be bound to the address of this one, if that may be shared as well.
    pub(crate) fn set_reusable(&self, is_reusable: bool) -> io::Result<()> {
        self.set_flag(libc::SOL_SOCKET, libc::SO_REUSEADDR, is_reusable)
    }

    /// Lets several sockets share one address; the kernel chooses one for each message.
    pub(crate) fn share_address(&self) -> io::Result<()> {
        self.set_flag(libc::SOL_SOCKET, libc::SO_REUSEPORT, true)
    }

    /// Lets `program` choose among the sockets that share the address of this one: it returns a
    /// number in the order in which they were bound.
    pub(crate) fn choose_by(&self, program: &[libc::sock_filter]) -> io::Result<()> {
        let len = u16::try_from(program.len()).map_err(io::Error::other)?;
        // The kernel copies the program and writes nothing.
        let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
    }

    /// Whether the kernel may hand over several datagrams of one length as one message.
    pub(crate) fn set_coalescing(&self, on: bool) -> io::Result<()> {
        self.set_flag(libc::SOL_UDP, libc::UDP_GRO, on)
    }

    /// Length at which messages are cut into datagrams when sent (`UDP_SEGMENT`), for trying
    /// whether the kernel knows of it; 0 for not at all.
    pub(crate) fn set_segment_len(&self, len: u16) -> io::Result<()> {
        self.set(libc::SOL_UDP, libc::UDP_SEGMENT, &libc::c_int::from(len))
    }

    /// How long a call that may block waits for a message, at least 1 us; the kernel rounds up to
    /// its ticks of a few milliseconds.
    pub(crate) fn set_receive_timeout(&self, wait: Duration) -> io::Result<()> {
        // Zero would be for ever.
        let wait = wait.max(Duration::from_micros(1));
        let timeout = libc::timeval {
            tv_sec: wait.as_secs().min(i32::MAX as u64) as libc::time_t,
            tv_usec: wait.subsec_micros().into(),
        };
        self.set(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeout)
    }

    /// Asks for `bytes` of memory for waiting messages; returns what was obtained.
    pub(crate) fn set_receive_buffer(&self, bytes: u64) -> io::Result<u64> {
        self.set_buffer(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)
    }

    /// Asks for `bytes` of memory for messages on their way out; returns what was obtained.
    pub(crate) fn set_send_buffer(&self, bytes: u64) -> io::Result<u64> {
        self.set_buffer(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)
    }

    fn set_buffer(&self, force: libc::c_int, plain: libc::c_int, bytes: u64) -> io::Result<u64> {
        // The kernel doubles the figure, as its own overhead counts against it.
        let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX).min(1 << 30);
        if self.set(libc::SOL_SOCKET, force, &value).is_err() {
            self.set(libc::SOL_SOCKET, plain, &value)?;
        }
        let mut obtained = [0];
        self.read(libc::SOL_SOCKET, plain, &mut obtained)?;
        Ok(u64::from(obtained[0] / 2))
    }

    /// Drops every datagram before it is queued, from now on.
    pub(crate) fn refuse_all(&self) -> io::Result<()> {
        let mut refuse =
            libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
        let program = libc::sock_fprog { len: 1, filter: &mut refuse };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Refuses every datagram from now on, where `drops` were dropped before; what is queued stays.
    pub(crate) fn close(&self, drops: u32) -> io::Result<()> {
        // Known before the filter refuses the first, so that nobody takes it for a loss.
        self.drops_before_close.get_or_init(|| drops);
        self.refuse_all()
    }

    /// Those of the `drops` read from the kernel that a closed socket has not refused.
    pub(crate) fn drops_of(&self, drops: u32) -> u32 {
        self.drops_before_close.get().copied().unwrap_or(drops)
    }

    /// Takes the filter away, if there is one.
    pub(crate) fn accept_all(&self) -> io::Result<()> {
        match self.set_flag(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, true) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            result => result,
        }
    }

    /// Puts a BPF program in the place of the filter.
    pub(crate) fn attach(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, SO_ATTACH_BPF, &program.as_raw_fd())
    }

    /// State of the receive queue.
    pub(crate) fn queue(&self) -> io::Result<Queue> {
        let mut figures = [0; MEMINFO_LEN];
        if self.read(libc::SOL_SOCKET, SO_MEMINFO, &mut figures)? < size_of_val(&figures) {
            return Err(io::Error::other("the kernel does not count drops per socket"));
        }
        let figure = |index: libc::c_int| figures[index as usize];
        Ok(Queue {
            used: figure(libc::SK_MEMINFO_RMEM_ALLOC),
            limit: figure(libc::SK_MEMINFO_RCVBUF),
            drops: self.drops_of(figure(libc::SK_MEMINFO_DROPS)),
        })
    }

    /// Has each message say how many were dropped before it (`SO_RXQ_OVFL`).
    #[cfg(test)]
    pub(crate) fn report_drops(&self) -> io::Result<()> {
        self.set_flag(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, true)
    }

    /// Number by which `/proc/net/udp` knows the socket.
    pub(crate) fn inode(&self) -> io::Result<u64> {
        // SAFETY: all-zero is a valid value of this plain structure.
        let mut stat = unsafe { std::mem::zeroed::<libc::stat>() };
        // SAFETY: `stat` is valid for the structure that the kernel writes.
        check(unsafe { libc::fstat(self.raw(), &mut stat) })?;
        Ok(stat.st_ino)
    }

    /// Whether a message waits to be received.
    pub(crate) fn has_waiting(&self) -> bool {
        wait_for(self.raw(), libc::POLLIN, Duration::ZERO).unwrap_or(true)
    }

    /// Waits until a message can be sent.
    pub(crate) fn wait_writable(&self, wait: Duration) -> io::Result<bool> {
        wait_for(self.raw(), libc::POLLOUT, wait)
    }
}

/// Waits until one of `events` comes on a descriptor.
pub(crate) fn wait_for(fd: libc::c_int, events: libc::c_short, wait: Duration) -> io::Result<bool> {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    let timeout = libc::timespec {
        tv_sec: wait.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: wait.subsec_nanos().into(),
    };
    // SAFETY: one valid entry, a valid time and no signal mask.
    match check(unsafe { libc::ppoll(&mut entry, 1, &timeout, ptr::null()) }) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}
