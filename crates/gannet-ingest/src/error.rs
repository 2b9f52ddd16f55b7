//! Why datagrams cannot be received or sent.

use std::io;
use std::net::SocketAddr;
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
    /// No address to listen on was given.
    #[error("no address to listen on; set listen = [\"0.0.0.0:17477\"] or the like")]
    NoAddress,
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
}
