//! Cherenkov light of muons and showers on the photomultipliers of a detector.
//!
//! Source: KM3NeT/KM3io.jl `constants.jl`; the geometry of light on a cone.

use gannet_measure::random::Random;
use gannet_wire::km3net::detector_file::{DetectorFile, Pmt, Vector};

use super::event::{Event, EventKind, Hit};
use crate::rich::poisson;

/// Refractive index of sea water for groups of light.
const INDEX: f64 = 1.380_085_128_2;
/// Speed of light in m/ns.
const LIGHT: f64 = 0.299_792_458;
/// Length after which light has become less by e, in metres.
const ATTENUATION: f64 = 35.0;
/// Photoelectrons below which light is not looked for: that of a muon at 90 m.
const FAINT: f64 = 0.02;
/// Photoelectrons of a photomultiplier that looks at a muon from 10 m.
const MUON_YIELD: f64 = 2.5;
/// Photoelectrons times square metres of one that looks at a shower.
const SHOWER_YIELD: f64 = 8000.0;
/// Spread of the times of one photoelectron, in ns.
const TRANSIT_NS: f64 = 1.5;
/// Share of photoelectrons from scattered light, and by how much they are late, in ns.
const SCATTERED: (f64, f64) = (0.1, 10.0);
/// Time over threshold of one photoelectron and its spread, in ns.
const TOT: (f64, f64) = (26.0, 4.5);
/// How far beside the modules the points lie that tracks go through, in metres.
const MARGIN: f64 = 30.0;

/// The sea around a detector: where light comes from.
#[derive(Clone, Debug)]
pub(super) struct Sea {
    centre: [f64; 2],
    radius: f64,
    bottom: f64,
    top: f64,
}

impl Sea {
    pub(super) fn around(detector: &DetectorFile) -> Self {
        let positions = || detector.modules().iter().map(|module| module.position);
        let count = detector.modules().len() as f64;
        let mean = |axis: usize| positions().map(|at| at[axis]).sum::<f64>() / count;
        let centre = [mean(0), mean(1)];
        let far = positions().map(|at| (at[0] - centre[0]).hypot(at[1] - centre[1]));
        Self {
            centre,
            radius: far.fold(0.0, f64::max) + MARGIN,
            bottom: positions().map(|at| at[2]).fold(f64::MAX, f64::min) - MARGIN,
            top: positions().map(|at| at[2]).fold(f64::MIN, f64::max) + MARGIN,
        }
    }

    fn point(&self, random: &mut Random) -> Vector {
        let (sin, cos) = (std::f64::consts::TAU * random.unit()).sin_cos();
        let far = self.radius * random.unit().sqrt();
        let height = self.bottom + (self.top - self.bottom) * random.unit();
        [self.centre[0] + far * cos, self.centre[1] + far * sin, height]
    }

    /// A muon through this sea, or a shower in it, without hits.
    pub(super) fn event(&self, kind: EventKind, upward: f64, random: &mut Random) -> Event {
        let vertex = self.point(random);
        let (sin, cos) = (std::f64::consts::TAU * random.unit()).sin_cos();
        let (z, brightness) = match kind {
            // As the square of the cosine, which is about what the atmosphere sends.
            EventKind::Muon => {
                let steep = random.unit().cbrt();
                let z = if random.chance(upward) { steep } else { -steep };
                (z, 1.0 + random.exponential(1.0))
            }
            EventKind::Shower => (2.0 * random.unit() - 1.0, 1.0 + random.exponential(1.0)),
        };
        let across = (1.0 - z * z).max(0.0).sqrt();
        Event {
            kind,
            slice: 0,
            time: 0,
            time_ns: 0.0,
            vertex,
            direction: [across * cos, across * sin, z],
            brightness,
            l1_hits: 0,
            l1_modules: 0,
            cut: 0,
            hits: Vec::new(),
        }
    }
}

/// Light that comes to a point.
struct Beam {
    /// Photoelectrons of a photomultiplier that looks into it.
    photoelectrons: f64,
    /// After the time of the vertex.
    time_ns: f64,
    /// Where it goes.
    direction: Vector,
}

impl Event {
    /// Adds the hits that this event makes in `detector`.
    pub(super) fn shine(&mut self, detector: &DetectorFile, random: &mut Random) {
        for module in detector.modules() {
            let beam = self.beam(module.position);
            if beam.photoelectrons < FAINT {
                continue;
            }
            for (channel, pmt) in module.pmts.iter().enumerate() {
                let mean = beam.photoelectrons * acceptance(&beam, pmt);
                let seen = poisson(random, mean.min(50.0));
                if seen == 0 {
                    continue;
                }
                let exact = self.beam(pmt.position).time_ns;
                let arrival = |random: &mut Random| {
                    let scattered = random.chance(SCATTERED.0);
                    let late = if scattered { random.exponential(SCATTERED.1) } else { 0.0 };
                    late + TRANSIT_NS * random.normal()
                };
                let first = (0..seen).map(|_| arrival(random)).fold(f64::MAX, f64::min);
                let time_ns = self.time_ns + exact + first;
                let tot = time_over_threshold(seen, random);
                self.hits.push(Hit { module: module.id, channel: channel as u8, time_ns, tot });
            }
        }
        self.hits.sort_by(|a, b| a.module.cmp(&b.module).then(a.time_ns.total_cmp(&b.time_ns)));
    }

    /// The light at a point.
    fn beam(&self, at: Vector) -> Beam {
        match self.kind {
            EventKind::Muon => self.cone(at),
            EventKind::Shower => self.flash(at),
        }
    }

    /// The light of a track: it leaves the track under the angle whose cosine is 1/n.
    fn cone(&self, at: Vector) -> Beam {
        let from = subtract(at, self.vertex);
        let along = dot(from, self.direction);
        let far = (dot(from, from) - along * along).max(0.0).sqrt().max(0.5);
        let tan = (INDEX * INDEX - 1.0).sqrt();
        let emitted = along - far / tan;
        let origin: Vector =
            std::array::from_fn(|axis| self.vertex[axis] + emitted * self.direction[axis]);
        Beam {
            photoelectrons: self.brightness * MUON_YIELD * 10.0 / far * (-far / ATTENUATION).exp(),
            time_ns: (along + far * tan) / LIGHT,
            direction: unit(subtract(at, origin)),
        }
    }

    /// The light of a shower: all around, and most under the Cherenkov angle.
    fn flash(&self, at: Vector) -> Beam {
        let from = subtract(at, self.vertex);
        let far = dot(from, from).sqrt().max(0.5);
        let direction = unit(from);
        let off = (dot(direction, self.direction) - 1.0 / INDEX) / 0.25;
        let shape = 0.3 + (-off * off).exp();
        let seen = SHOWER_YIELD * shape * (-far / ATTENUATION).exp() / (far * far);
        let photoelectrons = self.brightness * seen;
        Beam { photoelectrons, time_ns: far * INDEX / LIGHT, direction }
    }
}

/// Part of the light that a photomultiplier sees: all from ahead, none from far behind.
fn acceptance(beam: &Beam, pmt: &Pmt) -> f64 {
    ((0.3 - dot(beam.direction, pmt.direction)) / 1.3).max(0.0)
}

/// Time over threshold of so many photoelectrons, in ns.
pub(super) fn time_over_threshold(photoelectrons: usize, random: &mut Random) -> u8 {
    let more = 20.0 * (photoelectrons as f64).ln();
    (TOT.0 + more + TOT.1 * random.normal()).clamp(4.0, 255.0).round() as u8
}

fn subtract(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|axis| a[axis] - b[axis])
}

fn dot(a: Vector, b: Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn unit(a: Vector) -> Vector {
    let length = dot(a, a).sqrt().max(1e-9);
    a.map(|part| part / length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::km3net::detector_file::Lattice;

    fn detector() -> DetectorFile {
        DetectorFile::lattice(&Lattice { strings: 37, ..Lattice::default() })
    }

    /// 500 events of a kind, with their hits.
    fn events(kind: EventKind) -> Vec<Event> {
        let detector = detector();
        let sea = Sea::around(&detector);
        let mut random = Random::new(3);
        let mut event = || {
            let mut event = sea.event(kind, 0.1, &mut random);
            event.shine(&detector, &mut random);
            event.count_l1();
            event
        };
        (0..500).map(|_| event()).collect()
    }

    #[test]
    fn light_of_a_track_arrives_as_the_earliest_way_takes() {
        // The least of the time of the muon to a point of its track and of light from there.
        let sea = Sea::around(&detector());
        let mut random = Random::new(1);
        for _ in 0..50 {
            let event = sea.event(EventKind::Muon, 0.5, &mut random);
            let at = sea.point(&mut random);
            let beam = event.beam(at);
            let ways = (-20_000..20_000).map(|step| {
                let path = f64::from(step) * 0.1;
                let from: Vector =
                    std::array::from_fn(|axis| event.vertex[axis] + path * event.direction[axis]);
                let way = subtract(at, from);
                (path + INDEX * dot(way, way).sqrt()) / LIGHT
            });
            let least = ways.fold(f64::MAX, f64::min);
            assert!((beam.time_ns - least).abs() < 0.01, "{} {least}", beam.time_ns);
        }
    }

    #[test]
    fn hits_are_near_the_track_and_at_the_time_of_its_light() {
        let detector = detector();
        let (mut early, mut hits, mut far) = (0, 0, 0);
        for event in events(EventKind::Muon) {
            for hit in &event.hits {
                let module = detector.module(hit.module).unwrap();
                let beam = event.beam(module.pmts[usize::from(hit.channel)].position);
                let late = hit.time_ns - beam.time_ns;
                early += usize::from(late.abs() < 5.0);
                hits += 1;
                let from = subtract(module.position, event.vertex);
                let along = dot(from, event.direction);
                far += usize::from(dot(from, from) - along * along > 60.0 * 60.0);
                assert!(late > -9.0);
            }
        }
        let [early, far] = [early, far].map(|count| count as f64 / hits as f64);
        assert!(early > 0.88 && early < 0.98, "{early}");
        assert!((0.05..0.25).contains(&far), "{far}");
    }

    #[test]
    fn muons_and_showers_make_coincidences() {
        for (kind, share) in [(EventKind::Muon, 0.9), (EventKind::Shower, 0.5)] {
            let events = events(kind);
            let clear = |event: &&Event| event.l1_hits >= 10 && event.l1_modules >= 5;
            let clear = events.iter().filter(clear).count() as f64 / events.len() as f64;
            let hits = events.iter().map(|event| event.hits.len()).sum::<usize>() / events.len();
            assert!(clear > share, "{kind:?}: {hits} hits, {clear} clear");
        }
    }

    #[test]
    fn most_muons_go_down() {
        let muons = events(EventKind::Muon);
        let down = muons.iter().filter(|muon| muon.direction[2] < 0.0).count();
        assert!((430..=470).contains(&down), "{down}");
    }
}
