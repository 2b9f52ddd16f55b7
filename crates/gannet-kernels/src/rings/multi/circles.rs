//! 16 circles at a time, compared with hits and fitted to them.

use super::candidates::Candidates;
use super::hits::{HITS_MAX, Hit, Hits};
use super::triplets::{Group, Triplets};
use crate::rings::fit::UNIT;
use crate::rings::lanes::{LANES, Lanes, Real, TABLE};

/// Radii that rings have, in [`UNIT`]s. Light of a particle at the speed of light makes 1.91.
const RADIUS_MIN: f32 = 0.6;
const RADIUS_MAX: f32 = 2.0;
/// Least distance of the hits of a triplet: circles through closer ones are too uncertain.
const SIDE_MIN: f32 = 0.5;
/// Hits so near a circle through three hits count for it.
const NEAR_TRIPLET: f32 = 0.11;
/// It is fitted to hits so near it,
const NEAR_FIRST: f32 = 0.13;
/// and then these are its hits. Light on a photomultiplier comes from at most 9 mm beside its middle.
const NEAR: f32 = 0.10;
/// A larger circle has more hits near it by chance; so many fewer count for each square of a [`UNIT`].
const CHANCE: f32 = 0.2;

/// A circle in each lane, as hits are compared with it: `z + c - x2 x - y2 y` is about twice the radius times
/// the distance of a hit from it, where z is xx + yy.
#[derive(Clone, Copy)]
pub(super) struct Circles<R> {
    /// Twice the coordinates of the centre.
    x2: R,
    y2: R,
    c: R,
    /// Four times the radius squared.
    rr4: R,
}

impl<R: Real> Circles<R> {
    /// 16 circles, each the best of those through some triplets of the open hits, fitted to the hits near
    /// it. A lane in which there is none has no radius.
    #[inline(always)]
    pub fn of<L: Lanes<Real = R>>(
        lanes: L,
        triplets: &Triplets,
        groups: usize,
        candidates: &mut Candidates,
        hits: &Hits,
    ) -> Self {
        let open = hits.open();
        let places = open.len().min(TABLE);
        let (mut x, mut y) = ([0.0; TABLE], [0.0; TABLE]);
        for (place, (x, y)) in x.iter_mut().zip(&mut y).enumerate().take(places) {
            // Of more hits than there are places, some all over the event.
            let hit = if open.len() > TABLE { place * open.len() / TABLE } else { place };
            [*x, *y, ..] = open[hit];
        }
        let groups = triplets.of(places, groups);
        if let [group] = groups {
            let (circles, possible) = Self::through(lanes, &x, &y, group);
            return Self::select(possible, circles, Self::none(lanes)).fitted(lanes, open);
        }
        candidates.clear();
        for group in groups {
            let (circles, possible) = Self::through(lanes, &x, &y, group);
            candidates.add(circles, possible);
        }
        let vectors = candidates.fill_up();
        let (mut best, mut count) = (Self::none(lanes), lanes.splat(-1.0));
        if vectors % 2 == 1 {
            best = candidates.vector(lanes, vectors - 1);
            count = Self::counts(lanes, [best], open)[0];
        }
        for pair in 0..vectors / 2 {
            // Two at a time need not wait for one another's sums.
            let [a, b] = [2 * pair, 2 * pair + 1].map(|number| candidates.vector(lanes, number));
            let [a_count, b_count] = Self::counts(lanes, [a, b], open);
            let better = count.less(a_count);
            (best, count) = (Self::select(better, a, best), R::select(better, a_count, count));
            let better = count.less(b_count);
            (best, count) = (Self::select(better, b, best), R::select(better, b_count, count));
        }
        best.fitted(lanes, open)
    }

    /// The circle of a lane with the most hits near it, and how many count. Notes which hits they are.
    #[inline(always)]
    pub fn best<L: Lanes<Real = R>>(&self, lanes: L, hits: &mut Hits) -> (usize, f32) {
        /// Kept above 0, so that the order of the numbers is that of their bits.
        const ABOVE: f32 = 16.0;
        let limit = self.limit(lanes, NEAR);
        let (mut count, one) = (lanes.splat(ABOVE + CHANCE), lanes.splat(1.0));
        let (open, noted) = hits.open_and_near();
        for (hit, noted) in open.iter().zip(noted) {
            let near = self.near(lanes, limit, hit);
            count = count.add_where(near, one);
            *noted = R::bits(near);
        }
        count = count - lanes.splat(CHANCE / 4.0) * self.rr4;
        let mut counts = [0.0; LANES];
        count.store(&mut counts);
        // The lane is in the last bits of its number.
        let of_lane = |(lane, count): (usize, &f32)| {
            count.to_bits() & !(LANES as u32 - 1) | (LANES - 1 - lane) as u32
        };
        let best = counts.iter().enumerate().map(of_lane).fold(0, u32::max);
        let lane = LANES - 1 - best as usize % LANES;
        (lane, counts[lane] - ABOVE)
    }

    /// Its numbers, for [`Circles::from_columns`].
    #[inline(always)]
    pub fn columns(self) -> [R; 4] {
        [self.x2, self.y2, self.c, self.rr4]
    }

    /// The circles of such numbers.
    #[inline(always)]
    pub fn from_columns([x2, y2, c, rr4]: [R; 4]) -> Self {
        Self { x2, y2, c, rr4 }
    }

    /// Centre and radius of a lane, mm.
    #[inline(always)]
    pub fn lane(&self, lane: usize) -> [f32; 3] {
        let mut circle = [[0.0; LANES]; 3];
        self.x2.store(&mut circle[0]);
        self.y2.store(&mut circle[1]);
        self.rr4.store(&mut circle[2]);
        let [x2, y2, rr4] = circle.map(|numbers| numbers[lane % LANES]);
        [x2, y2, rr4.sqrt()].map(|twice| twice * (UNIT / 2.0))
    }

    /// Circles that nothing is near.
    #[inline(always)]
    fn none<L: Lanes<Real = R>>(lanes: L) -> Self {
        Self::from_columns([lanes.splat(0.0); 4])
    }

    #[inline(always)]
    fn select(mask: R::Mask, yes: Self, no: Self) -> Self {
        Self {
            x2: R::select(mask, yes.x2, no.x2),
            y2: R::select(mask, yes.y2, no.y2),
            c: R::select(mask, yes.c, no.c),
            rr4: R::select(mask, yes.rr4, no.rr4),
        }
    }

    /// What the square of a comparison must be less than.
    #[inline(always)]
    fn limit<L: Lanes<Real = R>>(&self, lanes: L, distance: f32) -> R {
        self.rr4 * lanes.splat(distance * distance)
    }

    /// Where a hit is near.
    #[inline(always)]
    fn near<L: Lanes<Real = R>>(&self, lanes: L, limit: R, hit: &Hit) -> R::Mask {
        let (x, y, z) = (lanes.splat(hit[0]), lanes.splat(hit[1]), lanes.splat(hit[2]));
        let off = (z + self.c).less_product(self.x2, x).less_product(self.y2, y);
        (off * off).less(limit)
    }

    /// Whether the radius is that of a ring.
    #[inline(always)]
    fn possible<L: Lanes<Real = R>>(&self, lanes: L) -> R::Mask {
        let least = lanes.splat(4.0 * RADIUS_MIN * RADIUS_MIN);
        let most = lanes.splat(4.0 * RADIUS_MAX * RADIUS_MAX);
        R::both(least.less(self.rr4), self.rr4.less(most))
    }

    /// Circles through triplets, and where such a circle can be a ring.
    #[inline(always)]
    fn through<L: Lanes<Real = R>>(
        lanes: L,
        x: &[f32; TABLE],
        y: &[f32; TABLE],
        [first, second, third]: &Group,
    ) -> (Self, R::Mask) {
        let (x0, y0) = (lanes.look_up(x, first), lanes.look_up(y, first));
        let (x1, y1) = (lanes.look_up(x, second), lanes.look_up(y, second));
        let (x2, y2) = (lanes.look_up(x, third), lanes.look_up(y, third));
        let (bx, by, cx, cy) = (x1 - x0, y1 - y0, x2 - x0, y2 - y0);
        let (dx, dy) = (cx - bx, cy - by);
        let (bb, cc, dd) = (bx * bx + by * by, cx * cx + cy * cy, dx * dx + dy * dy);
        let per_area = lanes.splat(1.0) / (bx * cy - by * cx);
        // Twice the centre, from the first hit.
        let (u2, v2) = ((cy * bb - by * cc) * per_area, (bx * cc - cx * bb) * per_area);
        let two = lanes.splat(2.0);
        let circles = Self {
            x2: two * x0 + u2,
            y2: two * y0 + v2,
            c: u2 * x0 + v2 * y0 + (x0 * x0 + y0 * y0),
            rr4: u2 * u2 + v2 * v2,
        };
        let side = lanes.splat(SIDE_MIN * SIDE_MIN);
        let wide = R::both(side.less(bb), R::both(side.less(cc), side.less(dd)));
        (circles, R::both(wide, circles.possible(lanes)))
    }

    /// Numbers of hits near circles of each lane.
    #[inline(always)]
    fn counts<const N: usize, L: Lanes<Real = R>>(
        lanes: L,
        circles: [Self; N],
        hits: &[Hit],
    ) -> [R; N] {
        let limits = circles.map(|circles| circles.limit(lanes, NEAR_TRIPLET));
        let (mut counts, one) = ([lanes.splat(0.0); N], lanes.splat(1.0));
        for hit in hits {
            for i in 0..N {
                counts[i] = counts[i].add_where(circles[i].near(lanes, limits[i], hit), one);
            }
        }
        counts
    }

    /// Fits each circle to the hits near it, by linear least squares. One that cannot be fitted stays.
    #[inline(always)]
    fn fitted<L: Lanes<Real = R>>(self, lanes: L, hits: &[Hit]) -> Self {
        let limit = self.limit(lanes, NEAR_FIRST);
        let (zero, one) = (lanes.splat(0.0), lanes.splat(1.0));
        let (mut n, mut x, mut y, mut z) = (zero, zero, zero, zero);
        let (mut xx, mut xy, mut xz, mut yz) = (zero, zero, zero, zero);
        for hit in hits.iter().take(HITS_MAX) {
            let near = self.near(lanes, limit, hit);
            n = n.add_where(near, one);
            x = x.add_where(near, lanes.splat(hit[0]));
            y = y.add_where(near, lanes.splat(hit[1]));
            z = z.add_where(near, lanes.splat(hit[2]));
            xx = xx.add_where(near, lanes.splat(hit[3]));
            xy = xy.add_where(near, lanes.splat(hit[4]));
            xz = xz.add_where(near, lanes.splat(hit[5]));
            yz = yz.add_where(near, lanes.splat(hit[6]));
        }
        // Covariances times n squared: the two divisions need not wait for each other.
        let yy = z - xx;
        let (cxx, cxy, cyy) = (n * xx - x * x, n * xy - x * y, n * yy - y * y);
        let (cxz, cyz) = (n * xz - x * z, n * yz - y * z);
        let (per_n, per_det) = (one / n, one / (cxx * cyy - cxy * cxy));
        let x2 = (cxz * cyy - cyz * cxy) * per_det;
        let y2 = (cyz * cxx - cxz * cxy) * per_det;
        let c = (x2 * x + y2 * y - z) * per_n;
        let fitted = Self { x2, y2, c, rr4: x2 * x2 + y2 * y2 - lanes.splat(4.0) * c };
        Self::select(fitted.possible(lanes), fitted, self)
    }
}
