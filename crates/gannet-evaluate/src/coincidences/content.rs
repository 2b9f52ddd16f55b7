//! Slices of optical modules to be searched, as packets.

use std::ops::Range;

use gannet_emulate::FrontEnd;
use gannet_emulate::config::ConfigError;
use gannet_emulate::km3::config::Noise;
use gannet_emulate::km3::{Config, Km3FrontEnd};
use gannet_kernels::coincidences::Calibration;
use gannet_measure::random::Random;
use gannet_wire::Record;
use gannet_wire::km3net::detector_file::{Lattice, Module};
use gannet_wire::km3net::{DetectorFile, Hit, clb};

/// Modules of the detector: two strings.
const STRINGS: usize = 2;
/// Begin of the first slice, ns since 1970.
const START: u64 = 1_795_392_000_000_000_000;

/// A slice of a module.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// Where the hits of each packet are in the bytes.
    pub packets: Vec<Range<usize>>,
    /// Place of the module in the detector.
    pub module: usize,
}

/// What modules sent, and how their clocks are off.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub bytes: Vec<u8>,
    pub slices: Vec<Sent>,
    pub calibrations: Vec<Calibration>,
    /// Directions of the photomultipliers of each module.
    pub axes: Vec<Vec<[f64; 3]>>,
    pub hits: usize,
}

impl Content {
    /// So many slices, each of the next module, with hits at this rate on each photomultiplier.
    pub fn generate(rate_hz: f64, count: usize, shuffled: bool) -> Result<Self, ConfigError> {
        let lattice = Lattice { strings: STRINGS, ..Lattice::default() };
        let noise = Noise { rate_min_hz: rate_hz, rate_max_hz: rate_hz, ..Noise::default() };
        let config =
            Config { lattice, noise, start_timestamp: Some(START), seed: 1, ..Config::default() };
        let detector = DetectorFile::lattice(&config.lattice);
        let mut front_end = Km3FrontEnd::new(&config, &detector, START)?;
        let hits_at = clb::optical_len(config.datagrams.status_words, 0);
        let per_slice = front_end.datagrams_per_slice() as u64;
        let modules = detector.modules().len();
        let mut random = Random::new(2);
        let (mut bytes, mut slices, mut hits) = (Vec::new(), Vec::new(), 0);
        for number in 0..count {
            let (slice, module) = ((number / modules) as u64, number % modules);
            let mut packets = Vec::new();
            for index in slice * per_slice..(slice + 1) * per_slice {
                let frame = front_end.frame(module, index);
                let at = bytes.len() + hits_at;
                bytes.extend(frame);
                packets.push(at..bytes.len());
            }
            let of_slice: usize = packets.iter().map(|packet| packet.len() / Hit::LEN).sum();
            if shuffled {
                shuffle(&mut bytes, &packets, &mut random);
            }
            hits += of_slice;
            slices.push(Sent { packets, module });
        }
        let axes = |module: &Module| module.pmts.iter().map(|pmt| pmt.direction).collect();
        let axes = detector.modules().iter().map(axes).collect();
        Ok(Self { bytes, slices, calibrations: calibrations(&detector), axes, hits })
    }
}

/// What each module's hits are corrected by: t0 less the least of all.
pub(crate) fn calibrations(detector: &DetectorFile) -> Vec<Calibration> {
    let all = detector.modules().iter().flat_map(|module| &module.pmts);
    let least = all.map(|pmt| pmt.t0_ns).fold(f64::MAX, f64::min);
    let of_module = |module: &Module| {
        let t0 = module.pmts.iter().map(|pmt| (pmt.t0_ns - least).round() as u32);
        Calibration::new(&t0.collect::<Vec<_>>())
    };
    detector.modules().iter().map(of_module).collect()
}

/// Puts the hits of these packets into an order that says nothing of their times.
fn shuffle(bytes: &mut [u8], packets: &[Range<usize>], random: &mut Random) {
    let hits = || packets.iter().flat_map(|packet| packet.clone().step_by(Hit::LEN));
    let mut all: Vec<[u8; Hit::LEN]> =
        hits().map(|at| core::array::from_fn(|byte| bytes[at + byte])).collect();
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last as u64 + 1) as usize);
    }
    for (at, hit) in hits().zip(all) {
        bytes[at..at + Hit::LEN].copy_from_slice(&hit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::Records;

    fn hits(content: &Content, slice: usize) -> Vec<Hit> {
        let packets = content.slices[slice].packets.iter();
        let of = |packet: &Range<usize>| Records::new_checked(&content.bytes[packet.clone()]);
        packets.flat_map(|packet| of(packet).unwrap()).collect()
    }

    #[test]
    fn slices_have_the_rate_asked_for_and_shuffled_ones_the_same_hits_elsewhere() {
        let content = Content::generate(7000.0, 40, false).unwrap();
        let per_slice = content.hits as f64 / 40.0;
        assert!((21_000.0..23_000.0).contains(&per_slice), "{per_slice}");
        assert_eq!((content.slices[37].module, content.calibrations.len()), (1, 36));
        let shuffled = Content::generate(7000.0, 40, true).unwrap();
        for slice in [0, 39] {
            let (mut sent, mut elsewhere) = (hits(&content, slice), hits(&shuffled, slice));
            let later = |hits: &[Hit]| hits.windows(2).filter(|it| it[1].time < it[0].time).count();
            assert!(later(&sent) < sent.len() / 20 && later(&elsewhere) > sent.len() / 3);
            sent.sort();
            elsewhere.sort();
            assert_eq!(sent, elsewhere);
        }
    }
}
