//! Operations on the memory of the other side, and the transfers that they are made of.

use std::time::Duration;

use super::super::drive::{Drive, NS_PER_BYTE};
use super::super::ring::{EVENT_LEN, Event as Told, Word};
use super::super::sys::{CallError, Event, Piece};
use super::{Full, Pair, RING, Telling};
use crate::endpoint::{Completion, Failure, Key, Level, Local, PostError, Request};
use crate::own::Own;

/// Time that the connection has to tell why the provider fails.
const REASON_NS: u64 = 200_000_000;
const FULL: PostError = PostError::Full { queue: "operations" };

/// What a transfer is of: a part of an operation, by its number, or a word of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Its bytes, perhaps with its event.
    Bytes(u64),
    /// Its event.
    Event(u64),
    /// A word.
    Word(Word),
}

impl Part {
    pub fn tag(self) -> u64 {
        match self {
            Self::Bytes(number) => number << 2,
            Self::Event(number) => number << 2 | 1,
            Self::Word(Word::Taken) => 2,
            Self::Word(_) => 3,
        }
    }

    fn of(tag: u64) -> Self {
        match tag & 3 {
            0 => Self::Bytes(tag >> 2),
            1 => Self::Event(tag >> 2),
            2 => Self::Word(Word::Taken),
            _ => Self::Word(Word::Probe),
        }
    }
}

/// An event that was not posted yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Untold {
    /// Number of its operation.
    operation: u64,
    piece: Piece,
    data: u64,
}

/// An operation that was posted.
#[derive(Debug)]
pub(super) struct Operation {
    /// None of a barrier, of which nobody is told.
    pub request: Option<Request>,
    /// Window of the other side that it needs.
    pub key: Option<Key>,
    pub bytes: u64,
    /// Parts that are not done.
    pub parts: u8,
    pub outcome: Result<(), Failure>,
}

/// What is posted.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Posted {
    /// A PUT from a place of a region, with its immediate.
    Put(Local, Option<u32>),
    /// A GET to a place of a region.
    Get(Local),
}

impl Pair {
    /// Posts an operation of `bytes` bytes on a window of the other side.
    #[inline]
    pub fn post(
        &mut self,
        own: &mut Own,
        now: u64,
        posted: Posted,
        (key, offset, bytes): (Key, u64, u64),
    ) -> Result<Request, PostError> {
        let is_get = matches!(posted, Posted::Get(_));
        let place = self.windows.find(key, offset, bytes, !is_get)?;
        self.has_room()?;
        let (Posted::Put(local, _) | Posted::Get(local)) = posted;
        let reach = self.reaches[place.region.0 as usize].unwrap_or(self.far_ring);
        let piece = Piece {
            memory: 1 + local.region.0 as usize,
            offset: local.offset as usize,
            reach,
            remote_offset: offset,
            bytes: bytes as usize,
        };
        let number = self.first + self.operations.len() as u64;
        let tag = Part::Bytes(number).tag();
        let mut parts = u8::from(bytes > 0);
        let is_under_way = match posted {
            Posted::Get(_) => bytes == 0 || self.try_to(|cable| cable.read(&piece, tag)),
            Posted::Put(_, None) => {
                let is_placed = self.level == Level::Placed;
                bytes == 0 || self.try_to(|cable| cable.write(&[piece], None, is_placed, tag))
            }
            Posted::Put(_, Some(immediate)) => {
                let event = Told { key, offset, bytes: bytes as u32, immediate };
                return self.post_telling(own, now, piece, &event);
            }
        };
        if !is_under_way {
            return Err(FULL);
        }
        if bytes == 0 {
            parts = 0;
        }
        Ok(self.entered(own, now, Some(key), bytes, parts))
    }

    /// Posts a PUT and what tells of it.
    #[inline]
    fn post_telling(
        &mut self,
        own: &mut Own,
        now: u64,
        bytes: Piece,
        event: &Told,
    ) -> Result<Request, PostError> {
        if !self.ring.has_room() {
            let taken = self.ring.far_taken();
            self.full.get_or_insert(Full { taken, since: now });
            return Err(PostError::Full { queue: "events" });
        }
        let (offset, remote_offset, data) = self.ring.write(event);
        let piece =
            Piece { memory: RING, offset, reach: self.far_ring, remote_offset, bytes: EVENT_LEN };
        let number = self.first + self.operations.len() as u64;
        let (tag, data) = (Part::Bytes(number).tag(), data & u64::from(u32::MAX));
        let is_placed = self.level == Level::Placed;
        let parts = match self.telling {
            Telling::Together => {
                let pieces = [bytes, piece];
                let pieces = if bytes.bytes == 0 { &pieces[1..] } else { &pieces[..] };
                if !self.try_to(|cable| cable.write(pieces, Some(data), is_placed, tag)) {
                    return Err(FULL);
                }
                1
            }
            _ => {
                if bytes.bytes > 0
                    && !self.try_to(|cable| cable.write(&[bytes], None, is_placed, tag))
                {
                    return Err(FULL);
                }
                self.untold.push_back(Untold { operation: number, piece, data });
                1 + u8::from(bytes.bytes > 0)
            }
        };
        self.ring.advance();
        let request = self.entered(own, now, Some(event.key), u64::from(event.bytes), parts);
        if self.telling != Telling::Together {
            self.tell_rest();
        }
        Ok(request)
    }

    /// Posts an operation that is done when all before it are.
    pub fn flush(&mut self, own: &mut Own, now: u64) -> Result<Request, PostError> {
        self.has_room()?;
        Ok(self.entered(own, now, None, 0, 0))
    }

    pub(super) fn has_room(&self) -> Result<(), PostError> {
        if self.operations.len() >= self.posts_max { Err(FULL) } else { Ok(()) }
    }

    /// Posts a transfer; gives whether it is under way.
    #[inline]
    pub(super) fn try_to(
        &mut self,
        post: impl FnOnce(&mut Drive) -> Result<bool, CallError>,
    ) -> bool {
        post(&mut self.cable).unwrap_or_else(|error| {
            // It is told with the next look at the clock.
            self.broken.get_or_insert((error.code, u64::MAX));
            false
        })
    }

    #[inline]
    fn entered(
        &mut self,
        own: &mut Own,
        now: u64,
        key: Option<Key>,
        bytes: u64,
        parts: u8,
    ) -> Request {
        let request = own.request();
        self.enter(now, Operation { request: Some(request), key, bytes, parts, outcome: Ok(()) });
        request
    }

    #[inline]
    pub(super) fn enter(&mut self, now: u64, operation: Operation) {
        if self.operations.is_empty() {
            self.since = now;
        }
        self.operations.push_back(operation);
        self.settle();
    }

    /// Looks which operation is the first that is not done.
    #[inline]
    fn settle(&mut self) {
        while let Some(operation) = self.operations.get((self.settled - self.first) as usize)
            && operation.parts == 0
        {
            self.settled += 1;
        }
    }

    /// Lets the provider work, and takes note of what it tells.
    #[inline]
    pub fn work(&mut self, now: u64) {
        if self.ending.is_some() && self.is_silent() {
            return;
        }
        let Self { cable, operations, first, ring, is_telling, broken, ending, .. } = self;
        let mut is_settled = true;
        let mut done = |tag: u64, outcome: Result<(), Failure>| match Part::of(tag) {
            Part::Bytes(number) | Part::Event(number) => {
                let place = number.wrapping_sub(*first) as usize;
                if let Some(operation) = operations.get_mut(place) {
                    operation.parts = operation.parts.saturating_sub(1);
                    operation.outcome = operation.outcome.and(outcome);
                    is_settled = false;
                }
            }
            Part::Word(_) => *is_telling = false,
        };
        let count = cable.poll(|event| match event {
            Event::Done { tag } => done(tag, Ok(())),
            Event::Told { data } => {
                if let Err(failure) = ring.note(data) {
                    ending.get_or_insert(failure);
                }
            }
            Event::Failed { tag, code } => {
                broken.get_or_insert((code, now));
                if let Some(tag) = tag {
                    done(tag, Err(Failure::Carrier(code)));
                }
            }
        });
        match count {
            Some(0) => self.silence = self.silence.saturating_add(1),
            Some(_) => self.silence = 0,
            None => {}
        }
        if !is_settled {
            self.settle();
        }
        if !self.untold.is_empty() {
            self.tell_rest();
        }
        if !self.is_telling && self.ring.is_to_tell() {
            self.ring.stage();
            // What the provider refuses here, it refuses for the next operation, too.
            if self.write_word(Word::Taken).unwrap_or(false) {
                self.ring.told();
                self.is_telling = true;
            }
        }
    }

    /// Posts the events that may go now.
    fn tell_rest(&mut self) {
        // Behind bytes that did not get there nothing is told.
        while let Some(&Untold { operation, piece, data }) = self.untold.front()
            && self.broken.is_none()
        {
            let place = (operation - self.first) as usize;
            let may_go = self.telling == Telling::Behind
                || self.settled >= operation
                    && self.operations.get(place).is_some_and(|it| it.parts == 1);
            let (tag, is_placed) = (Part::Event(operation).tag(), self.level == Level::Placed);
            if !may_go || !self.try_to(|cable| cable.write(&[piece], Some(data), is_placed, tag)) {
                return;
            }
            self.untold.pop_front();
        }
    }

    /// The next event of the other side.
    #[inline]
    pub fn event(&mut self) -> Option<Told> {
        self.ring.take().unwrap_or_else(|failure| {
            self.ending.get_or_insert(failure);
            None
        })
    }

    /// The first operation, if it is done.
    #[inline]
    pub fn done(&mut self, now: u64) -> Option<Completion> {
        loop {
            let first = self.operations.pop_front_if(|operation| operation.parts == 0)?;
            self.first += 1;
            self.since = now;
            if let Operation { request: Some(request), outcome, .. } = first {
                return Some(Completion::Done { request, outcome });
            }
        }
    }

    /// All operations that are left, of which nobody will tell.
    pub fn rest(self, failure: Failure) -> impl Iterator<Item = Completion> {
        self.operations.into_iter().filter_map(
            move |Operation { request, parts, outcome, .. }| {
                let outcome = if parts == 0 { outcome } else { Err(failure) };
                request.map(|request| Completion::Done { request, outcome })
            },
        )
    }

    /// Refuses an endpoint to which nothing gets done for longer than the deadline, or that takes no events,
    /// and one that the provider cannot reach.
    pub fn watch(&mut self, now: u64, deadline: Duration) -> Result<(), Failure> {
        if let Some((code, since)) = self.broken {
            let since = since.min(now);
            self.broken = Some((code, since));
            if now - since > REASON_NS {
                return Err(Failure::Carrier(code));
            }
        }
        if self.cable.is_lost() {
            return Err(Failure::Unresponsive);
        }
        let deadline_ns = deadline.as_nanos() as u64;
        let is_over = |since: u64, more: u64| now.saturating_sub(since) > deadline_ns + more;
        if let Some(first) = self.operations.front().filter(|first| first.parts > 0)
            && is_over(self.since, NS_PER_BYTE.saturating_mul(first.bytes))
        {
            return Err(Failure::Unresponsive);
        }
        if let Some(full) = self.full {
            let taken = self.ring.far_taken();
            if self.ring.has_room() {
                self.full = None;
            } else if full.taken != taken {
                self.full = Some(Full { taken, since: now });
            } else if is_over(full.since, 0) {
                return Err(Failure::Unresponsive);
            }
        }
        Ok(())
    }
}
