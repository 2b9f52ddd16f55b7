//! Memory that a device or the kernel may write: regions and circular lists of persistent buffers.
//!
//! A [`Region`] owns page-aligned memory, on huge pages where they can be had. A
//! [clop](clop::clop) lays a ring of equal cells over a region: one [`clop::Producer`] lets the
//! network land frames in it, any number of [`clop::Reader`]s copy windows out of it later and
//! learn from a generation check whether the frame was overwritten meanwhile.
//!
//! A [receive list](mod@receive_list) hands whole buffers of units over, one after the other, to consumers that
//! hold each while they work on it.
//!
//! Memory that far nodes reach by RDMA is entered in [`RegisteredBuffers`]; a [`Tlb`] keeps the
//! translations of addresses that were used last.
//!
//! Raw memory is touched only in `sys`; everything else is safe code.

pub mod clop;
mod headroom;
pub mod receive_list;
pub mod registration;
mod sync;
mod sys;
pub mod tlb;
mod window;

pub use clop::{Cell, Geometry, Overwritten, Producer, Reader, clop, clop_over};
pub use headroom::{Bound, Headroom, headroom};
pub use receive_list::receive_list;
pub use registration::{RegisterError, RegisteredBuffers, Registration};
pub use sys::parts::Part;
pub use sys::prefetch::prefetch;
pub use sys::region::{Pages, Region, RegionError};
pub use sys::shared::{Access, AttachError, Kind, SharedRegion};
pub use sys::vectors::{return_spare, vec_on_huge_pages};
pub use tlb::{Mapping, PageSize, Refusal, Replacement, Tlb};
