//! The header as the HLS interface of the published core packs it.
//!
//! Two layouts of one header live in the published sources. The link and the C headers count
//! fields from the least significant bit; the HLS stream interface places the same fields, in the
//! same order and of the same widths, from the most significant bit down: virtual channel and
//! last-in-dimension at 127:123, process at 122:107, and so on to the check bits at 7:0. The check
//! bits keep the value that they have in the header of the link.
//!
//! Source: APE-group/APEIRON `apeiron_framework/include/ape_hls/hapecom.hpp` against
//! `apeiron_framework/include/apenet_packet.h`.

use super::Word;

/// Widths of the fields of the header from the least significant bit up, in bits. The virtual
/// channel and the bit above it are one field there.
const WIDTHS: [u32; 13] = [5, 16, 6, 5, 5, 4, 1, 1, 5, 14, 48, 10, 8];

/// The word of the HLS interface for `header`, a word of the link.
pub const fn from_link(header: Word) -> Word {
    let (mut rest, mut hls, mut field) = (header, 0, 0);
    while field < WIDTHS.len() {
        let width = WIDTHS[field];
        hls = hls << width | rest & ((1 << width) - 1);
        rest >>= width;
        field += 1;
    }
    hls
}

/// The word of the link for `header`, a word of the HLS interface.
pub const fn to_link(header: Word) -> Word {
    let (mut rest, mut link, mut field) = (header, 0, WIDTHS.len());
    while field > 0 {
        field -= 1;
        let width = WIDTHS[field];
        link = link << width | rest & ((1 << width) - 1);
        rest >>= width;
    }
    link
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_lie_from_the_top_down() {
        assert_eq!(WIDTHS.iter().sum::<u32>(), 128);
        assert_eq!(from_link(0x1f), 0x1f << 123);
        assert_eq!(from_link(0xffff << 5), 0xffff << 107);
        assert_eq!(from_link(1 << 41), 1 << 86);
        assert_eq!(from_link(0x3fff << 48), 0x3fff << 66);
        assert_eq!(from_link(0xff << 120), 0xff);
    }

    proptest! {
        #[test]
        fn there_and_back_gives_any_word(word: u128) {
            prop_assert_eq!(to_link(from_link(word)), word);
        }
    }
}
