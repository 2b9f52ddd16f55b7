//! What can be wrong with the configuration of a trigger.

/// Result of setting up a part of the trigger.
pub type Result<T> = core::result::Result<T, Error>;

/// Why a trigger cannot be set up as configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct Error {
    /// Path of the value in the configuration, for example `activity[1].prescale`.
    pub path: String,
    /// What the value must be.
    pub problem: String,
}

impl Error {
    /// The value at `path` is not what it must be.
    pub fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into() }
    }

    /// The same problem, seen from the table that holds the configuration under `name`.
    pub fn within(self, name: &str) -> Self {
        Self { path: format!("{name}.{}", self.path), ..self }
    }
}

/// Refuses the value at `path` unless `condition` holds.
///
/// # Errors
/// `problem`, when it does not.
pub fn require(condition: bool, path: &str, problem: &str) -> Result<()> {
    if condition { Ok(()) } else { Err(Error::new(path, problem)) }
}
