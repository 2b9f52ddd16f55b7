//! Integers and runs of bits at fixed places of a byte slice.

use crate::{Error, Result};

/// Refuses `bytes` when fewer than `expected` of them are there.
#[inline]
pub(crate) fn check_len(format: &'static str, bytes: &[u8], expected: usize) -> Result<()> {
    if bytes.len() < expected {
        return Err(Error::Truncated { format, expected, got: bytes.len() });
    }
    Ok(())
}

/// The `N` bytes at `at`, for the `from_le_bytes` and `from_be_bytes` of an integer.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *array_ref(bytes, at)
}

/// The `N` bytes at `at` as an array whose length the compiler knows.
#[inline]
pub(crate) fn array_ref<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    bytes[at..at + N].first_chunk().expect("the slice has N bytes")
}

/// The `N` bytes at `at` as an array that may be written.
#[inline]
pub(crate) fn array_mut<const N: usize>(bytes: &mut [u8], at: usize) -> &mut [u8; N] {
    bytes[at..at + N].first_chunk_mut().expect("the slice has N bytes")
}

/// Writes the bytes of an integer at `at`.
#[inline]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    *array_mut(bytes, at) = value;
}

/// Bits `first..=last` of a 64-bit word, bit 0 being the least significant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits {
    first: u32,
    mask: u64,
}

impl Bits {
    /// The run `first..=last`.
    pub(crate) const fn new(first: u32, last: u32) -> Self {
        assert!(first <= last && last < 64, "a run of bits must lie in one word");
        Self { first, mask: u64::MAX >> (63 - (last - first)) }
    }

    /// Value of the run in `word`.
    #[inline]
    pub(crate) const fn of(self, word: u64) -> u64 {
        (word >> self.first) & self.mask
    }

    /// `word` with the run replaced by the low bits of `value`.
    #[inline]
    pub(crate) const fn replace(self, word: u64, value: u64) -> u64 {
        (word & !(self.mask << self.first)) | (value & self.mask) << self.first
    }
}

/// A type that a run of bits is read as.
pub(crate) trait FieldValue: Copy {
    /// The value from bits that a [`Bits`] has already masked.
    fn from_bits(bits: u64) -> Self;
    /// The bits of the value.
    fn to_bits(self) -> u64;
}

macro_rules! integer_field_value {
    ($($Type:ty)+) => {$(
        impl FieldValue for $Type {
            #[inline]
            fn from_bits(bits: u64) -> Self {
                bits as $Type
            }
            #[inline]
            fn to_bits(self) -> u64 {
                self.into()
            }
        }
    )+};
}
integer_field_value!(u8 u16 u32 u64);

impl FieldValue for bool {
    #[inline]
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
    #[inline]
    fn to_bits(self) -> u64 {
        self.into()
    }
}

/// Writes a view and a plain `Repr` from the table of a format made of little-endian 64-bit words.
///
/// Front-end headers are given by their documents as such tables. Stating each field once keeps
/// accessor, setter, `parse`, `emit` and printer from disagreeing. Every bit of the format must be
/// in the table, reserved bits included: then `emit` after `parse` gives back any input.
macro_rules! word_format {
    (
        $(#[$view_doc:meta])*
        view $View:ident;
        $(#[$repr_doc:meta])*
        repr $Repr:ident;
        format $format:literal, $words:literal words;
        $(
            $(#[$doc:meta])*
            $get:ident, $set:ident: $Type:ty
                = word $word:literal, bits $first:literal..=$last:literal $(, $unit:literal)?;
        )+
    ) => {
        $(#[$view_doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $View<T> {
            buffer: T,
        }

        impl<T: AsRef<[u8]>> $View<T> {
            /// View without a length test: accessors panic when the buffer is too short.
            #[inline]
            pub const fn new_unchecked(buffer: T) -> Self {
                Self { buffer }
            }

            /// View of the first bytes of `buffer`.
            ///
            /// # Errors
            /// [`Error::Truncated`](crate::Error::Truncated) when the buffer is too short.
            #[inline]
            pub fn new_checked(buffer: T) -> $crate::Result<Self> {
                $crate::layout::check_len($format, buffer.as_ref(), $Repr::LEN)?;
                Ok(Self { buffer })
            }

            /// The buffer under the view.
            pub fn into_inner(self) -> T {
                self.buffer
            }

            #[inline]
            fn word(&self, index: usize) -> u64 {
                u64::from_le_bytes($crate::layout::array(self.buffer.as_ref(), 8 * index))
            }

            $(
                $(#[$doc])*
                #[inline]
                pub fn $get(&self) -> $Type {
                    const BITS: $crate::layout::Bits = $crate::layout::Bits::new($first, $last);
                    $crate::layout::FieldValue::from_bits(BITS.of(self.word($word)))
                }
            )+
        }

        impl<T: AsRef<[u8]> + AsMut<[u8]>> $View<T> {
            $(
                #[doc = concat!("Sets `", stringify!($get), "`; bits above the width of the field are dropped.")]
                #[inline]
                pub fn $set(&mut self, value: $Type) {
                    const BITS: $crate::layout::Bits = $crate::layout::Bits::new($first, $last);
                    let bits = $crate::layout::FieldValue::to_bits(value);
                    let word = BITS.replace(self.word($word), bits);
                    $crate::layout::put(self.buffer.as_mut(), 8 * $word, word.to_le_bytes());
                }
            )+
        }

        $(#[$repr_doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $Repr {
            $(
                $(#[$doc])*
                pub $get: $Type,
            )+
        }

        impl $Repr {
            /// Bytes of the stored form.
            pub const LEN: usize = 8 * $words;

            /// The fields of `view`; every bit pattern is valid.
            pub fn parse<T: AsRef<[u8]>>(view: &$View<T>) -> Self {
                Self { $($get: view.$get(),)+ }
            }

            /// Bytes that `emit` writes.
            pub const fn buffer_len(&self) -> usize {
                Self::LEN
            }

            /// Writes all fields.
            ///
            /// # Panics
            /// When the buffer under an unchecked view is too short.
            pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut $View<T>) {
                $(view.$set(self.$get);)+
            }
        }

        /// Prints one field a line, with its unit.
        impl core::fmt::Display for $Repr {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str($format)?;
                $(
                    write!(f, "\n  {:<22} {}", stringify!($get), self.$get)?;
                    $(write!(f, " {}", $unit)?;)?
                )+
                Ok(())
            }
        }

        impl<T: AsRef<[u8]>> core::fmt::Display for $View<T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                $Repr::parse(self).fmt(f)
            }
        }

        // The table must name each bit of each word exactly once.
        const _: () = {
            let mut seen = [0u64; $words];
            $(
                let run = $crate::layout::Bits::new($first, $last).replace(0, u64::MAX);
                assert!(seen[$word] & run == 0, "two fields share a bit");
                seen[$word] |= run;
            )+
            let mut word = 0;
            while word < $words {
                assert!(seen[word] == u64::MAX, "a bit belongs to no field");
                word += 1;
            }
        };
    };
}
pub(crate) use word_format;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_bits_is_read_and_replaced_without_touching_its_neighbours() {
        let run = Bits::new(26, 33);
        assert_eq!(run.of(0xab << 26), 0xab);
        assert_eq!(run.replace(u64::MAX, 0), !(0xff << 26));
        assert_eq!(run.replace(0, u64::MAX), 0xff << 26);
        assert_eq!(Bits::new(0, 63).replace(0, u64::MAX), u64::MAX);
    }

    #[test]
    fn a_short_buffer_is_refused_with_both_lengths() {
        assert_eq!(
            check_len("x", &[0; 3], 4),
            Err(Error::Truncated { format: "x", expected: 4, got: 3 })
        );
    }
}
