//! Work whose loops compilers turn into 256-bit vectors.
#![allow(unsafe_code)]

use super::Work;
use crate::isa::Avx2;

/// Does the work with the instruction set enabled.
pub(super) fn run<R>(_: Avx2, work: impl Work<R>) -> R {
    // SAFETY: an `Avx2` exists only where the features were found.
    unsafe { enabled(work) }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,popcnt")]
fn enabled<R>(work: impl Work<R>) -> R {
    work.run()
}
