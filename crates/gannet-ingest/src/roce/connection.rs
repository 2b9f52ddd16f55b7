//! The receiving end of an unreliable connection: which packets are taken, and what lacks.

use std::net::SocketAddrV4;
use std::ops::RangeInclusive;

use gannet_wire::roce::{NUMBERS, Opcode, Packet, Write};

use crate::source::SourceDrop;

/// A packet that is so far behind at most is late or came twice. One farther behind comes from a sender that
/// has begun anew.
const LATE_MAX: u32 = 1024;

/// A sender that was silent for so long has left its queue pair to others, in nanoseconds.
pub(super) const SILENCE_NS: u64 = 1_000_000_000;

/// What far nodes may write to.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Key that its writers know.
    pub(super) key: u32,
    /// Virtual address of its first byte.
    pub(super) start: u64,
    /// Bytes between two messages.
    pub(super) cell_bytes: u64,
    /// Number of messages that lie in it at a time.
    pub(super) cells: u64,
    /// Bytes that a message may have.
    pub(super) lengths: RangeInclusive<usize>,
}

impl Window {
    /// Why a message of a sender that knows the key is not taken.
    fn refusal(&self, write: &Write) -> Option<SourceDrop> {
        let length = write.length as usize;
        if !self.lengths.contains(&length) {
            return Some(SourceDrop::of_len(length));
        }
        let inside = write.address.checked_sub(self.start).is_some_and(|offset| {
            offset % self.cell_bytes == 0 && offset / self.cell_bytes < self.cells
        });
        (!inside).then_some(SourceDrop::OutsideWindow)
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate<'a> {
    /// It is not taken.
    Refused(SourceDrop),
    /// It is kept until its message is whole.
    Kept,
    /// It ends this message.
    Message(&'a [u8]),
}

/// What a packet does, and what it tells of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken<'a> {
    /// What becomes of it.
    pub(super) fate: Fate<'a>,
    /// Packets that lack in front of it.
    pub(super) missing: u32,
    /// Packets that were kept for a message that will never be whole.
    pub(super) unfinished: u64,
}

/// A message of which packets lack yet.
#[derive(Clone, Copy, Debug)]
struct Begun {
    length: usize,
    packets: u64,
    /// Whether its first packet was refused: the others go with it.
    is_refused: bool,
}

/// Who writes to a queue pair.
#[derive(Clone, Copy, Debug)]
struct Sender {
    address: SocketAddrV4,
    /// Number of its next packet.
    next: u32,
    /// When its last packet came.
    heard_ns: u64,
}

/// What a packet changes whose headers are right, once its check sum is known to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    sender: Sender,
    missing: u32,
    write: Option<Write>,
}

/// One queue pair.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    queue_pair: u32,
    sender: Option<Sender>,
    begun: Option<Begun>,
    /// Data of the message that has begun.
    data: Vec<u8>,
}

impl Connection {
    pub(super) fn new(queue_pair: u32) -> Self {
        Self { queue_pair, sender: None, begun: None, data: Vec::new() }
    }

    pub(super) fn queue_pair(&self) -> u32 {
        self.queue_pair
    }

    /// Judges a packet for this queue pair that came at `now_ns` by its headers, and changes nothing.
    ///
    /// Only who knows the key can begin a message, and only who has begun one can go on. So a stranger
    /// changes nothing, and as long as the first sender is not silent, neither does another who knows the key.
    ///
    /// # Errors
    /// The reason why it is not taken, whatever its check sum. That a message does not fit the window is no
    /// such reason: its packet counts in the sequence, if its check sum is right.
    pub(super) fn admit(
        &self,
        window: &Window,
        address: SocketAddrV4,
        now_ns: u64,
        packet: &Packet<&[u8]>,
    ) -> Result<Admitted, SourceDrop> {
        let (opcode, sequence) = (packet.opcode(), packet.sequence());
        if !opcode.is_write() {
            return Err(SourceDrop::Malformed);
        }
        let write = packet.write();
        if write.is_some_and(|write| write.key != window.key) {
            return Err(SourceDrop::WrongKey);
        }
        let speaks = |own: &Sender| now_ns.saturating_sub(own.heard_ns) < SILENCE_NS;
        let own = self.sender.filter(|own| own.address == address);
        if own.is_none() && write.is_some() && self.sender.as_ref().is_some_and(speaks) {
            return Err(SourceDrop::TakenQueuePair);
        }
        let expected = own.map(|own| own.next);
        let ahead = expected.map(|next| sequence.wrapping_sub(next) % NUMBERS);
        let missing = match (ahead, write) {
            (Some(ahead), _) if ahead < NUMBERS / 2 => ahead,
            (Some(ahead), Some(_)) if NUMBERS - ahead > LATE_MAX => 0,
            (None, Some(_)) => 0,
            _ => return Err(SourceDrop::OutOfTurn),
        };
        let next = (sequence + 1) % NUMBERS;
        Ok(Admitted { sender: Sender { address, next, heard_ns: now_ns }, missing, write })
    }

    /// Takes a packet that was admitted and whose check sum is right.
    pub(super) fn take<'a>(
        &'a mut self,
        window: &Window,
        admitted: Admitted,
        packet: &'a Packet<&[u8]>,
    ) -> Taken<'a> {
        let Admitted { sender, missing, write } = admitted;
        self.sender = Some(sender);
        let is_torn = missing > 0 || write.is_some();
        let unfinished = if is_torn { self.abandon() } else { 0 };
        let (opcode, data) = (packet.opcode(), packet.data());
        let (fate, more) = match write {
            Some(write) => (self.begin(window, &write, opcode, data), 0),
            None => self.go_on(opcode, data),
        };
        Taken { fate, missing, unfinished: unfinished + more }
    }

    /// Gives up the message that has begun, and returns how many packets of it there were.
    pub(super) fn abandon(&mut self) -> u64 {
        self.begun.take().filter(|begun| !begun.is_refused).map_or(0, |begun| begun.packets)
    }

    fn begin<'a>(
        &mut self,
        window: &Window,
        write: &Write,
        opcode: Opcode,
        data: &'a [u8],
    ) -> Fate<'a> {
        let length = write.length as usize;
        let begun = Begun { length, packets: 1, is_refused: false };
        if let Some(reason) = window.refusal(write) {
            self.begun = opcode.goes_on().then_some(Begun { is_refused: true, ..begun });
            return Fate::Refused(reason);
        }
        if !opcode.goes_on() {
            let is_whole = data.len() == length;
            return if is_whole {
                Fate::Message(data)
            } else {
                Fate::Refused(SourceDrop::Malformed)
            };
        }
        if data.len() >= length {
            return Fate::Refused(SourceDrop::Malformed);
        }
        self.begun = Some(begun);
        self.data.clear();
        self.data.extend_from_slice(data);
        Fate::Kept
    }

    /// Goes on with the message, and returns how many packets of it are lost if it does not fit.
    fn go_on(&mut self, opcode: Opcode, data: &[u8]) -> (Fate<'_>, u64) {
        let Some(begun) = &mut self.begun else {
            return (Fate::Refused(SourceDrop::Unfinished), 0);
        };
        if begun.is_refused {
            self.begun = opcode.goes_on().then_some(*begun);
            return (Fate::Kept, 0);
        }
        let left = begun.length - self.data.len();
        let fits = if opcode.goes_on() { data.len() < left } else { data.len() == left };
        if !fits {
            return (Fate::Refused(SourceDrop::Malformed), self.abandon());
        }
        begun.packets += 1;
        self.data.extend_from_slice(data);
        if opcode.goes_on() {
            return (Fate::Kept, 0);
        }
        self.begun = None;
        (Fate::Message(&self.data), 0)
    }
}

#[cfg(test)]
mod tests;
