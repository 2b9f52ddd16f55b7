//! What is fetched into the caches while rows are searched.

/// What a search fetches into the caches of what lies behind the row in hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fetch {
    /// As much as memory takes to answer, for samples that nobody has touched lately.
    #[default]
    Memory,
    /// A little into the first-level cache, for samples that were just written.
    Cache,
}

/// How far ahead of what is reached memory is fetched, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// Into the first-level cache.
    pub(crate) near: usize,
    /// Into the second-level cache.
    pub(crate) far: usize,
}

impl Fetch {
    /// Measured best of 0 to 16384 each; beyond 4096 both make it slower. From memory so many bytes
    /// are `skipped`.
    pub(crate) fn ahead(self, skipped: usize) -> Ahead {
        match self {
            Self::Memory => Ahead { near: skipped + 1536, far: skipped + 3584 },
            Self::Cache => Ahead { near: 1536, far: 0 },
        }
    }
}
