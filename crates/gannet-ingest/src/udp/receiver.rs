//! Taking messages from the kernel by system calls.

use std::io;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use gannet_memory::Cell;

use crate::landed::BATCH_FRAMES;
use crate::sys::receive::{BATCH_MESSAGES, MESSAGE_LEN_MAX, Messages, Received, Room};
use crate::sys::socket::Socket;
use crate::udp::intake::Intake;
use crate::udp::segments::Segments;

/// Most datagrams that Linux puts into one message (`UDP_MAX_SEGMENTS` since 6.9; 64 before, and
/// 64 where a card joins them).
const MESSAGE_DATAGRAMS_MAX: usize = 128;
/// Bytes of cells that a batch of messages may take, unless its messages are fewer then than
/// `BATCH_MESSAGES_MIN`.
const BATCH_BYTES_MAX: usize = 16 << 20;
const BATCH_MESSAGES_MIN: usize = 16;

/// Messages over which it is seen how many datagrams one holds.
const WINDOW_MESSAGES: usize = 64;

/// Cells of the longest message, if each holds a datagram of at least `shortest` bytes.
fn message_cells(shortest: usize) -> usize {
    (MESSAGE_LEN_MAX / shortest).min(MESSAGE_DATAGRAMS_MAX)
}

/// Messages of a batch, each of which may hold several datagrams.
fn batch_messages(lengths: &RangeInclusive<usize>) -> usize {
    let message_bytes = message_cells(*lengths.start()) * *lengths.end();
    (BATCH_BYTES_MAX / message_bytes).clamp(BATCH_MESSAGES_MIN, BATCH_MESSAGES)
}

/// Largest number of datagrams that one poll can find.
pub(super) fn arrivals_max(lengths: &RangeInclusive<usize>) -> usize {
    let cells = message_cells(*lengths.start());
    (batch_messages(lengths) * cells).max(BATCH_FRAMES + cells)
}

/// How many datagrams a message usually holds at most.
struct Usual {
    /// As the last messages had it, or twice what one has had since.
    most: usize,
    /// Most of the messages of this window.
    most_lately: usize,
    messages: usize,
}

impl Usual {
    fn new() -> Self {
        Self { most: MESSAGE_DATAGRAMS_MAX, most_lately: 1, messages: 0 }
    }

    /// Takes in how many datagrams a message held.
    fn note(&mut self, datagrams: usize) {
        self.most_lately = self.most_lately.max(datagrams);
        self.messages += 1;
        if datagrams > self.most {
            self.most = 2 * datagrams;
        }
        if self.messages == WINDOW_MESSAGES {
            *self = Self { most: self.most_lately, ..Self::new() };
        }
    }
}

/// Receives coalesced messages one by one, or many messages at a time.
pub(super) struct UdpReceiver {
    lengths: RangeInclusive<usize>,
    /// Length of the datagrams for which the cells of the next message are laid out, one a cell.
    stride: usize,
    usual: Usual,
    room: Room,
    batch: Messages,
    /// Datagrams on their way to their cells, when they did not land there.
    strayed: Vec<u8>,
    /// Those of the last batch: message, first byte in it, and length.
    strays: Vec<(usize, usize, usize)>,
    /// Cells of the last batch in which nothing landed, in their order.
    holes: Vec<Cell>,
    /// How long the socket waits for a message when asked to.
    timeout: Duration,
}

impl UdpReceiver {
    pub(super) fn new(lengths: RangeInclusive<usize>) -> Self {
        let (longest, messages) = (*lengths.end(), batch_messages(&lengths));
        Self {
            stride: longest,
            usual: Usual::new(),
            room: Room::new(),
            batch: Messages::new(longest, messages),
            strayed: vec![0; MESSAGE_LEN_MAX],
            strays: Vec::with_capacity(arrivals_max(&lengths)),
            holes: Vec::with_capacity(messages),
            timeout: Duration::ZERO,
            lengths,
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
            if intake.landed.is_full() {
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
        let (with_sender, stride) = (intake.with_sender(), self.stride);
        // Whole cells are one piece of memory, however many. Of others the kernel copies the list with
        // each call, and a message of more datagrams than usual is gathered.
        let is_whole = stride == *self.lengths.end();
        let cells = message_cells(stride).min(if is_whole { usize::MAX } else { self.usual.most });
        let producer = &mut intake.landed.producer;
        let mut message = self.room.at_head(producer, cells, stride);
        let Some(received) = message.receive(socket, with_sender, waits)? else {
            return Ok(false);
        };
        let segments = Segments::of(received.len, received.segment);
        self.usual.note(segments.count);
        let is_laid_out = segments.count <= cells
            && if segments.count == 1 { segments.len <= stride } else { segments.len == stride };
        if !is_laid_out {
            let bytes = segments.bytes(&segments.within(&self.lengths));
            message.gather(bytes.start, &mut self.strayed[..bytes.len()]);
        }
        let (segments, taken) = self.judge(intake, &received)?;
        if is_laid_out {
            let head = intake.landed.producer.head().0;
            let end = head + taken.len() as u64;
            for (cell, index) in (head..end).zip(taken) {
                intake.arrive(Cell(cell), segments.len_of(index));
            }
            intake.landed.producer.commit_to(Cell(end));
        } else {
            let mut start = 0;
            for len in taken.map(|index| segments.len_of(index)) {
                let cell = intake.landed.producer.land(&self.strayed[start..start + len]);
                intake.arrive(cell, len);
                start += len;
            }
            self.lay_out_for(&segments);
        }
        Ok(true)
    }

    /// Counts a message, and says where its datagrams lie and which of them are to be landed: not
    /// more than there are cells for.
    fn judge(
        &self,
        intake: &mut Intake,
        received: &Received,
    ) -> io::Result<(Segments, Range<usize>)> {
        let (segments, taken) = intake.judge(received);
        if taken.len() > message_cells(*self.lengths.start()) {
            return Err(io::Error::other("the kernel put too many datagrams into one message"));
        }
        Ok((segments, taken))
    }

    /// Expects more messages like one that did not land as it should.
    fn lay_out_for(&mut self, segments: &Segments) {
        if segments.count == 1 {
            self.stride = *self.lengths.end();
        } else if self.lengths.contains(&segments.len) {
            self.stride = segments.len;
        }
    }

    /// Receives many messages, each into one cell.
    fn receive_batch(
        &mut self,
        socket: &Socket,
        intake: &mut Intake,
        waits: bool,
    ) -> io::Result<bool> {
        let with_sender = intake.with_sender();
        let count = self.batch.receive(socket, &mut intake.landed.producer, with_sender, waits)?;
        let head = intake.landed.producer.head().0;
        let mut next = head + count as u64;
        self.strays.clear();
        self.holes.clear();
        for index in 0..count {
            let (segments, mut taken) = self.judge(intake, &self.batch.received(index))?;
            let cell = Cell(head + index as u64);
            if taken.start == 0 && !taken.is_empty() {
                intake.arrive(cell, segments.len_of(0));
                taken.start = 1;
            } else {
                self.holes.push(cell);
            }
            for stray in taken {
                let len = segments.len_of(stray);
                intake.arrive(Cell(next), len);
                self.strays.push((index, stray * segments.len, len));
                next += 1;
            }
        }
        let end = Cell(head + count as u64);
        if self.strays.is_empty() {
            let end = self.close_holes(end, intake);
            intake.landed.producer.commit_to(end);
        } else {
            intake.landed.producer.commit_to(end);
            self.land_strays(head, intake);
        }
        Ok(count == 0)
    }

    /// Moves datagrams from the end of a batch to the cells in which none landed, so that what is not
    /// taken takes nothing of the depth of the ring. Returns the new end.
    ///
    /// It costs one copy at most for each datagram that is not taken.
    fn close_holes(&mut self, mut end: Cell, intake: &mut Intake) -> Cell {
        let mut holes = self.holes.as_slice();
        while let [first, .., last] | [first @ last] = *holes {
            end.0 -= 1;
            if last == end {
                holes = &holes[..holes.len() - 1];
            } else {
                intake.landed.producer.move_open(end, first);
                intake.landed.moved(end, first);
                holes = &holes[1..];
            }
        }
        end
    }

    /// Copies the datagrams that did not land in a cell behind those that did.
    fn land_strays(&mut self, head: u64, intake: &mut Intake) {
        let longest = *self.lengths.end();
        for &(index, offset, len) in &self.strays {
            let cell = intake.landed.producer.bytes(Cell(head + index as u64), longest);
            let in_cell = &cell[offset.min(longest)..];
            let in_cell = &in_cell[..len.min(in_cell.len())];
            let (front, back) = self.strayed[..len].split_at_mut(in_cell.len());
            front.copy_from_slice(in_cell);
            let scrap = &self.batch.scrap(index)[offset.saturating_sub(longest)..];
            back.copy_from_slice(&scrap[..back.len()]);
            intake.landed.producer.land(&self.strayed[..len]);
        }
    }
}
