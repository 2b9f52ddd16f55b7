//! The deciding thread: primitives of all streams in, decisions and slices of primitives out.

mod arrivals;
mod outlet;

use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gannet_dune::trigger_fragments::TriggerFragments;
use gannet_dune::{TriggerChain, TriggerOutput};
use gannet_measure::clock::Clock;
use gannet_measure::histogram::Histogram;
use gannet_readout::items::{ItemReceiver, NoBatch};
use gannet_readout::latency::Window;
use gannet_readout::record::RecordRequest;
use gannet_trigger::module_level::Decision;
use gannet_wire::TriggerPrimitive;

use super::build::{BuildStatus, Order};
use arrivals::Arrivals;

pub(super) use outlet::{Outlet, OutletAccounts};

/// How long the thread waits for primitives before it looks for late streams.
const WAIT: Duration = Duration::from_millis(2);
/// Orders to the builder for one decision.
pub(super) const ORDERS_PER_DECISION: usize = 2;

/// What the deciding thread tells.
#[derive(Debug, Default)]
pub(super) struct DecideStatus {
    /// From the arrival of the frames in which a decision's first candidate lies to the decision,
    /// in nanoseconds.
    pub arrival_to_decision_ns: Histogram,
    latest_primitive: Mutex<Option<TriggerPrimitive>>,
}

impl DecideStatus {
    /// A recent primitive.
    pub fn latest_primitive(&self) -> Option<TriggerPrimitive> {
        *self.latest_primitive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_primitive(&self, primitive: TriggerPrimitive) {
        *self.latest_primitive.lock().unwrap_or_else(PoisonError::into_inner) = Some(primitive);
    }
}

/// Runs the trigger on what the receiving threads find.
pub(super) struct Decider {
    chain: TriggerChain,
    outlet: Outlet,
    fragments: TriggerFragments,
    orders: SyncSender<Order>,
    clock: Arc<dyn Clock>,
    built: Arc<BuildStatus>,
    status: Arc<DecideStatus>,
    out: TriggerOutput,
    arrivals: Arrivals,
    /// Tick before which nothing starts that is still to come.
    complete_to: u64,
    /// Decisions that the builder was done with when last looked at.
    done: u64,
}

impl Decider {
    /// A decider whose decisions go to `orders`, with what `fragments` cuts for them, and everything
    /// else to `outlet`.
    pub(super) fn new(
        chain: TriggerChain,
        outlet: Outlet,
        fragments: TriggerFragments,
        orders: SyncSender<Order>,
        clock: Arc<dyn Clock>,
        built: Arc<BuildStatus>,
        status: Arc<DecideStatus>,
    ) -> Self {
        let (out, arrivals) = (TriggerOutput::default(), Arrivals::default());
        Self {
            chain,
            outlet,
            fragments,
            orders,
            clock,
            built,
            status,
            out,
            arrivals,
            complete_to: 0,
            done: 0,
        }
    }

    /// Decides until the receiving threads are gone and every primitive is used.
    pub(super) fn run(mut self, primitives: &ItemReceiver<TriggerPrimitive>) {
        loop {
            let Self { chain, out, arrivals, clock, .. } = &mut self;
            let received = primitives.receive(WAIT, |batch| {
                let now_ns = clock.now_ns();
                for (segment, found) in batch.segments() {
                    let stream = segment.stream as usize;
                    chain.push(stream, found, segment.searched_to, now_ns, out);
                    if chain.agrees(stream) {
                        arrivals.note(segment.searched_to, segment.arrival_ns);
                    }
                }
            });
            let now_ns = self.clock.now_ns();
            self.note_done();
            self.chain.advance(now_ns, &mut self.out);
            self.hand_on(now_ns);
            if received == Err(NoBatch::Finished) {
                break;
            }
        }
        let now_ns = self.clock.now_ns();
        self.chain.drain(now_ns, &mut self.out);
        self.hand_on(now_ns);
        let attach = |number, added| send(&self.orders, Order::Attach(number, added));
        self.fragments.end(self.complete_to, attach);
        self.outlet.finish();
    }

    /// Tells the trigger how many records were finished since it was last told.
    fn note_done(&mut self) {
        let done = self.built.done.load(Ordering::Acquire);
        let new = done - self.done;
        self.done = done;
        if new > 0 {
            self.chain.records_done(new as usize, &mut self.out);
        }
    }

    fn hand_on(&mut self, now_ns: u64) {
        let primitives = &self.out.primitives;
        primitives.ordered.iter().for_each(|tp| self.outlet.primitive(*tp));
        primitives.late.iter().for_each(|tp| self.outlet.primitive_beside(*tp));
        primitives.ordered.last().into_iter().for_each(|tp| self.status.note_primitive(*tp));
        self.outlet.busy(&self.out.decided.busy);
        let Self { fragments, orders, out, .. } = self;
        fragments.remember(&out.primitives.ordered, out.activities.drain(..));
        for decision in out.decided.decisions.drain(..) {
            if let Some(arrival_ns) = self.arrivals.of(decision.timestamp) {
                self.status.arrival_to_decision_ns.record(now_ns.saturating_sub(arrival_ns));
            }
            send(orders, Order::Build(request(&decision, now_ns)));
            fragments.ask(decision, now_ns);
        }
        let attach = |number, added| send(orders, Order::Attach(number, added));
        if out.began_anew {
            tracing::warn!("most streams went back in time; the order of primitives begins anew");
            fragments.end(self.complete_to, attach);
            self.complete_to = 0;
            self.outlet.begin_anew();
            self.arrivals = Arrivals::default();
        } else {
            self.complete_to = self.chain.complete_to();
            fragments.answer(self.complete_to, now_ns, attach);
        }
        self.out.clear();
        self.outlet.retry(now_ns);
    }
}

/// The channel has room for all records that may be in flight, and the builder outlives the
/// deciding thread unless it failed, which the run notices.
fn send(orders: &SyncSender<Order>, order: Order) {
    let _builder_gone = orders.send(order);
}

/// What the builder is asked for.
fn request(decision: &Decision, decided_ns: u64) -> RecordRequest {
    RecordRequest {
        trigger_number: decision.trigger_number,
        run_number: decision.run,
        trigger_timestamp: decision.timestamp,
        trigger_type: decision.trigger_type,
        window: Window { begin: decision.window_begin, end: decision.window_end },
        decided_ns,
    }
}
