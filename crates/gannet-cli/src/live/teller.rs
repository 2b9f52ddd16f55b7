//! What the thread that makes runs tells the one that watches them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gannet_control::snapshot::Snapshot;
use gannet_control::station::{Crew, Ending, Verified};

use crate::report::Report;

/// What the thread that makes the runs tells whoever watches them.
#[derive(Clone)]
pub struct Teller {
    reports: Sender<(Report, Ending)>,
    is_reading: Arc<AtomicBool>,
    leaves_unread: Arc<AtomicBool>,
    trouble: Arc<Mutex<Option<anyhow::Error>>>,
}

impl Teller {
    /// One who tells, and where it is heard.
    pub fn new() -> (Self, Heard) {
        let (reports, heard) = mpsc::channel();
        let (is_reading, leaves_unread, trouble) = Default::default();
        let teller = Self { reports, is_reading, leaves_unread, trouble };
        (teller.clone(), Heard { reports: heard, teller })
    }

    /// Reads the files of a run back, and tells what it came to once `more` has been made of that.
    pub fn report(
        &self,
        snapshot: &Snapshot,
        ending: Ending,
        more: impl FnOnce(&Report),
    ) -> Vec<Verified> {
        let report = if self.leaves_unread.load(Ordering::Acquire) {
            Report::unread(snapshot.clone())
        } else {
            self.is_reading.store(true, Ordering::Release);
            Report::new(snapshot.clone())
        };
        self.is_reading.store(false, Ordering::Release);
        more(&report);
        let verified = report.verified.clone();
        let _nobody_waits = self.reports.send((report, ending));
        verified
    }

    /// Keeps the cause of a failure that ends the program, and gives it in words.
    pub fn fail(&self, error: impl Into<anyhow::Error>) -> String {
        let error = error.into();
        let text = error.to_string();
        self.trouble().get_or_insert(error);
        text
    }

    fn trouble(&self) -> MutexGuard<'_, Option<anyhow::Error>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a [`Teller`] is heard.
pub struct Heard {
    reports: Receiver<(Report, Ending)>,
    teller: Teller,
}

impl Heard {
    /// What a run came to that has just ended, and why it did.
    pub fn report(&self) -> Option<(Report, Ending)> {
        self.reports.try_recv().ok()
    }

    /// Leaves files unread.
    pub fn leave_unread(&self) {
        self.teller.leaves_unread.store(true, Ordering::Release);
    }

    /// Whether files are being read back.
    pub fn is_reading(&self) -> bool {
        self.teller.is_reading.load(Ordering::Acquire)
    }

    /// The cause of a failure, once.
    pub fn trouble(&self) -> Option<anyhow::Error> {
        self.teller.trouble().take()
    }
}

/// A run that nobody else has a part in.
pub struct Alone(pub Teller);

impl Crew for Alone {
    fn end(&mut self, snapshot: &Snapshot, ending: Ending) -> Vec<Verified> {
        self.0.report(snapshot, ending, |_| ())
    }
}
