//! Round-robin arbitration over bit masks.

/// The first set bit at or after `from`, wrapping round; `mask` is not 0.
#[inline]
pub(super) fn next_from(mask: u64, from: u8) -> u8 {
    debug_assert!(mask != 0 && from < 64);
    let behind = mask >> from << from;
    if behind != 0 { behind.trailing_zeros() as u8 } else { mask.trailing_zeros() as u8 }
}

/// Takes the lowest set bit out of `mask`, which is not 0.
#[inline]
pub(super) fn take_lowest(mask: &mut u64) -> u8 {
    let bit = mask.trailing_zeros() as u8;
    *mask &= *mask - 1;
    bit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_goes_round() {
        let mask = 0b1001_0010;
        let turns: Vec<u8> = (0..8).map(|from| next_from(mask, from)).collect();
        assert_eq!(turns, [1, 1, 4, 4, 4, 7, 7, 7]);
        assert_eq!(next_from(mask, 8), 1);
        let mut left = mask;
        assert_eq!(
            [take_lowest(&mut left), take_lowest(&mut left), take_lowest(&mut left)],
            [1, 4, 7]
        );
        assert_eq!(left, 0);
    }
}
