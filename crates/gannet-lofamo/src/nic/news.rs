//! What a NIC knows of other nodes by their own word, and what is to become of it.

use gannet_lattice::LINKS;
use gannet_wire::lofamo::{Diagnostic, FaultDescriptorRepr};

use crate::report::Change;
use crate::timing::Timing;

/// Most nodes of which a NIC keeps news at a time.
const NEWS_MAX: usize = 1024;
/// Low bits of a descriptor that are statuses.
const STATUSES: u64 = 0xffff;

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
    /// One bit a link: still to be sent there.
    fresh: u8,
    pub phase: Phase,
    /// Whether it came, or goes on, as news of a node that is not at the other end of the link.
    pub relayed: bool,
    /// Of the origin, to what it says.
    pub change: Change,
    /// While the host has it: when it is to be passed on, and given to the host again.
    pub deadline_ns: u64,
    /// How often the host was interrupted for it.
    tries: u8,
}

impl Entry {
    /// News that came now.
    pub fn new(now_ns: u64, diagnostic: &Diagnostic) -> Self {
        let descriptor = &diagnostic.descriptor;
        Self {
            origin: descriptor.origin,
            statuses: (descriptor.word() & STATUSES) as u16,
            fresh: 0,
            phase: Phase::Pending,
            relayed: diagnostic.relayed,
            change: Change::of(now_ns, descriptor),
            deadline_ns: u64::MAX,
            tries: 0,
        }
    }

    /// The news as it is sent now.
    pub fn diagnostic(&self, now_ns: u64) -> Diagnostic {
        let descriptor = FaultDescriptorRepr {
            epoch: self.change.epoch,
            age_ms: self.change.age_ms(now_ns),
            origin: self.origin,
            ..FaultDescriptorRepr::from_word(self.statuses.into())
        };
        Diagnostic { descriptor, relayed: self.relayed }
    }

    /// Gives the news to the host, which is to confirm them in time: by an interrupt with what is
    /// returned, or else to be found at its next reading.
    pub fn offer(&mut self, now_ns: u64, timing: &Timing, interrupts: bool) -> Option<Diagnostic> {
        if !interrupts {
            self.deadline_ns = now_ns + timing.confirm_polled_ns();
            return None;
        }
        self.deadline_ns = now_ns + timing.repeat_ns(self.tries);
        self.tries = self.tries.saturating_add(1);
        Some(self.diagnostic(now_ns))
    }

    /// Whether the statuses are those of `descriptor`.
    pub fn says(&self, descriptor: &FaultDescriptorRepr) -> bool {
        u64::from(self.statuses) == descriptor.word() & STATUSES
    }

    /// Whether it is still to be sent on this link.
    #[inline]
    pub fn is_fresh(&self, link: usize) -> bool {
        self.fresh >> link & 1 == 1
    }

    /// To be sent on these links, one bit a link; those of them on which it was not already.
    pub fn refresh(&mut self, links: u8) -> u8 {
        let new = links & !self.fresh;
        self.fresh |= new;
        new
    }

    /// Goes out on this link now.
    pub fn sent(&mut self, link: usize) {
        self.fresh &= !(1 << link);
    }
}

/// News of other nodes in the order of their numbers, a bounded number of them.
#[derive(Debug)]
pub(super) struct News {
    entries: Vec<Entry>,
    entries_max: usize,
    /// Number of entries still to be sent, a link.
    fresh: [u16; LINKS],
    /// Next entry to look at, a link.
    cursor: [u16; LINKS],
    /// News that found no room.
    pub dropped: u64,
}

impl Clone for News {
    fn clone(&self) -> Self {
        let mut entries = Vec::with_capacity(self.entries_max);
        entries.extend_from_slice(&self.entries);
        Self { entries, ..*self }
    }

    /// Keeps the memory, for trials that begin from the same state.
    fn clone_from(&mut self, other: &Self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.clone_from(&other.entries);
        *self = Self { entries, ..*other };
    }
}

impl News {
    /// Room for news of `nodes` nodes, if these are not too many.
    pub fn new(nodes: usize) -> Self {
        let entries_max = nodes.min(NEWS_MAX);
        let entries = Vec::with_capacity(entries_max);
        Self { entries, entries_max, fresh: [0; LINKS], cursor: [0; LINKS], dropped: 0 }
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

    /// Whether `diagnostic` says more of its origin than is known.
    pub fn is_new(&self, now_ns: u64, diagnostic: &Diagnostic) -> bool {
        let change = Change::of(now_ns, &diagnostic.descriptor);
        self.of(diagnostic.descriptor.origin).is_none_or(|known| change.is_after(known.change))
    }

    /// Puts an entry that is nowhere to be sent yet in place of the older one of its node. When
    /// there is no room, news that the master has give way; otherwise the entry is dropped, counted
    /// and refused: neighbours repeat theirs.
    pub fn put(&mut self, entry: Entry) -> bool {
        if let Ok(at) = self.place(entry.origin) {
            for (link, count) in self.fresh.iter_mut().enumerate() {
                *count -= u16::from(self.entries[at].is_fresh(link));
            }
            self.entries[at] = entry;
            return true;
        }
        if self.entries.len() == self.entries_max {
            let done = |e: &Entry| e.phase == Phase::Delivered && e.fresh == 0;
            let Some(gone) = self.entries.iter().position(done) else {
                self.dropped += 1;
                return false;
            };
            self.entries.remove(gone);
        }
        let at = self.entries.partition_point(|known| known.origin < entry.origin);
        self.entries.insert(at, entry);
        true
    }

    /// The news of `origin` are to be sent on these links, one bit a link; those of them on which
    /// they were not already.
    pub fn refresh(&mut self, origin: u32, links: u8) -> u8 {
        let Some(entry) = self.of_mut(origin) else { return 0 };
        let new = entry.refresh(links);
        for (link, count) in self.fresh.iter_mut().enumerate() {
            *count += u16::from(new >> link & 1);
        }
        new
    }

    /// Whether something is to be sent on a link.
    #[inline]
    pub fn has_fresh(&self, link: usize) -> bool {
        self.fresh[link] > 0
    }

    /// What is to be sent on a link next.
    pub fn next_fresh(&mut self, link: usize) -> Option<Entry> {
        let next = self.next(link, |entry| entry.is_fresh(link))?;
        next.sent(link);
        let next = *next;
        self.fresh[link] -= 1;
        Some(next)
    }

    /// What was passed on, one after the other: a link may lose some of it.
    pub fn next_passed(&mut self, link: usize) -> Option<Entry> {
        self.next(link, |entry| entry.phase == Phase::Passed).copied()
    }

    fn next(&mut self, link: usize, is_meant: impl Fn(&Entry) -> bool) -> Option<&mut Entry> {
        let first = usize::from(self.cursor[link]).min(self.entries.len());
        let (before, after) = self.entries.split_at(first);
        let found = after.iter().chain(before).position(is_meant)?;
        let index = (first + found) % self.entries.len();
        self.cursor[link] = (index + 1) as u16;
        self.entries.get_mut(index)
    }

    /// Number of nodes of which there are news.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// News by number, in the order of the nodes.
    #[inline]
    pub fn at(&self, index: usize) -> &Entry {
        &self.entries[index]
    }

    /// All news.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(origin: u32) -> Entry {
        let descriptor = FaultDescriptorRepr { origin, ..Default::default() };
        Entry::new(0, &Diagnostic { descriptor, relayed: false })
    }

    #[test]
    fn a_full_table_gives_way_only_where_the_master_knows() {
        let mut news = News::new(2);
        assert!(news.put(entry(0)) && news.put(entry(1)));
        assert!(!news.put(entry(2)) && news.dropped == 1);
        news.of_mut(1).unwrap().phase = Phase::Delivered;
        news.refresh(1, 0b10);
        assert!(!news.put(entry(2)), "it is still to be sent");
        assert_eq!(news.next_fresh(1).map(|it| it.origin), Some(1));
        assert!(news.put(entry(2)));
        assert!(news.of(1).is_none() && news.of(2).is_some() && news.len() == 2);
        let room = News::new(1 << 20);
        assert_eq!((room.entries_max, room.clone().entries_max), (NEWS_MAX, NEWS_MAX));
    }

    #[test]
    fn each_link_sends_all_that_is_fresh_there_once_and_in_turn() {
        let mut news = News::new(8);
        assert!([4, 1, 6].into_iter().all(|origin| news.put(entry(origin))));
        assert_eq!((news.refresh(1, 0b11), news.refresh(6, 0b10), news.refresh(9, 1)), (3, 2, 0));
        assert_eq!(news.refresh(1, 0b110), 0b100, "on two of them it is already");
        let mut sent = |link| news.next_fresh(link).map(|it| it.origin);
        let order = [sent(1), sent(1), sent(1), sent(0), sent(0)];
        assert_eq!(order, [Some(1), Some(6), None, Some(1), None]);
        assert!(news.has_fresh(2) && !news.has_fresh(1));
        assert!(news.put(entry(1)) && !news.has_fresh(2), "newer ones take its place");
        news.of_mut(1).unwrap().phase = Phase::Passed;
        news.of_mut(4).unwrap().phase = Phase::Passed;
        let mut passed = || news.next_passed(0).map(|it| it.origin);
        assert_eq!([passed(), passed(), passed()], [Some(4), Some(1), Some(4)]);
    }
}
