//! All hits of the last slices of a module, for the events that are found in them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use gannet_kernels::coincidences::CalibratedHit;

/// The last slices of a module. The receiving thread adds to them, the deciding thread reads them.
#[derive(Debug)]
pub struct Recent {
    slices: Mutex<VecDeque<Slice>>,
    kept: usize,
}

#[derive(Debug)]
struct Slice {
    begin: u64,
    hits: Vec<CalibratedHit>,
}

impl Recent {
    /// Keeps so many slices.
    pub fn new(kept: usize) -> Self {
        Self { slices: Mutex::default(), kept }
    }

    /// Adds the hits of the slice that begins at `begin`, in order of time, in the place of the oldest.
    pub fn add(&self, begin: u64, hits: &[CalibratedHit]) {
        let mut slices = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = if slices.len() < self.kept { None } else { slices.pop_front() };
        drop(slices);
        let mut slice = oldest.unwrap_or(Slice { begin, hits: Vec::with_capacity(hits.len()) });
        slice.begin = begin;
        slice.hits.clear();
        slice.hits.extend_from_slice(hits);
        self.slices.lock().unwrap_or_else(PoisonError::into_inner).push_back(slice);
    }

    /// Gives the hits from `first` to `last`, in ns since 1970, with their times, slice by slice.
    pub fn between(&self, first: u64, last: u64, mut give: impl FnMut(u64, CalibratedHit)) {
        let slices = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        for Slice { begin, hits } in slices.iter() {
            let from = hits.partition_point(|hit| begin + u64::from(hit.time()) < first);
            let times = hits[from..].iter().map(|hit| (begin + u64::from(hit.time()), *hit));
            times.take_while(|(time, _)| *time <= last).for_each(|(time, hit)| give(time, hit));
        }
    }

    /// Gives the hits of the slice that begins at `begin`.
    pub fn slice(&self, begin: u64, give: impl FnMut(CalibratedHit)) {
        let slices = self.slices.lock().unwrap_or_else(PoisonError::into_inner);
        let slice = slices.iter().find(|slice| slice.begin == begin);
        slice.into_iter().flat_map(|slice| slice.hits.iter().copied()).for_each(give);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_slices_are_there_and_no_others() {
        let recent = Recent::new(2);
        for begin in [1000, 2000, 3000] {
            recent.add(begin, &[10, 500, 900].map(|time| CalibratedHit::new(time, 1, 2)));
        }
        let mut found = Vec::new();
        recent.between(0, 3500, |time, _| found.push(time));
        assert_eq!(found, [2010, 2500, 2900, 3010, 3500]);
        let count = |begin| {
            let mut count = 0;
            recent.slice(begin, |_| count += 1);
            count
        };
        assert_eq!([1000, 2000, 3000].map(count), [0, 3, 3]);
    }
}
