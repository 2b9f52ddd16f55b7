//! Asking the deciding thread to decide nothing for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gannet_emulate::{FaultSwitch, LiveFault};

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

/// The trigger as one that a switch stops, where the front end is emulated and faults may be put in.
#[derive(Debug, Default)]
pub struct Stoppage {
    switch: Option<Arc<FaultSwitch>>,
    /// When it is over, in nanoseconds.
    until_ns: Option<u64>,
}

impl Stoppage {
    pub(in super::super) fn new(switch: Option<Arc<FaultSwitch>>) -> Self {
        Self { switch, until_ns: None }
    }

    /// Whether the trigger is stopped now.
    pub(super) fn is_on(&mut self, now_ns: u64) -> bool {
        let Some(switch) = &self.switch else { return false };
        let order = switch.order().filter(|order| order.fault == LiveFault::StoppedTrigger);
        let Some(order) = order else { return false };
        let until_ns = *self.until_ns.get_or_insert_with(|| {
            switch.count(order.fault);
            now_ns + order.time.as_nanos() as u64
        });
        if now_ns < until_ns {
            return true;
        }
        self.until_ns = None;
        switch.end();
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_stoppage_lasts_as_long_as_it_is_told_and_counts_once() {
        let switch = Arc::<FaultSwitch>::default();
        let mut stoppage = Stoppage::new(Some(Arc::clone(&switch)));
        assert!(!stoppage.is_on(5));
        let time = Duration::from_micros(1);
        for round in 1..3 {
            let begin = round * 10_000;
            assert!(switch.switch_on(LiveFault::StoppedTrigger, 0, time));
            // A switch has milliseconds, and one at least.
            let on = [0, 1, 999_999, 1_000_000].map(|after| stoppage.is_on(begin + after));
            assert_eq!(on, [true, true, true, false]);
            assert_eq!(switch.suffered(LiveFault::StoppedTrigger), round);
            assert_eq!(switch.order(), None);
        }
        assert!(switch.switch_on(LiveFault::Loss, 0, time));
        assert!(!stoppage.is_on(1) && switch.order().is_some(), "it is for somebody else");
    }
}
