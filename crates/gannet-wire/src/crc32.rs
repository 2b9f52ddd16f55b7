//! CRC-32 of IEEE 802.3: reflected, begun with ones, inverted at the end.
//!
//! Sixteen bytes are taken at a time, each by a table of its own.
//!
//! Source: IEEE 802.3, clause 3.2.9.

use crate::layout::array;

/// The polynomial, reflected: bit 31 is the coefficient of x^0.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// Bytes that are taken at a time.
const STRIDE: usize = 16;

/// `TABLES[n][byte]` is the register after `byte` and `n` bytes of zero behind it.
static TABLES: [[u32; 256]; STRIDE] = {
    let mut tables = [[0; 256]; STRIDE];
    let mut index = 0;
    while index < 256 {
        let (mut value, mut bit) = (index as u32, 0);
        while bit < 8 {
            value = times_x(value);
            bit += 1;
        }
        tables[0][index] = value;
        index += 1;
    }
    let mut stage = 1;
    while stage < STRIDE {
        let mut index = 0;
        while index < 256 {
            let before = tables[stage - 1][index];
            tables[stage][index] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            index += 1;
        }
        stage += 1;
    }
    tables
};

/// The CRC-32 of `bytes`.
pub fn crc32(bytes: &[u8]) -> u32 {
    Crc32::default().add(bytes).finish()
}

/// A CRC-32 in the making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crc32(u32);

impl Default for Crc32 {
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl Crc32 {
    /// The same with `bytes` behind what is in it.
    #[inline]
    pub(crate) fn add(self, bytes: &[u8]) -> Self {
        let mut register = self.0;
        let mut strides = bytes.chunks_exact(STRIDE);
        for stride in &mut strides {
            let first = register ^ u32::from_le_bytes(array(stride, 0));
            let first = first.to_le_bytes().into_iter();
            let stages = TABLES.iter().rev();
            let bytes = first.chain(stride[4..].iter().copied());
            register =
                stages.zip(bytes).fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)]);
        }
        let step = |crc: u32, &byte: &u8| crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
        Self(strides.remainder().iter().fold(register, step))
    }

    /// The check sum.
    #[inline]
    pub(crate) fn finish(self) -> u32 {
        !self.0
    }
}

/// A polynomial times x, modulo that of the CRC.
const fn times_x(value: u32) -> u32 {
    value >> 1 ^ if value & 1 == 1 { POLYNOMIAL } else { 0 }
}

/// The product of two polynomials, modulo that of the CRC.
const fn product(left: u32, mut right: u32) -> u32 {
    let (mut sum, mut bit) = (0, 1 << 31);
    while bit != 0 {
        if left & bit != 0 {
            sum ^= right;
        }
        right = times_x(right);
        bit >>= 1;
    }
    sum
}

/// The inverse of x, modulo the polynomial of the CRC.
const X_INVERSE: u32 = (1 << 31 ^ POLYNOMIAL) << 1 | 1;

/// Runs a CRC backwards: tells from two check sums where two messages of one length differ, if that is
/// in four bytes whose place is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backwards {
    /// The inverse of x to the power of the bits.
    factor: u32,
}

impl Backwards {
    /// Back over `bytes` bytes, from the end to the first of the four.
    pub(crate) const fn over(bytes: usize) -> Self {
        let (mut factor, mut square, mut exponent) = (1 << 31, X_INVERSE, 8 * bytes as u64);
        while exponent != 0 {
            if exponent & 1 == 1 {
                factor = product(factor, square);
            }
            square = product(square, square);
            exponent >>= 1;
        }
        Self { factor }
    }

    /// What the four bytes of two messages differ by (exclusive or), from what their check sums do.
    pub(crate) const fn four_bytes(self, difference: u32) -> [u8; 4] {
        product(self.factor, difference).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise;
    use proptest::prelude::*;

    #[test]
    fn the_check_value_is_the_published_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(product(X_INVERSE, times_x(1 << 31)), 1 << 31);
    }

    proptest! {
        #[test]
        fn many_bytes_at_a_time_are_as_one_by_one(seed: u64, len in 0usize..200, cut in 0usize..200) {
            let bytes = noise::bytes(seed, len);
            let plain = bytes.iter().fold(u32::MAX, |register, &byte| {
                (0..8).fold(register ^ u32::from(byte), |register, _| times_x(register))
            });
            prop_assert_eq!(crc32(&bytes), !plain);
            let (front, back) = bytes.split_at(cut.min(len));
            prop_assert_eq!(Crc32::default().add(front).add(back).finish(), !plain);
        }

        #[test]
        fn run_backwards_it_tells_four_bytes(seed: u64, len in 4usize..200, at in 0usize..196, other: [u8; 4]) {
            let bytes = noise::bytes(seed, len);
            let at = at.min(len - 4);
            let mut changed = bytes.clone();
            for (byte, other) in changed[at..].iter_mut().zip(other) {
                *byte ^= other;
            }
            let difference = crc32(&bytes) ^ crc32(&changed);
            prop_assert_eq!(Backwards::over(len - at).four_bytes(difference), other);
        }
    }
}
