//! Work whose loops compilers turn into 512-bit vectors.
#![allow(unsafe_code)]

use super::Work;
use crate::isa::Avx512;

/// Does the work with the instruction set enabled.
pub(super) fn run<R>(_: Avx512, work: impl Work<R>) -> R {
    // SAFETY: an `Avx512` exists only where the features were found.
    unsafe { enabled(work) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx2,fma,bmi1,bmi2,popcnt")]
fn enabled<R>(work: impl Work<R>) -> R {
    work.run()
}
