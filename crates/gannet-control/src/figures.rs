//! The figures of a run: one snapshot at a time, for all who look.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::alarm::Alarm;
use crate::snapshot::{Snapshot, SnapshotSource};

/// Least time between two snapshots.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// Making snapshots, and what is made of each, takes at most this part of the time: one in so many.
pub const SHARE: u32 = 20;

/// Snapshots of a run. Display, metrics and pages ask here, so that any number of them look at the run as often as
/// one would. When nobody asks, none is made.
pub struct Figures {
    source: SnapshotSource,
    latest: Mutex<Option<Latest>>,
    /// Alarms that rules raise, which no single snapshot tells.
    alarms: Mutex<Vec<Alarm>>,
}

struct Latest {
    made: Instant,
    cost: Duration,
    snapshot: Arc<Snapshot>,
}

impl Figures {
    /// The figures that `source` gives.
    pub fn new(source: SnapshotSource) -> Self {
        Self { source, latest: Mutex::default(), alarms: Mutex::default() }
    }

    /// The newest snapshot, made now if the last one is older than [`INTERVAL`], and than its cost allows.
    pub fn latest(&self) -> Arc<Snapshot> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Latest { made, cost, snapshot }) = &*latest
            && made.elapsed() < INTERVAL.max(*cost * SHARE)
        {
            return Arc::clone(snapshot);
        }
        // Nothing is kept of an earlier one if this one panics.
        *latest = None;
        let made = Instant::now();
        let mut snapshot = (self.source)();
        snapshot.alarms.extend_from_slice(&self.alarms());
        let snapshot = Arc::new(snapshot);
        let cost = made.elapsed();
        *latest = Some(Latest { made, cost, snapshot: Arc::clone(&snapshot) });
        snapshot
    }

    /// Lets snapshots from now on have these alarms too, until others are given.
    pub fn set_alarms(&self, alarms: Vec<Alarm>) {
        *self.alarms() = alarms;
    }

    fn alarms(&self) -> MutexGuard<'_, Vec<Alarm>> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what was made of the newest snapshot, and took so long, as a part of its cost.
    pub fn charge(&self, cost: Duration) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.iter_mut().for_each(|latest| latest.cost += cost);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread::sleep;

    use super::*;

    fn counted() -> Figures {
        let made = AtomicU64::default();
        Figures::new(Arc::new(move || Snapshot {
            number: made.fetch_add(1, Ordering::Relaxed),
            ..Snapshot::default()
        }))
    }

    #[test]
    fn any_number_of_readers_look_ten_times_a_second_at_most() {
        let figures = counted();
        let begin = Instant::now();
        let last = (0..100_000).map(|_| figures.latest().number).last().unwrap();
        let most = begin.elapsed().as_millis() / INTERVAL.as_millis();
        assert!(u128::from(last) <= most, "{last} of {most}");
        sleep(INTERVAL);
        assert!(figures.latest().number > last);
    }

    #[test]
    fn what_is_made_of_a_snapshot_puts_off_the_next() {
        let figures = counted();
        let first = figures.latest().number;
        figures.charge(Duration::from_secs(3600));
        sleep(INTERVAL);
        assert_eq!(figures.latest().number, first);
    }
}
