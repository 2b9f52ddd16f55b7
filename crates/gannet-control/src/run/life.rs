//! The life of a run: its state, when it began and ended, and the threads whose end is its own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::RunError;
use crate::run_control::{Event, RunControl};

/// State of the run and the times of its begin and end.
#[derive(Default)]
pub(super) struct Life {
    control: Mutex<RunControl>,
    failure: Mutex<Option<String>>,
    /// When the sockets got their ports.
    bound_ns: AtomicU64,
    started_ns: AtomicU64,
    /// 0 until the run has ended.
    ended_ns: AtomicU64,
}

impl Life {
    /// The state machine.
    pub fn control(&self) -> MutexGuard<'_, RunControl> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes an event to the state machine; one that is out of place changes nothing.
    pub fn on(&self, event: Event) {
        if let Err(refused) = self.control().on(event) {
            tracing::debug!(%refused);
        }
    }

    /// Notes a failure that the run cannot go on without.
    pub fn fail(&self, what: String) {
        self.failure().get_or_insert(what);
        self.on(Event::Fail);
    }

    /// Notes that a thread is gone before its time: half a run is none.
    pub fn fail_by_defect(&self, thread: &str) {
        self.fail(format!(
            "the thread \"{thread}\" stopped on an internal error; please report it"
        ));
    }

    /// Why the run failed, if it did.
    pub fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn mark_bound(&self, now_ns: u64) {
        self.bound_ns.store(now_ns, Ordering::Release);
    }

    /// Time since the sockets have their ports, in nanoseconds.
    pub fn bound_for_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.bound_ns.load(Ordering::Acquire))
    }

    pub fn mark_start(&self, now_ns: u64) {
        self.started_ns.store(now_ns, Ordering::Release);
    }

    pub fn mark_end(&self, now_ns: u64) {
        self.ended_ns.store(now_ns, Ordering::Release);
    }

    /// Whether frames were taken for a while and are no more.
    pub fn is_over(&self) -> bool {
        self.started_ns.load(Ordering::Acquire) > 0 && self.ended_ns.load(Ordering::Acquire) > 0
    }

    /// Whether every stage before the recorder is at rest.
    pub fn has_ended(&self) -> bool {
        self.ended_ns.load(Ordering::Acquire) != 0
    }

    /// Since frames are taken, in seconds.
    pub fn elapsed_s(&self, now_ns: u64) -> f64 {
        let started_ns = self.started_ns.load(Ordering::Acquire);
        let ended_ns = self.ended_ns.load(Ordering::Acquire);
        let until_ns = if ended_ns == 0 { now_ns } else { ended_ns };
        match started_ns {
            0 => 0.0,
            started_ns => until_ns.saturating_sub(started_ns) as f64 * 1e-9,
        }
    }
}

/// Starts a thread of the run that lives this `life`. If it panics, the run fails as a whole.
pub(super) fn spawn(
    name: &'static str,
    life: &Arc<Life>,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, RunError> {
    let life = Arc::clone(life);
    let guarded = move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            life.fail_by_defect(name);
            resume_unwind(panic);
        }
    };
    thread::Builder::new().name(format!("gannet-{name}")).spawn(guarded).map_err(RunError::Thread)
}
