//! What the receiving threads find in the datagrams of a module: confirmed hits and a summary of each slice.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use gannet_kernels::coincidences::{CalibratedHit, Calibration, ModuleSlice};
use gannet_kernels::{Isa, IsaError};
use gannet_measure::counter::Counter;
use gannet_measure::drop_reasons;
use gannet_measure::ledger::Account;
use gannet_trigger::Finder;
use gannet_wire::km3net::clb::Optical;
use gannet_wire::km3net::daq::{SummaryFrame, rate_code};
use gannet_wire::km3net::{CHANNELS, Hit, SLICE_NS};
use gannet_wire::{Heading, Record};

use crate::assembly::{Assembly, DATAGRAMS_MAX};
use crate::item::{Km3Item, SUMMARY_ITEMS};
use crate::levels::Levels;
use crate::recent::Recent;

/// Most confirmed hits of a module and a slice: 40 kHz.
const CONFIRMED_MAX: usize = 4096;

drop_reasons! {
    /// Why a datagram was not put into its slice.
    pub enum DatagramDrop {
        /// Its slice was over.
        Late => "late",
        /// It came before.
        Doubled => "doubled",
        /// It does not begin with a slice.
        OffSlice => "off_slice",
        /// Its number is beyond all that a slice has.
        NumberTooLarge => "number_too_large",
    }
}

drop_reasons! {
    /// Why a hit was left out.
    pub enum HitDrop {
        /// Its channel is above 30.
        UnknownChannel => "unknown_channel",
        /// Its time is not within the slice.
        BeyondSlice => "beyond_slice",
        /// The module has more hits than are kept: 40 kHz on each photomultiplier.
        AboveLimit => "above_limit",
    }
}

drop_reasons! {
    /// Why a confirmed hit was not handed on.
    pub enum ConfirmedDrop {
        /// The module has more than 40 kHz of them.
        AboveLimit => "above_limit",
    }
}

/// What became of datagrams and hits, which any thread may read.
#[derive(Debug, Default)]
pub struct SliceCounters {
    /// Datagrams.
    pub datagrams: Account<DatagramDrop>,
    /// Hits of slices that are over.
    pub hits: Account<HitDrop>,
    /// Hits that others confirm.
    pub confirmed: Account<ConfirmedDrop>,
    /// Slices of modules of which every datagram came.
    pub complete: Counter,
    /// The others.
    pub incomplete: Counter,
    /// Datagrams missing before the last one that came of a slice.
    pub missing: Counter,
    /// Slices, by photomultiplier, under the high-rate veto.
    pub vetoed: Counter,
    /// Slices, by photomultiplier, with the FIFO almost full.
    pub fifo_almost_full: Counter,
}

/// Buffers to sort hits in, as many as there are receiving threads.
pub struct Sorters {
    isa: Isa,
    free: Mutex<Vec<ModuleSlice>>,
}

impl Sorters {
    /// None yet.
    ///
    /// # Errors
    /// When this machine lacks the instruction set.
    pub fn new(isa: Isa) -> Result<Self, IsaError> {
        let first = ModuleSlice::new(SLICE_NS as u32, isa)?;
        Ok(Self { isa, free: Mutex::new(vec![first]) })
    }

    fn with<R>(&self, work: impl FnOnce(&mut ModuleSlice) -> R) -> R {
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let sorter = free().pop();
        let mut sorter = sorter.unwrap_or_else(|| {
            ModuleSlice::new(SLICE_NS as u32, self.isa).expect("the first was made like that")
        });
        let result = work(&mut sorter);
        free().push(sorter);
        result
    }
}

impl fmt::Debug for Sorters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sorters").field("isa", &self.isa).finish_non_exhaustive()
    }
}

/// What all finders of a run share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Buffers to sort in.
    pub sorters: Arc<Sorters>,
    /// Counters.
    pub counters: Arc<SliceCounters>,
}

/// Finds what is in the datagrams of one module.
#[derive(Debug)]
pub struct Km3Finder {
    module: u16,
    status_words: usize,
    calibration: Calibration,
    /// Time after the end of a slice before which all its hits are, calibrated.
    margin_ns: u64,
    levels: Levels,
    recent: Arc<Recent>,
    shared: Shared,
    assembly: Assembly,
    /// Begin of the next slice that may come: all before are over.
    next: u64,
    searched_to: u64,
}

/// What a finder knows of its module.
pub struct Module {
    /// Stream of the module.
    pub stream: u16,
    /// Status words of its datagrams.
    pub status_words: usize,
    /// What is added to the times of its hits.
    pub calibration: Calibration,
    /// Largest time that is added to any hit of the detector, in ns.
    pub t0_max: u32,
    /// Which of its hits are confirmed.
    pub levels: Levels,
    /// Where all its hits are kept for a while.
    pub recent: Arc<Recent>,
}

impl Km3Finder {
    /// For a module.
    pub fn new(module: Module, shared: Shared) -> Self {
        let Module { stream, status_words, calibration, t0_max, levels, recent } = module;
        Self {
            module: stream,
            status_words,
            calibration,
            margin_ns: u64::from(t0_max) + 1,
            levels,
            recent,
            shared,
            assembly: Assembly::default(),
            next: 0,
            searched_to: 0,
        }
    }

    /// The open slice is over: finds what is in it.
    fn close(&mut self, out: &mut Vec<Km3Item>) {
        let Some(begin) = self.assembly.begin.take() else { return };
        let Self { module, assembly, calibration, levels, recent, shared, .. } = self;
        let counters = &*shared.counters;
        let mut rates = [0_u32; CHANNELS + 1];
        let came = (assembly.hits.len() / Hit::LEN) as u64;
        shared.sorters.with(|sorter| {
            let before = sorter.counts();
            sorter.clear();
            sorter.add(&assembly.hits, calibration);
            let after = sorter.counts();
            let unknown = after.unknown_channel - before.unknown_channel;
            let beyond = after.beyond_slice - before.beyond_slice;
            let hits = sorter.sorted();
            counters.hits.offer(came + assembly.cut);
            counters.hits.deliver(hits.len() as u64);
            counters.hits.discard(HitDrop::UnknownChannel, unknown);
            counters.hits.discard(HitDrop::BeyondSlice, beyond);
            counters.hits.discard(HitDrop::AboveLimit, assembly.cut);
            hits.iter().for_each(|hit: &CalibratedHit| {
                rates[usize::from(hit.channel()) % (CHANNELS + 1)] += 1;
            });
            recent.add(begin, hits);
            let confirmed = levels.find(hits);
            let (found, taken) = (confirmed.len(), confirmed.len().min(CONFIRMED_MAX));
            let items = confirmed.take(taken);
            out.extend(items.map(|(hit, levels)| Km3Item::hit(begin, *module, hit, levels)));
            counters.confirmed.offer(found as u64);
            counters.confirmed.deliver(taken as u64);
            counters.confirmed.discard(ConfirmedDrop::AboveLimit, (found - taken) as u64);
        });
        let status = assembly.status();
        let complete =
            if assembly.is_complete() { &counters.complete } else { &counters.incomplete };
        complete.add(1);
        counters.missing.add(assembly.missing().into());
        counters.vetoed.add(status.vetoed().count_ones().into());
        counters.fifo_almost_full.add(status.fifo_almost_full().count_ones().into());
        let per_hz = SLICE_NS as f64 / 1e9;
        let frame = SummaryFrame {
            module: 0,
            daq_status: assembly.daq_status(),
            status,
            rates: std::array::from_fn(|channel| rate_code(f64::from(rates[channel]) / per_hz)),
        };
        self.next = begin + SLICE_NS;
        out.extend(Km3Item::summary(self.next - 1, self.module, &frame));
        self.searched_to = self.next + self.margin_ns;
    }
}

impl Finder for Km3Finder {
    type Item = Km3Item;
    /// One datagram may end two slices: the one before, and its own.
    const ITEMS_MAX: usize = 2 * (CONFIRMED_MAX + SUMMARY_ITEMS);

    fn frame(&mut self, heading: &Heading, frame: &[u8], out: &mut Vec<Km3Item>) -> bool {
        let Ok(datagram) = Optical::new_checked(frame, self.status_words) else { return false };
        let counters = Arc::clone(&self.shared.counters);
        let datagrams = &counters.datagrams;
        datagrams.offer(1);
        let begin = heading.begin;
        let refusal = if !begin.is_multiple_of(SLICE_NS) || begin > u64::MAX - 4 * SLICE_NS {
            Some(DatagramDrop::OffSlice)
        } else if heading.sequence >= DATAGRAMS_MAX {
            Some(DatagramDrop::NumberTooLarge)
        } else if begin < self.assembly.begin.unwrap_or(self.next) {
            Some(DatagramDrop::Late)
        } else {
            if self.assembly.begin != Some(begin) {
                self.close(out);
                self.assembly.open(begin);
            }
            let is_new = self.assembly.take(heading.sequence, &datagram);
            (!is_new).then_some(DatagramDrop::Doubled)
        };
        if let Some(reason) = refusal {
            datagrams.discard(reason, 1);
            return false;
        }
        datagrams.deliver(1);
        if self.assembly.is_complete() {
            self.close(out);
        }
        true
    }

    fn searched_to(&self) -> u64 {
        self.searched_to
    }

    fn begin_anew(&mut self) {
        self.assembly.begin = None;
        (self.next, self.searched_to) = (0, 0);
    }
}
