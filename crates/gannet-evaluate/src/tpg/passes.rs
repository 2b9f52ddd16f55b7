//! Passes of searching and reading in turn.

use std::time::Duration;

use super::crew::{Crew, Work};
use super::{Error, Way};

/// Passes of each kind that the time of a measurement is divided among.
const PASSES: usize = 9;
/// Fewest passes of each kind, however long they take.
const PASSES_MIN: usize = 3;
/// Passes in each way to read, to find the fastest.
const TRIALS: usize = 3;
/// Most rounds over the frames in a pass.
const ROUNDS_MAX: f64 = 1e6;

/// What the passes of a measurement came to.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// Rounds over all frames in a pass of searching.
    pub rounds: u32,
    /// Primitives of each pass of all threads.
    pub tps: u64,
    /// Rates in Gbit/s of all threads.
    pub find: Vec<f64>,
    pub read: Vec<f64>,
    /// Part of the time of each pass of searching for which the threads had a core.
    pub running: Vec<f64>,
    /// Rates in Gbit/s of the first thread alone, if there are others.
    pub find_alone: Vec<f64>,
}

impl Passes {
    /// Makes passes of each kind in turn for about `time`.
    pub fn make(crew: &Crew, way: Way, time: Duration) -> Result<Self, Error> {
        let several = crew.all().len() > 1;
        let kinds = if several { 3 } else { 2 };
        let share = time / kinds;
        let (find_rounds, count) = rounds(crew, Work::Find, share)?;
        let (read_rounds, _) = rounds(crew, Work::Read(way), share)?;
        let mut passes = Self { rounds: find_rounds, ..Self::default() };
        let mut tps = None;
        for _ in 0..count {
            let found = crew.pass(crew.all(), Work::Find, find_rounds)?;
            let first = *tps.get_or_insert(found.tps);
            if found.tps != first {
                return Err(Error::Uneven { first, second: found.tps });
            }
            passes.find.push(found.gbit_per_s);
            passes.running.push(found.running);
            let read = crew.pass(crew.all(), Work::Read(way), read_rounds)?;
            passes.read.push(read.gbit_per_s);
            if several {
                let alone = crew.pass(0..1, Work::Find, find_rounds)?;
                passes.find_alone.push(alone.gbit_per_s);
            }
        }
        passes.tps = tps.unwrap_or(0);
        Ok(passes)
    }
}

/// Rounds of a pass and number of passes that take about `time` together.
fn rounds(crew: &Crew, work: Work, time: Duration) -> Result<(u32, usize), Error> {
    // The first round brings the frames into the caches that can hold them.
    crew.pass(crew.all(), work, 1)?;
    let round = crew.pass(crew.all(), work, 1)?.slowest.max(Duration::from_nanos(1));
    let fit = time.as_secs_f64() / round.as_secs_f64();
    let rounds = (fit / PASSES as f64).clamp(1.0, ROUNDS_MAX) as u32;
    let passes = (fit / f64::from(rounds)) as usize;
    Ok((rounds, passes.clamp(PASSES_MIN, PASSES)))
}

/// The way in which all threads together read fastest.
pub(super) fn fastest_way(crew: &Crew, time: Duration) -> Result<Way, Error> {
    let share = time / Way::ALL.len() as u32;
    let (rounds, _) = rounds(crew, Work::Read(Way::Plain), share)?;
    let mut rates = [const { Vec::new() }; Way::ALL.len()];
    for _ in 0..TRIALS {
        for (way, rates) in Way::ALL.into_iter().zip(&mut rates) {
            rates.push(crew.pass(crew.all(), Work::Read(way), rounds)?.gbit_per_s);
        }
    }
    let medians = Way::ALL.into_iter().zip(rates.iter().map(|rates| median(rates)));
    let fastest = medians.max_by(|a, b| a.1.total_cmp(&b.1));
    Ok(fastest.map_or(Way::Plain, |(way, _)| way))
}

/// The middle value, or the lower of the two in the middle; 0 of none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_a_value_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.0);
        assert_eq!(median(&[]), 0.0);
    }
}
