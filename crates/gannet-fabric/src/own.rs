//! What an endpoint has of its own, whatever carries its data: regions, windows, and completions that wait.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use gannet_memory::SharedRegion;

use crate::endpoint::{
    Completion, Failure, Key, Local, OpenError, Opening, Peer, PostError, RegionId, Request,
};
use crate::windows::{Keys, Windows};

/// Sizes and patience of an endpoint.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most endpoints that are joined.
    pub peers: usize,
    /// Most regions of its own.
    pub regions: usize,
    /// Most windows of its own, and of each other endpoint.
    pub windows: usize,
    /// Most completions that wait to be taken.
    pub completions: usize,
    /// Most events of another endpoint that wait to be taken; a power of two.
    pub events: usize,
    /// Time after which another endpoint is given up that does not answer, or takes no events.
    pub deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            peers: 64,
            regions: 64,
            windows: 256,
            completions: 4096,
            events: 4096,
            deadline: Duration::from_secs(2),
        }
    }
}

/// Counts of what happened, since the endpoint was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events of bytes that lie in no open window.
    pub refused: u64,
    /// Datagrams of who is not joined, or not what those who are joined send.
    pub strangers: u64,
    /// Endpoints that have left, or were given up.
    pub left: u64,
}

/// Regions, windows and completions of an endpoint.
#[derive(Debug)]
pub(crate) struct Own {
    pub limits: Limits,
    pub regions: Vec<SharedRegion>,
    /// Windows that are open, or not yet returned.
    pub windows: Windows,
    /// Where the keys of windows come from.
    pub keys: Keys,
    /// Windows that are open.
    pub openings: Vec<(Key, Opening)>,
    /// Windows that were closed, and who still may use them.
    closing: Vec<(Key, HashSet<u32>)>,
    completions: VecDeque<Completion>,
    requests: u64,
    pub counters: Counters,
}

impl Own {
    /// # Panics
    /// When a limit is 0, or the number of events is not a power of two from 2 to 2^20.
    pub fn new(limits: Limits, keys: Keys) -> Self {
        let sizes = [limits.peers, limits.regions, limits.windows, limits.completions];
        assert!(sizes.iter().all(|&size| size > 0), "a limit is 0");
        assert!(limits.events.is_power_of_two() && (2..=1 << 20).contains(&limits.events));
        Self {
            regions: Vec::new(),
            windows: Windows::new(limits.windows),
            keys,
            openings: Vec::new(),
            closing: Vec::new(),
            completions: VecDeque::new(),
            requests: 0,
            counters: Counters::default(),
            limits,
        }
    }

    pub fn add_region(&mut self, region: SharedRegion) -> Result<RegionId, SharedRegion> {
        if self.regions.len() >= self.limits.regions {
            return Err(region);
        }
        self.regions.push(region);
        Ok(RegionId(self.regions.len() as u32 - 1))
    }

    pub fn region(&self, region: RegionId) -> &SharedRegion {
        &self.regions[region.0 as usize]
    }

    /// The region of bytes, if there are such.
    #[inline]
    pub fn at(&self, place: Local, bytes: u64) -> Option<&SharedRegion> {
        let region = self.regions.get(place.region.0 as usize)?;
        let end = place.offset.checked_add(bytes)?;
        (end <= region.len() as u64).then_some(region)
    }

    /// Opens a window, of which the others are still to be told.
    pub fn open(&mut self, opening: &Opening) -> Result<Key, OpenError> {
        let &Opening { start, bytes, access, .. } = opening;
        let refuse = OpenError::Local { offset: start.offset, bytes };
        self.at(start, bytes).filter(|_| bytes > 0).ok_or(refuse)?;
        let key = self.keys.draw().map_err(|error| OpenError::Random(error.raw_os_error()))?;
        let too_many = OpenError::TooMany { windows_max: self.limits.windows };
        // Two keys in one page of addresses, which can hardly be, look like too many windows.
        self.windows.enter(key, start, bytes, access).map_err(|_| too_many)?;
        self.openings.push((key, *opening));
        Ok(key)
    }

    /// Closes a window that `peers` may still use and are to be told of; gives whether it was open.
    pub fn close(&mut self, key: Key, peers: &[Peer]) -> bool {
        let Some(at) = self.openings.iter().position(|&(open, _)| open == key) else {
            return false;
        };
        self.openings.swap_remove(at);
        self.closing.push((key, peers.iter().map(|peer| peer.0).collect()));
        self.settle(self.closing.len() - 1);
        true
    }

    /// Notes that an endpoint uses a closed window no more.
    pub fn returned(&mut self, peer: Peer, key: Key) {
        if let Some(at) = self.closing.iter().position(|&(closed, _)| closed == key) {
            self.closing[at].1.remove(&peer.0);
            self.settle(at);
        }
    }

    /// Notes that an endpoint has left, and uses no window any more.
    pub fn left(&mut self, peer: Peer, failure: Failure) {
        self.counters.left += 1;
        self.push(Completion::Left { peer, failure });
        for at in (0..self.closing.len()).rev() {
            self.closing[at].1.remove(&peer.0);
            self.settle(at);
        }
    }

    /// Gives a closed window back that nobody uses.
    fn settle(&mut self, at: usize) {
        if self.closing[at].1.is_empty() {
            let (key, _) = self.closing.swap_remove(at);
            self.windows.remove(key);
            self.push(Completion::WindowReturned { key });
        }
    }

    /// Adds a completion.
    #[inline]
    pub fn push(&mut self, completion: Completion) {
        self.completions.push_back(completion);
    }

    /// Completions that may wait besides those that do.
    #[inline]
    pub fn room(&self) -> usize {
        self.limits.completions.saturating_sub(self.completions.len())
    }

    /// Adds the completions that wait to those of the caller, as far as they find room.
    #[inline]
    pub fn take(&mut self, completions: &mut Vec<Completion>) {
        let room = completions.capacity() - completions.len();
        let count = room.min(self.completions.len());
        completions.extend(self.completions.drain(..count));
    }

    /// Tests the own side of an operation of at most `bytes_max` bytes.
    #[inline]
    pub fn check(&self, place: Local, bytes: u64, bytes_max: u64) -> Result<(), PostError> {
        if bytes > bytes_max {
            return Err(PostError::TooLong { bytes, bytes_max });
        }
        let Local { offset, .. } = place;
        self.at(place, bytes).map(|_| ()).ok_or(PostError::Local { offset, bytes })
    }

    /// The number of the next operation.
    #[inline]
    pub fn request(&mut self) -> Request {
        self.requests += 1;
        Request(self.requests)
    }
}

/// Windows that another endpoint has returned, each when so many of its events were taken.
#[derive(Debug, Default)]
pub(crate) struct Returns(VecDeque<(Key, u64)>);

impl Returns {
    pub fn push(&mut self, key: Key, events: u64) {
        self.0.push_back((key, events));
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The next one of which all events are among the `taken` ones.
    pub fn settled(&mut self, taken: u64) -> Option<Key> {
        self.0.pop_front_if(|&mut (_, events)| taken >= events).map(|(key, _)| key)
    }
}
