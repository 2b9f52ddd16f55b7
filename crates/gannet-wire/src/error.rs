//! What can be wrong with bytes.

/// Result of parsing bytes.
pub type Result<T> = core::result::Result<T, Error>;

/// Why bytes are not what a format requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The buffer ends before the format does.
    #[error("{format}: {got} bytes, expected at least {expected}")]
    Truncated {
        /// Name of the format.
        format: &'static str,
        /// Least number of bytes the format needs.
        expected: usize,
        /// Number of bytes in the buffer.
        got: usize,
    },
    /// A field holds a value that the format does not allow.
    #[error("{format}: {field} is {got:#x}, expected {expected:#x}")]
    Value {
        /// Name of the format.
        format: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Value that the format requires.
        expected: u64,
        /// Value found.
        got: u64,
    },
    /// A number lies outside the range that the format, or a limit of ours, allows.
    #[error("{format}: {field} is {got}, expected {min} to {max}")]
    Range {
        /// Name of the format.
        format: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Least value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
        /// Value found.
        got: u64,
    },
    /// A field holds none of the values that are known.
    #[error("{format}: {field} is {got:#x}, which is not known")]
    Unknown {
        /// Name of the format.
        format: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Value found.
        got: u64,
    },
    /// The layout is of a version that is not known here.
    #[error("{format}: version {got} is not known, known: {known}")]
    Version {
        /// Name of the format.
        format: &'static str,
        /// Versions that can be read.
        known: &'static str,
        /// Version found.
        got: u64,
    },
    /// The buffer does not hold a whole number of items.
    #[error("{format}: {got} bytes are not a whole number of {unit}-byte items")]
    Remainder {
        /// Name of the format.
        format: &'static str,
        /// Bytes of one item.
        unit: usize,
        /// Number of bytes in the buffer.
        got: usize,
    },
    /// A text is not a name of the kind asked for.
    #[error("{what}: the text is not of the form {expected}")]
    Text {
        /// What the text should name.
        what: &'static str,
        /// An example, or the accepted names.
        expected: &'static str,
    },
    /// The writer that takes a description refused it.
    #[error("the description could not be written")]
    Output(#[from] core::fmt::Error),
}

impl Error {
    /// `bytes` end before `format` does, which has at least `expected`.
    pub const fn truncated(format: &'static str, expected: usize, bytes: &[u8]) -> Self {
        Self::Truncated { format, expected, got: bytes.len() }
    }
}
