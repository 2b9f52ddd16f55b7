//! Taking messages from the kernel, by system calls or through io_uring.

use std::io;
use std::time::Duration;

use gannet_memory::{Cell, Geometry, Producer};

use crate::lander::BATCH_FRAMES;
use crate::sys::receive::{BATCH_MESSAGES, Batch, MESSAGE_LEN_MAX, Room};
use crate::sys::ring::{self, Ring};
use crate::sys::socket::Socket;
use crate::udp::intake::Intake;
use crate::udp::segments::Frames;

/// Cells of the longest message.
fn message_cells(frame_len: usize) -> usize {
    MESSAGE_LEN_MAX / frame_len
}

/// Largest number of frames that one poll can find.
pub(super) fn arrivals_max(frame_len: usize) -> usize {
    BATCH_MESSAGES.max(BATCH_FRAMES) * message_cells(frame_len)
}

/// How messages are taken from the kernel.
pub(super) enum Receiver {
    /// By recvmsg(2) or recvmmsg(2).
    Calls(Calls),
    /// Through io_uring.
    Ring(Box<Ring>),
}

impl Receiver {
    /// The layout of a clop that a receiver of this kind needs.
    pub(super) fn geometry(is_ring: bool, frame_len: usize, cells: u64) -> Geometry {
        if is_ring {
            return ring::geometry(frame_len, cells);
        }
        // Twice what a poll can fill, so that its arrivals are intact until the next.
        let cells_min = 2 * arrivals_max(frame_len);
        Geometry::plain(frame_len, cells_min.max(cells as usize))
    }

    pub(super) fn new(is_ring: bool, producer: &Producer) -> io::Result<Self> {
        match is_ring {
            true => Ok(Self::Ring(Box::new(Ring::new(producer)?))),
            false => Ok(Self::Calls(Calls::new(producer.geometry().cell_bytes))),
        }
    }

    /// Begins to receive. Every later call comes from the same thread.
    pub(super) fn start(&mut self, socket: &Socket, producer: &mut Producer) -> io::Result<()> {
        match self {
            Self::Calls(_) => Ok(()),
            Self::Ring(ring) => ring.start(socket, producer),
        }
    }

    /// Takes what is there, waits at most `wait` for the first message, and says whether the
    /// queue was found empty.
    pub(super) fn receive(
        &mut self,
        socket: &Socket,
        intake: &mut Intake,
        coalesced: bool,
        wait: Duration,
    ) -> io::Result<bool> {
        match self {
            Self::Calls(calls) => {
                let before = intake.taken().messages;
                let empty = calls.receive(socket, intake, coalesced)?;
                let found = intake.taken().messages > before;
                if found || wait.is_zero() || !socket.wait_readable(wait)? {
                    return Ok(empty);
                }
                calls.receive(socket, intake, coalesced)
            }
            Self::Ring(ring) => receive_by_ring(ring, socket, intake, wait),
        }
    }

    /// Whether it is slower with coalescing when few datagrams come together.
    pub(super) fn minds_few(&self) -> bool {
        matches!(self, Self::Calls(_))
    }

    /// Bytes that it may have taken from the kernel and not yet handed on.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Calls(_) => 0,
            Self::Ring(_) => ring::PROVIDED_SLOTS * MESSAGE_LEN_MAX,
        }
    }

    /// Lets go of the socket.
    pub(super) fn finish(&mut self) {
        if let Self::Ring(ring) = self {
            ring.cancel();
        }
    }
}

/// Receives by system calls: coalesced messages one by one, or single datagrams many at a time.
pub(super) struct Calls {
    batch: Batch,
    /// For what is longer than any message should be.
    scrap: Vec<u8>,
    /// One frame on its way to its cell, when it did not land there.
    stray: Vec<u8>,
    /// Frames of the last batch that did not land in a cell: message and first byte in it.
    strays: Vec<(usize, usize)>,
}

impl Calls {
    fn new(frame_len: usize) -> Self {
        Self {
            batch: Batch::new(frame_len),
            scrap: vec![0; MESSAGE_LEN_MAX - message_cells(frame_len) * frame_len],
            stray: vec![0; frame_len],
            strays: Vec::with_capacity(arrivals_max(frame_len)),
        }
    }

    fn receive(
        &mut self,
        socket: &Socket,
        intake: &mut Intake,
        coalesced: bool,
    ) -> io::Result<bool> {
        if !coalesced {
            return self.receive_batch(socket, intake);
        }
        for _ in 0..BATCH_MESSAGES {
            if intake.lander.is_full() {
                return Ok(false);
            }
            if !self.receive_message(socket, intake)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Receives one message into the cells at the head; false when there is none.
    fn receive_message(&mut self, socket: &Socket, intake: &mut Intake) -> io::Result<bool> {
        let (with_sender, cells) = (intake.with_sender(), message_cells(self.stray.len()));
        let mut room = Room::at_head(&mut intake.lander.producer, cells, &mut self.scrap);
        let Some(received) = room.receive(socket, with_sender)? else { return Ok(false) };
        let misplaced = received.segment.is_some_and(|segment| segment != self.stray.len());
        if misplaced && received.len >= self.stray.len() {
            // Only the end of such a message can be a frame.
            room.gather(received.len - self.stray.len(), &mut self.stray);
        }
        let head = intake.lander.producer.head();
        match intake.judge(&received) {
            Frames::Leading(count) => {
                intake.arrive(head, count);
                let end = intake.lander.cell_after(count as u64);
                intake.lander.producer.commit_to(end);
            }
            Frames::Last(_) => {
                let cell = intake.lander.copy_to_head(&self.stray);
                intake.arrive(cell, 1);
            }
        }
        Ok(true)
    }

    /// Receives many messages, each into one cell.
    fn receive_batch(&mut self, socket: &Socket, intake: &mut Intake) -> io::Result<bool> {
        let with_sender = intake.with_sender();
        let count = self.batch.receive(socket, &mut intake.lander.producer, with_sender)?;
        let head = intake.lander.producer.head().0;
        let mut next = head + count as u64;
        let mut empty_cells = 0;
        self.strays.clear();
        for index in 0..count {
            let frames = intake.judge(&self.batch.received(index));
            let (landed, strays, first) = match frames {
                Frames::Leading(frames) => (frames.min(1), frames.saturating_sub(1), 1),
                Frames::Last(_) => (0, 1, 0),
            };
            intake.arrive(Cell(head + index as u64), landed);
            intake.arrive(Cell(next), strays);
            next += strays as u64;
            empty_cells += 1 - landed as u64;
            for stray in first..first + strays {
                let offset = match frames {
                    Frames::Leading(_) => stray * self.stray.len(),
                    Frames::Last(offset) => offset,
                };
                self.strays.push((index, offset));
            }
        }
        intake.lander.producer.commit_to(Cell(head + count as u64));
        intake.lander.counters.empty_cells.add(empty_cells);
        self.land_strays(head, intake);
        Ok(count == 0)
    }

    /// Copies the frames that did not land in a cell behind those that did.
    fn land_strays(&mut self, head: u64, intake: &mut Intake) {
        let frame_len = self.stray.len();
        for &(index, offset) in &self.strays {
            let cell = intake.lander.producer.bytes(Cell(head + index as u64), frame_len);
            let in_cell = &cell[offset.min(frame_len)..];
            let (front, back) = self.stray.split_at_mut(in_cell.len());
            front.copy_from_slice(in_cell);
            let scrap = &self.batch.scrap(index)[offset.saturating_sub(frame_len)..];
            back.copy_from_slice(&scrap[..back.len()]);
            intake.lander.copy_to_head(&self.stray);
        }
    }
}

/// Takes completed messages out of a ring.
fn receive_by_ring(
    ring: &mut Ring,
    socket: &Socket,
    intake: &mut Intake,
    wait: Duration,
) -> io::Result<bool> {
    let mut taken = 0;
    while taken < BATCH_MESSAGES && !intake.lander.is_full() {
        let mut next = ring.next(&intake.lander.producer)?;
        if next.is_none() && taken == 0 {
            ring.arm(socket)?;
            ring.wait(wait)?;
            next = ring.next(&intake.lander.producer)?;
        }
        let Some(received) = next else { break };
        let head = intake.lander.producer.head();
        let landed = match intake.judge(&received) {
            Frames::Leading(count) => count,
            Frames::Last(offset) => {
                ring.move_to_front(&mut intake.lander.producer, offset);
                1
            }
        };
        intake.arrive(head, landed);
        ring.release(&mut intake.lander.producer);
        let unused = intake.lander.producer.geometry().slot_cells - landed;
        intake.lander.counters.empty_cells.add(unused as u64);
        taken += 1;
    }
    intake.lander.counters.rearms.set(ring.rearms());
    // Only a look at the kernel that found nothing shows that the queue is empty.
    Ok(taken == 0 && ring.is_armed())
}
