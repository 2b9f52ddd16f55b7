//! Pure compute on slices: the hot loops of trigger primitive generation, scalar and SIMD.
