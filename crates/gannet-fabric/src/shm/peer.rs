//! What an endpoint has of another one.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use gannet_memory::{Access, SharedRegion};
use gannet_wire::exchange::{self, Message};

use super::event::WORDS;
use crate::endpoint::{Failure, Key, Local, RegionId, Window};
use crate::exchange::{JoinError, Side, meet};
use crate::local::{ENTRIES, Line, Reader, RingMemory, Writer};
use crate::own::{Limits, Returns};
use crate::trust::Trust;
use crate::windows::Windows;

/// Number of this backend in a hello.
const BACKEND: u32 = 1;

/// A ring without room.
#[derive(Clone, Copy, Debug)]
struct Full {
    taken: u64,
    /// When that many were taken, once the time is known.
    since_ns: Option<u64>,
}

/// Another endpoint.
#[derive(Debug)]
pub(super) struct Joint {
    line: Line,
    /// Events that the other one writes.
    pub inbound: Reader<RingMemory, WORDS>,
    /// Events for the other one.
    pub outbound: Writer<RingMemory, WORDS>,
    /// Windows of the other one; the region of a place is one of `mapped`.
    pub windows: Windows,
    mapped: Vec<Option<SharedRegion>>,
    /// Messages that the line has not taken.
    outbox: VecDeque<(Message, Option<OwnedFd>)>,
    outbox_max: usize,
    pub returned: Returns,
    /// Whether an event found no room, and since when the other one has taken none.
    full: Option<Full>,
    /// Why it is used no more.
    pub ending: Option<Failure>,
}

impl Joint {
    /// Meets the other side of a socket.
    pub fn meet(
        socket: OwnedFd,
        side: Side,
        trust: &Trust,
        limits: &Limits,
    ) -> Result<Self, JoinError> {
        let mut line = Line::new(socket, limits.deadline)?;
        if matches!(trust, Trust::SameUser) {
            let (here, there) = (rustix::process::geteuid().as_raw(), line.user()?);
            if here != there {
                return Err(JoinError::User(there));
            }
        }
        meet(&mut line, side, &trust.key()?, BACKEND, limits.deadline)?;
        let memory = RingMemory::new::<WORDS>(limits.events)?;
        let file = memory.descriptor()?;
        let entries = limits.events as u32;
        line.send(&Message::Events { entries }, Some(file.as_fd()), true)?;
        let inbound = Reader::new(memory, limits.events);
        let outbound = match line.receive(true)?.ok_or(JoinError::Closed)? {
            (Message::Events { entries }, Some(file)) => ring_of(entries, file)?,
            (message, _) => return Err(JoinError::Turn(message)),
        };
        Ok(Self {
            line,
            inbound,
            outbound,
            windows: Windows::new(limits.windows),
            mapped: Vec::new(),
            outbox: VecDeque::new(),
            outbox_max: 2 * limits.windows,
            returned: Returns::default(),
            full: None,
            ending: None,
        })
    }

    /// Sends a message now, or as soon as the line takes it.
    pub fn tell(&mut self, message: Message, file: Option<OwnedFd>) -> Result<(), Failure> {
        self.outbox.push_back((message, file));
        self.empty_outbox()
    }

    /// Sends what the line takes of the messages that wait.
    pub fn empty_outbox(&mut self) -> Result<(), Failure> {
        while let Some((message, file)) = self.outbox.front() {
            match self.line.send(message, file.as_ref().map(OwnedFd::as_fd), false) {
                Ok(true) => _ = self.outbox.pop_front(),
                Ok(false) if self.outbox.len() > self.outbox_max => {
                    return Err(Failure::Unresponsive);
                }
                Ok(false) => return Ok(()),
                Err(_) => return Err(Failure::Ended),
            }
        }
        Ok(())
    }

    /// The next message of the other one.
    pub fn hear(&mut self) -> Result<Option<(Message, Option<OwnedFd>)>, Failure> {
        match self.line.receive(false) {
            Ok(Some(received)) => Ok(Some(received)),
            Ok(None) => Err(Failure::Ended),
            Err(JoinError::System(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(JoinError::System(_)) => Err(Failure::Ended),
            Err(_) => Err(Failure::Protocol),
        }
    }

    /// Maps a window that the other one has opened.
    pub fn window_opened(
        &mut self,
        told: exchange::Window,
        file: Option<OwnedFd>,
    ) -> Result<Window, Failure> {
        let access = if told.is_writable { Access::Write } else { Access::Read };
        let file = file.ok_or(Failure::Protocol)?;
        let region = SharedRegion::attach(file, told.region_bytes, access);
        let region = region.map_err(|_| Failure::Protocol)?;
        let end = told.offset.checked_add(told.bytes).ok_or(Failure::Protocol)?;
        if end > region.len() as u64 {
            return Err(Failure::Protocol);
        }
        let slot = self.mapped.iter().position(Option::is_none).unwrap_or(self.mapped.len());
        let key = Key(told.key);
        let start = Local { region: RegionId(slot as u32), offset: told.offset };
        let entered = self.windows.enter(key, start, told.bytes, access);
        entered.map_err(|_| Failure::Protocol)?;
        if slot == self.mapped.len() {
            self.mapped.push(None);
        }
        self.mapped[slot] = Some(region);
        Ok(Window { key, bytes: told.bytes, access, label: told.label })
    }

    /// Stops using a window of the other one, and says so; gives whether it was one.
    pub fn window_closed(&mut self, key: Key) -> Result<bool, Failure> {
        let Ok(start) = self.windows.find(key, 0, 0, false) else { return Ok(false) };
        self.mapped[start.region.0 as usize] = None;
        self.windows.remove(key);
        let events = self.outbound.written();
        self.tell(Message::Closed { key: key.0, events }, None)?;
        Ok(true)
    }

    /// Notes that an event found no room.
    #[cold]
    pub fn is_full(&mut self) {
        let taken = self.outbound.taken();
        self.full.get_or_insert(Full { taken, since_ns: None });
    }

    /// Refuses an endpoint that has taken no event for longer than the deadline, though the ring is full.
    pub fn watch(&mut self, now_ns: u64, deadline_ns: u64) -> Result<(), Failure> {
        let Some(full) = &mut self.full else { return Ok(()) };
        if self.outbound.has_room() {
            self.full = None;
        } else if full.taken != self.outbound.taken() || full.since_ns.is_none() {
            *full = Full { taken: self.outbound.taken(), since_ns: Some(now_ns) };
        } else if full.since_ns.is_some_and(|since| now_ns.saturating_sub(since) > deadline_ns) {
            return Err(Failure::Unresponsive);
        }
        Ok(())
    }

    /// The mapped memory of a place in a window.
    #[inline]
    pub fn memory(&self, place: Local) -> Option<&SharedRegion> {
        self.mapped.get(place.region.0 as usize)?.as_ref()
    }
}

/// The ring of which the other one reads.
fn ring_of(entries: u32, file: OwnedFd) -> Result<Writer<RingMemory, WORDS>, JoinError> {
    let count = entries as usize;
    if !ENTRIES.contains(&count) || !count.is_power_of_two() {
        return Err(JoinError::Turn(Message::Events { entries }));
    }
    Ok(Writer::new(RingMemory::attach::<WORDS>(file, count)?, count))
}
