//! The account of a run: how many checks passed, failed and were skipped.

use std::collections::BTreeMap;

use super::Outcome;

/// Counts of checks. A step is one check, and so is each test of the suite.
#[derive(Debug, Default)]
pub struct Tally {
    /// Checks that passed. A test that said it skipped something is not one of them.
    pub passed: usize,
    /// Checks that failed.
    pub failed: usize,
    /// What failed, one line each.
    pub failures: Vec<String>,
    /// What was skipped and why, with how often it was said.
    pub skips: BTreeMap<String, usize>,
}

impl Tally {
    /// Adds the outcome of the step `name`.
    pub fn count(&mut self, name: &str, outcome: Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(reason) => {
                self.failed += 1;
                self.failures.push(format!("{name}: {reason}"));
            }
            Outcome::Skipped(reason) => self.skip(format!("{name}: {reason}")),
            Outcome::Counted { .. } | Outcome::Long => {}
        }
    }

    /// Notes that something was skipped.
    pub fn skip(&mut self, what: String) {
        *self.skips.entry(what).or_default() += 1;
    }

    /// How often something was skipped.
    pub fn skipped(&self) -> usize {
        self.skips.values().sum()
    }

    /// Whether nothing failed.
    pub fn is_success(&self) -> bool {
        self.failed == 0
    }

    /// Prints what failed, what was skipped, and the counts as the last line.
    pub fn print(&self) {
        if !self.failures.is_empty() {
            println!("\n== Failed");
            self.failures.iter().for_each(|failure| println!("{failure}"));
        }
        if !self.skips.is_empty() {
            println!("\n== Skipped");
            for (what, times) in &self.skips {
                let often = if *times > 1 { format!(" ({times} times)") } else { String::new() };
                println!("{what}{often}");
            }
        }
        println!("\n{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_check() {
        let mut tally = Tally::default();
        tally.count("a", Outcome::Passed);
        tally.count("b", Outcome::Skipped("no network".into()));
        tally.count("c", Outcome::Counted { success: true, beside: None });
        assert!(tally.is_success());
        tally.count("d", Outcome::Failed("exit status: 1".into()));
        assert!(!tally.is_success());
        assert_eq!((tally.passed, tally.failed, tally.skipped()), (1, 1, 1));
        assert_eq!(tally.failures, ["d: exit status: 1"]);
    }
}
