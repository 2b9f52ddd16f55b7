//! Hits of L1 of a detector, and the muons and showers in them.

use gannet_emulate::FrontEnd;
use gannet_emulate::km3::config::{Light, Noise};
use gannet_emulate::km3::{Config, Event, EventKind, Km3FrontEnd};
use gannet_kernels::Isa;
use gannet_kernels::clusters::ModuleHit;
use gannet_kernels::coincidences::{Confirmed, ModuleSlice, Partners, Rule};
use gannet_wire::km3net::detector_file::Lattice;
use gannet_wire::km3net::{DetectorFile, SLICE_NS, clb};

use super::{ClustersPlan, EXPECTED, Error};
use crate::coincidences::calibrations;

/// What a detector saw.
#[derive(Clone, Debug)]
pub(super) struct Content {
    /// Positions of the modules.
    pub positions: Vec<[f64; 3]>,
    /// Hits of L1, in order of time.
    pub hits: Vec<ModuleHit>,
    /// Hits of light, in order of time.
    pub light: Vec<ModuleHit>,
    events: Vec<(EventKind, Vec<ModuleHit>)>,
}

impl Content {
    pub fn generate(plan: &ClustersPlan, lattice: Lattice) -> Result<Self, Error> {
        let [muons_hz, showers_hz] = plan.light_hz;
        let rate_hz = plan.rate_hz;
        let noise = Noise { rate_min_hz: rate_hz, rate_max_hz: rate_hz, ..Noise::default() };
        let light = Light { muons_hz, showers_hz, ..Light::default() };
        let config = Config {
            lattice,
            noise,
            light,
            start_timestamp: Some(0),
            seed: 1,
            ..Config::default()
        };
        let detector = DetectorFile::lattice(&config.lattice);
        let mut front_end = Km3FrontEnd::new(&config, &detector, 0)?;
        let calibrations = calibrations(&detector);
        let hits_at = clb::optical_len(config.datagrams.status_words, 0);
        let per_slice = front_end.datagrams_per_slice() as u64;
        let rule = Rule { window_ns: plan.window_ns, partners: Partners::all() };
        let l1 = Confirmed::new(rule, Isa::best())?;
        let mut buffer = ModuleSlice::new(SLICE_NS as u32, Isa::best())?;
        let (mut hits, mut confirmed, mut events) = (Vec::new(), Vec::new(), Vec::new());
        for slice in 0..plan.slices as u64 {
            for (module, calibration) in calibrations.iter().enumerate() {
                buffer.clear();
                for index in slice * per_slice..(slice + 1) * per_slice {
                    buffer.add(&front_end.frame(module, index)[hits_at..], calibration);
                }
                confirmed.clear();
                l1.find(buffer.sorted(), &mut confirmed);
                hits.extend(confirmed.iter().map(|hit| ModuleHit {
                    time: slice * SLICE_NS + u64::from(hit.time()),
                    module: module as u32,
                    channel: hit.channel(),
                    time_over_threshold: hit.time_over_threshold(),
                }));
            }
            let (count, on) = EXPECTED;
            let is_expected = |it: &&Event| it.l1_hits >= count && it.l1_modules >= on;
            let all = front_end.events(slice).iter();
            events.extend(all.map(|event| {
                let hits = event.hits.iter().filter_map(|hit| {
                    Some(ModuleHit {
                        time: slice * SLICE_NS + hit.time_ns.round() as u64,
                        module: detector.place(hit.module)? as u32,
                        channel: hit.channel,
                        time_over_threshold: hit.tot,
                    })
                });
                (is_expected(&event).then_some(event.kind), hits.collect::<Vec<_>>())
            }));
        }
        hits.sort_unstable();
        let mut light: Vec<_> = events.iter().flat_map(|(_, hits)| hits).copied().collect();
        light.sort_unstable();
        let expected = events.into_iter().filter_map(|(kind, mut hits)| {
            hits.sort_unstable();
            Some((kind?, hits))
        });
        let positions = detector.modules().iter().map(|module| module.position).collect();
        Ok(Self { positions, hits, light, events: expected.collect() })
    }

    /// The hits of each event of a kind that is expected to be found, in order.
    pub fn expected(&self, kind: EventKind) -> Vec<&[ModuleHit]> {
        self.events.iter().filter(|(it, _)| *it == kind).map(|(_, hits)| &hits[..]).collect()
    }
}
