//! Windows of both sides: told, reached, and taken back.

use gannet_memory::Access;
use gannet_wire::exchange::{self, Message};

use super::super::ring::Word;
use super::super::sys::{Piece, Reach};
use super::transfers::{Operation, Part};
use super::{Pair, RING};
use crate::endpoint::{Failure, Key, Level, Local, Opening, RegionId, Window};

impl Pair {
    /// Opens a window to it.
    pub fn open(&mut self, key: Key, opening: &Opening) -> Result<(), Failure> {
        let &Opening { start, bytes, access, label } = opening;
        let memory = 1 + start.region.0 as usize;
        let range = (start.offset as usize, bytes as usize);
        let lent = self.cable.lend(memory, range, access);
        let (lent, reach) = lent.map_err(|_| Failure::Resources)?;
        self.lent.push((key, lent));
        self.lends = self.lends.wrapping_add(1);
        let region = self.lends;
        self.tell(&Message::Region { region, base: reach.base, key: reach.key })?;
        self.tell(&Message::Window(exchange::Window {
            key: key.0,
            bytes,
            region,
            label,
            is_writable: access == Access::Write,
            ..exchange::Window::default()
        }))
    }

    /// Lets it reach a window no more.
    pub fn withdraw(&mut self, key: Key) {
        if let Some(at) = self.lent.iter().position(|&(lent, _)| lent == key) {
            self.cable.withdraw(self.lent.swap_remove(at).1);
        }
    }

    /// Takes how the next window is reached.
    pub fn reach_told(&mut self, region: u32, reach: Reach) {
        self.reach = Some((region, reach));
    }

    pub fn window_opened(&mut self, told: &exchange::Window) -> Result<Window, Failure> {
        let access = if told.is_writable { Access::Write } else { Access::Read };
        let reach = self.reach.take().filter(|&(region, _)| region == told.region);
        let (_, reach) = reach.ok_or(Failure::Protocol)?;
        let slot = self.reaches.iter().position(Option::is_none).unwrap_or(self.reaches.len());
        let (key, start) = (Key(told.key), Local { region: RegionId(slot as u32), offset: 0 });
        let entered = self.windows.enter(key, start, told.bytes, access);
        entered.map_err(|_| Failure::Protocol)?;
        self.reaches.resize(self.reaches.len().max(slot + 1), None);
        self.reaches[slot] = Some(reach);
        Ok(Window { key, bytes: told.bytes, access, label: told.label })
    }

    /// Stops using a window of the other one, if it is one.
    pub fn window_closed(&mut self, key: Key) {
        if let Ok(start) = self.windows.find(key, 0, 0, false) {
            self.reaches[start.region.0 as usize] = None;
            self.windows.remove(key);
            match self.level {
                // What is sent may not be there yet.
                Level::Sent => self.unbarred.push_back(key),
                _ => self.closing.push(key),
            }
        }
    }

    /// Posts what is done only when all before it is placed, for windows that are taken back.
    fn bar(&mut self, now: u64) {
        while let Some(&key) = self.unbarred.front()
            && self.has_room().is_ok()
        {
            let word = Word::Barrier;
            let piece = Piece {
                memory: RING,
                offset: self.ring.source(word),
                reach: self.far_ring,
                remote_offset: word.place(),
                bytes: size_of::<u64>(),
            };
            let number = self.first + self.operations.len() as u64;
            let tag = Part::Bytes(number).tag();
            if !self.try_to(|cable| cable.write(&[piece], None, true, tag)) {
                return;
            }
            let (key, bytes) = (Some(key), 0);
            self.enter(now, Operation { request: None, key, bytes, parts: 1, outcome: Ok(()) });
            self.closing.extend(self.unbarred.pop_front());
        }
    }

    /// A window that no operation needs any more, of which the other side is told so.
    pub fn window_free(&mut self, now: u64) -> Result<Option<Key>, Failure> {
        self.bar(now);
        let is_needed =
            |key: &Key| self.operations.iter().any(|operation| operation.key == Some(*key));
        let Some(at) = self.closing.iter().position(|key| !is_needed(key)) else {
            return Ok(None);
        };
        let (key, events) = (self.closing.remove(at), self.ring.posted());
        self.tell(&Message::Closed { key: key.0, events })?;
        Ok(Some(key))
    }

    /// A window that the other side has returned, and of which all events were taken.
    pub fn window_returned(&mut self) -> Option<Key> {
        self.returned.settled(self.ring.taken())
    }
}
