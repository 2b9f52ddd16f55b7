//! Receiving messages through io_uring: one multishot recvmsg into provided buffers that are the
//! slots of a clop.
//!
//! ```text
//! slot   | headroom: kernel's header 16 | sender 48 | control 64 | cells ... | tailroom |
//! ```
//! Buffers are used in the order in which they were provided, so message `n` lies in slot `n`.
//! The slots from the head on are always provided: they are reserved for the kernel and hold
//! nothing for readers. Slot `n + PROVIDED_SLOTS` is provided when slot `n` is released.
//!
//! Format: `linux/io_uring.h` (`struct io_uring_recvmsg_out`, `struct io_uring_buf_ring`).
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::slice;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use gannet_memory::{Cell, Geometry, Producer, Reader, Region, clop};
use io_uring::types::{BufRingEntry, CancelBuilder, Fd, RecvMsgOut, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use crate::sys::address::{NAME_LEN, Name};
use crate::sys::control::{CONTROL_LEN, segment_len};
use crate::sys::receive::{MESSAGE_LEN_MAX, Received};
use crate::sys::socket::Socket;

/// Slots that the kernel may write at any time. A power of two.
pub(crate) const PROVIDED_SLOTS: usize = 64;
/// Slots that a ring needs at least, so that arrivals stay intact until the next poll.
pub(crate) const SLOTS_MIN: usize = 4 * PROVIDED_SLOTS;
/// Bytes kept for the sender's address: chosen so that frames begin on a cache line.
const SENDER_LEN: usize = 48;
/// Bytes before the first cell of a slot.
const HEADROOM: usize = 16 + SENDER_LEN + CONTROL_LEN;
/// Frames shorter than this would need more cells in a slot than is sensible.
pub(crate) const FRAME_LEN_MIN: usize = 512;
/// Name of the one group of buffers.
const GROUP: u16 = 0;
/// How long to wait for the kernel to let go of the socket.
const CANCEL_WAIT: Timespec = Timespec::new().sec(1);
/// Looks for the end of the receive after it was cancelled, 1 ms apart.
const CANCEL_ATTEMPTS: usize = 100;

/// Layout of a clop of at least `cells` cells for this engine.
pub(crate) fn geometry(frame_len: usize, cells: u64) -> Geometry {
    let slot_cells = MESSAGE_LEN_MAX / frame_len;
    let slots = (cells as usize).div_ceil(slot_cells).max(SLOTS_MIN);
    let tail = MESSAGE_LEN_MAX - slot_cells * frame_len;
    let end = (HEADROOM + MESSAGE_LEN_MAX).next_multiple_of(64);
    let tailroom_bytes = tail + end - HEADROOM - MESSAGE_LEN_MAX;
    Geometry { cell_bytes: frame_len, slot_cells, headroom_bytes: HEADROOM, tailroom_bytes, slots }
}

/// The engine.
pub(crate) struct Ring {
    ring: IoUring,
    /// The kernel's list of provided buffers.
    buffers: Region,
    /// Tells the kernel how the headroom is laid out. It reads it when the receive is armed.
    layout: Box<libc::msghdr>,
    /// Keeps the memory of the slots mapped as long as the kernel may write it.
    _memory: Reader,
    geometry: Geometry,
    /// First slot that is not provided.
    provided: u64,
    /// First slot whose message was not released.
    released: u64,
    armed: bool,
    rearms: u64,
}

// SAFETY: the pointers in `layout` are null; the ring itself is bound to a thread by the kernel
// only from `start` on.
unsafe impl Send for Ring {}

impl Ring {
    /// Makes a ring for the slots of `producer`, which must have the layout of [`geometry`].
    pub(crate) fn new(producer: &Producer) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(2 * PROVIDED_SLOTS as u32)
            .build(8)?;
        let buffers =
            Region::map(PROVIDED_SLOTS * size_of::<BufRingEntry>()).map_err(io::Error::other)?;
        let address = buffers.address(0, buffers.len()).as_ptr() as u64;
        // SAFETY: the region has room for the entries and lives as long as the ring.
        unsafe {
            let count = PROVIDED_SLOTS as u16;
            ring.submitter().register_buf_ring_with_flags(address, count, GROUP, 0)?;
        }
        // SAFETY: all-zero is a valid value of this plain structure.
        let mut layout = Box::new(unsafe { mem::zeroed::<libc::msghdr>() });
        layout.msg_namelen = SENDER_LEN as libc::socklen_t;
        layout.msg_controllen = CONTROL_LEN;
        Ok(Self {
            ring,
            buffers,
            layout,
            _memory: producer.reader(),
            geometry: producer.geometry(),
            provided: 0,
            released: 0,
            armed: false,
            rearms: 0,
        })
    }

    /// Tries on a socket of its own whether the kernel can do what the engine needs.
    pub(crate) fn probe() -> io::Result<()> {
        let address = "127.0.0.1:0".parse().map_err(io::Error::other)?;
        let socket = Socket::new(&address)?;
        socket.bind(&address)?;
        let (mut producer, _) = clop(geometry(1 << 14, 1)).map_err(io::Error::other)?;
        let mut ring = Self::new(&producer)?;
        ring.start(&socket, &mut producer)?;
        // A kernel that knows no multishot recvmsg refuses it at once.
        ring.wait(Duration::ZERO)?;
        ring.next(&producer).map(drop)
    }

    /// Begins to receive from `socket`. Every later call must come from the same thread.
    pub(crate) fn start(&mut self, socket: &Socket, producer: &mut Producer) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()?;
        (0..PROVIDED_SLOTS).for_each(|_| self.provide(producer));
        self.arm(socket)
    }

    /// Arms the receive unless it is armed.
    pub(crate) fn arm(&mut self, socket: &Socket) -> io::Result<()> {
        if self.armed {
            return Ok(());
        }
        let layout: *const libc::msghdr = &*self.layout;
        let entry = opcode::RecvMsgMulti::new(Fd(socket.raw()), layout, GROUP).build();
        // SAFETY: the layout lives on the heap as long as `self`. The buffers are slots that are
        // reserved for the kernel, in memory that `self` keeps mapped.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        self.armed = true;
        Ok(())
    }

    /// Whether the kernel is receiving.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed
    }

    /// Times that the receive ended because no buffer was left.
    pub(crate) fn rearms(&self) -> u64 {
        self.rearms
    }

    /// Gives the next slot to the kernel.
    fn provide(&mut self, producer: &mut Producer) {
        let cell = Cell(self.provided * self.geometry.slot_cells as u64);
        producer.reserve_to(Cell(cell.0 + self.geometry.slot_cells as u64));
        let address = self.slot_address(producer, cell);
        let index = self.provided as usize % PROVIDED_SLOTS;
        let base: *mut BufRingEntry = self.buffers.address(0, self.buffers.len()).as_ptr().cast();
        self.provided += 1;
        // SAFETY: the region has PROVIDED_SLOTS entries. The kernel reads an entry only after the
        // tail has passed it, and the tail word is shared as an atomic.
        unsafe {
            let entry = &mut *base.add(index);
            entry.set_addr(address as u64);
            entry.set_len(self.geometry.slot_bytes() as u32);
            entry.set_bid(index as u16);
            let tail = BufRingEntry::tail(base).cast::<AtomicU16>();
            (*tail).store(self.provided as u16, Ordering::Release);
        }
    }

    /// Where the slot begins whose first cell is `cell`.
    fn slot_address(&self, producer: &Producer, cell: Cell) -> *mut u8 {
        let (region, offset) = producer.place(cell);
        region.address(offset - HEADROOM, self.geometry.slot_bytes()).as_ptr()
    }

    /// Lets the kernel receive, and waits at most `wait` for the first message.
    pub(crate) fn wait(&mut self, wait: Duration) -> io::Result<()> {
        let time = Timespec::from(wait);
        let arguments = SubmitArgs::new().timespec(&time);
        match self.ring.submitter().submit_with_args(1, &arguments) {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// The next message; it lies in the slot at the head of `producer` until
    /// [`Ring::release`].
    pub(crate) fn next(&mut self, producer: &Producer) -> io::Result<Option<Received>> {
        loop {
            let Some(completion) = self.ring.completion().next() else { return Ok(None) };
            if !cqueue::more(completion.flags()) {
                self.armed = false;
            }
            match -completion.result() {
                libc::ENOBUFS => self.rearms += 1,
                libc::ECONNREFUSED | libc::EINTR | libc::EAGAIN | libc::ECANCELED => {}
                error if error > 0 => return Err(io::Error::from_raw_os_error(error)),
                _ => return self.open(producer, &completion).map(Some),
            }
        }
    }

    /// Reads what the kernel wrote before the message.
    fn open(&self, producer: &Producer, completion: &cqueue::Entry) -> io::Result<Received> {
        let index = cqueue::buffer_select(completion.flags());
        if index.map(usize::from) != Some(self.released as usize % PROVIDED_SLOTS) {
            return Err(io::Error::other("io_uring used its buffers out of order"));
        }
        let address = self.slot_address(producer, producer.head());
        let len = (completion.result() as usize).min(self.geometry.slot_bytes());
        // SAFETY: the kernel has completed the slot at the head and does not write it again
        // before it is provided again, for which the producer must be borrowed exclusively.
        let slot = unsafe { slice::from_raw_parts(address, len) };
        let message = RecvMsgOut::parse(slot, &self.layout)
            .map_err(|()| io::Error::other("io_uring gave a message without a header"))?;
        let mut name = Name::default();
        let sender = message.name_data();
        let sender_len = sender.len().min(NAME_LEN);
        name.0[..sender_len].copy_from_slice(&sender[..sender_len]);
        Ok(Received {
            len: message.payload_data().len(),
            segment: segment_len(message.control_data()),
            sender: name.decode(),
        })
    }

    /// Moves one frame that begins `offset` bytes after the first cell of the slot at the head
    /// to that cell.
    ///
    /// # Panics
    /// When the frame ends outside the slot.
    pub(crate) fn move_to_front(&self, producer: &mut Producer, offset: usize) {
        let len = self.geometry.cell_bytes;
        assert!(HEADROOM + offset + len <= self.geometry.slot_bytes(), "outside the slot");
        let slot = self.slot_address(producer, producer.head());
        // SAFETY: both ranges lie inside the slot at the head, which the kernel has completed
        // and the producer has not published.
        unsafe {
            let front = slot.add(HEADROOM);
            std::ptr::copy(front.add(offset), front, len);
        }
    }

    /// Publishes the slot at the head and gives a new one to the kernel.
    pub(crate) fn release(&mut self, producer: &mut Producer) {
        self.released += 1;
        producer.commit_to(Cell(self.released * self.geometry.slot_cells as u64));
        self.provide(producer);
    }
}

impl Ring {
    /// Stops receiving, and waits until the kernel has let go of the socket, which would
    /// otherwise stay open for some time after its descriptor is closed.
    pub(crate) fn cancel(&mut self) {
        if !self.armed {
            return;
        }
        let all = CancelBuilder::any();
        _ = self.ring.submitter().register_sync_cancel(Some(CANCEL_WAIT), all);
        for _ in 0..CANCEL_ATTEMPTS {
            while let Some(completion) = self.ring.completion().next() {
                self.armed &= cqueue::more(completion.flags());
            }
            if !self.armed || self.wait(Duration::from_millis(1)).is_err() {
                return;
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_the_longest_message_and_frames_begin_on_cache_lines() {
        for frame_len in [512, 1400, 7200, 65_507] {
            let geometry = geometry(frame_len, 1000);
            assert!(geometry.slot_bytes() - HEADROOM >= MESSAGE_LEN_MAX);
            assert!(geometry.slot_bytes().is_multiple_of(64) && HEADROOM.is_multiple_of(64));
            assert!(geometry.capacity() >= 1000);
        }
        assert_eq!(geometry(7200, 1000).slot_cells, 9);
    }
}
