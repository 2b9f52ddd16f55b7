//! The last fit of rings, made for 16 of them at a time.

use super::hits::Hit;
use crate::rings::Method;
use crate::rings::fit::{UNIT, fit};
use crate::rings::found::Ring;
use crate::rings::lanes::{LANES, Lanes, Real, row};

/// A fit farther than this from the circle that its hits were taken by is none, mm.
const MOVED_MAX: f32 = 20.0;

/// Rings that wait for their last fit: the last ones found.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    sums: [Hit; LANES],
    n: [f32; LANES],
    count: usize,
}

impl Pending {
    /// Appends a ring, of hits of this sum.
    #[inline(always)]
    pub fn add<L: Lanes>(&mut self, lanes: L, sum: Hit, ring: Ring, found: &mut Vec<Ring>) {
        self.sums[row(self.count)] = sum;
        self.n[self.count] = f32::from(ring.hits);
        self.count += 1;
        found.push(ring);
        if self.count == LANES {
            self.fit(lanes, found);
        }
    }

    /// Fits the rings that wait.
    #[inline(always)]
    pub fn fit<L: Lanes>(&mut self, lanes: L, found: &mut [Ring]) {
        let columns = lanes.columns(&self.sums);
        let circle = fit(lanes, Method::Taubin, lanes.load(&self.n), &columns);
        let unit = lanes.splat(UNIT);
        let (mut x, mut y, mut radius) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
        (circle.x * unit).store(&mut x);
        (circle.y * unit).store(&mut y);
        (circle.rr.sqrt() * unit).store(&mut radius);
        let first = found.len() - self.count;
        for (lane, ring) in found[first..].iter_mut().enumerate().take(LANES) {
            let fitted = Ring { x: x[lane], y: y[lane], radius: radius[lane], hits: ring.hits };
            let moved = [fitted.x - ring.x, fitted.y - ring.y, fitted.radius - ring.radius];
            if moved.iter().all(|moved| moved.abs() < MOVED_MAX) {
                *ring = fitted;
            }
        }
        self.count = 0;
    }
}
