//! Front ends of optical modules: datagrams by module and number.

use std::ops::Range;

use gannet_wire::km3net::clb::{self, ClbFormat, DataType};
use gannet_wire::km3net::{CHANNELS, DetectorFile, Hit, SLICE_NS, Status};
use gannet_wire::{Heading, Record, StreamKey};

use super::config::{Config, Datagrams};
use super::event::{Event, Slice};
use super::light_slices::{LightHit, LightSlices};
use super::modules::{HIT_LEN, Modules, SLICES_PER_S};
use crate::config::ConfigError;
use crate::emulator::Emulator;
use crate::front_end::{Body, FrontEnd, InjectedEvent};

/// Optical modules: datagrams as a function of configuration, seed, module and number alone.
///
/// Each slice of 100 ms is sent in always as many datagrams. Each has as many hits of noise as the others, from slices
/// made beforehand, and the light of muons and showers of that time.
#[derive(Clone, Debug)]
pub struct Km3FrontEnd {
    format: ClbFormat,
    streams: Vec<StreamKey>,
    modules: Modules,
    light: LightSlices,
    start: u64,
    run: u32,
}

impl Km3FrontEnd {
    /// The modules of `detector`. `now` is the time in nanoseconds since 1970, unless the
    /// configuration names one.
    ///
    /// # Errors
    /// A [`ConfigError`] if the configuration cannot be emulated.
    pub fn new(config: &Config, detector: &DetectorFile, now: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let start = config.start_timestamp.unwrap_or(now) / SLICE_NS * SLICE_NS;
        let Datagrams { bytes_max, status_words, run } = config.datagrams;
        let format = ClbFormat { status_words, len_max: bytes_max, slice_ns: SLICE_NS };
        Ok(Self {
            format,
            streams: detector.modules().iter().map(|it| StreamKey(it.id.into())).collect(),
            light: LightSlices::new(&config.light, config.seed, detector, start),
            modules: Modules::new(config, detector.clone())?,
            start,
            run,
        })
    }

    /// Datagrams of a module in a slice.
    pub fn datagrams_per_slice(&self) -> usize {
        self.modules.windows
    }

    /// Hits of each channel of a module, by its place in the detector, in slice `slice` from the
    /// first.
    pub fn counts(&mut self, module: usize, slice: u64) -> [u32; CHANNELS] {
        let mut counts = self.modules.noise_counts(module);
        for hit in self.light.hits(slice, module, 0..u32::MAX, &self.modules) {
            counts[usize::from(hit.channel)] += 1;
        }
        counts
    }

    /// The muons and showers of slice `slice` from the first, in order of time.
    pub fn events(&mut self, slice: u64) -> &[Event] {
        self.light.events(slice, &self.modules)
    }

    /// What the modules send in slice `slice` from the first.
    pub fn slice(&mut self, slice: u64) -> Slice {
        let ids: Vec<u32> = self.streams.iter().map(|stream| stream.0 as u32).collect();
        let hits = ids.into_iter().enumerate();
        let hits = hits.map(|(module, id)| (id, self.counts(module, slice).to_vec())).collect();
        Slice { slice, time: self.start + slice * SLICE_NS, hits }
    }

    /// The slices that begin with one of these datagrams.
    fn slices(&self, datagrams: Range<u64>) -> Range<u64> {
        let windows = self.modules.windows as u64;
        datagrams.start.div_ceil(windows)..datagrams.end.div_ceil(windows)
    }

    /// Slice and datagram in it of datagram `index` of a module.
    fn place(&self, index: u64) -> (u64, usize) {
        let windows = self.modules.windows as u64;
        (index / windows, (index % windows) as usize)
    }
}

impl FrontEnd for Km3FrontEnd {
    type Format = ClbFormat;

    fn format(&self) -> &ClbFormat {
        &self.format
    }

    fn streams(&self) -> &[StreamKey] {
        &self.streams
    }

    fn start(&self) -> u64 {
        self.start
    }

    /// The begin of the slice.
    fn begin(&self, index: u64) -> u64 {
        self.start + self.place(index).0 * SLICE_NS
    }

    /// The number of a datagram is that in its slice.
    fn heading(&self, stream: usize, index: u64) -> Heading {
        let sequence = self.place(index).1 as u32;
        Heading { stream: self.streams[stream], begin: self.begin(index), sequence }
    }

    fn frames_per_s(&self) -> f64 {
        self.modules.windows as f64 * SLICES_PER_S
    }

    fn make(&mut self, stream: usize, index: u64, frame: &mut Vec<u8>) -> Body {
        let (slice, window) = self.place(index);
        let last = window + 1 == self.modules.windows;
        let header = clb::Header {
            data_type: DataType::Optical,
            run: self.run,
            udp_sequence: window as u32,
            utc_seconds: 0,
            ticks: 0,
            module: self.streams[stream].0 as u32,
        };
        let header = header.with_begin_ns(self.begin(index));
        let (status, words) = (Status::new(true, 0, last, 0), self.format.status_words);
        let hits_at = clb::optical_len(words, 0);
        frame.resize(hits_at, 0);
        clb::emit_optical(&header, &status, words, &[], frame);
        self.modules.write_noise(stream, slice, window, frame);
        let time = self.modules.time_of(stream, slice, window);
        let light = self.light.hits(slice, stream, time, &self.modules);
        if !light.is_empty() {
            for &LightHit { time, channel, tot, .. } in light {
                let hit = Hit { channel, time, time_over_threshold: tot };
                let place = frame.len();
                frame.resize(place + HIT_LEN, 0);
                hit.emit(&mut frame[place..]);
            }
            let (hits, _) = frame[hits_at..].as_chunks_mut::<HIT_LEN>();
            hits.sort_by_key(|hit| Hit::read(hit).time);
        }
        Body::Own(hits_at)
    }

    fn report(&mut self, frames: Range<u64>, event: &mut dyn FnMut(&dyn InjectedEvent)) {
        for slice in self.slices(frames) {
            event(&self.slice(slice));
            self.events(slice).iter().for_each(|what| event(what));
        }
    }

    fn count(&mut self, frames: Range<u64>, add: &mut dyn FnMut(&'static str, u64)) {
        for slice in self.slices(frames) {
            add("slice", 1);
            self.events(slice).iter().for_each(|event| add(event.kind(), 1));
        }
    }
}

impl Config {
    /// The emulator of these front ends, which are the modules of `detector`.
    ///
    /// # Errors
    /// As [`Km3FrontEnd::new`].
    pub fn emulator(
        &self,
        detector: &DetectorFile,
        now: u64,
    ) -> Result<Emulator<Km3FrontEnd>, ConfigError> {
        Emulator::new(Km3FrontEnd::new(self, detector, now)?, &self.settings())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::FrameFormat;
    use gannet_wire::km3net::detector_file::Lattice;
    use std::collections::BTreeSet;

    fn detector() -> DetectorFile {
        DetectorFile::lattice(&Lattice { strings: 7, ..Lattice::default() })
    }

    fn front_end(edit: impl FnOnce(&mut Config)) -> Km3FrontEnd {
        let mut config =
            Config { start_timestamp: Some(1_795_392_000_123_456_789), ..Config::default() };
        edit(&mut config);
        Km3FrontEnd::new(&config, &detector(), 0).unwrap()
    }

    /// Time, channel and time over threshold of the hits of a frame.
    fn hits(frame: &[u8]) -> Vec<(u32, u8, u8)> {
        let packet = clb::Optical::new_checked(frame, 4).unwrap();
        packet.hits().map(|hit| (hit.time, hit.channel, hit.time_over_threshold)).collect()
    }

    /// All hits of a module in a slice.
    fn slice(front_end: &mut Km3FrontEnd, module: usize, slice: u64) -> Vec<(u32, u8, u8)> {
        let windows = front_end.datagrams_per_slice() as u64;
        let indices = slice * windows..(slice + 1) * windows;
        indices.flat_map(|index| hits(&front_end.frame(module, index))).collect()
    }

    #[test]
    fn a_slice_has_the_hits_that_the_truth_counts() {
        let mut front_end = front_end(|config| config.light.muons_hz = 100.0);
        let truth = front_end.slice(3);
        assert_eq!(truth.time, front_end.start() + 300_000_000);
        for module in [0, 5, 125] {
            let mut counts = vec![0; CHANNELS];
            let mut last = 0;
            for (time, channel, tot) in slice(&mut front_end, module, 3) {
                counts[usize::from(channel)] += 1;
                assert!(time + 51 > last && time < 100_000_000 && tot >= 4, "{time} {last}");
                last = time;
            }
            let id = front_end.streams()[module].0 as u32;
            assert_eq!(counts, truth.hits[&id]);
            let rate = f64::from(counts.iter().sum::<u32>()) * 10.0;
            assert!((185e3..220e3).contains(&rate), "{rate}");
        }
    }

    #[test]
    fn headers_tell_module_slice_and_the_last_datagram_of_it() {
        let mut front_end = front_end(|_| ());
        assert_eq!(front_end.start(), 1_795_392_000_100_000_000);
        let windows = front_end.datagrams_per_slice() as u64;
        for index in [0, 1, windows - 1, windows, 40 * windows + 3] {
            let frame = front_end.frame(20, index);
            let packet = clb::Optical::new_checked(&frame, 4).unwrap();
            let header = packet.header();
            assert_eq!((header.module, header.run), (front_end.streams()[20].0 as u32, 1));
            assert_eq!(u64::from(header.udp_sequence), index % windows);
            assert_eq!(header.begin_ns(), front_end.start() + index / windows * 100_000_000);
            assert_eq!(packet.status().udp_trailer(), index % windows == windows - 1);
            assert!(packet.status().white_rabbit());
            assert_eq!(front_end.format().heading(&frame).unwrap(), front_end.heading(20, index));
        }
        let config = Config { start_timestamp: Some(0), ..Config::default() };
        let datagrams = Datagrams { status_words: 1, ..Datagrams::default() };
        let config = Config { datagrams, ..config };
        let mut short = Km3FrontEnd::new(&config, &detector(), 0).unwrap();
        clb::Optical::new_checked(&short.frame(0, 0), 1).unwrap();
    }

    #[test]
    fn datagrams_are_full_but_never_too_long() {
        let mut front_end = front_end(|config| config.light.muons_hz = 1000.0);
        let windows = front_end.datagrams_per_slice() as u64;
        assert!((110..=120).contains(&windows), "{windows}");
        for module in [0, 3, 9] {
            let lengths: Vec<usize> =
                (0..windows).map(|index| front_end.frame(module, index).len()).collect();
            assert!(lengths.iter().all(|&length| length <= 1472));
            // Only light makes some longer than their neighbours.
            let least = *lengths.iter().min().unwrap();
            let equal = lengths.iter().filter(|&&length| length <= least + HIT_LEN).count();
            assert!(least > 1000 && 4 * equal > 3 * lengths.len(), "{lengths:?}");
            assert!(equal < lengths.len(), "no light");
        }
        let jumbo = self::front_end(|config| config.datagrams.bytes_max = 8972);
        assert!((17..=20).contains(&jumbo.datagrams_per_slice()));
    }

    #[test]
    fn hits_of_light_are_sent_at_their_time_less_t0() {
        let mut front_end = front_end(|config| config.light.muons_hz = 100.0);
        let detector = detector();
        let t0 = |module: u32, channel: u8| {
            detector.module(module).unwrap().pmts[usize::from(channel)].t0_ns
        };
        let least = detector.modules().iter().flat_map(|module| &module.pmts);
        let least = least.map(|pmt| pmt.t0_ns).fold(f64::MAX, f64::min);
        let events = front_end.events(2).to_vec();
        assert!(
            events.len() > 3 && events.iter().map(|event| event.hits.len()).sum::<usize>() > 200
        );
        for event in &events {
            for module in event.hits.chunk_by(|a, b| a.module == b.module) {
                let place = detector.place(module[0].module).unwrap();
                let sent: BTreeSet<_> = slice(&mut front_end, place, 2).into_iter().collect();
                for hit in module {
                    let time = hit.time_ns.round() - (t0(hit.module, hit.channel) - least).round();
                    assert!(sent.contains(&(time as u32, hit.channel, hit.tot)), "{hit:?}");
                }
            }
            assert_eq!(event.time, front_end.start() + 200_000_000 + event.time_ns as u64);
        }
        assert!(events.is_sorted_by(|a, b| a.time <= b.time));
    }

    #[test]
    fn decays_coincide_once_t0_is_added() {
        let mut front_end = front_end(|config| config.light.muons_hz = 0.0);
        let detector = detector();
        let pairs = |hits: &[f64]| hits.windows(2).filter(|pair| pair[1] - pair[0] < 5.0).count();
        let (mut calibrated, mut raw) = (0, 0);
        for module in 0..20 {
            let pmts = &detector.modules()[module].pmts;
            let hits = slice(&mut front_end, module, 0);
            let mut times: Vec<f64> = hits.iter().map(|hit| f64::from(hit.0)).collect();
            times.sort_by(f64::total_cmp);
            raw += pairs(&times);
            let hits = hits.iter().map(|hit| f64::from(hit.0) + pmts[usize::from(hit.1)].t0_ns);
            let mut times: Vec<f64> = hits.collect();
            times.sort_by(f64::total_cmp);
            calibrated += pairs(&times);
        }
        // Two seconds: 1176 decays of which most hits are within 5 ns, and 400 chance pairs.
        assert!(calibrated > raw + 700, "{calibrated} {raw}");
    }

    #[test]
    fn no_two_modules_have_the_same_hits() {
        let mut front_end = front_end(|config| config.noise.slices = 2);
        for number in 0..2 {
            let mut seen = BTreeSet::new();
            for module in 0..40 {
                let windows = front_end.datagrams_per_slice() as u64;
                let hits = hits(&front_end.frame(module, number * windows + 1));
                let channels: Vec<u8> = hits.into_iter().map(|(_, channel, _)| channel).collect();
                assert!(seen.insert(channels), "{module}");
            }
        }
    }

    #[test]
    fn any_datagram_can_be_made_again() {
        let busy = |config: &mut Config| config.light.muons_hz = 300.0;
        let (mut one, mut other) = (front_end(busy), front_end(busy));
        let indices = [0, 700, 126, 127, 128, 5000, 3];
        let frames = indices.map(|index| one.frame(4, index));
        for place in [3, 0, 6, 5, 1, 4, 2] {
            assert!(other.frame(4, indices[place]) == frames[place]);
        }
    }

    #[test]
    fn slices_and_events_are_reported_and_counted() {
        let mut front_end = front_end(|config| config.light.showers_hz = 20.0);
        let windows = front_end.datagrams_per_slice() as u64;
        let mut counted = std::collections::BTreeMap::new();
        front_end
            .count(1..20 * windows, &mut |kind, more| *counted.entry(kind).or_insert(0) += more);
        let mut reported = std::collections::BTreeMap::new();
        let mut line = Vec::new();
        for range in [1..windows, windows..windows + 1, windows + 1..20 * windows] {
            front_end.report(range, &mut |event| {
                *reported.entry(event.kind()).or_insert(0) += 1;
                line.clear();
                event.write_json(&mut line).unwrap();
                let json: serde_json::Value = serde_json::from_slice(&line).unwrap();
                assert_eq!(json["time"], event.time());
            });
        }
        assert_eq!(counted, reported);
        assert_eq!(counted["slice"], 19);
        assert!(counted["muon"] > 8 && counted["shower"] > 20, "{counted:?}");
    }
}
