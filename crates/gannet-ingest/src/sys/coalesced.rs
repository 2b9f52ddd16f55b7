//! Messages of several datagrams to and from memory of the caller: sendmsg(2) and recvmsg(2).
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::ptr;

use crate::sys::address::{NAME_LEN, Name};
use crate::sys::control::{CONTROL_LEN, Control, segment_len};
use crate::sys::receive::{Received, none_if_transient};
use crate::sys::send::SegmentControl;
use crate::sys::socket::Socket;

/// Sends `message` as datagrams of `segment` bytes, the last perhaps shorter; to its target if the socket has one and no other is named.
pub(crate) fn send(
    socket: &Socket,
    message: &[u8],
    segment: usize,
    to: Option<&SocketAddr>,
) -> io::Result<()> {
    if to.is_none() && segment >= message.len() {
        // SAFETY: live memory of that length, which the kernel only reads.
        let sent = unsafe {
            libc::send(socket.raw(), message.as_ptr().cast(), message.len(), libc::MSG_DONTWAIT)
        };
        return if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    }
    let mut name = to.map(Name::encode);
    let mut control = SegmentControl::of(segment as u16);
    let iov_base = message.as_ptr().cast_mut().cast();
    let mut piece = libc::iovec { iov_base, iov_len: message.len() };
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut header = unsafe { mem::zeroed::<libc::msghdr>() };
    if let Some((name, len)) = &mut name {
        (header.msg_name, header.msg_namelen) = (name.0.as_mut_ptr().cast(), *len);
    }
    (header.msg_iov, header.msg_iovlen) = (&mut piece, 1);
    if segment < message.len() {
        header.msg_control = ptr::from_mut(&mut control).cast();
        header.msg_controllen = size_of::<SegmentControl>();
    }
    // SAFETY: the header points at live memory of the lengths given, which the kernel only reads.
    let sent = unsafe { libc::sendmsg(socket.raw(), &header, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives a datagram into `buffer`, if one is there, and gives its length. What finds no room is cut off.
pub(crate) fn receive_datagram(socket: &Socket, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let (start, room) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: live memory of that length, borrowed exclusively.
    let len = unsafe { libc::recv(socket.raw(), start, room, libc::MSG_DONTWAIT) };
    if len < 0 {
        return none_if_transient(io::Error::last_os_error());
    }
    Ok(Some(len as usize))
}

/// Receives a message into `buffer`, if one is there. What finds no room is cut off. Its sender is only told if that is `wanted`.
pub(crate) fn receive(
    socket: &Socket,
    buffer: &mut [u8],
    wanted: bool,
) -> io::Result<Option<Received>> {
    let (mut name, mut control) = (wanted.then(Name::default), Control([0; CONTROL_LEN]));
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut header = unsafe { mem::zeroed::<libc::msghdr>() };
    if let Some(name) = &mut name {
        header.msg_name = name.0.as_mut_ptr().cast();
        header.msg_namelen = NAME_LEN as libc::socklen_t;
    }
    (header.msg_iov, header.msg_iovlen) = (&mut piece, 1);
    (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast(), CONTROL_LEN);
    // SAFETY: the header points at live memory of the lengths given, borrowed exclusively.
    let len = unsafe { libc::recvmsg(socket.raw(), &mut header, libc::MSG_DONTWAIT) };
    if len < 0 {
        return none_if_transient(io::Error::last_os_error());
    }
    let control = &control.0[..header.msg_controllen.min(CONTROL_LEN)];
    let sender = name.and_then(|name| name.decode());
    Ok(Some(Received { len: len as usize, segment: segment_len(control), sender }))
}
