//! Where neighbours of a slice are near each other, or in the wrong order: both are rare.

use super::CalibratedHit;

/// Neighbours that are asked at a time.
const BLOCK: usize = 16;

/// The first of the hits from `from` on that is at most `window` ns before the next one, or else
/// that which has no next one.
#[inline(always)]
pub(super) fn near_next(hits: &[CalibratedHit], from: usize, window: u32) -> usize {
    let gap = |a: CalibratedHit, b: CalibratedHit| b.time() - a.time();
    let any = |these: &[_; BLOCK], next: &[_; BLOCK]| {
        let least = these.iter().zip(next).fold(u32::MAX, |least, (&a, &b)| least.min(gap(a, b)));
        least <= window
    };
    find(hits, from, any, |a, b| gap(a, b) <= window)
}

/// The first of the hits from `from` on after which a lesser one comes, or else that which has no
/// next one.
#[inline(always)]
pub(super) fn lesser_next(hits: &[CalibratedHit], from: usize) -> usize {
    let any = |these: &[_; BLOCK], next: &[_; BLOCK]| {
        these.iter().zip(next).fold(false, |any, (a, b)| any | (b < a))
    };
    find(hits, from, any, |a, b| b < a)
}

/// The first place from `from` on whose hit and next hit are such. `any` tells it of a block.
#[inline(always)]
fn find(
    hits: &[CalibratedHit],
    from: usize,
    any: impl Fn(&[CalibratedHit; BLOCK], &[CalibratedHit; BLOCK]) -> bool,
    such: impl Fn(CalibratedHit, CalibratedHit) -> bool,
) -> usize {
    let (these, next) = (&hits[from..hits.len() - 1], &hits[from + 1..]);
    let (blocks, next_blocks) = (these.as_chunks().0, next.as_chunks().0);
    let passed = blocks.iter().zip(next_blocks).take_while(|(a, b)| !any(a, b)).count() * BLOCK;
    let rest = these[passed..].iter().zip(&next[passed..]);
    from + passed + rest.take_while(|&(&a, &b)| !such(a, b)).count()
}
