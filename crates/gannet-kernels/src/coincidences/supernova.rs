//! How many photomultipliers of a module saw light at a time, which a supernova makes more frequent.

use super::CalibratedHit;
use super::near::near_next;

/// Hits of a module that begin within a window, in which no earlier coincidence has a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coincidence {
    /// Time of its first hit from the begin of the slice, ns.
    pub time: u32,
    /// Photomultipliers that have a hit in it.
    pub multiplicity: u32,
    /// Hits in it.
    pub hits: u32,
}

/// Appends the coincidences of `least` photomultipliers or more, 2 at least, in order of time.
///
/// `hits` are in order of time. A coincidence begins with the first hit that is in none, and has
/// all hits at most `window_ns` after it.
pub fn coincidences(
    hits: &[CalibratedHit],
    window_ns: u32,
    least: u32,
    found: &mut Vec<Coincidence>,
) {
    let mut start = 0;
    while start + 1 < hits.len() {
        start = near_next(hits, start, window_ns);
        let first = hits[start];
        let inside = hits[start..].iter().take_while(|hit| hit.time() - first.time() <= window_ns);
        let (lit, count) = inside
            .fold((0_u32, 0), |(lit, count), hit| (lit | 1 << (hit.channel() % 32), count + 1));
        let multiplicity = lit.count_ones();
        if multiplicity >= least.max(2) {
            found.push(Coincidence { time: first.time(), multiplicity, hits: count });
        }
        start += count as usize;
    }
}
