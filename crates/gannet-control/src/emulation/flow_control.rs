//! Sending no more than the receiver has room for.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::Progress;

/// Time between two looks at a receiver that has no room.
const LOOK: Duration = Duration::from_micros(20);

/// Keeps the datagrams on their way below what the receiver's kernel memory holds.
///
/// UDP has no flow control, and real front ends have none. It makes a loss-free demonstration
/// possible on machines whose kernel gives a socket room for a few dozen frames only.
#[derive(Clone)]
pub struct FlowControl {
    /// Datagrams that the receiver has taken or counted as dropped so far.
    pub taken: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Most datagrams on their way.
    pub in_flight_max: u64,
}

impl FlowControl {
    /// Waits until the receiver has room for `count` datagrams more, or `stop` is set.
    pub(super) fn await_room(&self, progress: &Progress, count: usize, stop: &AtomicBool) {
        let on_their_way = || progress.datagrams.get().saturating_sub((self.taken)());
        while on_their_way() + count as u64 > self.in_flight_max && !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
    }
}

impl fmt::Debug for FlowControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowControl").field("in_flight_max", &self.in_flight_max).finish()
    }
}
