//! Seeded random bytes for tests: property tests draw a seed, which is faster than drawing bytes.

/// `len` bytes that depend on `seed` only (splitmix64).
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).to_le_bytes()
    };
    core::iter::repeat_with(&mut word).flatten().take(len).collect()
}
