//! When no decision can be issued, as data.

/// Why no decision can be issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BusyCause {
    /// The last decision was too short a time ago; times are those of the decisions.
    DeadTime,
    /// As many records as allowed were in flight; times are data time at issue and completion.
    RecordsInFlight,
    /// The trigger was paused; times are data time at pause and resume.
    Paused,
}

impl BusyCause {
    /// Every cause.
    pub const ALL: [Self; 3] = [Self::DeadTime, Self::RecordsInFlight, Self::Paused];

    /// Name for files and metrics, in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeadTime => "dead_time",
            Self::RecordsInFlight => "records_in_flight",
            Self::Paused => "paused",
        }
    }
}

/// A span of data time during which no decision could be issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyInterval {
    /// First tick.
    pub begin: u64,
    /// First tick after it.
    pub end: u64,
    /// Why.
    pub cause: BusyCause,
}

impl BusyInterval {
    /// Length in ticks.
    pub const fn ticks(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// The intervals that have begun and not ended, one of each cause.
#[derive(Debug, Default)]
pub(super) struct BusyLog {
    begun: [Option<u64>; BusyCause::ALL.len()],
}

impl BusyLog {
    /// Notes that data time begins at `tick`: what was busy before is busy from there.
    pub(super) fn data_begin(&mut self, tick: u64) {
        for begun in self.begun.iter_mut().flatten() {
            *begun = tick;
        }
    }

    /// Begins an interval at `tick`, unless one of this cause has begun.
    pub(super) fn begin(&mut self, cause: BusyCause, tick: u64) {
        self.begun[cause as usize].get_or_insert(tick);
    }

    /// Ends the interval of this cause at `tick`, if one has begun.
    pub(super) fn end(&mut self, cause: BusyCause, tick: u64) -> Option<BusyInterval> {
        let begin = self.begun[cause as usize].take()?;
        Some(BusyInterval { begin, end: tick, cause })
    }
}
