//! Coincidences of hits in an optical module of KM3NeT, from the hits of its packets.
//!
//! * [`module_slice`]: the hits of a module and a slice, calibrated and in order of time;
//! * [`partners`]: which photomultipliers coincide;
//! * [`level`]: hits that others confirm (L1, L2);
//! * [`supernova`]: how many photomultipliers saw light at a time.
//!
//! Plain Rust is the definition; every instruction set gives the same bits. Nothing is allocated for
//! a slice. The module is *not* concerned with which datagrams of a slice are there.

pub mod level;
pub mod module_slice;
pub mod partners;
pub mod supernova;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod near;

pub use level::{Confirmed, Rule};
pub use module_slice::{CalibratedHit, Calibration, Counts, HITS_MAX, ModuleSlice};
pub use partners::Partners;
pub use supernova::Coincidence;

use crate::isa::Kernel;

/// Time within which hits coincide in the experiment, ns.
pub const WINDOW_NS: u32 = 10;

/// Work to be compiled for an instruction set: a closure, or where compilers make a call of that, a
/// type whose `run` is always inlined.
pub(crate) trait Work<R> {
    /// Does it.
    fn run(self) -> R;
}

impl<R, F: FnOnce() -> R> Work<R> for F {
    #[inline(always)]
    fn run(self) -> R {
        self()
    }
}

/// Does the work with the instruction set of the kernel enabled.
#[inline(always)]
pub(crate) fn run<R>(kernel: Kernel, work: impl Work<R>) -> R {
    match kernel {
        Kernel::Scalar => work.run(),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2(isa) => avx2::run(isa, work),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512(isa) => avx512::run(isa, work),
    }
}
