//! Receiving messages straight into reserved cells: recvmsg(2) and recvmmsg(2).
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::mem;
use std::net::SocketAddr;
use std::ptr;

use gannet_memory::{Cell, Geometry, Producer};

use crate::sys::address::{NAME_LEN, Name};
use crate::sys::control::{CONTROL_LEN, Control, segment_len};
use crate::sys::socket::Socket;

/// Longest message that a UDP socket can give, in bytes.
pub(crate) const MESSAGE_LEN_MAX: usize = 65_535;
/// Most messages taken by one recvmmsg(2).
pub(crate) const BATCH_MESSAGES: usize = 64;
/// Messages asked for when few come.
const ASKED_MIN: usize = 8;

/// What the kernel says about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// Bytes of the message.
    pub(crate) len: usize,
    /// Length of the datagrams in it when there are several; the last may be shorter.
    pub(crate) segment: Option<usize>,
    /// Its sender, when asked for.
    pub(crate) sender: Option<SocketAddr>,
}

const NO_BYTES: libc::iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };

/// The cells that begin with `cell` as pieces of memory: up to the end of the ring, and from its
/// beginning. The second may be empty.
///
/// # Panics
/// When they are not reserved.
fn cells(producer: &mut Producer, cell: Cell, count: usize) -> [libc::iovec; 2] {
    let Geometry { cell_bytes, cells } = producer.geometry();
    let first = count.min(cells - (cell.0 % cells as u64) as usize);
    let mut piece = |cell, count: usize| {
        let iov_base = producer.place(cell, count).as_ptr().cast();
        libc::iovec { iov_base, iov_len: count * cell_bytes }
    };
    let start = piece(cell, first);
    let rest =
        if first < count { piece(Cell(cell.0 + first as u64), count - first) } else { NO_BYTES };
    [start, rest]
}

/// What is needed to receive one message, allocated once.
pub(crate) struct Room {
    pieces: Vec<libc::iovec>,
    /// For what is longer than the cells.
    scrap: Vec<u8>,
}

// SAFETY: the pointers in it are set anew before each call and not followed afterwards.
unsafe impl Send for Room {}

impl Room {
    pub(crate) fn new() -> Self {
        // Zeroed memory from the allocator takes no pages before it is used.
        Self { pieces: Vec::new(), scrap: vec![0; MESSAGE_LEN_MAX] }
    }

    /// Opens `count` cells at the head for a message of which each is to hold `stride` bytes.
    ///
    /// # Panics
    /// When that is more than a cell holds.
    pub(crate) fn at_head<'a>(
        &'a mut self,
        producer: &'a mut Producer,
        count: usize,
        stride: usize,
    ) -> Message<'a> {
        let (head, cell_bytes) = (producer.head(), producer.geometry().cell_bytes);
        assert!(stride <= cell_bytes, "longer than a cell");
        producer.reserve_to(Cell(head.0 + count as u64));
        self.pieces.clear();
        if stride == cell_bytes {
            self.pieces.extend(cells(producer, head, count));
        } else {
            self.pieces.extend((0..count as u64).map(|index| {
                let [cell, _] = cells(producer, Cell(head.0 + index), 1);
                libc::iovec { iov_len: stride, ..cell }
            }));
        }
        let iov_len = MESSAGE_LEN_MAX - (count * stride).min(MESSAGE_LEN_MAX);
        let iov_base = self.scrap.as_mut_ptr().cast();
        self.pieces.push(libc::iovec { iov_base, iov_len });
        Message { pieces: &mut self.pieces, memory: PhantomData }
    }
}

/// Cells at the head of a ring, and scrap memory behind them, for one message.
pub(crate) struct Message<'a> {
    pieces: &'a mut [libc::iovec],
    memory: PhantomData<&'a mut Producer>,
}

impl Message<'_> {
    /// Receives one message, if one is there or comes while the call may wait.
    pub(crate) fn receive(
        &mut self,
        socket: &Socket,
        with_sender: bool,
        waits: bool,
    ) -> io::Result<Option<Received>> {
        let (mut name, mut control) = (Name::default(), Control([0; CONTROL_LEN]));
        // SAFETY: all-zero is a valid value of this plain structure.
        let mut header = unsafe { mem::zeroed::<libc::msghdr>() };
        if with_sender {
            header.msg_name = name.0.as_mut_ptr().cast();
            header.msg_namelen = NAME_LEN as libc::socklen_t;
        }
        header.msg_iov = self.pieces.as_mut_ptr();
        header.msg_iovlen = self.pieces.len();
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_LEN;
        let flags = if waits { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: name and control are valid for their lengths. The pieces are scrap memory and
        // cells that are reserved and not committed, both borrowed exclusively by `self`.
        let len = unsafe { libc::recvmsg(socket.raw(), &mut header, flags) };
        if len < 0 {
            return none_if_transient(io::Error::last_os_error());
        }
        let control = &control.0[..header.msg_controllen.min(CONTROL_LEN)];
        let segment = segment_len(control);
        Ok(Some(Received { len: len as usize, segment, sender: name.decode() }))
    }

    /// Copies bytes of the message received, from `offset` on.
    ///
    /// # Panics
    /// When the room ends before `out` is filled.
    pub(crate) fn gather(&self, mut offset: usize, mut out: &mut [u8]) {
        for piece in &*self.pieces {
            let skip = offset.min(piece.iov_len);
            let len = out.len().min(piece.iov_len - skip);
            let (now, later) = out.split_at_mut(len);
            if len > 0 {
                // SAFETY: `skip + len` bytes of the piece are valid and borrowed by `self`;
                // `out` is other memory.
                unsafe {
                    let source = piece.iov_base.cast::<u8>().add(skip);
                    ptr::copy_nonoverlapping(source, now.as_mut_ptr(), len);
                }
            }
            (offset, out) = (offset - skip, later);
        }
        assert!(out.is_empty(), "bytes beyond the room");
    }
}

/// No message, for errors that only say so; a report that somebody's port is closed is none of
/// a receiver's business.
pub(crate) fn none_if_transient<T>(error: io::Error) -> io::Result<Option<T>> {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    match error.kind() {
        WouldBlock | Interrupted | ConnectionRefused => Ok(None),
        _ => Err(error),
    }
}

/// Room for many messages: a cell for each, and scrap memory for those that are longer than a cell.
pub(crate) struct Messages {
    headers: Box<[libc::mmsghdr]>,
    pieces: Box<[[libc::iovec; 2]]>,
    names: Box<[Name]>,
    controls: Box<[Control]>,
    scraps: Vec<u8>,
    scrap_len: usize,
    /// Messages to ask for: few when few come, as each costs a little even if it does not come.
    asked: usize,
    /// Largest number of messages to ask for.
    asked_max: usize,
}

// SAFETY: the pointers in it are set anew before each call and not followed afterwards.
unsafe impl Send for Messages {}

impl Messages {
    /// For `messages` at a time, of which each has a cell of `cell_bytes`.
    pub(crate) fn new(cell_bytes: usize, messages: usize) -> Self {
        let scrap_len = MESSAGE_LEN_MAX - cell_bytes;
        // SAFETY: all-zero is a valid value of this plain structure.
        let header = unsafe { mem::zeroed::<libc::mmsghdr>() };
        Self {
            headers: vec![header; messages].into(),
            pieces: vec![[NO_BYTES; 2]; messages].into(),
            names: vec![Name::default(); messages].into(),
            controls: vec![Control([0; CONTROL_LEN]); messages].into(),
            // Zeroed memory from the allocator takes no pages before it is used.
            scraps: vec![0; scrap_len * messages],
            scrap_len,
            asked: messages,
            asked_max: messages,
        }
    }

    /// Receives as many messages as are there, the first of them into the cell at the head, and
    /// returns their number. If there are none, the call may wait for one.
    pub(crate) fn receive(
        &mut self,
        socket: &Socket,
        producer: &mut Producer,
        with_sender: bool,
        waits: bool,
    ) -> io::Result<usize> {
        let head = producer.head();
        producer.reserve_to(Cell(head.0 + self.asked_max as u64));
        self.point_at(producer, head, with_sender);
        let (headers, count) = (self.headers.as_mut_ptr(), self.asked as u32);
        let flags = if waits { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        // SAFETY: every pointer in the headers was set just now to memory of `self` or to a cell
        // that is reserved and not committed; both are borrowed exclusively.
        let messages =
            unsafe { libc::recvmmsg(socket.raw(), headers, count, flags, ptr::null_mut()) };
        if messages < 0 {
            return none_if_transient(io::Error::last_os_error()).map(|none| none.unwrap_or(0));
        }
        let messages = messages as usize;
        self.asked = (2 * messages).clamp(ASKED_MIN, self.asked_max);
        Ok(messages)
    }

    /// Sets all pointers for the next call.
    fn point_at(&mut self, producer: &mut Producer, head: Cell, with_sender: bool) {
        let scraps = self.scraps.chunks_exact_mut(self.scrap_len).take(self.asked);
        for (index, scrap) in scraps.enumerate() {
            let cell = Cell(head.0 + index as u64);
            let iov_base = scrap.as_mut_ptr().cast();
            let tail = libc::iovec { iov_base, iov_len: scrap.len() };
            self.pieces[index] = [cells(producer, cell, 1)[0], tail];
            let header = &mut self.headers[index].msg_hdr;
            if with_sender {
                header.msg_name = self.names[index].0.as_mut_ptr().cast();
                header.msg_namelen = NAME_LEN as libc::socklen_t;
            }
            header.msg_iov = self.pieces[index].as_mut_ptr();
            header.msg_iovlen = self.pieces[index].len();
            header.msg_control = self.controls[index].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_LEN;
        }
    }

    /// What the kernel said about message `index` of the last call.
    pub(crate) fn received(&self, index: usize) -> Received {
        let header = &self.headers[index];
        let control = &self.controls[index].0[..header.msg_hdr.msg_controllen.min(CONTROL_LEN)];
        let sender =
            if header.msg_hdr.msg_name.is_null() { None } else { self.names[index].decode() };
        Received { len: header.msg_len as usize, segment: segment_len(control), sender }
    }

    /// What message `index` of the last call had beyond its cell.
    pub(crate) fn scrap(&self, index: usize) -> &[u8] {
        &self.scraps[index * self.scrap_len..][..self.scrap_len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::read_proc;

    /// What `SO_RXQ_OVFL` says with the next message.
    fn overflow(socket: &Socket) -> u32 {
        let mut bytes = [0u8; 100];
        let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut control = Control([0; CONTROL_LEN]);
        // SAFETY: all-zero is a valid value of this plain structure.
        let mut header = unsafe { mem::zeroed::<libc::msghdr>() };
        (header.msg_iov, header.msg_iovlen) = (&mut piece, 1);
        (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast(), CONTROL_LEN);
        // SAFETY: the header points at live memory of the lengths given.
        assert!(unsafe { libc::recvmsg(socket.raw(), &mut header, 0) } >= 0);
        let kind = i32::from_ne_bytes(*control.0[12..].first_chunk().unwrap());
        assert_eq!(kind, libc::SO_RXQ_OVFL);
        u32::from_ne_bytes(*control.0[16..].first_chunk().unwrap())
    }

    #[test]
    fn the_kernel_shows_one_counter_of_drops_in_three_places() {
        let address = "127.0.0.1:0".parse().unwrap();
        let (socket, sender) = (Socket::new(&address).unwrap(), Socket::new(&address).unwrap());
        socket.bind(&address).unwrap();
        socket.set_receive_buffer(5000).unwrap();
        socket.report_drops().unwrap();
        sender.connect(&socket.local_address().unwrap()).unwrap();
        let mut batch = crate::sys::send::SendBatch::new(None);
        let datagram = [crate::Datagram { header: b"datagram", body: b"" }];
        (0..100).for_each(|_| _ = batch.send(&sender, &datagram, 1).unwrap());
        let drops = socket.queue().unwrap().drops;
        assert!(drops > 0);
        assert_eq!(read_proc(socket.inode().unwrap()), Some(drops));
        // The count comes with a message that was queued after the drops.
        while socket.queue().unwrap().used > 0 {
            let mut room = Room::new();
            let (mut producer, _) =
                gannet_memory::clop(Geometry { cell_bytes: 16, cells: 1 }).unwrap();
            let mut message = room.at_head(&mut producer, 1, 16);
            message.receive(&socket, false, false).unwrap().unwrap();
        }
        batch.send(&sender, &datagram, 1).unwrap();
        assert_eq!(overflow(&socket), drops);
    }
}
