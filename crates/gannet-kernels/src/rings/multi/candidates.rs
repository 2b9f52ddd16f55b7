//! Circles through triplets of hits, those that can be rings put together: half of all triplets make none.

use super::circles::Circles;
use super::triplets::GROUPS;
use crate::rings::lanes::{LANES, Lanes, Real};

/// Vectors of 16 circles, the last of them filled up with circles that nothing is near.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    columns: [[[f32; LANES]; GROUPS + 1]; 4],
    len: usize,
}

impl Candidates {
    /// Takes all away.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds those circles of a group that can be rings.
    #[inline(always)]
    pub fn add<R: Real>(&mut self, circles: Circles<R>, possible: R::Mask) {
        for (column, numbers) in self.columns.iter_mut().zip(circles.columns()) {
            let (_, room) = column.as_flattened_mut().split_at_mut(self.len.min(GROUPS * LANES));
            if let Some(room) = room.first_chunk_mut() {
                numbers.pack(possible, room);
            }
        }
        self.len += R::bits(possible).count_ones() as usize;
    }

    /// Fills up the last vector. Returns how many vectors there are.
    #[inline(always)]
    pub fn fill_up(&mut self) -> usize {
        for column in &mut self.columns {
            let (_, rest) = column.as_flattened_mut().split_at_mut(self.len.min(GROUPS * LANES));
            if let Some(rest) = rest.first_chunk_mut() {
                *rest = [0.0; LANES];
            }
        }
        self.len.div_ceil(LANES)
    }

    /// A vector of them.
    #[inline(always)]
    pub fn vector<L: Lanes>(&self, lanes: L, number: usize) -> Circles<L::Real> {
        let [x2, y2, c, rr4] = &self.columns;
        Circles::from_columns([x2, y2, c, rr4].map(|column| lanes.load(&column[number])))
    }
}
