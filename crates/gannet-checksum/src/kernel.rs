//! The ways to sum bytes, and the one for this machine.

use std::sync::LazyLock;

use crc_fast::{CrcAlgorithm, Digest};

use crate::copy::copy_from;
use crate::shm::Source;
#[cfg(target_arch = "x86_64")]
use crate::{avx2::Avx2, avx512::Avx512};

/// A way to go on with the register of a CRC-32C, which begins inverted and ends so.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    /// That of a library, and copies by memcpy: for any machine.
    Portable,
    /// Carry-less products of 256 bits, which copy what they read.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// The same of 512 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// From so many bytes on it pays to write whole lines of the cache: vectors that lie across two of them are written in two pieces.
const LONG: usize = 4096;
/// Bytes of a line.
const LINE: usize = 64;

/// Names of the ways to take sums that this machine has, slowest first.
pub fn ways() -> impl Iterator<Item = &'static str> {
    Kernel::available().map(|kernel| match kernel {
        Kernel::Portable => "portable",
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2(_) => "avx2",
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512(_) => "avx512",
    })
}

static BEST: LazyLock<Kernel> =
    LazyLock::new(|| Kernel::available().last().unwrap_or(Kernel::Portable));

impl Kernel {
    /// The fastest that this machine has.
    #[inline]
    pub(crate) fn best() -> Self {
        *BEST
    }

    /// Those that this machine has, slowest first.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let vectors = [Avx2::detect().map(Self::Avx2), Avx512::detect().map(Self::Avx512)];
        #[cfg(not(target_arch = "x86_64"))]
        let vectors = [None];
        [Some(Self::Portable)].into_iter().chain(vectors).flatten()
    }

    /// What the register becomes by `bytes`.
    #[inline]
    pub(crate) fn sum(self, register: u32, bytes: &[u8]) -> u32 {
        match self {
            Self::Portable => {
                let mut digest =
                    Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, register.into());
                digest.update(bytes);
                digest.get_state() as u32
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(kernel) => kernel.sum(register, bytes.into()),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(kernel) => kernel.sum(register, bytes.into()),
        }
    }

    /// Copies all of `from` to `to`, and gives what the register becomes by these bytes.
    ///
    /// # Panics
    /// When the two have different lengths.
    #[inline]
    pub(crate) fn copy(self, register: u32, from: Source<'_>, to: &mut [u8]) -> u32 {
        if from.len() < LONG {
            return self.copy_any(register, from, to);
        }
        let (front, from) = from.split_at(to.as_ptr().align_offset(LINE).min(LINE));
        let (place, to) = to.split_at_mut(front.len());
        self.copy_any(self.copy_any(register, front, place), from, to)
    }

    /// The same, wherever `to` lies.
    #[inline]
    fn copy_any(self, register: u32, from: Source<'_>, to: &mut [u8]) -> u32 {
        match self {
            Self::Portable => {
                copy_from(from, to);
                // Still in the cache of the first level: a packet has no more than 16 KiB.
                self.sum(register, to)
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(kernel) => kernel.copy(register, from, to),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(kernel) => kernel.copy(register, from, to),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::crc32c::times_x;

    /// The definition: bit by bit.
    fn defined(register: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(register, |register, &byte| {
            (0..8).fold(register ^ u32::from(byte), |register, _| times_x(register))
        })
    }

    proptest! {
        #[test]
        fn all_give_the_defined_register_and_copy(
            register: u32, bytes in prop::collection::vec(any::<u8>(), 0..2 * LONG), start in 0usize..70, shift in 0usize..70,
        ) {
            let bytes = &bytes[start.min(bytes.len())..];
            let expected = defined(register, bytes);
            for kernel in Kernel::available() {
                prop_assert_eq!(kernel.sum(register, bytes), expected, "{:?}", kernel);
                let mut room = vec![0xa5; shift + bytes.len() + 64];
                let place = &mut room[shift..shift + bytes.len()];
                prop_assert_eq!(kernel.copy(register, bytes.into(), place), expected, "{:?}", kernel);
                prop_assert_eq!(&*place, bytes);
                room[shift..shift + bytes.len()].fill(0xa5);
                prop_assert!(room.iter().all(|&byte| byte == 0xa5), "it wrote beside its place");
            }
        }
    }
}
