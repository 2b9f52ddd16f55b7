//! Which hits circles are laid through: a fixed choice for each number of hits.

use crate::rings::lanes::{LANES, TABLE};

/// Groups of triplets for each number of hits.
pub(super) const GROUPS: usize = 6;

/// Places of the hits of 16 triplets: of all first ones, of all second ones, of all third ones.
pub(super) type Group = [[u8; LANES]; 3];

/// Triplets of distinct places for up to [`TABLE`] hits.
#[derive(Clone, Debug)]
pub(super) struct Triplets(Box<[[Group; GROUPS]]>);

impl Triplets {
    pub fn new() -> Self {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let mut of = |places: usize| {
            let mut groups = [[[0; LANES]; 3]; GROUPS];
            for group in &mut groups {
                let [first, second, third] = group;
                for ((first, second), third) in first.iter_mut().zip(second).zip(third) {
                    [*first, *second, *third] = distinct(places, &mut random);
                }
            }
            groups
        };
        Self((0..=TABLE).map(&mut of).collect())
    }

    /// The first groups for so many hits, at most [`TABLE`].
    #[inline(always)]
    pub fn of(&self, places: usize, groups: usize) -> &[Group] {
        &self.0[places.min(TABLE)][..groups.min(GROUPS)]
    }
}

/// Three places below `places`, which differ if there are as many.
fn distinct(places: usize, random: &mut Random) -> [u8; 3] {
    if places < 3 {
        return [0; 3];
    }
    loop {
        let [a, b, c] = core::array::from_fn(|_| random.below(places));
        if a != b && a != c && b != c {
            return [a, b, c];
        }
    }
}

/// Numbers by xorshift (G. Marsaglia, J. Stat. Softw. 8 (2003) 14).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * bound as u64) >> 32) as u8
    }
}
