//! Where and when hits are, by column, so that one is compared with many at a time.

use core::ops::Range;

use super::light::Between;

/// Hits that are compared at a time.
pub(super) const LANES: usize = 16;
/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// Positions in m and times in ns, of which the lowest bits are enough.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    at: [Vec<f32>; 3],
    time: Vec<u32>,
}

impl Columns {
    pub fn len(&self) -> usize {
        self.time.len()
    }

    #[inline(always)]
    pub fn push(&mut self, at: [f32; 3], time: u32) {
        let [xs, ys, zs] = &mut self.at;
        xs.push(at[0]);
        ys.push(at[1]);
        zs.push(at[2]);
        self.time.push(time);
    }

    pub fn clear(&mut self) {
        self.at.iter_mut().for_each(Vec::clear);
        self.time.clear();
    }

    /// Takes the first `count` away.
    pub fn drop_first(&mut self, count: usize) {
        self.at.iter_mut().for_each(|column| _ = column.drain(..count));
        self.time.drain(..count);
    }

    #[inline(always)]
    pub fn get(&self, place: usize) -> ([f32; 3], u32) {
        let [x, y, z] = &self.at;
        ([x[place], y[place], z[place]], self.time[place])
    }

    /// What is between two hits.
    #[inline(always)]
    pub fn between(&self, from: usize, to: usize) -> Between {
        let ((a, time_a), (b, time_b)) = (self.get(from), self.get(to));
        between(a, time_a, b, time_b)
    }

    /// Sets a bit of `set` for each hit in `range`, counted from its start, that is `such` seen from
    /// hit `from`; clears all others.
    #[inline(always)]
    pub fn ask(
        &self,
        from: usize,
        range: Range<usize>,
        set: &mut [u64],
        such: impl Fn(Between) -> bool,
    ) {
        let (at, time) = self.get(from);
        let [xs, ys, zs] = &self.at;
        set.fill(0);
        for first in range.clone().step_by(LANES) {
            let (xs, ys, zs) = (block(xs, first), block(ys, first), block(zs, first));
            let times = block(&self.time, first);
            let mut found = [0; LANES];
            for (lane, found) in found.iter_mut().enumerate() {
                let other = [xs[lane], ys[lane], zs[lane]];
                *found = u8::from(such(between(at, time, other, times[lane])));
            }
            let left = range.end - first;
            let kept = if left < LANES { (1 << left) - 1 } else { u64::MAX };
            let place = first - range.start;
            set[place / WORD] |= (bits(found) & kept) << (place % WORD);
        }
    }
}

#[inline(always)]
fn between(a: [f32; 3], time_a: u32, b: [f32; 3], time_b: u32) -> Between {
    let way = [b[0] - a[0], b[1] - a[1], b[2] - a[2]];
    Between { way, time: time_b.wrapping_sub(time_a).cast_signed() as f32 }
}

/// The next values from `first` on; zero where there are no more.
#[inline(always)]
fn block<T: Copy + Default>(column: &[T], first: usize) -> [T; LANES] {
    match column[first..].first_chunk() {
        Some(block) => *block,
        None => {
            let mut block = [T::default(); LANES];
            block[..column.len() - first].copy_from_slice(&column[first..]);
            block
        }
    }
}

/// The lowest bit of each byte.
#[inline(always)]
pub(super) fn bits(bytes: [u8; LANES]) -> u64 {
    let (halves, _) = bytes.as_chunks::<8>();
    let gather = |half: [u8; 8]| u64::from_le_bytes(half).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    gather(halves[0]) | gather(halves[1]) << 8
}

/// The places of the bits that are set.
#[inline(always)]
pub(super) fn places(set: &[u64]) -> Places<'_> {
    Places { bits: 0, word: 0, set }
}

/// What is left of a set.
#[derive(Clone, Debug)]
pub(super) struct Places<'a> {
    bits: u64,
    /// Words begun.
    word: usize,
    set: &'a [u64],
}

impl Iterator for Places<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        while self.bits == 0 {
            self.bits = *self.set.get(self.word)?;
            self.word += 1;
        }
        let place = (self.word - 1) * WORD + self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_bytes_and_places_those_of_the_bits() {
        for set in [0, 1, 0x8001, 0x1234, 0xffff] {
            let bytes = core::array::from_fn(|lane| (set >> lane & 1) as u8);
            assert_eq!(bits(bytes), set);
        }
        assert!(places(&[0x8001, 0, 1 << 63]).eq([0, 15, 191]));
    }

    #[test]
    fn hits_are_asked_whatever_their_number() {
        let mut columns = Columns::default();
        for hit in 0..100_u32 {
            columns.push([hit as f32, 0.0, 0.0], 1000 * hit);
            let such = |it: Between| it.way[0] as i32 % 3 == 0 && it.time == 1000.0 * it.way[0];
            let mut set = [u64::MAX; 2];
            let count = hit as usize + 1;
            columns.ask(0, 0..count, &mut set, such);
            assert!(places(&set).eq((0..count).step_by(3)));
            columns.ask(0, count.min(5)..count, &mut set, such);
            let first = count.min(5);
            let expected = (first..count).filter(|hit| hit % 3 == 0).map(|hit| hit - first);
            assert!(places(&set).eq(expected), "{hit}");
        }
    }
}
