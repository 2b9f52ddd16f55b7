//! Why datagrams cannot be received or sent.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use gannet_memory::RegionError;

/// Why datagrams cannot be received or sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The memory for the ring of cells cannot be had.
    #[error(transparent)]
    Memory(RegionError),
    /// A call about a socket failed.
    #[error("cannot {what} {address}: {cause}{}", advice(.cause))]
    Socket {
        /// What was tried.
        what: &'static str,
        /// Address of the socket.
        address: SocketAddr,
        /// Answer of the operating system.
        #[source]
        cause: io::Error,
    },
    /// A call about an AF_XDP socket failed.
    #[error("cannot {what} {interface} (AF_XDP): {cause}{}", xdp_advice(.what, .cause))]
    Xdp {
        /// What was tried.
        what: &'static str,
        /// Name of the interface.
        interface: String,
        /// Answer of the operating system.
        #[source]
        cause: io::Error,
    },
    /// No interface has the address that an AF_XDP source listens on, and none was given.
    #[error("no interface has the address {0}; set interface = \"NAME\", see `ip address`")]
    NoInterface(Ipv4Addr),
    /// AF_XDP was asked for on the loopback interface.
    #[error(
        "AF_XDP on loopback would be slower than UDP sockets, which get many datagrams at once \
         there, and would take these for one; write udp = {{ listen = [...] }} instead"
    )]
    XdpOnLoopback,
    /// No address to listen on was given.
    #[error("no address to listen on; set listen = [\"0.0.0.0:17477\"] or the like")]
    NoAddress,
    /// A RoCEv2 source is to listen on all addresses.
    #[error(
        "the check sum of RoCEv2 covers the address that packets are sent to; listen on one address \
         of this machine instead of all, see `ip address`"
    )]
    RoceWildcard,
    /// A number in the configuration is out of its range.
    #[error("{field} = {got} is out of range; choose {min} to {max}")]
    Range {
        /// Name of the field.
        field: &'static str,
        /// Value given.
        got: u64,
        /// Least value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// A source or sink of another crate failed.
    #[error(transparent)]
    Outside(Box<dyn std::error::Error + Send + Sync>),
    /// A source was polled before it was started.
    #[error("the source is not started")]
    NotStarted,
    /// A capture file cannot be opened or read.
    #[error("cannot read {}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Answer of the operating system.
        #[source]
        cause: io::Error,
    },
    /// A capture file was made on a kind of link whose headers are not known here.
    #[error(
        "{}: packets of link type {got} cannot be read; capture on one Ethernet interface \
         instead of \"any\"",
        path.display()
    )]
    LinkType {
        /// The file.
        path: PathBuf,
        /// Number of the link type.
        got: u16,
    },
    /// A capture file is not as its format requires.
    #[error("{} at byte {position}: {cause}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// Bytes of the file before the place of the error.
        position: u64,
        /// What is wrong there.
        #[source]
        cause: gannet_wire::Error,
    },
}

impl Error {
    /// The call `what` failed on the socket of `address`.
    pub(crate) fn socket(what: &'static str, address: SocketAddr) -> impl Fn(io::Error) -> Self {
        move |cause| Self::Socket { what, address, cause }
    }
}

/// What to do about the usual causes.
fn advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => "; another program has the port, see `ss -lunp`",
        io::ErrorKind::AddrNotAvailable => "; no interface has this address, see `ip address`",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE",
        _ => "",
    }
}

/// What to do about the usual causes of an AF_XDP socket.
fn xdp_advice(what: &str, cause: &io::Error) -> &'static str {
    match (what, cause.raw_os_error()) {
        (_, Some(libc::EPERM | libc::EACCES)) => {
            "; it needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: sudo setcap \
             cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock,cap_sys_nice+ep PROGRAM"
        }
        (_, Some(libc::ENOBUFS)) => {
            "; raise the limit of locked memory (`ulimit -l`, LimitMEMLOCK=) above `buffer`, or \
             give the program CAP_IPC_LOCK"
        }
        (_, Some(libc::EAFNOSUPPORT)) => "; the kernel has no AF_XDP (CONFIG_XDP_SOCKETS)",
        ("bind to", Some(libc::EOPNOTSUPP)) => {
            "; its driver has no zero copy. With mode = \"native\" the kernel copies: for frames \
             of 7200 bytes that was measured to be slower than UDP sockets, so prefer \
             udp = { listen = [...] }"
        }
        ("bind to", Some(libc::EBUSY)) => "; another program has the queue",
        ("bind to", Some(libc::EINVAL)) => {
            "; it has no such queue (`ethtool -l`), or the kernel is older than Linux 6.6"
        }
        ("attach the program to", Some(libc::EBUSY | libc::EEXIST)) => {
            "; it has an XDP program already, see `ip link`"
        }
        ("attach the program to", Some(libc::ERANGE | libc::EOPNOTSUPP | libc::EINVAL)) => {
            "; its driver cannot, or not with this MTU: mode = \"generic\" works with every driver, \
             slower"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_where_and_what_to_do() {
        let address = "127.0.0.1:17477".parse().unwrap();
        let error = Error::socket("bind", address)(io::ErrorKind::AddrInUse.into());
        let text = error.to_string();
        assert!(text.starts_with("cannot bind 127.0.0.1:17477: "), "{text}");
        assert!(text.ends_with("; another program has the port, see `ss -lunp`"), "{text}");
    }

    #[test]
    fn says_what_af_xdp_needs() {
        let text = |what, errno| {
            let cause = io::Error::from_raw_os_error(errno);
            Error::Xdp { what, interface: "eth1".into(), cause }.to_string()
        };
        assert!(text("load a program for", libc::EPERM).contains("CAP_BPF"));
        assert!(text("register memory with", libc::ENOBUFS).contains("ulimit -l"));
        let no_zero_copy = text("bind to", libc::EOPNOTSUPP);
        assert!(no_zero_copy.starts_with("cannot bind to eth1 (AF_XDP): "), "{no_zero_copy}");
        assert!(no_zero_copy.contains("mode = \"native\"") && no_zero_copy.contains("slower"));
    }
}
