//! Which processors the threads of a measurement run on, and how long they had none.

use std::cmp::Reverse;
use std::fs;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where Linux tells of the processors.
const PROCESSORS: &str = "/sys/devices/system/cpu";
/// Where it tells of the calling thread: time on a processor, time without one, in ns.
const THREAD: &str = "/proc/thread-self/schedstat";

/// The processors that threads can be kept on, in the order in which they get them; none where that
/// is not permitted.
#[derive(Clone, Debug)]
pub(crate) struct Cores(Vec<usize>);

impl Cores {
    /// One processor of each physical core before the others, and the last before the first, which
    /// takes most interrupts.
    pub fn usable() -> Self {
        let allowed = sched_getaffinity(None);
        let allowed = allowed.and_then(|set| sched_setaffinity(None, &set).map(|()| set));
        let allowed = allowed.map(|set| (0..CpuSet::MAX_CPU).filter(move |cpu| set.is_set(*cpu)));
        Self(ordered(allowed.into_iter().flatten().collect(), rank_in_core))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether each of so many threads can have one of its own.
    pub fn has(&self, threads: usize) -> bool {
        threads <= self.count()
    }

    /// The processors of the first two threads.
    pub fn first_two(&self) -> Option<[usize; 2]> {
        self.0.first_chunk().copied()
    }

    /// Keeps the calling thread on the processor of the thread of this number, and gives it; none
    /// if there is none for it.
    pub fn pin(&self, thread: usize) -> Option<usize> {
        let processor = *self.0.get(thread)?;
        let mut set = CpuSet::new();
        set.set(processor);
        sched_setaffinity(None, &set).ok().map(|()| processor)
    }

    /// Lets the calling thread, and processes that it starts, run on any of the processors again.
    pub fn unpin(&self) {
        let mut set = CpuSet::new();
        self.0.iter().for_each(|&processor| set.set(processor));
        // Where it was permitted once it still is, and where not there is nothing to undo.
        let _ = sched_setaffinity(None, &set);
    }
}

/// Time for which the calling thread could have run but had no processor; 0 where Linux does not
/// tell.
pub(crate) fn waited() -> Duration {
    let told = fs::read_to_string(THREAD).ok();
    let waited = told.and_then(|told| told.split_whitespace().nth(1)?.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}

fn ordered(mut processors: Vec<usize>, rank: impl Fn(usize) -> usize) -> Vec<usize> {
    processors.sort_by_cached_key(|&processor| (rank(processor), Reverse(processor)));
    processors
}

/// Number of processors of the same core that come before this one; 0 where Linux does not tell.
fn rank_in_core(processor: usize) -> usize {
    let file = format!("{PROCESSORS}/cpu{processor}/topology/thread_siblings_list");
    fs::read_to_string(file).map_or(0, |list| rank(&list, processor))
}

/// Place of a processor in a list of Linux, as `0,4` or `0-1`.
fn rank(list: &str, processor: usize) -> usize {
    let ranges = list.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    });
    ranges.map(|range| range.filter(|sibling| *sibling < processor).count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_of_each_core_comes_before_the_second_of_any() {
        // Two cores of two processors, numbered as most machines do.
        let rank = |processor| usize::from(processor >= 2);
        assert_eq!(ordered(vec![0, 1, 2, 3], rank), [1, 0, 3, 2]);
    }

    #[test]
    fn lists_of_siblings_are_read() {
        let ranks = |list, processors: [usize; 2]| processors.map(|one| rank(list, one));
        assert_eq!(ranks("0,4\n", [0, 4]), [0, 1]);
        assert_eq!(ranks("2-3\n", [2, 3]), [0, 1]);
        assert_eq!(ranks("", [0, 7]), [0, 0]);
    }

    #[test]
    fn time_without_a_processor_only_grows() {
        let before = waited();
        assert!(waited() >= before);
    }

    #[test]
    fn a_pinned_thread_stays_where_it_was_told_and_others_are_free() {
        let before = sched_getaffinity(None).unwrap();
        let cores = Cores::usable();
        std::thread::spawn(move || {
            let processor = cores.pin(0).unwrap();
            let now = sched_getaffinity(None).unwrap();
            assert!(now.count() == 1 && now.is_set(processor));
            assert_eq!(cores.pin(CpuSet::MAX_CPU), None, "more threads than processors");
            cores.unpin();
            assert_eq!(sched_getaffinity(None).unwrap(), before);
        })
        .join()
        .unwrap();
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
