//! Candidates without primitives: at random, and at fixed intervals.
//!
//! Both are functions of data time alone, so that the same data give the same candidates whenever
//! a run begins: the periodic ones come at the multiples of their interval, and the random ones
//! are drawn anew, from the seed and the number of the slot, for every slot of data time.
//!
//! Source: DUNE-DAQ/trigger `RandomTCMakerModule.cpp`, `CustomTCMaker.cpp`.

use gannet_measure::random::Random;
use gannet_wire::trigger_candidate::{Algorithm, TriggerCandidateData, Type};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::candidate::{Candidate, CandidateType};
use crate::error::{Result, require};

/// Shortest interval between candidates, ticks: 10 kHz on a 62.5 MHz clock.
pub const INTERVAL_TICKS_MIN: u64 = 6_250;

/// Candidates that come without primitives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum SourceConfig {
    /// At the multiples of an interval.
    Periodic(Periodic),
    /// At random, with a mean interval.
    Random(Poisson),
}

/// Candidates at the multiples of an interval of data time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Periodic {
    /// Interval, ticks.
    pub interval_ticks: u64,
    /// Type of the candidates.
    pub candidate_type: CandidateType,
}

/// Candidates at random times: a Poisson process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Poisson {
    /// Mean interval, ticks.
    pub mean_interval_ticks: u64,
    /// Seed; the same seed gives the same times.
    pub seed: u64,
    /// Type of the candidates.
    pub candidate_type: CandidateType,
}

impl Default for Periodic {
    /// Every second of a 62.5 MHz clock.
    fn default() -> Self {
        Self { interval_ticks: 62_500_000, candidate_type: CandidateType(Type::Timing) }
    }
}

impl Default for Poisson {
    /// One a second of a 62.5 MHz clock.
    fn default() -> Self {
        let candidate_type = CandidateType(Type::Random);
        Self { mean_interval_ticks: 62_500_000, seed: 1, candidate_type }
    }
}

impl SourceConfig {
    /// Tests the values against their bounds.
    ///
    /// # Errors
    /// Names the field and what it must be.
    pub fn check(&self) -> Result<()> {
        let (path, ticks) = match self {
            Self::Periodic(periodic) => ("interval_ticks", periodic.interval_ticks),
            Self::Random(random) => ("mean_interval_ticks", random.mean_interval_ticks),
        };
        require(ticks >= INTERVAL_TICKS_MIN, path, "it must be 6250 or more")
    }

    fn candidate_type(&self) -> Type {
        match self {
            Self::Periodic(periodic) => periodic.candidate_type.0,
            Self::Random(random) => random.candidate_type.0,
        }
    }

    /// First candidate at or after `tick`; `None` beyond the end of time.
    fn first_from(&self, tick: u64) -> Option<u64> {
        match self {
            Self::Periodic(periodic) => tick.checked_next_multiple_of(periodic.interval_ticks),
            Self::Random(random) => random.first_from(tick),
        }
    }
}

impl Poisson {
    /// First candidate at or after `tick`.
    ///
    /// A slot lasts one mean interval. As a Poisson process has no memory, one that begins anew
    /// in every slot is one over all time.
    fn first_from(&self, tick: u64) -> Option<u64> {
        let mean = self.mean_interval_ticks;
        let mut slot = tick / mean;
        loop {
            let begin = slot.checked_mul(mean)?;
            let mut random = Random::stream(self.seed, slot);
            let mut offset = random.exponential(mean as f64);
            while offset < mean as f64 {
                let time = begin.checked_add(offset as u64)?;
                if time >= tick {
                    return Some(time);
                }
                offset += random.exponential(mean as f64);
            }
            slot += 1;
        }
    }
}

/// Gives the candidates of one source in the order of data time.
#[derive(Clone, Debug)]
pub struct CandidateSource {
    config: SourceConfig,
    due: Option<u64>,
}

impl CandidateSource {
    /// A source that has not begun.
    ///
    /// # Errors
    /// As [`SourceConfig::check`].
    pub fn new(config: SourceConfig) -> Result<Self> {
        config.check()?;
        Ok(Self { config, due: None })
    }

    /// Begins, or goes on after a leap of data time, at `tick`.
    pub fn begin(&mut self, tick: u64) {
        self.due = self.config.first_from(tick);
    }

    /// Gives no candidate until it begins again.
    pub fn stop(&mut self) {
        self.due = None;
    }

    /// Time of the next candidate; `None` before [`begin`](Self::begin).
    pub fn due(&self) -> Option<u64> {
        self.due
    }

    /// The next candidate.
    pub fn fire(&mut self) -> Option<Candidate> {
        let time = self.due?;
        self.due = time.checked_add(1).and_then(|tick| self.config.first_from(tick));
        let data = TriggerCandidateData {
            time_start: time,
            time_end: time,
            time_candidate: time,
            detid: 0,
            candidate_type: self.config.candidate_type(),
            algorithm: Algorithm::Custom,
        };
        Some(Candidate { data, inputs: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::START;

    fn times(config: SourceConfig, begin: u64, end: u64) -> Vec<u64> {
        let mut source = CandidateSource::new(config).unwrap();
        source.begin(begin);
        let mut times = Vec::new();
        while source.due().is_some_and(|due| due < end) {
            times.push(source.fire().unwrap().data.time_candidate);
        }
        times
    }

    fn random(seed: u64) -> SourceConfig {
        SourceConfig::Random(Poisson { mean_interval_ticks: 10_000, seed, ..Poisson::default() })
    }

    #[test]
    fn periodic_candidates_come_at_the_multiples_of_the_interval() {
        let config =
            SourceConfig::Periodic(Periodic { interval_ticks: 10_000, ..Periodic::default() });
        assert_eq!(times(config.clone(), 15_000, 45_000), [20_000, 30_000, 40_000]);
        assert_eq!(times(config, 20_000, 20_001), [20_000]);
    }

    #[test]
    fn random_candidates_do_not_depend_on_when_the_run_begins() {
        let all = times(random(7), START, START + 1_000_000);
        let later = START + 300_000;
        let rest: Vec<_> = all.iter().copied().filter(|time| *time >= later).collect();
        assert_eq!(times(random(7), later, START + 1_000_000), rest);
        assert_ne!(times(random(8), START, START + 1_000_000), all);
    }

    #[test]
    fn random_intervals_are_exponential() {
        let times = times(random(1), START, START + 10_000 * 20_000);
        let n = times.len() as f64;
        assert!((n - 20_000.0).abs() < 5.0 * 20_000_f64.sqrt(), "{n}");
        let gaps = || times.windows(2).map(|pair| pair[1] - pair[0]);
        // Of an exponential, exp(-1) is above the mean and exp(-3) above three times the mean.
        let above = |ticks| gaps().filter(|gap| *gap > ticks).count() as f64 / n;
        assert!((above(10_000) - (-1_f64).exp()).abs() < 0.02);
        assert!((above(30_000) - (-3_f64).exp()).abs() < 0.01);
    }

    #[test]
    fn candidates_carry_their_time_and_type() {
        let mut source = CandidateSource::new(random(1)).unwrap();
        assert_eq!((source.due(), source.fire()), (None, None));
        source.begin(START);
        let data = source.fire().unwrap().data;
        assert_eq!((data.time_start, data.time_end), (data.time_candidate, data.time_candidate));
        assert_eq!((data.candidate_type, data.algorithm), (Type::Random, Algorithm::Custom));
    }

    #[test]
    fn nothing_comes_beyond_the_end_of_time() {
        let config = SourceConfig::Periodic(Periodic::default());
        assert!(times(config, u64::MAX - 5, u64::MAX).is_empty());
        let mut source = CandidateSource::new(random(1)).unwrap();
        source.begin(u64::MAX);
        assert_eq!(source.due(), None);
    }

    #[test]
    fn intervals_that_are_too_short_are_refused() {
        let fast = Periodic { interval_ticks: 6_249, ..Periodic::default() };
        let error = SourceConfig::Periodic(fast).check().unwrap_err();
        assert_eq!(error.path, "interval_ticks");
        let fast = Poisson { mean_interval_ticks: 0, ..Poisson::default() };
        assert_eq!(SourceConfig::Random(fast).check().unwrap_err().path, "mean_interval_ticks");
    }
}
