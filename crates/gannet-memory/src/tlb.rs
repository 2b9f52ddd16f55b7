//! Translation lookaside buffer: the few page translations that a network interface keeps at hand.
//!
//! A PUT names the virtual address of a process on the far node. Walking the table of registered
//! buffers for every packet is slow (1.9 us by the on-chip processor of APEnet+), so the last
//! translations are kept in a small associative memory (124 ns, 128 entries). A [`Tlb`] is that
//! memory; [`RegisteredBuffers`](crate::registration::RegisteredBuffers) is the table behind it.
//!
//! An entry carries which bytes of its page are registered and whether they may be written, so a
//! hit is exactly as strict as a walk.
//!
//! Source: "Virtual-to-Physical Address Translation for an FPGA-based Interconnect with Host and
//! GPU Remote DMA Capabilities", FPT 2013.

use gannet_measure::random::Random;
use thiserror::Error;

/// Most entries of a [`Tlb`]: every lookup compares all of them.
pub const TLB_ENTRIES_MAX: usize = 4096;
/// Bits of a virtual address; the address field of an APElink header has as many.
pub const ADDRESS_BITS: u32 = 48;

/// Bytes that one translation covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageSize {
    /// 4 KiB, ordinary pages of a host.
    KiB4,
    /// 64 KiB, pages of GPU memory.
    KiB64,
    /// 2 MiB, huge pages of a host.
    MiB2,
}

impl PageSize {
    /// Every page size, smallest first.
    pub const ALL: [Self; 3] = [Self::KiB4, Self::KiB64, Self::MiB2];

    /// The page size as a power of two.
    pub const fn bits(self) -> u32 {
        match self {
            Self::KiB4 => 12,
            Self::KiB64 => 16,
            Self::MiB2 => 21,
        }
    }

    /// Bytes of a page.
    pub const fn bytes(self) -> u64 {
        1 << self.bits()
    }

    /// Number of the page that holds `address`.
    #[inline]
    pub const fn page(self, address: u64) -> u64 {
        address >> self.bits()
    }

    /// Place of `address` in its page, in bytes.
    #[inline]
    pub const fn offset(self, address: u64) -> u64 {
        address & (self.bytes() - 1)
    }
}

/// Which entry makes room for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The one not used for longest.
    LeastRecent,
    /// One drawn at random, the same ones for the same seed. Cyclic use of a few more pages than
    /// there are entries keeps part of them, where [`LeastRecent`](Self::LeastRecent) keeps none.
    Random {
        /// Seed of the draws.
        seed: u64,
    },
    /// The one at the page number modulo the entries: no search, but pages can push each other out.
    Direct,
}

/// What is kept of one page: where it lies, and which of its bytes are registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Physical address of the page.
    pub physical: u64,
    /// First registered byte, counted from the start of the page.
    pub first: u32,
    /// First byte after the registered ones, counted from the start of the page.
    pub end: u32,
    /// Whether the bytes may be written.
    pub writable: bool,
}

/// Why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum Refusal {
    /// No buffer of the process is registered at the address.
    #[error("no buffer is registered at this address; register it before it is used")]
    Unknown,
    /// The access starts before the buffer or ends after it.
    #[error("the access leaves its buffer; check address and length against the registration")]
    OutOfRange,
    /// The buffer may only be read.
    #[error("the buffer is registered for reading only")]
    ReadOnly,
}

impl Mapping {
    /// Physical address of `length` bytes from `offset` in the page.
    ///
    /// # Errors
    /// When some of the bytes are not registered, or `write` is asked of a read-only page.
    #[inline]
    pub fn resolve(&self, offset: u64, length: u64, write: bool) -> Result<u64, Refusal> {
        if offset < u64::from(self.first) || offset + length > u64::from(self.end) {
            return Err(Refusal::OutOfRange);
        }
        if write && !self.writable {
            return Err(Refusal::ReadOnly);
        }
        Ok(self.physical + offset)
    }
}

/// A translation lookaside buffer. Nothing is allocated after construction.
#[derive(Clone, Debug)]
pub struct Tlb {
    keys: Box<[u64]>,
    mappings: Box<[Mapping]>,
    /// When each entry was last used, in lookups.
    used: Box<[u64]>,
    replacement: Replacement,
    random: Random,
    lookups: u64,
    hits: u64,
}

/// Marks an entry that holds nothing: no page number fills the bits below the process.
const EMPTY: u64 = u64::MAX;

/// Process and page in one word, so that a lookup compares one number per entry.
fn key(process: u16, page: u64) -> u64 {
    debug_assert!(page < 1 << (ADDRESS_BITS - PageSize::KiB4.bits()));
    u64::from(process) << ADDRESS_BITS | page
}

impl Tlb {
    /// An empty cache; with 0 entries every lookup misses.
    ///
    /// # Panics
    /// When `entries` exceeds [`TLB_ENTRIES_MAX`].
    pub fn new(entries: usize, replacement: Replacement) -> Self {
        assert!(entries <= TLB_ENTRIES_MAX, "at most {TLB_ENTRIES_MAX} entries can be kept");
        let seed = if let Replacement::Random { seed } = replacement { seed } else { 0 };
        Self {
            keys: vec![EMPTY; entries].into(),
            mappings: vec![Mapping::default(); entries].into(),
            used: vec![0; entries].into(),
            replacement,
            random: Random::new(seed),
            lookups: 0,
            hits: 0,
        }
    }

    /// The translation of `page` of `process`, if it is kept.
    #[inline]
    pub fn lookup(&mut self, process: u16, page: u64) -> Option<Mapping> {
        self.lookups += 1;
        let index = self.find(key(process, page))?;
        self.hits += 1;
        self.used[index] = self.lookups;
        Some(self.mappings[index])
    }

    /// Keeps a translation, in place of another one if all entries are taken.
    pub fn fill(&mut self, process: u16, page: u64, mapping: Mapping) {
        if self.keys.is_empty() {
            return;
        }
        let key = key(process, page);
        let index = self.find(key).unwrap_or_else(|| self.victim(process, page));
        self.keys[index] = key;
        self.mappings[index] = mapping;
        self.used[index] = self.lookups;
    }

    /// Forgets the translations of `pages` of `process`, as their buffer is deregistered.
    pub fn invalidate(&mut self, process: u16, pages: std::ops::Range<u64>) {
        if pages.is_empty() {
            return;
        }
        let keys = key(process, pages.start)..=key(process, pages.end - 1);
        self.keys.iter_mut().filter(|key| keys.contains(key)).for_each(|key| *key = EMPTY);
    }

    /// Number of entries.
    pub fn entries(&self) -> usize {
        self.keys.len()
    }

    /// Lookups that found their page.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Lookups that did not.
    pub fn misses(&self) -> u64 {
        self.lookups - self.hits
    }

    #[inline]
    fn find(&self, key: u64) -> Option<usize> {
        match self.replacement {
            Replacement::Direct if self.keys.is_empty() => None,
            Replacement::Direct => {
                let index = self.direct(key);
                (self.keys[index] == key).then_some(index)
            }
            _ => self.keys.iter().position(|&kept| kept == key),
        }
    }

    fn direct(&self, key: u64) -> usize {
        // Processes begin at different entries, since all of them like the same low addresses.
        let process = key >> ADDRESS_BITS;
        let page = key & ((1 << ADDRESS_BITS) - 1);
        ((page + process) % self.keys.len() as u64) as usize
    }

    fn victim(&mut self, process: u16, page: u64) -> usize {
        if self.replacement == Replacement::Direct {
            return self.direct(key(process, page));
        }
        if let Some(empty) = self.keys.iter().position(|&kept| kept == EMPTY) {
            return empty;
        }
        match self.replacement {
            Replacement::Random { .. } => self.random.below(self.keys.len() as u64) as usize,
            _ => (0..self.used.len()).min_by_key(|&index| self.used[index]).unwrap_or(0),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a cache should hold, kept as lists in the plainest way.
    struct Naive {
        entries: usize,
        replacement: Replacement,
        /// Most recently used last.
        kept: Vec<(u16, u64, Mapping)>,
    }

    impl Naive {
        fn lookup(&mut self, process: u16, page: u64) -> Option<Mapping> {
            let at = self.kept.iter().position(|entry| (entry.0, entry.1) == (process, page))?;
            let entry = self.kept.remove(at);
            self.kept.push(entry);
            Some(entry.2)
        }

        fn fill(&mut self, process: u16, page: u64, mapping: Mapping) {
            let place = |process: u16, page: u64| (page + u64::from(process)) % self.entries as u64;
            match self.replacement {
                Replacement::Direct => {
                    let new = place(process, page);
                    self.kept.retain(|entry| place(entry.0, entry.1) != new);
                }
                _ => {
                    self.kept.retain(|entry| (entry.0, entry.1) != (process, page));
                    let over = (self.kept.len() + 1).saturating_sub(self.entries);
                    self.kept.drain(..over);
                }
            }
            self.kept.push((process, page, mapping));
        }
    }

    fn mapping(physical: u64) -> Mapping {
        Mapping { physical, first: 0, end: 4096, writable: true }
    }

    proptest! {
        #[test]
        fn least_recent_and_direct_agree_with_lists(
            entries in 1usize..20,
            direct: bool,
            steps in proptest::collection::vec((0u8..8, 0u16..3, 0u64..30), 1..300),
        ) {
            let replacement =
                if direct { Replacement::Direct } else { Replacement::LeastRecent };
            let mut tlb = Tlb::new(entries, replacement);
            let mut naive = Naive { entries, replacement, kept: Vec::new() };
            let mut hits = 0;
            for (number, &(step, process, page)) in steps.iter().enumerate() {
                if step == 0 {
                    tlb.invalidate(process, page..page + 5);
                    naive.kept.retain(|e| e.0 != process || !(page..page + 5).contains(&e.1));
                    continue;
                }
                let found = tlb.lookup(process, page);
                prop_assert_eq!(found, naive.lookup(process, page));
                hits += u64::from(found.is_some());
                if found.is_none() {
                    tlb.fill(process, page, mapping(number as u64));
                    naive.fill(process, page, mapping(number as u64));
                }
            }
            prop_assert_eq!(tlb.hits(), hits);
        }

        #[test]
        fn random_replacement_never_gives_a_translation_that_was_not_the_last(
            seed: u64,
            entries in 1usize..20,
            steps in proptest::collection::vec((0u16..2, 0u64..30), 1..300),
        ) {
            let mut tlb = Tlb::new(entries, Replacement::Random { seed });
            let mut last = std::collections::HashMap::new();
            for (number, &(process, page)) in steps.iter().enumerate() {
                match tlb.lookup(process, page) {
                    Some(found) => prop_assert_eq!(found, last[&(process, page)]),
                    None => {
                        tlb.fill(process, page, mapping(number as u64));
                        last.insert((process, page), mapping(number as u64));
                        prop_assert!(tlb.lookup(process, page).is_some());
                    }
                }
            }
        }
    }

    /// Fraction of hits of `rounds` rounds over `pages` pages, after one round to fill.
    fn cyclic_hits(replacement: Replacement, pages: u64, rounds: u64) -> f64 {
        let mut tlb = Tlb::new(128, replacement);
        let mut hits = 0;
        for round in 0..=rounds {
            for page in 0..pages {
                let found = tlb.lookup(0, page).is_some();
                hits += u64::from(found && round > 0);
                if !found {
                    tlb.fill(0, page, mapping(page));
                }
            }
        }
        hits as f64 / (rounds * pages) as f64
    }

    #[test]
    fn cyclic_use_of_more_pages_than_entries_needs_random_replacement() {
        assert_eq!(cyclic_hits(Replacement::LeastRecent, 128, 10), 1.0);
        assert_eq!(cyclic_hits(Replacement::LeastRecent, 129, 10), 0.0);
        let random = Replacement::Random { seed: 5 };
        assert_eq!(cyclic_hits(random, 128, 10), 1.0);
        // A page survives (1 - h) N draws, each of which spares it with 127 of 128.
        for pages in [144, 160, 256] {
            let mut expected = 0.0_f64;
            for _ in 0..200 {
                expected = (127.0_f64 / 128.0).powf((1.0 - expected) * pages as f64);
            }
            let hits = cyclic_hits(random, pages, 400);
            assert!((hits - expected).abs() < 0.03, "{pages} pages: {hits}, not {expected}");
        }
    }

    #[test]
    fn without_entries_every_lookup_misses() {
        for replacement in [Replacement::LeastRecent, Replacement::Direct] {
            let mut tlb = Tlb::new(0, replacement);
            tlb.fill(1, 2, mapping(3));
            assert_eq!(tlb.lookup(1, 2), None);
            assert_eq!((tlb.hits(), tlb.misses(), tlb.entries()), (0, 1, 0));
        }
    }

    #[test]
    fn a_mapping_gives_only_its_registered_bytes() {
        let mapping = Mapping { physical: 0x8000, first: 100, end: 200, writable: false };
        assert_eq!(mapping.resolve(100, 100, false), Ok(0x8064));
        assert_eq!(mapping.resolve(99, 2, false), Err(Refusal::OutOfRange));
        assert_eq!(mapping.resolve(150, 51, false), Err(Refusal::OutOfRange));
        assert_eq!(mapping.resolve(150, 5, true), Err(Refusal::ReadOnly));
    }
}
