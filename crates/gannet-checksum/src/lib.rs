//! Check sums of the bytes of packets, and copies of them.
//!
//! * [`Crc32c`] is the sum of bytes, of parts that follow each other, and of bytes while they are copied, which then costs no pass of its own;
//! * [`copy`] and [`copy_padded`] copy alone.
//!
//! What the machine has is looked for once, by the first sum. All ways give the same bits; `unsafe` is in the files of instruction sets and in `shm`,
//! for bytes of memory that others share.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod copy;
mod crc32c;
#[cfg(target_arch = "x86_64")]
mod folding;
mod kernel;
mod shm;

pub use copy::{copy, copy_padded};
pub use crc32c::Crc32c;
pub use kernel::ways;
