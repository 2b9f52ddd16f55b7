//! Sending many datagrams by one sendmmsg(2), those of one length, and a shorter one behind them, in one
//! message.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::ptr;

use crate::sink::Datagram;
use crate::sys::address::Name;
use crate::sys::socket::Socket;

/// Messages given to one sendmmsg(2).
const MESSAGES: usize = 8;
/// Datagrams that the kernel accepts in one message (`UDP_MAX_SEGMENTS` of kernels before 6.9).
pub(crate) const SEGMENTS_MAX: usize = 64;
/// Bytes of one message, the longest UDP payload over IPv4.
pub(crate) const MESSAGE_LEN_MAX: usize = 65_507;
/// Pieces of memory for one message: header and body of each datagram.
const PIECES_MAX: usize = 2 * SEGMENTS_MAX;

/// The control message `UDP_SEGMENT`, laid out as the kernel reads it.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct SegmentControl {
    len: usize,
    level: libc::c_int,
    kind: libc::c_int,
    segment: u16,
}

impl SegmentControl {
    /// Has a message cut into datagrams of `segment` bytes.
    pub(crate) fn of(segment: u16) -> Self {
        Self { len: CONTROL_LEN, level: libc::SOL_UDP, kind: libc::UDP_SEGMENT, segment }
    }
}

/// Bytes of the control message that count, without padding at the end.
const CONTROL_LEN: usize = mem::offset_of!(SegmentControl, segment) + size_of::<u16>();

/// How many datagrams at the front can go as one message of at most `segments_max`.
fn run_len(datagrams: &[Datagram<'_>], segments_max: usize) -> usize {
    let len = datagrams[0].len();
    let max = MESSAGE_LEN_MAX.checked_div(len).unwrap_or(1).clamp(1, segments_max);
    let same = datagrams.iter().take(max).take_while(|datagram| datagram.len() == len).count();
    let is_shorter = |next: &Datagram<'_>| (1..len).contains(&next.len());
    same + usize::from(same < max && datagrams.get(same).is_some_and(is_shorter))
}

/// Arrays for sendmmsg(2), allocated once.
pub(crate) struct SendBatch {
    headers: Box<[libc::mmsghdr]>,
    pieces: Box<[libc::iovec]>,
    controls: Box<[SegmentControl]>,
    /// Datagrams in each message.
    counts: [usize; MESSAGES],
    /// Where they go to, if the socket has no target, and the length of that.
    to: Option<(Name, libc::socklen_t)>,
}

// SAFETY: the pointers in it are set anew before each call and not followed afterwards.
unsafe impl Send for SendBatch {}

impl SendBatch {
    /// For a socket with a target, or for messages to `to`.
    pub(crate) fn new(to: Option<&SocketAddr>) -> Self {
        let control = SegmentControl::of(0);
        let piece = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        // SAFETY: all-zero is a valid value of this plain structure.
        let header = unsafe { mem::zeroed::<libc::mmsghdr>() };
        Self {
            headers: vec![header; MESSAGES].into(),
            pieces: vec![piece; MESSAGES * PIECES_MAX].into(),
            controls: vec![control; MESSAGES].into(),
            counts: [0; MESSAGES],
            to: to.map(Name::encode),
        }
    }

    /// Sends some of the first datagrams, and returns how many.
    pub(crate) fn send(
        &mut self,
        socket: &Socket,
        datagrams: &[Datagram<'_>],
        segments_max: usize,
    ) -> io::Result<usize> {
        let (mut rest, mut messages) = (datagrams, 0);
        while messages < MESSAGES && !rest.is_empty() {
            let (now, later) = rest.split_at(run_len(rest, segments_max));
            self.prepare(messages, now);
            (rest, messages) = (later, messages + 1);
        }
        let (headers, flags) = (self.headers.as_mut_ptr(), libc::MSG_DONTWAIT);
        // SAFETY: the first `messages` headers were set just now to memory of `self` and to the
        // datagrams, which outlive the call and are only read.
        let sent = unsafe { libc::sendmmsg(socket.raw(), headers, messages as u32, flags) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(self.counts[..sent as usize].iter().sum())
    }

    /// Makes message `index` of `datagrams`, all but the last of one length.
    fn prepare(&mut self, index: usize, datagrams: &[Datagram<'_>]) {
        let pieces = &mut self.pieces[index * PIECES_MAX..][..2 * datagrams.len()];
        for (pair, datagram) in pieces.chunks_exact_mut(2).zip(datagrams) {
            for (piece, bytes) in pair.iter_mut().zip([datagram.header, datagram.body]) {
                let iov_base = bytes.as_ptr().cast_mut().cast();
                *piece = libc::iovec { iov_base, iov_len: bytes.len() };
            }
        }
        let header = &mut self.headers[index].msg_hdr;
        if let Some((name, len)) = &mut self.to {
            (header.msg_name, header.msg_namelen) = (name.0.as_mut_ptr().cast(), *len);
        }
        header.msg_iov = pieces.as_mut_ptr();
        header.msg_iovlen = pieces.len();
        (header.msg_control, header.msg_controllen) = (ptr::null_mut(), 0);
        if datagrams.len() > 1 {
            let control = &mut self.controls[index];
            control.segment = datagrams[0].len() as u16;
            header.msg_control = ptr::from_mut(control).cast();
            header.msg_controllen = size_of::<SegmentControl>();
        }
        self.counts[index] = datagrams.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lens: &[usize], segments_max: usize) -> usize {
        static BYTES: [u8; 65_507] = [0; 65_507];
        let datagrams: Vec<_> =
            lens.iter().map(|len| Datagram { header: &[], body: &BYTES[..*len] }).collect();
        run_len(&datagrams, segments_max)
    }

    #[test]
    fn a_message_holds_datagrams_of_one_length_and_a_shorter_one_up_to_the_limits() {
        assert_eq!(of(&[7200; 20], SEGMENTS_MAX), 9);
        assert_eq!(of(&[64; 100], SEGMENTS_MAX), 64);
        assert_eq!(of(&[7200, 7200, 100, 100], SEGMENTS_MAX), 3, "the last may be shorter");
        assert_eq!(of(&[7200, 7201], SEGMENTS_MAX), 1, "but not longer");
        assert_eq!(of(&[100, 0], SEGMENTS_MAX), 1, "nor empty");
        assert_eq!(of(&[100, 50], 1), 1);
        assert_eq!(of(&[7200; 20], 1), 1);
        assert_eq!(of(&[65_507, 65_507], SEGMENTS_MAX), 1);
        assert_eq!(of(&[0, 0], SEGMENTS_MAX), 1, "an empty datagram goes alone");
    }

    #[test]
    fn the_control_message_is_laid_out_as_the_kernel_expects() {
        assert_eq!((CONTROL_LEN, size_of::<SegmentControl>()), (18, 24));
    }
}
