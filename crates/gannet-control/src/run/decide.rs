//! The deciding thread: items of all streams in, decisions and what is recorded beside them out.

mod answering;
mod arrivals;
mod outlet;
mod pause;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::Duration;

use gannet_measure::clock::Clock;
use gannet_measure::counter::Counter;
use gannet_measure::histogram::Histogram;
use gannet_readout::items::{ItemReceiver, NoBatch};
use gannet_readout::trigger::{Outcome, Trigger};

use super::build::{BuildStatus, Order};
use super::life::Life;
use crate::finds::FindsWriter;
use crate::run_control::Event;
use crate::sys;
use arrivals::Arrivals;

pub(super) use answering::{AnswerAccount, AnswerSender};
pub(super) use outlet::Outlet;
pub use pause::Pauser;
pub(super) use pause::Stoppage;

/// How long the thread waits for items before it looks for late streams.
const WAIT: Duration = Duration::from_millis(2);
/// The same where answers are due at once.
const SHORT_WAIT: Duration = Duration::from_micros(100);
/// Time after which the processor time is told anew, in nanoseconds.
const PUBLISH_NS: u64 = 10_000_000;
/// Orders to the builder for one decision.
pub(super) const ORDERS_PER_DECISION: usize = 2;

/// Runs the trigger on what the receiving threads find.
pub(super) struct Decider<T: Trigger> {
    /// What decides.
    pub trigger: T,
    /// Where what is recorded beside records goes.
    pub outlet: Outlet,
    /// Where answers go, if anybody waits for them.
    pub answers: Option<AnswerSender>,
    /// Where what was found goes for those who look on, if it can be shown.
    pub finds: Option<FindsWriter<T::Item>>,
    /// Whether answers are due at once.
    pub at_once: bool,
    /// Whether the thread does not sleep.
    pub spins: bool,
    /// Whether somebody wants it to decide nothing for a while.
    pub pauser: Pauser,
    /// What may stop it, where faults are put in.
    pub stoppage: Stoppage,
    /// Times that nothing was decided for a while.
    pub pauses: Arc<Counter>,
    /// Told of the pauses.
    pub life: Arc<Life>,
    /// Where decisions go, and what is added to their records.
    pub orders: SyncSender<Order<T::Origin>>,
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// What the builder tells.
    pub built: Arc<BuildStatus>,
    /// From the arrival of the frames in which a decision's first candidate lies to the decision,
    /// in nanoseconds.
    pub arrival_to_decision_ns: Arc<Histogram>,
    /// Processor time of the thread.
    pub cpu_ns: Arc<Counter>,
}

impl<T: Trigger> Decider<T> {
    /// Decides until the receiving threads are gone and every item is used.
    pub(super) fn run(mut self, items: &ItemReceiver<T::Item>) {
        let (mut outcome, mut arrivals) = (Outcome::default(), Arrivals::default());
        // Decisions that the builder was done with when last looked at.
        let mut done = 0;
        let mut publish_ns = 0;
        let (mut is_paused, mut is_stopped) = (false, false);
        let wait = match (self.spins, self.at_once) {
            (true, _) => Duration::ZERO,
            (_, true) => SHORT_WAIT,
            _ => WAIT,
        };
        loop {
            let Self { trigger, clock, finds, .. } = &mut self;
            let received = items.receive(wait, |batch| {
                let now_ns = clock.now_ns();
                let newest = arrivals.newest();
                let mut finds = finds.as_mut();
                let mut finds = finds.take_if(|finds| finds.is_watched(now_ns, newest));
                for (segment, found) in batch.segments() {
                    finds.iter_mut().for_each(|finds| finds.take(found));
                    trigger.take(&segment, found, now_ns);
                    if trigger.agrees(segment.stream as usize) {
                        arrivals.note(segment.searched_to, segment.arrival_ns);
                    }
                }
            });
            let now_ns = self.clock.now_ns();
            let newly_done = self.built.done.load(Ordering::Acquire) - done;
            done += newly_done;
            if newly_done > 0 {
                self.trigger.records_done(newly_done as usize);
            }
            if self.pauser.is_wanted() != is_paused {
                is_paused = !is_paused;
                self.life.on(if is_paused { Event::Pause } else { Event::Resume });
            }
            if (self.stoppage.is_on(now_ns) || is_paused) != is_stopped {
                is_stopped = !is_stopped;
                self.turn(is_stopped);
            }
            self.trigger.advance(now_ns, &mut outcome);
            self.hand_on(now_ns, &mut outcome, &mut arrivals);
            if now_ns >= publish_ns {
                publish_ns = now_ns + PUBLISH_NS;
                self.cpu_ns.set(sys::thread_time_ns());
            }
            match received {
                Err(NoBatch::Finished) => break,
                Err(NoBatch::TimedOut) if self.spins => thread::yield_now(),
                _ => {}
            }
        }
        let now_ns = self.clock.now_ns();
        self.trigger.drain(now_ns, &mut outcome);
        self.hand_on(now_ns, &mut outcome, &mut arrivals);
        self.outlet.finish();
        self.cpu_ns.set(sys::thread_time_ns());
    }

    /// Begins or ends a pause.
    fn turn(&mut self, into_pause: bool) {
        if into_pause {
            self.trigger.pause();
            self.pauses.add(1);
        } else {
            self.trigger.resume();
        }
    }

    fn hand_on(&mut self, now_ns: u64, outcome: &mut Outcome<T::Origin>, arrivals: &mut Arrivals) {
        if let Some(answers) = &mut self.answers {
            answers.send(&outcome.answers);
        }
        outcome.answers.clear();
        for decision in outcome.decisions.drain(..) {
            if let Some(arrival_ns) = arrivals.of(decision.trigger_timestamp) {
                self.arrival_to_decision_ns.record(now_ns.saturating_sub(arrival_ns));
            }
            self.finds.iter_mut().for_each(|finds| finds.decided(&decision));
            self.send(Order::Build(decision));
        }
        for (number, parts) in outcome.added.drain(..) {
            self.send(Order::Attach(number, parts));
        }
        outcome.products.drain(..).for_each(|product| self.outlet.push(product));
        self.outlet.hand_over();
        let began_anew = std::mem::take(&mut outcome.began_anew);
        if let Some(finds) = &mut self.finds {
            finds.active(&outcome.activities);
            finds.turn(now_ns, arrivals.newest(), began_anew);
        }
        outcome.activities.clear();
        if began_anew {
            *arrivals = Arrivals::default();
        }
    }

    /// The channel has room for all records that may be in flight, and the builder outlives the
    /// deciding thread unless it failed, which the run notices.
    fn send(&self, order: Order<T::Origin>) {
        let _builder_gone = self.orders.send(order);
    }
}
