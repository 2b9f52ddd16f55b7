//! What is told of a trial that is run again.

use std::fmt::Display;

/// Lines that tell a trial; of a trial among many nothing is kept.
#[derive(Debug, Default)]
pub(super) struct Story(Option<Vec<String>>);

impl Story {
    /// A story that is told.
    pub fn told() -> Self {
        Self(Some(Vec::new()))
    }

    /// Adds a line, which is made only if it is told.
    pub fn tell<T: Display>(&mut self, line: impl FnOnce() -> T) {
        if let Some(lines) = &mut self.0 {
            lines.push(line().to_string());
        }
    }

    /// The lines.
    pub fn lines(self) -> Vec<String> {
        self.0.unwrap_or_default()
    }
}
