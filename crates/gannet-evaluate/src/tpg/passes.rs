//! Passes of all searches and of reading in turn.

use std::ops::Range;
use std::time::Duration;

use gannet_kernels::tpg::Ahead;

use super::workers::{Work, Workers};
use super::{Error, Way};

/// Passes of each kind that the time of a measurement is divided among.
const PASSES: usize = 9;
/// Fewest passes of each kind, however long they take.
const PASSES_MIN: usize = 3;
/// Passes in each way to read, to find the fastest.
const TRIALS: usize = 3;
/// Most rounds over the frames in a pass.
const ROUNDS_MAX: f64 = 1e6;
/// Least part of a pass for which its threads had a core. Passes with less tell of other programs,
/// and are left out while at least half of them remain.
const RUNNING_MIN: f64 = 0.98;

/// What the passes at a point came to.
#[derive(Debug)]
pub(super) struct Passes {
    /// Those of each search.
    pub searches: Vec<SearchPasses>,
    /// Those of reading.
    pub read: Rates,
}

/// What the passes of one search came to.
#[derive(Debug, Default)]
pub(super) struct SearchPasses {
    /// Rounds over all frames in a pass.
    pub rounds: u32,
    /// Primitives of each pass of all threads.
    pub tps: u64,
    /// Of all threads.
    pub all: Rates,
    /// Of the first thread alone, if there are others.
    pub alone: Rates,
}

/// Rates of the passes of a kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates(Vec<Rate>);

#[derive(Clone, Copy, Debug)]
struct Rate {
    gbit_per_s: f64,
    /// Part of the time for which the threads had a core.
    running: f64,
}

/// What the rates of a kind come to, without the passes that are left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
    /// Passes that count.
    pub passes: usize,
    /// Passes that are left out.
    pub left_out: usize,
    /// Part of the time of those that count for which the threads had a core.
    pub running: f64,
}

impl Rates {
    fn take(&mut self, gbit_per_s: f64, running: f64) {
        self.0.push(Rate { gbit_per_s, running });
    }

    /// Median and extremes.
    pub fn spread(&self) -> Spread {
        let mut kept: Vec<Rate> = self.0.clone();
        kept.retain(|rate| rate.running >= RUNNING_MIN);
        if 2 * kept.len() < self.0.len() {
            kept.clone_from(&self.0);
        }
        let rates: Vec<f64> = kept.iter().map(|rate| rate.gbit_per_s).collect();
        let running: f64 = kept.iter().map(|rate| rate.running).sum();
        Spread {
            median: median(&rates),
            lowest: rates.iter().copied().fold(f64::INFINITY, f64::min),
            highest: rates.iter().copied().fold(0.0, f64::max),
            passes: kept.len(),
            left_out: self.0.len() - kept.len(),
            running: running / kept.len() as f64,
        }
    }
}

/// Rounds of a pass, and passes.
#[derive(Clone, Copy, Debug)]
struct Share {
    rounds: u32,
    passes: usize,
}

impl Share {
    /// Whether a pass is due in this turn of so many: those that are fewer are spread over all.
    fn is_due(self, turn: usize, turns: usize) -> bool {
        (turn + 1) * self.passes / turns > turn * self.passes / turns
    }
}

impl Passes {
    /// Makes passes of reading and of each of `searches` searches in turn, for about `time` times
    /// their number.
    pub fn make(
        workers: &Workers,
        searches: usize,
        way: Way,
        time: Duration,
    ) -> Result<Self, Error> {
        let several = workers.all().len() > 1;
        let time = time / if several { 3 } else { 2 };
        let read = share(workers, Work::Read(way), time)?;
        let search = |search| share(workers, Work::Find(search), time);
        let shares = (0..searches).map(search).collect::<Result<Vec<_>, _>>()?;
        let turns = shares.iter().map(|share| share.passes).fold(PASSES_MIN, usize::max);
        let begin = |share: &Share| SearchPasses { rounds: share.rounds, ..Default::default() };
        let mut passes: Vec<_> = shares.iter().map(begin).collect();
        let mut reading = Rates::default();
        for turn in 0..turns {
            for (number, (passes, share)) in passes.iter_mut().zip(&shares).enumerate() {
                if !share.is_due(turn, turns) {
                    continue;
                }
                passes.search(workers, number, workers.all())?;
                if several {
                    passes.search(workers, number, 0..1)?;
                }
            }
            let pass = workers.pass(workers.all(), Work::Read(way), read.rounds)?;
            reading.take(pass.gbit_per_s, pass.running);
        }
        Ok(Self { searches: passes, read: reading })
    }
}

impl SearchPasses {
    /// Makes a pass with some threads, and tests that all find what they found before.
    fn search(
        &mut self,
        workers: &Workers,
        number: usize,
        threads: Range<usize>,
    ) -> Result<(), Error> {
        let is_all = threads == workers.all();
        let pass = workers.pass(threads, Work::Find(number), self.rounds)?;
        if !is_all {
            self.alone.take(pass.gbit_per_s, pass.running);
            return Ok(());
        }
        if !self.all.0.is_empty() && pass.tps != self.tps {
            return Err(Error::Uneven { first: self.tps, second: pass.tps });
        }
        self.tps = pass.tps;
        self.all.take(pass.gbit_per_s, pass.running);
        Ok(())
    }
}

/// Rounds and passes that take about `time` together.
fn share(workers: &Workers, work: Work, time: Duration) -> Result<Share, Error> {
    // The first round brings the frames into the caches that can hold them.
    workers.pass(workers.all(), work, 1)?;
    let round = workers.pass(workers.all(), work, 1)?.slowest.max(Duration::from_nanos(1));
    let fit = time.as_secs_f64() / round.as_secs_f64();
    let rounds = (fit / PASSES as f64).clamp(1.0, ROUNDS_MAX) as u32;
    let passes = (fit / f64::from(rounds)) as usize;
    Ok(Share { rounds, passes: passes.clamp(PASSES_MIN, PASSES) })
}

/// The way in which all threads together read fastest.
pub(super) fn fastest_way(workers: &Workers, time: Duration) -> Result<Way, Error> {
    let time = time / Way::ALL.len() as u32;
    let Share { rounds, .. } = share(workers, Work::Read(Way::Plain), time)?;
    let mut rates = [const { Vec::new() }; Way::ALL.len()];
    for _ in 0..TRIALS {
        for (way, rates) in Way::ALL.into_iter().zip(&mut rates) {
            rates.push(workers.pass(workers.all(), Work::Read(way), rounds)?.gbit_per_s);
        }
    }
    let medians = Way::ALL.into_iter().zip(rates.iter().map(|rates| median(rates)));
    let fastest = medians.max_by(|a, b| a.1.total_cmp(&b.1));
    Ok(fastest.map_or(Way::Plain, |(way, _)| way))
}

/// What may suit a processor better than the first.
const DISTANCES: [Ahead; 4] = [
    Ahead::MEMORY,
    Ahead { near: 1536, far: 8192 },
    Ahead { near: 4096, far: 8192 },
    Ahead { near: 4096, far: 16384 },
];
/// Passes with each of them.
const FETCH_TRIALS: usize = 5;

/// Lets all searches fetch as far ahead as suits that of number `vector`, and gives the distances;
/// without such a search the first.
pub(super) fn fetch_fastest(
    workers: &Workers,
    vector: Option<usize>,
    time: Duration,
) -> Result<Ahead, Error> {
    let Some(search) = vector.map(Work::Find) else { return Ok(DISTANCES[0]) };
    let Share { rounds, .. } = share(workers, search, time / DISTANCES.len() as u32)?;
    let mut rates = [const { Rates(Vec::new()) }; DISTANCES.len()];
    for _ in 0..FETCH_TRIALS {
        for (ahead, rates) in DISTANCES.into_iter().zip(&mut rates) {
            workers.pass(workers.all(), Work::Fetch(ahead), 1)?;
            let pass = workers.pass(workers.all(), search, rounds)?;
            rates.take(pass.gbit_per_s, pass.running);
        }
    }
    let ahead = DISTANCES[clearly_fastest(&rates.map(|rates| rates.spread()))];
    workers.pass(workers.all(), Work::Fetch(ahead), 1)?;
    Ok(ahead)
}

/// The fastest of those that are faster in each pass than the first in any; else the first.
fn clearly_fastest(spreads: &[Spread]) -> usize {
    let faster = (1..spreads.len()).filter(|&one| spreads[one].lowest > spreads[0].highest);
    faster.max_by(|&a, &b| spreads[a].median.total_cmp(&spreads[b].median)).unwrap_or(0)
}

/// The middle value, or the lower of the two in the middle; 0 of none.
fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_a_value_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.0);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn other_distances_are_taken_only_where_every_pass_is_faster() {
        let spreads = |passes: [[f64; 3]; 3]| {
            passes.map(|passes| {
                let mut rates = Rates::default();
                passes.iter().for_each(|rate| rates.take(*rate, 1.0));
                rates.spread()
            })
        };
        let first = [99.0, 100.0, 102.0];
        let chosen = |a, b| clearly_fastest(&spreads([first, a, b]));
        assert_eq!(chosen([101.0, 110.0, 120.0], [90.0, 95.0, 99.0]), 0);
        assert_eq!(chosen([103.0, 104.0, 105.0], [101.0, 110.0, 120.0]), 1);
        assert_eq!(chosen([103.0, 104.0, 105.0], [104.0, 106.0, 107.0]), 2);
    }

    #[test]
    fn passes_without_a_core_are_left_out_while_half_remain() {
        let rates = |rates: &[(f64, f64)]| {
            let mut taken = Rates::default();
            rates.iter().for_each(|(gbit_per_s, running)| taken.take(*gbit_per_s, *running));
            taken.spread()
        };
        let spread = rates(&[(90.0, 1.0), (30.0, 0.4), (80.0, 1.0), (40.0, 0.5)]);
        let kept = Spread {
            median: 80.0,
            lowest: 80.0,
            highest: 90.0,
            passes: 2,
            left_out: 2,
            running: 1.0,
        };
        assert_eq!(spread, kept);
        let spread = rates(&[(90.0, 1.0), (30.0, 0.5), (40.0, 0.6)]);
        assert_eq!((spread.median, spread.passes, spread.left_out), (40.0, 3, 0));
        assert!((spread.running - 0.7).abs() < 1e-9);
    }

    #[test]
    fn the_passes_of_a_slow_search_are_spread_over_all_turns() {
        let due = |passes: usize| -> Vec<usize> {
            let share = Share { rounds: 1, passes };
            (0..9).filter(|turn| share.is_due(*turn, 9)).collect()
        };
        assert_eq!((due(3), due(9).len()), (vec![2, 5, 8], 9));
        assert_eq!(due(4).len(), 4);
    }
}
