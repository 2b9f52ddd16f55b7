//! What tests ask of the operating system and the standard library does not offer.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// Has the kernel keep each refusal of a datagram of this socket for [`take_refusals`] (ip(7)).
pub fn keep_refusals(socket: &UdpSocket) {
    let on: libc::c_int = 1;
    let len = size_of_val(&on) as libc::socklen_t;
    let (fd, value) = (socket.as_raw_fd(), ptr::from_ref(&on).cast());
    // SAFETY: `value` points to `len` bytes, which the kernel copies.
    let result = unsafe { libc::setsockopt(fd, libc::IPPROTO_IP, libc::IP_RECVERR, value, len) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

/// Number of datagrams of this socket that found no listener since the last call.
pub fn take_refusals(socket: &UdpSocket) -> u64 {
    let mut refusals = 0;
    loop {
        // SAFETY: all-zero is a valid value of this plain structure.
        let mut message = unsafe { std::mem::zeroed::<libc::msghdr>() };
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the message asks for no bytes, no name and no control data.
        let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) };
        if received < 0 {
            return refusals;
        }
        refusals += 1;
    }
}

/// A new terminal: the end that a terminal program holds, and the end of the programs inside.
pub fn terminal() -> (File, File) {
    let (mut master, mut slave) = (-1, -1);
    let (name, settings, size) = (ptr::null_mut(), ptr::null(), ptr::null());
    // SAFETY: the descriptors are written to two integers; the other pointers may be null.
    let result = unsafe { libc::openpty(&mut master, &mut slave, name, settings, size) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    for fd in [master, slave] {
        // SAFETY: takes no pointers. Children are not to hold the terminal open.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }, 0);
    }
    // SAFETY: both descriptors were just made and belong to nobody else.
    let file = |fd| File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    (file(master), file(slave))
}
