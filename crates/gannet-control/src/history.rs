//! The last 24 hours of any number of named figures, in memory of fixed size.
//!
//! ```text
//! 10 minutes by the second   ··········
//!  2 hours by ten seconds    ────────────────────
//! 24 hours by the minute     ════════════════════════════════
//! ```
//!
//! Each value is counted in all three, so that none is ever computed from another. A bin has the least, the mean and
//! the greatest of its values; one without a value is a gap.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// Resolutions: seconds of a bin, and bins; some more than are promised, as a time hardly ever begins with a bin.
pub const LEVELS: [(u64, usize); 3] = [(1, 660), (10, 780), (60, 1500)];

/// Most figures that are kept; what comes beyond is not.
pub const FIGURES_MAX: usize = 256;

/// Values of a time.
#[derive(Clone, Copy, Debug)]
struct Bin {
    count: u32,
    least: f32,
    mean: f32,
    greatest: f32,
}

impl Bin {
    const EMPTY: Self =
        Self { count: 0, least: f32::INFINITY, mean: 0.0, greatest: f32::NEG_INFINITY };

    fn add(&mut self, value: f32) {
        self.count += 1;
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
        self.mean += (value - self.mean) / self.count as f32;
    }
}

/// One figure at all resolutions.
struct Series {
    levels: [Box<[Bin]>; LEVELS.len()],
}

impl Series {
    fn new() -> Self {
        Self { levels: LEVELS.map(|(_, bins)| vec![Bin::EMPTY; bins].into()) }
    }
}

/// Figures over the last 24 hours.
#[derive(Default)]
pub struct History {
    series: BTreeMap<String, Series>,
    /// The newest second that was told of.
    newest: Option<u64>,
    /// Figures that found no place.
    left_out: usize,
}

/// A figure over some time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Course {
    /// First second.
    pub begin: u64,
    /// Seconds of each of what follows.
    pub step: u64,
    /// Least value of each step; absent where none is known.
    pub least: Vec<Option<f32>>,
    /// Mean of each step.
    pub mean: Vec<Option<f32>>,
    /// Greatest value of each step.
    pub greatest: Vec<Option<f32>>,
}

impl History {
    /// Adds values of the second `second`, which count on from any; what is earlier than what was added is not taken, and
    /// values that are no numbers are gaps.
    pub fn add(&mut self, second: u64, values: impl IntoIterator<Item = (String, f64)>) {
        if self.newest.is_some_and(|newest| second <= newest) {
            return;
        }
        self.forget(second);
        self.left_out = 0;
        for (name, value) in values {
            if !self.series.contains_key(&name) {
                if self.series.len() == FIGURES_MAX {
                    self.left_out += 1;
                    continue;
                }
                self.series.insert(name.clone(), Series::new());
            }
            let (true, Some(series)) = (value.is_finite(), self.series.get_mut(&name)) else {
                continue;
            };
            for ((step, bins), level) in LEVELS.into_iter().zip(&mut series.levels) {
                level[place(second / step, bins)].add(value as f32);
            }
        }
    }

    /// Empties the bins that begin with `second`, and those before that nobody filled.
    fn forget(&mut self, second: u64) {
        let before = self.newest.replace(second);
        for (level, (step, bins)) in LEVELS.into_iter().enumerate() {
            let now = second / step;
            let first = before.map_or(now, |before| before / step + 1);
            let oldest = now.saturating_sub(bins as u64 - 1);
            for bin in first.max(oldest)..=now {
                for series in self.series.values_mut() {
                    series.levels[level][place(bin, bins)] = Bin::EMPTY;
                }
            }
        }
    }

    /// Names of the figures, in the order of the alphabet.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.series.keys().map(String::as_str)
    }

    /// The newest second that was told of.
    pub fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// Figures that are not kept because there are too many.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Memory that the values take, in bytes.
    pub fn bytes(&self) -> usize {
        let bins: usize = LEVELS.iter().map(|(_, bins)| bins).sum();
        self.series.len() * bins * size_of::<Bin>()
    }

    /// A figure from the second `from` on, before `to`, at the finest resolution that has all of it; what is older than
    /// all that is kept is left out.
    pub fn course(&self, name: &str, from: u64, to: u64) -> Option<Course> {
        let series = self.series.get(name)?;
        let newest = self.newest?;
        let oldest =
            |(step, bins): (u64, usize)| (newest / step).saturating_sub(bins as u64 - 1) * step;
        let last = LEVELS.len() - 1;
        let level = LEVELS.iter().position(|level| oldest(*level) <= from).unwrap_or(last);
        let (step, bins) = LEVELS[level];
        let first = from.max(oldest(LEVELS[level])) / step;
        let end = to.min(newest + 1).div_ceil(step);
        let found: Vec<_> = (first..end.max(first))
            .map(|bin| series.levels[level][place(bin, bins)])
            .map(|bin| (bin.count > 0).then_some(bin))
            .collect();
        let column = |of: fn(Bin) -> f32| found.iter().map(|bin| bin.map(of)).collect();
        Some(Course {
            begin: first * step,
            step,
            least: column(|bin| bin.least),
            mean: column(|bin| bin.mean),
            greatest: column(|bin| bin.greatest),
        })
    }
}

/// Where a bin lies in a ring of so many.
fn place(bin: u64, bins: usize) -> usize {
    (bin % bins as u64) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(value: f64) -> [(String, f64); 1] {
        [("a".to_owned(), value)]
    }

    /// What a course has to be, from all values that were ever added.
    fn plain(
        values: &BTreeMap<u64, f64>,
        begin: u64,
        step: u64,
        len: usize,
    ) -> [Vec<Option<f32>>; 3] {
        let bins: Vec<Vec<f32>> = (0..len as u64)
            .map(|bin| begin + bin * step)
            .map(|begin| {
                values.range(begin..begin + step).map(|(_, value)| *value as f32).collect()
            })
            .collect();
        let column = |of: fn(&[f32]) -> f32| {
            bins.iter().map(|bin| (!bin.is_empty()).then(|| of(bin))).collect()
        };
        [
            column(|bin| bin.iter().copied().fold(f32::INFINITY, f32::min)),
            column(|bin| bin.iter().sum::<f32>() / bin.len() as f32),
            column(|bin| bin.iter().copied().fold(f32::NEG_INFINITY, f32::max)),
        ]
    }

    proptest! {
        #[test]
        fn a_course_is_what_was_added_at_every_resolution(
            begin in 0_u64..1 << 40,
            steps in prop::collection::vec(
                (prop_oneof![8 => 1_u64..3, 2 => 3_u64..200, 1 => 200_u64..40_000], -1e3..1e3), 1..300,
            ),
            back in 0_u64..200_000,
            length in 0_u64..100_000,
        ) {
            let (mut history, mut values, mut second) = (History::default(), BTreeMap::new(), begin);
            for (step, value) in steps {
                second += step;
                history.add(second, one(value));
                values.insert(second, value);
            }
            let from = second.saturating_sub(back);
            let course = history.course("a", from, from + length).unwrap();
            let len = course.mean.len();
            let [least, mean, greatest] = plain(&values, course.begin, course.step, len);
            prop_assert_eq!(&course.least, &least);
            prop_assert_eq!(&course.greatest, &greatest);
            for (found, expected) in course.mean.iter().zip(&mean) {
                prop_assert_eq!(found.is_some(), expected.is_some());
                let (found, expected) = (found.unwrap_or(0.0), expected.unwrap_or(0.0));
                prop_assert!((found - expected).abs() < 0.01, "{} {}", found, expected);
            }
            // All that was asked for and is kept is there.
            let day = 24 * 3600;
            if back <= day {
                prop_assert!(course.begin <= from);
                let end = course.begin + course.step * len as u64;
                prop_assert!(end >= (from + length).min(second + 1));
            }
            prop_assert!(len <= LEVELS.iter().map(|(_, bins)| *bins).max().unwrap());
        }
    }

    #[test]
    fn what_is_near_is_seen_by_the_second_and_what_is_far_by_the_minute() {
        let mut history = History::default();
        let day = 24 * 3600;
        (0..2 * day).for_each(|second| history.add(second, one(second as f64)));
        for (back, step) in [(5, 1), (600, 1), (665, 10), (7200, 10), (7900, 60), (day, 60)] {
            let course = history.course("a", 2 * day - back, 2 * day).unwrap();
            assert_eq!(course.step, step, "{back}");
            assert!(course.mean.iter().all(Option::is_some), "{back}");
        }
        assert_eq!(history.course("a", 0, day / 2).unwrap().mean, []);
        assert_eq!(history.course("b", 0, day), None);
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        let mut history = History::default();
        let many = |at| (0..1000).map(move |figure| (format!("{figure}"), f64::from(at)));
        (0..3).for_each(|second| history.add(second, many(second as u32)));
        assert_eq!(
            (history.names().count(), history.left_out()),
            (FIGURES_MAX, 1000 - FIGURES_MAX)
        );
        assert_eq!(history.bytes(), FIGURES_MAX * 2940 * 16);
    }

    #[test]
    fn what_is_no_number_is_a_gap_and_the_past_stays() {
        let mut history = History::default();
        [(10, 1.0), (11, f64::NAN), (12, 3.0), (12, 9.0), (5, 9.0)]
            .into_iter()
            .for_each(|(second, value)| history.add(second, one(value)));
        let course = history.course("a", 10, 100).unwrap();
        assert_eq!((course.begin, course.step), (10, 1));
        assert_eq!(course.mean, [Some(1.0), None, Some(3.0)]);
        assert_eq!(history.course("a", 10, 5).unwrap().mean, []);
    }
}
