//! What it costs to find where a registered page lies: in a TLB, and in the table behind it.
//!
//! Look-ups are of pages drawn at random out of a working set; a miss of the TLB walks the table and keeps what
//! it finds, as the engine does for each packet. Beside them stands a load out of an array with an entry for
//! each page, which no look-up can beat.

use std::hint::black_box;
use std::time::{Duration, Instant};

use gannet_measure::random::Random;
use gannet_memory::{
    Mapping, PageSize, RegisterError, RegisteredBuffers, Registration, Replacement, Tlb,
};
use serde::{Deserialize, Serialize};

use crate::cores::Cores;

/// Page size of the buffers.
const PAGE: PageSize = PageSize::MiB2;
/// Process that owns them, and the page at which they begin.
const PROCESS: u16 = 1;
const FIRST_PAGE: u64 = 1 << 16;
/// Look-ups between two looks at the clock.
const BATCH: usize = 4096;
/// Passes of each way, in turn.
const PASSES: usize = 7;
/// Most entries of a TLB.
pub use gannet_memory::tlb::TLB_ENTRIES_MAX as ENTRIES_MAX;
/// Most pages of a working set.
pub const PAGES_MAX: u64 = 1 << 16;

/// How a page is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// In the table of registered buffers, each time.
    Walk,
    /// In a TLB that gives up the entry not used for longest.
    LeastRecent,
    /// In one that gives up any.
    Random,
    /// In one with a single place for each page.
    Direct,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Walk, Self::LeastRecent, Self::Random, Self::Direct];

    /// An empty TLB; one without entries to walk each time.
    fn tlb(self, entries: usize) -> Tlb {
        match self {
            Self::Walk => Tlb::new(0, Replacement::LeastRecent),
            Self::LeastRecent => Tlb::new(entries, Replacement::LeastRecent),
            Self::Random => Tlb::new(entries, Replacement::Random { seed: 1 }),
            Self::Direct => Tlb::new(entries, Replacement::Direct),
        }
    }
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct TranslationPlan {
    /// Entries of the TLB.
    pub entries: usize,
    /// Pages of a buffer.
    pub buffer_pages: u64,
    /// Pages of each working set, at most [`PAGES_MAX`].
    pub pages: Vec<u64>,
    /// Length of a pass.
    pub time: Duration,
}

/// Look-ups in one working set.
#[derive(Clone, Debug, Serialize)]
pub struct TranslationRow {
    /// How a page was found.
    pub way: Way,
    /// Entries of the TLB, 0 without one.
    pub entries: usize,
    /// Pages of the working set.
    pub pages: u64,
    /// Buffers that they are of.
    pub buffers: u64,
    /// Part of the look-ups that the TLB answered.
    pub hits: f64,
    /// A look-up, in ns: the median of the passes.
    pub ns: f64,
    /// A load out of an array by the number of the page, in ns.
    pub limit_ns: f64,
    /// The look-up by this load.
    pub ratio: f64,
}

/// Measures on one core, all ways in turn.
///
/// # Errors
/// When the table does not take the buffers.
///
/// # Panics
/// When a working set or a buffer has no pages, or there are more pages or entries than there can be.
pub fn measure(plan: &TranslationPlan) -> Result<Vec<TranslationRow>, RegisterError> {
    Cores::usable().pin(0);
    let mut rows = Vec::new();
    for &pages in &plan.pages {
        assert!((1..=PAGES_MAX).contains(&pages), "{pages} pages");
        let (table, buffers) = table(pages, plan.buffer_pages)?;
        let order = order(pages);
        let mut loads = Vec::new();
        let mut looks = Way::ALL.map(|_| (Vec::new(), 0.0));
        for _ in 0..PASSES {
            loads.push(load_ns(pages, &order, plan.time));
            for (way, (times, hits)) in Way::ALL.into_iter().zip(&mut looks) {
                let mut tlb = way.tlb(plan.entries);
                // Until the TLB is as full as it will be.
                look_up(&mut tlb, &table, &order);
                let (met, missed) = (tlb.hits(), tlb.misses());
                times.push(batch_ns(plan.time, || look_up(&mut tlb, &table, &order)));
                let (met, missed) = (tlb.hits() - met, tlb.misses() - missed);
                *hits = met as f64 / (met + missed) as f64;
            }
        }
        let limit_ns = median(&mut loads);
        for (way, (mut times, hits)) in Way::ALL.into_iter().zip(looks) {
            let ns = median(&mut times);
            let entries = way.tlb(plan.entries).entries();
            let ratio = ns / limit_ns;
            rows.push(TranslationRow { way, entries, pages, buffers, hits, ns, limit_ns, ratio });
        }
    }
    Ok(rows)
}

/// The table with so many pages, in buffers of `each` pages, and how many buffers these are.
fn table(pages: u64, each: u64) -> Result<(RegisteredBuffers, u64), RegisterError> {
    let buffers = pages.div_ceil(each);
    let mut table = RegisteredBuffers::new(PAGE, buffers as usize, pages as usize);
    for first in (0..pages).step_by(each as usize) {
        let numbers = first..pages.min(first + each);
        let physical: Vec<u64> = numbers.map(|page| page * PAGE.bytes()).collect();
        table.register(&Registration {
            process: PROCESS,
            start: (FIRST_PAGE + first) * PAGE.bytes(),
            length: physical.len() as u64 * PAGE.bytes(),
            writable: true,
            pages: &physical,
        })?;
    }
    Ok((table, buffers))
}

/// Pages in the order in which they are looked up.
fn order(pages: u64) -> Vec<u64> {
    let mut random = Random::new(14);
    (0..BATCH).map(|_| random.below(pages)).collect()
}

/// Looks each page up, as the engine does.
fn look_up(tlb: &mut Tlb, table: &RegisteredBuffers, order: &[u64]) -> u64 {
    let look = |sum: u64, place: &u64| {
        let page = FIRST_PAGE + place;
        let mapping = tlb.lookup(PROCESS, page).or_else(|| {
            let mapping = table.walk(PROCESS, page).ok()?;
            tlb.fill(PROCESS, page, mapping);
            Some(mapping)
        });
        sum.wrapping_add(mapping.map_or(0, |mapping| mapping.physical))
    };
    order.iter().fold(0, look)
}

fn load_ns(pages: u64, order: &[u64], time: Duration) -> f64 {
    let array: Vec<Mapping> =
        (0..pages).map(|page| Mapping { physical: page, ..Mapping::default() }).collect();
    let load = |sum: u64, place: &u64| sum.wrapping_add(array[*place as usize].physical);
    batch_ns(time, || order.iter().fold(0, load))
}

/// Nanoseconds of one of the look-ups of a batch.
fn batch_ns(time: Duration, mut batch: impl FnMut() -> u64) -> f64 {
    let (begin, mut batches) = (Instant::now(), 0u64);
    loop {
        black_box(batch());
        batches += 1;
        let elapsed = begin.elapsed();
        if elapsed >= time {
            return elapsed.as_nanos() as f64 / (batches as usize * BATCH) as f64;
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tlb_answers_for_as_many_pages_as_it_has_entries() {
        let plan = TranslationPlan {
            entries: 64,
            buffer_pages: 10,
            pages: vec![48, 640],
            time: Duration::ZERO,
        };
        let rows = measure(&plan).unwrap();
        assert_eq!(rows.len(), 2 * Way::ALL.len());
        for row in &rows {
            let expected = match (row.way, row.pages) {
                (Way::Walk, _) => 0.0..=0.0,
                (_, 48) => 1.0..=1.0,
                // A tenth of the pages is kept.
                _ => 0.07..=0.13,
            };
            assert!(expected.contains(&row.hits), "{row:?}");
            assert!(row.ns > 0.0 && row.limit_ns > 0.0, "{row:?}");
            assert_eq!(row.ratio, row.ns / row.limit_ns);
        }
        assert_eq!((rows[0].buffers, rows[4].buffers), (5, 64));
    }

    #[test]
    fn every_page_is_found_where_it_lies() {
        let (table, buffers) = table(25, 10).unwrap();
        assert_eq!(buffers, 3);
        let order: Vec<u64> = (0..25).collect();
        let expected: u64 = order.iter().map(|page| page * PAGE.bytes()).sum();
        for way in Way::ALL {
            let mut tlb = way.tlb(8);
            assert_eq!(look_up(&mut tlb, &table, &order), expected, "{way:?}");
            assert_eq!(look_up(&mut tlb, &table, &order), expected, "{way:?}, kept");
        }
    }
}
