//! Options of sockets that the standard library does not set.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Lets datagrams of one length come together, as one message (`UDP_GRO`).
pub(crate) fn coalesce(socket: &UdpSocket) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Gives the socket this much kernel memory for datagrams that wait; without `CAP_NET_ADMIN` no
/// more than `net.core.rmem_max`.
pub(crate) fn set_receive_buffer(socket: &UdpSocket, bytes: u64) -> io::Result<()> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)
        .or_else(|_| set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes))
}

fn set(socket: &UdpSocket, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let (value, len) = ((&raw const value).cast(), size_of::<c_int>() as libc::socklen_t);
    // SAFETY: `value` points to `len` bytes, which outlive the call and are only read.
    let rc = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, len) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_and_refusals_told() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        coalesce(&socket).unwrap();
        set_receive_buffer(&socket, 1 << 20).unwrap();
        assert!(set(&socket, libc::SOL_UDP, -1, 1).is_err());
    }
}
