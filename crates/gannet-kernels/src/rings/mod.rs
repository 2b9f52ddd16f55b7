//! Rings of hits of the NA62 RICH, from M2EGP bytes.
//!
//! * [`positions`]: where the channels look;
//! * [`single`]: one ring an event, by the sums of its hits;
//! * [`multi`]: up to five rings an event;
//! * [`found`]: what both give.
//!
//! Plain Rust is the definition; every instruction set gives the same bits, whatever the events before.
//! The module is *not* concerned with how events are put together or what follows from a ring.

pub mod found;
pub mod multi;
pub mod positions;
pub mod single;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod fit;
mod lanes;
mod packet;

pub use found::{Counts, Event, Found, RINGS_MAX, Ring};
pub use multi::MultiRing;
pub use positions::{CHANNELS, Positions};
pub use single::SingleRing;

use crate::isa::Kernel;
use lanes::{Lanes, Plain};

/// How a circle is fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// By linear least squares: a little faster, and too small on short arcs.
    Kasa,
    /// By least squares with Taubin's constraint.
    #[default]
    Taubin,
}

/// What is done with an instruction set.
trait Work {
    type Output;

    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// Does the work with the instruction set of the kernel.
fn run<W: Work>(kernel: Kernel, work: W) -> W::Output {
    match kernel {
        Kernel::Scalar => work.run(Plain),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2(isa) => isa.run(work),
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512(isa) => isa.run(work),
    }
}
