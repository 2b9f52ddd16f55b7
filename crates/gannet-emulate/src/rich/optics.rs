//! Light of particles on the photomultipliers of the RICH.
//!
//! Source: NA62/na62-trigger-algorithms `RICH.2017.conf`; arXiv:1706.08496, arXiv:1009.5317.

use gannet_measure::random::Random;
use gannet_wire::na62::pm_map::{self, Pm};

use super::event::Ring;

/// Refractive index of neon, less 1.
const REFRACTIVITY: f64 = 62.8e-6;
/// Focal length of the mirrors, in mm.
const FOCAL_LENGTH: f64 = 17_020.0;
/// Angle of a track of infinite momentum, and change of transverse momentum by the magnet in GeV/c.
const ANGLE: f64 = 0.0012;
const KICK: f64 = -0.270;
/// Masses of pion, muon and electron in GeV/c^2, and how many of 100 particles are of each.
const PARTICLES: [(f64, f64); 3] = [(0.139_57, 49.0), (0.105_66, 36.0), (0.000_511, 15.0)];
/// Momenta, in GeV/c.
const MOMENTUM: (f64, f64) = (13.0, 50.0);
/// Spread of the centres of rings along x and y, in mm. With it, 14.7 of 24 photons are seen.
const SPREAD: [f64; 2] = [40.0, 80.0];
/// Radius of the cone before a photomultiplier, in mm: light beside it is lost.
const CONE: f64 = pm_map::PITCH / 2.0;

/// Where the lattice of a disc has photomultipliers.
const COLUMNS: usize = 80;
const ROWS: usize = 40;
const ORIGIN: (i32, i32) = (40, 20);
const NONE: u16 = u16::MAX;

/// The photomultipliers as light finds them.
#[derive(Clone, Debug)]
pub(super) struct Optics {
    /// Number of the photomultiplier of disc 0 at each place of the lattice.
    lattice: Vec<u16>,
    photons: f64,
}

/// What a particle is.
struct Particle {
    centre: [f64; 2],
    radius: f64,
    photons: f64,
    /// Where it meets the mirrors, which are of one disc where x is positive and of the other
    /// where it is negative, in mm.
    mirror: f64,
}

impl Optics {
    /// Optics in which a particle at the speed of light makes `photons` that could be detected.
    pub(super) fn new(photons: f64) -> Self {
        let mut lattice = vec![NONE; COLUMNS * ROWS];
        for pm in Pm::all().filter(|pm| pm.disc() == 0) {
            if let Some(place) = place(pm.lattice()) {
                lattice[place] = pm.number() as u16;
            }
        }
        Self { lattice, photons }
    }

    /// Lets a particle shine; passes each photomultiplier that sees it to `seen`, perhaps more
    /// than once. Returns its ring, without the number of its hits.
    pub(super) fn shine(&self, random: &mut Random, mut seen: impl FnMut(Pm)) -> Ring {
        let particle = self.particle(random);
        let Particle { centre: [x, y], radius, .. } = particle;
        for _ in 0..poisson(random, particle.photons) {
            let (sin, cos) = (std::f64::consts::TAU * random.unit()).sin_cos();
            let at = [x + radius * cos, y + radius * sin];
            // Photons are made all along the path to the mirrors.
            let disc = usize::from(particle.mirror + random.unit() * radius * cos < 0.0);
            if let Some(pm) = self.pm(disc, at) {
                seen(pm);
            }
        }
        Ring { x: x as f32, y: y as f32, radius: radius as f32, hits: 0 }
    }

    fn particle(&self, random: &mut Random) -> Particle {
        let momentum = MOMENTUM.0 + (MOMENTUM.1 - MOMENTUM.0) * random.unit();
        let mut share = 100.0 * random.unit();
        let mass = PARTICLES.iter().find(|(_, of)| {
            share -= of;
            share < 0.0
        });
        let mass = mass.map_or(0.0, |particle| particle.0);
        let angle_max = 2.0 * REFRACTIVITY;
        let angle = angle_max - (mass / momentum).powi(2);
        Particle {
            centre: [
                FOCAL_LENGTH * (ANGLE + KICK / momentum) + SPREAD[0] * random.normal(),
                SPREAD[1] * random.normal(),
            ],
            radius: FOCAL_LENGTH * angle.max(0.0).sqrt().tan(),
            photons: self.photons * angle.max(0.0) / angle_max,
            mirror: SPREAD[1] * random.normal(),
        }
    }

    /// What sees light at this point of the common plane on `disc`.
    fn pm(&self, disc: usize, at: [f64; 2]) -> Option<Pm> {
        let at = pm_map::onto_disc(disc, at);
        let number = self.lattice[place(pm_map::nearest_on_lattice(at))?];
        let pm = Pm::new(usize::from(number))?;
        let [x, y] = pm.on_disc();
        let inside = (at[0] - x).hypot(at[1] - y) <= CONE;
        if inside { Pm::new(disc * pm_map::DISC_PMS + pm.number()) } else { None }
    }
}

/// Index of a place of the lattice, if it is near the disc.
fn place((column, row): (i32, i32)) -> Option<usize> {
    let column = usize::try_from(column + ORIGIN.0).ok().filter(|&column| column < COLUMNS)?;
    let row = usize::try_from(row + ORIGIN.1).ok().filter(|&row| row < ROWS)?;
    Some(row * COLUMNS + column)
}

/// A number of a Poisson distribution with this mean, at most a few hundred.
pub(crate) fn poisson(random: &mut Random, mean: f64) -> usize {
    let (mut left, mut count) = (random.exponential(1.0), 0);
    while left < mean {
        left += random.exponential(1.0);
        count += 1;
    }
    count
}
