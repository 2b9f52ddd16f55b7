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

    fn finish(&mut self, out: &mut Vec<Km3Item>) {
        self.close(out);
    }

    fn begin_anew(&mut self) {
        (self.next, self.searched_to) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use gannet_wire::FrameFormat;
    use gannet_wire::km3net::Status;
    use gannet_wire::km3net::clb::{self, ClbFormat, DataType, Header};
    use gannet_wire::km3net::detector_file::directions;

    use super::*;
    use crate::item::What;
    use crate::levels::LevelConfig;

    const WORDS: usize = 4;
    const BEGIN: u64 = 1_700_000_000_000_000_000;

    fn finder() -> Km3Finder {
        let isa = Isa::best();
        let module = Module {
            stream: 3,
            status_words: WORDS,
            calibration: Calibration::new(&[7; CHANNELS]),
            t0_max: 20,
            levels: Levels::new(&LevelConfig::default(), &directions(), isa).unwrap(),
            recent: Arc::new(Recent::new(3)),
        };
        let sorters = Arc::new(Sorters::new(isa).unwrap());
        Km3Finder::new(module, Shared { sorters, counters: Arc::default() })
    }

    fn datagram(slice: u64, number: u32, is_last: bool, hits: &[(u8, u32)]) -> Vec<u8> {
        let header = Header {
            data_type: DataType::Optical,
            run: 1,
            udp_sequence: number,
            utc_seconds: 0,
            ticks: 0,
            module: 101,
        };
        let header = header.with_begin_ns(BEGIN + slice);
        let hit = |&(channel, time)| Hit { channel, time, time_over_threshold: 20 };
        let hits: Vec<Hit> = hits.iter().map(hit).collect();
        let mut bytes = vec![0; clb::optical_len(WORDS, hits.len())];
        clb::emit_optical(&header, &Status::new(true, 0, is_last, 0), WORDS, &hits, &mut bytes);
        bytes
    }

    fn take(finder: &mut Km3Finder, datagram: &[u8], out: &mut Vec<Km3Item>) -> bool {
        let format = ClbFormat { status_words: WORDS, ..ClbFormat::default() };
        finder.frame(&format.heading(datagram).unwrap(), datagram, out)
    }

    #[test]
    fn a_slice_gives_its_confirmed_hits_and_a_summary_when_it_is_whole() {
        let (mut finder, mut out) = (finder(), Vec::new());
        assert!(take(&mut finder, &datagram(0, 1, true, &[(4, 5009), (30, 99_999_999)]), &mut out));
        assert!(out.is_empty() && finder.searched_to() == 0);
        assert!(take(&mut finder, &datagram(0, 0, false, &[(9, 5000), (9, 70_000)]), &mut out));
        let (hits, summary) = out.split_at(out.len() - SUMMARY_ITEMS);
        let times: Vec<u64> = hits.iter().map(|hit| hit.time - BEGIN).collect();
        assert_eq!(times, [5007, 5016], "t0 is added");
        let mut frame = SummaryFrame::default();
        for item in summary {
            let What::Summary(part) = item.what() else { panic!("{item:?}") };
            part.put(&mut frame);
        }
        assert_eq!((frame.daq_status, frame.status.udp_trailer()), (1 << 16 | 2, true));
        assert_eq!(finder.searched_to(), BEGIN + SLICE_NS + 21);
        assert!(out.iter().all(|item| item.time < finder.searched_to()));
    }

    #[test]
    fn datagrams_that_lie_are_counted_by_name() {
        let (mut finder, mut out) = (finder(), Vec::new());
        let counters = Arc::clone(&finder.shared.counters);
        let bad = [(31, 5), (255, 5), (1, SLICE_NS as u32), (1, u32::MAX), (2, 10)];
        assert!(take(&mut finder, &datagram(SLICE_NS, 0, false, &bad), &mut out));
        assert!(!take(&mut finder, &datagram(SLICE_NS, 0, false, &bad), &mut out), "doubled");
        assert!(!take(&mut finder, &datagram(SLICE_NS + 16, 1, false, &[]), &mut out), "no slice");
        assert!(!take(&mut finder, &datagram(SLICE_NS, 1 << 15, true, &[]), &mut out));
        assert!(!take(&mut finder, &datagram(0, 1, false, &[]), &mut out), "time goes back");
        let heading = Heading { stream: Default::default(), begin: BEGIN, sequence: 0 };
        assert!(!finder.frame(&heading, &datagram(0, 0, true, &[(1, 2)])[..45], &mut out));
        // The next slice ends this one.
        assert!(take(&mut finder, &datagram(2 * SLICE_NS, 0, false, &[]), &mut out));
        assert_eq!(out.len(), SUMMARY_ITEMS);
        let SliceCounters { datagrams, hits, incomplete, .. } = &*counters;
        let datagrams = datagrams.statement("");
        let dropped: Vec<u64> = datagrams.dropped.iter().map(|drop| drop.count).collect();
        assert_eq!((datagrams.offered, dropped), (6, vec![1; 4]));
        assert_eq!((hits.statement("").offered, hits.delivered(), incomplete.get()), (5, 1, 1));
        assert_eq!(hits.dropped(HitDrop::UnknownChannel), 2);
        assert_eq!(hits.dropped(HitDrop::BeyondSlice), 2);
        // What the stream ends in is a slice as well, and time may begin anew after it.
        finder.finish(&mut out);
        assert_eq!((out.len(), incomplete.get()), (2 * SUMMARY_ITEMS, 2));
        finder.finish(&mut out);
        assert_eq!(out.len(), 2 * SUMMARY_ITEMS, "once");
        finder.begin_anew();
        assert!(take(&mut finder, &datagram(0, 0, true, &[]), &mut out), "time began anew");
    }

    #[test]
    fn a_module_full_of_light_fills_no_more_than_its_share() {
        let (mut finder, mut out) = (finder(), Vec::new());
        let bright: Vec<(u8, u32)> = (0..1000).map(|hit| ((hit % 31) as u8, hit / 8)).collect();
        for number in 0..200 {
            assert!(take(&mut finder, &datagram(0, number, number == 199, &bright), &mut out));
        }
        assert_eq!(out.len(), CONFIRMED_MAX + SUMMARY_ITEMS);
        assert!(out.len() <= Km3Finder::ITEMS_MAX);
        let SliceCounters { hits, confirmed, .. } = &*finder.shared.counters;
        assert!(hits.dropped(HitDrop::AboveLimit) > 60_000 && hits.statement("").closes());
        assert_eq!(confirmed.delivered(), CONFIRMED_MAX as u64);
    }
}
