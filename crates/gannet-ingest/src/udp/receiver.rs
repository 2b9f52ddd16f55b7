//! Taking messages from the kernel by system calls.

use std::io;
use std::time::Duration;

use gannet_memory::{Cell, Geometry};

use crate::lander::BATCH_FRAMES;
use crate::sys::receive::{BATCH_MESSAGES, Batch, MESSAGE_LEN_MAX, Room};
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

/// The layout of a clop of at least `cells` cells: twice what a poll can fill, so that its arrivals
/// are intact until the next.
pub(super) fn geometry(frame_len: usize, cells: u64) -> Geometry {
    let cells_min = 2 * arrivals_max(frame_len);
    Geometry { cell_bytes: frame_len, cells: cells_min.max(cells as usize) }
}

/// Receives coalesced messages one by one, or single datagrams many at a time.
pub(super) struct Receiver {
    batch: Batch,
    /// For what is longer than any message should be.
    scrap: Vec<u8>,
    /// One frame on its way to its cell, when it did not land there.
    stray: Vec<u8>,
    /// Frames of the last batch that did not land in a cell: message and first byte in it.
    strays: Vec<(usize, usize)>,
    /// Cells of the last batch in which no frame landed, in their order.
    holes: Vec<Cell>,
    /// How long the socket waits for a message when asked to.
    timeout: Duration,
}

impl Receiver {
    pub(super) fn new(frame_len: usize) -> Self {
        Self {
            batch: Batch::new(frame_len),
            scrap: vec![0; MESSAGE_LEN_MAX - message_cells(frame_len) * frame_len],
            stray: vec![0; frame_len],
            strays: Vec::with_capacity(arrivals_max(frame_len)),
            holes: Vec::with_capacity(BATCH_MESSAGES),
            timeout: Duration::ZERO,
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
        let waits = !wait.is_zero();
        if waits && wait != self.timeout {
            socket.set_receive_timeout(wait)?;
            self.timeout = wait;
        }
        if !coalesced {
            return self.receive_batch(socket, intake, waits);
        }
        for count in 0..BATCH_MESSAGES {
            if intake.lander.is_full() {
                return Ok(false);
            }
            if !self.receive_message(socket, intake, waits && count == 0)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Receives one message into the cells at the head; false when there is none.
    fn receive_message(
        &mut self,
        socket: &Socket,
        intake: &mut Intake,
        waits: bool,
    ) -> io::Result<bool> {
        let (with_sender, cells) = (intake.with_sender(), message_cells(self.stray.len()));
        let mut room = Room::at_head(&mut intake.lander.producer, cells, &mut self.scrap);
        let Some(received) = room.receive(socket, with_sender, waits)? else { return Ok(false) };
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
                let cell = intake.lander.producer.land(&self.stray);
                intake.arrive(cell, 1);
            }
        }
        Ok(true)
    }

    /// Receives many messages, each into one cell.
    fn receive_batch(
        &mut self,
        socket: &Socket,
        intake: &mut Intake,
        waits: bool,
    ) -> io::Result<bool> {
        let with_sender = intake.with_sender();
        let count = self.batch.receive(socket, &mut intake.lander.producer, with_sender, waits)?;
        let head = intake.lander.producer.head().0;
        let mut next = head + count as u64;
        self.strays.clear();
        self.holes.clear();
        for index in 0..count {
            let frames = intake.judge(&self.batch.received(index));
            let (landed, strays, first) = match frames {
                Frames::Leading(frames) => (frames.min(1), frames.saturating_sub(1), 1),
                Frames::Last(_) => (0, 1, 0),
            };
            let cell = Cell(head + index as u64);
            intake.arrive(cell, landed);
            if landed == 0 {
                self.holes.push(cell);
            }
            intake.arrive(Cell(next), strays);
            next += strays as u64;
            for stray in first..first + strays {
                let offset = match frames {
                    Frames::Leading(_) => stray * self.stray.len(),
                    Frames::Last(offset) => offset,
                };
                self.strays.push((index, offset));
            }
        }
        let end = Cell(head + count as u64);
        if self.strays.is_empty() {
            let end = self.close_holes(end, intake);
            intake.lander.producer.commit_to(end);
        } else {
            intake.lander.producer.commit_to(end);
            self.land_strays(head, intake);
        }
        Ok(count == 0)
    }

    /// Moves frames from the end of a batch to the cells in which none landed, so that what is no
    /// frame takes nothing of the depth of the ring. Returns the new end.
    ///
    /// It costs one copy at most for each datagram that is no frame.
    fn close_holes(&mut self, mut end: Cell, intake: &mut Intake) -> Cell {
        let mut holes = self.holes.as_slice();
        while let [first, .., last] | [first @ last] = *holes {
            end.0 -= 1;
            if last == end {
                holes = &holes[..holes.len() - 1];
            } else {
                intake.lander.producer.move_open(end, first);
                intake.lander.moved(end, first);
                holes = &holes[1..];
            }
        }
        end
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
            intake.lander.producer.land(&self.stray);
        }
    }
}
