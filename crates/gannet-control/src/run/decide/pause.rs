//! Asking the deciding thread to decide nothing for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Pauses the decisions of a run. The deciding thread looks at it every few milliseconds, and the state of the run
/// follows when it has.
#[derive(Clone, Debug, Default)]
pub struct Pauser(Arc<AtomicBool>);

impl Pauser {
    /// Lets nothing be decided.
    pub fn pause(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Lets decisions be made again.
    pub fn resume(&self) {
        self.0.store(false, Ordering::Release);
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
