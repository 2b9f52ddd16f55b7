//! Circles from moments.
//!
//! Source: G. Taubin, IEEE Trans. PAMI 13 (1991) 1115; I. Kasa, IEEE Trans. Instrum. Meas. 25 (1976) 8;
//! in the form of N. Chernov, Circular and Linear Regression (2010), chapter 5.

use super::Method;
use super::lanes::Lanes;

/// Unit of length that moments are in, mm: their fourth powers then have all the digits of `f32`.
pub(super) const UNIT: f32 = 100.0;
/// Sums over hits: x, y, z, xx, xy, xz, yz, zz, where z is xx + yy.
pub(super) type Sums<R> = [R; 8];

/// A circle in each lane.
#[derive(Clone, Copy)]
pub(super) struct Circle<R> {
    pub x: R,
    pub y: R,
    /// Radius squared.
    pub rr: R,
}

/// The sums that one hit adds.
pub(super) fn moments(x: f32, y: f32) -> Sums<f32> {
    let z = x * x + y * y;
    [x, y, z, x * x, x * y, x * z, y * z, z * z]
}

/// The circle through `n` hits of these sums. Not a number where there are too few, or on a line.
#[inline(always)]
pub(super) fn fit<L: Lanes>(
    lanes: L,
    method: Method,
    n: L::Real,
    sums: &Sums<L::Real>,
) -> Circle<L::Real> {
    let (one, two) = (lanes.splat(1.0), lanes.splat(2.0));
    let per_hit = one / n;
    let [x, y, z, xx, xy, xz, yz, zz] = *sums;
    let (x, y, z) = (x * per_hit, y * per_hit, z * per_hit);
    let (xx, xy) = (xx * per_hit, xy * per_hit);
    let (xz, yz, zz) = (xz * per_hit, yz * per_hit, zz * per_hit);
    let (cxx, cxy, cyy) = (xx - x * x, xy - x * y, (z - xx) - y * y);
    let (cxz, cyz, czz) = (xz - x * z, yz - y * z, zz - z * z);
    let mz = cxx + cyy;
    // About the mean: u, v and w = uu + vv.
    let (x2, y2) = (two * x, two * y);
    let muw = cxz - x2 * cxx - y2 * cxy;
    let mvw = cyz - x2 * cxy - y2 * cyy;
    let c = cxx * cyy - cxy * cxy;
    let s = match method {
        Method::Kasa => lanes.splat(0.0),
        Method::Taubin => {
            let vw = czz - x2 * (cxz + muw) - y2 * (cyz + mvw);
            let mww = vw + mz * mz;
            let (three, four) = (lanes.splat(3.0), lanes.splat(4.0));
            let a3 = four * mz;
            let a2 = lanes.splat(-3.0) * mz * mz - mww;
            let a1 = vw * mz + four * c * mz - muw * muw - mvw * mvw;
            let a0 = muw * (muw * cyy - mvw * cxy) + mvw * (mvw * cxx - muw * cxy) - vw * c;
            // The least root: a step of Newton's from 0, and one of Halley's. More change nothing in `f32`.
            let s = lanes.splat(0.0) - a0 / a1;
            let value = a0 + s * (a1 + s * (a2 + s * a3));
            let three_a3_s = three * a3 * s;
            let slope = a1 + s * (two * a2 + three_a3_s);
            let half_bend = a2 + three_a3_s;
            s - value * slope / (slope * slope - value * half_bend)
        }
    };
    let half_per_d = lanes.splat(0.5) / (s * s - s * mz + c);
    let u = (muw * (cyy - s) - mvw * cxy) * half_per_d;
    let v = (mvw * (cxx - s) - muw * cxy) * half_per_d;
    Circle { x: u + x, y: v + y, rr: u * u + v * v + mz }
}
