//! What a NIC knows of nodes by their own word, and what is to become of it.

use gannet_wire::lofamo::{Diagnostic, FaultDescriptorRepr};

use super::is_after;

/// Most nodes of which a NIC keeps news at a time.
pub const NEWS_MAX: usize = 1024;
/// Low bits of a descriptor that are statuses.
const STATUSES: u64 = 0xffff;
const MS_NS: u64 = 1_000_000;

/// What is to become of news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The host has it, or will find it; it must confirm until its deadline.
    Pending,
    /// Passed on over the links, because the host cannot bring it to the master.
    Passed,
    /// The master has it.
    Delivered,
}

/// The newest that is known of one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub origin: u32,
    statuses: u16,
    pub epoch: u8,
    /// One bit a link: still to be sent there.
    pub fresh: u8,
    pub phase: Phase,
    /// Whether it came, or goes on, as news of a node that is not at the other end of the link.
    pub relayed: bool,
    /// When the origin changed, by our clock.
    pub changed_ns: u64,
    /// While pending: when it is to be passed on.
    pub deadline_ns: u64,
}

impl Entry {
    /// News that came now.
    pub fn new(now_ns: u64, diagnostic: &Diagnostic) -> Self {
        let descriptor = &diagnostic.descriptor;
        Self {
            origin: descriptor.origin,
            statuses: (descriptor.word() & STATUSES) as u16,
            epoch: descriptor.epoch,
            fresh: 0,
            phase: Phase::Pending,
            relayed: diagnostic.relayed,
            changed_ns: now_ns.saturating_sub(u64::from(descriptor.age_ms) * MS_NS),
            deadline_ns: u64::MAX,
        }
    }

    /// The news as it is sent now.
    pub fn diagnostic(&self, now_ns: u64) -> Diagnostic {
        let age_ms = now_ns.saturating_sub(self.changed_ns) / MS_NS;
        let descriptor = FaultDescriptorRepr {
            epoch: self.epoch,
            age_ms: age_ms.min(u64::from(u16::MAX)) as u16,
            origin: self.origin,
            ..FaultDescriptorRepr::from_word(self.statuses.into())
        };
        Diagnostic { descriptor, relayed: self.relayed }
    }

    /// Whether the statuses are those of `descriptor`.
    pub fn says(&self, descriptor: &FaultDescriptorRepr) -> bool {
        u64::from(self.statuses) == descriptor.word() & STATUSES
    }
}

/// News in the order of the nodes, at most [`NEWS_MAX`].
#[derive(Debug)]
pub(super) struct News {
    entries: Vec<Entry>,
    /// News that found no room.
    pub dropped: u64,
}

impl Clone for News {
    fn clone(&self) -> Self {
        let mut entries = Vec::with_capacity(self.entries.capacity());
        entries.extend_from_slice(&self.entries);
        Self { entries, dropped: self.dropped }
    }

    /// Keeps the memory, for trials that begin from the same state.
    fn clone_from(&mut self, other: &Self) {
        self.entries.clone_from(&other.entries);
        self.dropped = other.dropped;
    }
}

impl News {
    /// Room for news of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        Self { entries: Vec::with_capacity(nodes.min(NEWS_MAX)), dropped: 0 }
    }

    #[inline]
    fn place(&self, origin: u32) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&origin, |entry| entry.origin)
    }

    /// The news of a node.
    #[inline]
    pub fn of(&self, origin: u32) -> Option<&Entry> {
        self.place(origin).ok().map(|at| &self.entries[at])
    }

    /// The news of a node, to be changed.
    #[inline]
    pub fn of_mut(&mut self, origin: u32) -> Option<&mut Entry> {
        self.place(origin).ok().map(|at| &mut self.entries[at])
    }

    /// Whether `diagnostic` says more of its origin than is known: a later epoch, or a change so
    /// much later that the origin must have begun its count anew.
    pub fn is_new(&self, now_ns: u64, diagnostic: &Diagnostic) -> bool {
        const RESTART_NS: u64 = 1_000_000_000;
        self.of(diagnostic.descriptor.origin).is_none_or(|known| {
            let epoch = diagnostic.descriptor.epoch;
            let changed_ns = Entry::new(now_ns, diagnostic).changed_ns;
            let is_younger = changed_ns > known.changed_ns + RESTART_NS;
            is_after(epoch, known.epoch) || epoch != known.epoch && is_younger
        })
    }

    /// Puts an entry in place of the older one of its node. When there is no room, news that the
    /// master has give way; otherwise the entry is dropped, counted and refused: neighbours repeat
    /// theirs.
    pub fn put(&mut self, entry: Entry) -> bool {
        match self.place(entry.origin) {
            Ok(at) => self.entries[at] = entry,
            Err(at) if self.entries.len() < self.entries.capacity() => {
                self.entries.insert(at, entry);
            }
            Err(_) => {
                let done = |e: &Entry| e.phase == Phase::Delivered && e.fresh == 0;
                let Some(gone) = self.entries.iter().position(done) else {
                    self.dropped += 1;
                    return false;
                };
                self.entries.remove(gone);
                return self.put(entry);
            }
        }
        true
    }

    /// Number of nodes of which there are news.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// News by number, in the order of the nodes.
    #[inline]
    pub fn at_mut(&mut self, index: usize) -> &mut Entry {
        &mut self.entries[index]
    }

    /// All news.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn news_of(origin: u32, epoch: u8, age_ms: u16) -> Diagnostic {
        let descriptor = FaultDescriptorRepr { origin, epoch, age_ms, ..Default::default() };
        Diagnostic { descriptor, relayed: false }
    }

    #[test]
    fn old_news_are_told_from_new_ones_also_after_a_restart() {
        let mut news = News::new(4);
        let now_ns = 100_000 * MS_NS;
        assert!(news.is_new(now_ns, &news_of(3, 250, 0)));
        assert!(news.put(Entry::new(now_ns, &news_of(3, 250, 0))));
        assert!(!news.is_new(now_ns, &news_of(3, 250, 0)));
        assert!(!news.is_new(now_ns, &news_of(3, 249, 5)));
        assert!(news.is_new(now_ns, &news_of(3, 3, 0)), "the count wraps");
        let later_ns = now_ns + 5000 * MS_NS;
        assert!(!news.is_new(later_ns, &news_of(3, 200, 4990)), "old, and long on its way");
        assert!(news.is_new(later_ns, &news_of(3, 200, 100)), "begun anew");
    }

    #[test]
    fn a_full_table_gives_way_only_where_the_master_knows() {
        let mut news = News::new(2);
        assert!((0..2).all(|origin| news.put(Entry::new(0, &news_of(origin, 0, 0)))));
        let capacity = news.entries.capacity() as u32;
        assert!((2..capacity).all(|origin| news.put(Entry::new(0, &news_of(origin, 0, 0)))));
        assert!(!news.put(Entry::new(0, &news_of(capacity, 0, 0))) && news.dropped == 1);
        news.of_mut(1).unwrap().phase = Phase::Delivered;
        assert!(news.put(Entry::new(0, &news_of(capacity, 0, 0))));
        assert!(news.of(1).is_none() && news.of(capacity).is_some());
    }

    #[test]
    fn the_age_grows_on_the_way() {
        let entry = Entry::new(50 * MS_NS, &news_of(1, 2, 30));
        assert_eq!(entry.diagnostic(70 * MS_NS).descriptor.age_ms, 50);
        assert_eq!(entry.diagnostic(u64::MAX).descriptor.age_ms, u16::MAX);
    }
}
