//! Asking the processor for memory that will be needed soon.
#![allow(unsafe_code)]

/// Bytes of a cache line.
const LINE: usize = 64;

/// Begins to fetch all cache lines of `value`, where the processor can be asked to; never waits.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..size_of::<T>()).step_by(LINE) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = (&raw const *value).cast::<i8>().wrapping_add(offset);
        // SAFETY: a prefetch reads nothing that the program can see, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, LINE);
}
