//! The trigger as the deciding thread runs it: what all modules bring in one order of time, events found
//! in it, and slices written.

use std::sync::Arc;

use gannet_kernels::clusters::{Event, EventFinder, ModuleHit};
use gannet_log::{Chunk, Kind, Label};
use gannet_measure::counter::Counter;
use gannet_measure::ledger::Account;
use gannet_readout::items::Segment;
use gannet_readout::trigger::{Outcome, Product, ProductDrop, Trigger};
use gannet_record::Origin;
use gannet_trigger::merge::{Batched, MergeCounters, Merged, Merger};
use gannet_wire::km3net::SLICE_NS;
use gannet_wire::km3net::daq::trigger_bit;

use crate::event::EventWriter;
use crate::geometry::Geometry;
use crate::item::{Km3Item, What};
use crate::slices::{self, Slices};

/// Merges what the modules bring, and decides on it.
pub struct Km3Trigger {
    merger: Merger<Km3Item, Batched<Km3Item>>,
    merged: Merged<Km3Item>,
    stages: Behind,
    counters: Km3Counters,
}

/// What is behind the merger.
struct Behind {
    geometry: Arc<Geometry>,
    events: EventFinder,
    writer: EventWriter,
    slices: Slices,
    counters: Km3Counters,
}

/// What any thread may see of a trigger.
#[derive(Clone, Debug, Default)]
pub struct Km3Counters {
    /// What the streams brought, in one order of time.
    pub merge: Arc<MergeCounters>,
    /// Objects to be recorded.
    pub objects: Arc<Account<ProductDrop>>,
    /// Counters of its own.
    pub found: Arc<Found>,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    /// Events.
    pub events: Counter,
    /// Those with a muon.
    pub muons: Counter,
    /// Those with a shower.
    pub showers: Counter,
    /// Those in which a limit was reached.
    pub limited: Counter,
    /// Slices of all modules.
    pub slices: Counter,
    /// Slices of modules that are missing in them.
    pub silent: Counter,
    /// Up to where the data have come, in ns since 1970.
    pub last: Counter,
    /// Where they began.
    pub first: Counter,
}

/// The stages of a trigger.
pub struct Parts {
    /// Merges what the modules bring.
    pub merger: Merger<Km3Item, Batched<Km3Item>>,
    /// The modules.
    pub geometry: Arc<Geometry>,
    /// Finds events.
    pub events: EventFinder,
    /// Writes them.
    pub writer: EventWriter,
    /// Writes slices.
    pub slices: Slices,
}

impl Km3Trigger {
    /// A trigger of these stages.
    pub fn new(parts: Parts) -> Self {
        let Parts { merger, geometry, events, writer, slices } = parts;
        let merge = Arc::clone(merger.counters());
        let counters = Km3Counters { merge, ..Km3Counters::default() };
        let stages = Behind { geometry, events, writer, slices, counters: counters.clone() };
        Self { merger, merged: Merged::default(), stages, counters }
    }

    /// What any thread may see of it.
    pub fn counters(&self) -> Km3Counters {
        self.counters.clone()
    }

    /// Takes what the merger gave out beside its releases.
    fn take_merged(&mut self) {
        // The account of the merger tells of these.
        self.merged.late.clear();
        self.merged.ordered.drain(..).for_each(|item| self.stages.take(&item));
    }
}

impl Behind {
    /// Takes an item, no earlier than those before.
    #[inline]
    fn take(&mut self, item: &Km3Item) {
        let Km3Item { time, module, .. } = *item;
        match item.what() {
            What::Hit { channel, time_over_threshold, levels } => {
                let own = &self.geometry.modules[usize::from(module)];
                let sent = own.sent_time(time, channel);
                self.slices.hit(sent, module, channel, time_over_threshold, levels);
                let module = module.into();
                self.events.push(ModuleHit { time, module, channel, time_over_threshold });
            }
            What::Summary(part) => self.slices.summary(time, module, &part),
        }
    }

    /// Nothing before `to` will come.
    fn advance(&mut self, to: u64, outcome: &mut Outcome<Origin>) {
        let Self { events, writer, slices, counters, .. } = self;
        events.advance(to, |event| give_event(event, writer, slices, counters, outcome));
        let modules = self.geometry.modules.len();
        let behind = u64::from(self.geometry.t0_max);
        slices.finish_before(to.saturating_sub(behind), |slice| {
            give_slice(slice, modules, counters, outcome);
        });
        let found = &counters.found;
        found.last.set(to);
        if found.first.get() == 0 && to > 0 {
            found.first.set(to.saturating_sub(SLICE_NS));
        }
    }

    fn finish(&mut self, outcome: &mut Outcome<Origin>) {
        let Self { events, writer, slices, counters, .. } = self;
        events.finish(|event| give_event(event, writer, slices, counters, outcome));
        let modules = self.geometry.modules.len();
        slices.finish(|slice| give_slice(slice, modules, counters, outcome));
    }
}

fn give_event(
    event: &Event<'_>,
    writer: &mut EventWriter,
    slices: &mut Slices,
    counters: &Km3Counters,
    outcome: &mut Outcome<Origin>,
) {
    let found = &counters.found;
    let has = |bit: u32| u64::from(event.mask >> bit & 1 == 1);
    found.events.add(1);
    found.muons.add(has(trigger_bit::MUON));
    found.showers.add(has(trigger_bit::SHOWER));
    found.limited.add(has(trigger_bit::LIMIT_REACHED));
    if let Some(event) = writer.write(event, slices) {
        give(event.times, 1, event.bytes, counters, outcome);
    }
}

fn give_slice(
    slice: slices::Written,
    modules: usize,
    counters: &Km3Counters,
    outcome: &mut Outcome<Origin>,
) {
    counters.found.slices.add(1);
    counters.found.silent.add(modules.saturating_sub(slice.modules) as u64);
    let times = (slice.begin, slice.begin + SLICE_NS - 1);
    give(times, slice.objects, slice.bytes, counters, outcome);
}

fn give(
    (first, last): (u64, u64),
    objects: u32,
    bytes: Vec<u8>,
    counters: &Km3Counters,
    outcome: &mut Outcome<Origin>,
) {
    let account = Arc::clone(&counters.objects);
    account.offer(objects.into());
    let label = Label::new(Kind::DAQ_OBJECTS).times(first, last).counts(objects, 0);
    outcome.products.push(Product { chunk: Chunk::new(label, bytes), account });
}

impl Trigger for Km3Trigger {
    type Item = Km3Item;
    type Origin = Origin;

    fn take(&mut self, segment: &Segment, items: &[Km3Item], _: u64) {
        self.merger.push(segment.stream as usize, items, segment.searched_to, &mut self.merged);
    }

    fn agrees(&self, stream: usize) -> bool {
        self.merger.agrees(stream)
    }

    fn records_done(&mut self, _: usize) {}

    fn advance(&mut self, now_ns: u64, outcome: &mut Outcome<Origin>) {
        let looked = self.merger.look(now_ns);
        self.take_merged();
        let Self { merger, merged, stages, .. } = self;
        merger.release_each(&looked, &mut merged.late, |item| stages.take(item));
        if looked.began_anew() {
            stages.finish(outcome);
            outcome.began_anew = true;
        } else {
            stages.advance(merger.released_to(), outcome);
        }
    }

    fn drain(&mut self, _: u64, outcome: &mut Outcome<Origin>) {
        self.merger.drain(&mut self.merged);
        self.take_merged();
        self.stages.finish(outcome);
    }
}
