//! DAQ Ethernet header: the 16 bytes that open every frame a DUNE front end sends over Ethernet.
//!
//! ```text
//! word 0   63        52 51    40 39      34 33     26 25   22 21    12 11    6 5       0
//!         +------------+--------+----------+---------+-------+--------+-------+---------+
//!         |block_length| seq_id | reserved |stream_id|slot_id|crate_id|det_id | version |
//!         |     12     |   12   |    6     |    8    |   4   |   10   |   6   |    6    |
//!         +------------+--------+----------+---------+-------+--------+-------+---------+
//! word 1  |             timestamp of the first sample (64, ticks of 16 ns)              |
//!         +-----------------------------------------------------------------------------+
//! ```
//!
//! Two little-endian 64-bit words. One tick is 16 ns and the count starts at the Unix epoch.
//!
//! Source: DUNE-DAQ/detdataformats `include/detdataformats/DAQEthHeader.hpp`.

use core::ops::RangeInclusive;

use gannet_measure::ticks::TickRate;

use crate::GeoId;
use crate::layout::word_format;

/// Bytes of the header.
pub const HEADER_LEN: usize = Repr::LEN;

/// Bits that tell streams apart, most significant first: crate, slot, stream. Bit `b` is bit `b % 8`
/// of byte `b / 8`.
pub const STREAM_KEY: [RangeInclusive<u32>; 3] = [12..=21, 22..=25, 26..=33];

/// The number that the bits of [`STREAM_KEY`] make, put together, in frames of the stream `geo`.
/// Streams of one board have neighbouring numbers.
pub const fn stream_key(geo: GeoId) -> u32 {
    (geo.crate_id as u32 & 0x3ff) << 12 | (geo.slot as u32 & 0xf) << 8 | (geo.stream as u32 & 0xff)
}

/// Clock whose ticks `timestamp` counts, from 1970 on.
pub const CLOCK: TickRate = TickRate::hz(62_500_000);

/// `seq_id` counts frames of one stream modulo this number.
pub const SEQ_MODULUS: u16 = 4096;

word_format! {
    /// View of a DAQ Ethernet header.
    view Header;
    /// A DAQ Ethernet header as plain values.
    repr Repr;
    format "DAQ Ethernet header", 2 words;

    /// Version of the layout; 0 in data of 2024.
    version, set_version: u8 = word 0, bits 0..=5;
    /// Detector (for example 3 = HD_TPC, 10 = VD bottom TPC, 11 = VD top TPC).
    det_id, set_det_id: u8 = word 0, bits 6..=11;
    /// Crate, or anode plane assembly, or charge readout plane.
    crate_id, set_crate_id: u16 = word 0, bits 12..=21;
    /// Slot in the crate.
    slot_id, set_slot_id: u8 = word 0, bits 22..=25;
    /// Stream of the board in the slot.
    stream_id, set_stream_id: u8 = word 0, bits 26..=33;
    /// Reserved, 0.
    reserved, set_reserved: u8 = word 0, bits 34..=39;
    /// Number of the frame in its stream, modulo [`SEQ_MODULUS`].
    seq_id, set_seq_id: u16 = word 0, bits 40..=51;
    /// Length of the frame in 64-bit words, minus one.
    block_length, set_block_length: u16 = word 0, bits 52..=63, "words of 8 bytes, minus one";
    /// Time of the first sample, in ticks of 16 ns.
    timestamp, set_timestamp: u64 = word 1, bits 0..=63, "ticks of 16 ns";
}

impl<T: AsRef<[u8]>> Header<T> {
    /// Where the frame comes from: the key of its stream.
    #[inline]
    pub fn geo_id(&self) -> GeoId {
        Repr::parse(self).geo_id()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    /// Sets detector, crate, slot and stream; bits above the widths 6, 10, 4 and 8 are dropped.
    pub fn set_geo_id(&mut self, geo: GeoId) {
        self.set_det_id(geo.detector as u8);
        self.set_crate_id(geo.crate_id);
        self.set_slot_id(geo.slot as u8);
        self.set_stream_id(geo.stream as u8);
    }
}

impl Repr {
    /// Where the frame comes from: the key of its stream.
    #[inline]
    pub const fn geo_id(&self) -> GeoId {
        GeoId::new(self.det_id as u16, self.crate_id, self.slot_id as u16, self.stream_id as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use proptest::prelude::*;

    /// First 16 bytes of a real ProtoDUNE-HD frame (run 27980).
    const REAL: [u64; 2] = [0x3838_a600_0000_10c0, 0x017e_1344_7c5b_280b];

    fn bytes(words: [u64; 2]) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(&words[0].to_le_bytes());
        bytes[8..].copy_from_slice(&words[1].to_le_bytes());
        bytes
    }

    #[test]
    fn reads_a_real_header() {
        let header = Header::new_checked(bytes(REAL)).unwrap();
        assert_eq!(header.version(), 0);
        assert_eq!(header.geo_id(), GeoId::new(3, 1, 0, 0));
        assert_eq!(header.reserved(), 0);
        assert_eq!(header.seq_id(), 2214);
        assert_eq!(header.block_length(), 899);
        assert_eq!(header.timestamp(), 107_544_625_968_523_275);
    }

    #[test]
    fn writes_a_real_header() {
        let mut header = Header::new_checked([0; HEADER_LEN]).unwrap();
        header.set_geo_id(GeoId::new(3, 1, 0, 0));
        header.set_seq_id(2214);
        header.set_block_length(899);
        header.set_timestamp(107_544_625_968_523_275);
        assert_eq!(header.into_inner(), bytes(REAL));
    }

    #[test]
    fn each_field_lies_where_the_diagram_says() {
        let one_field = |set: fn(&mut Header<[u8; HEADER_LEN]>)| {
            let mut header = Header::new_unchecked([0; HEADER_LEN]);
            set(&mut header);
            u64::from_le_bytes(header.into_inner()[..8].try_into().unwrap())
        };
        assert_eq!(one_field(|h| h.set_version(u8::MAX)), 0x3f);
        assert_eq!(one_field(|h| h.set_det_id(u8::MAX)), 0x3f << 6);
        assert_eq!(one_field(|h| h.set_crate_id(u16::MAX)), 0x3ff << 12);
        assert_eq!(one_field(|h| h.set_slot_id(u8::MAX)), 0xf << 22);
        assert_eq!(one_field(|h| h.set_stream_id(u8::MAX)), 0xff << 26);
        assert_eq!(one_field(|h| h.set_reserved(u8::MAX)), 0x3f << 34);
        assert_eq!(one_field(|h| h.set_seq_id(u16::MAX)), 0xfff << 40);
        assert_eq!(one_field(|h| h.set_block_length(u16::MAX)), 0xfff << 52);
    }

    #[test]
    fn prints_every_field_with_its_unit() {
        let text = Header::new_checked(bytes(REAL)).unwrap().to_string();
        assert!(text.starts_with("DAQ Ethernet header\n  version                0\n"), "{text}");
        assert!(text.contains("seq_id                 2214"), "{text}");
        assert!(text.ends_with("107544625968523275 ticks of 16 ns"), "{text}");
    }

    #[test]
    fn refuses_a_header_cut_short() {
        let error = Header::new_checked([0; HEADER_LEN - 1]).unwrap_err();
        assert_eq!(
            error,
            Error::Truncated { format: "DAQ Ethernet header", expected: 16, got: 15 }
        );
    }

    proptest! {
        #[test]
        fn the_key_of_a_stream_stands_in_every_frame_of_it(bytes: [u8; HEADER_LEN]) {
            let bit = |b: u32| u32::from(bytes[b as usize / 8] >> (b % 8) & 1);
            let field = |bits: RangeInclusive<u32>| {
                bits.rev().fold(0, |value, b| value << 1 | bit(b))
            };
            let [crate_id, slot, stream] = STREAM_KEY.map(|bits| (bits.clone().count(), field(bits)));
            let key = (crate_id.1 << slot.0 | slot.1) << stream.0 | stream.1;
            let geo = Header::new_checked(bytes).unwrap().geo_id();
            prop_assert_eq!(stream_key(geo), key);
        }

        #[test]
        fn emit_after_parse_gives_back_any_bytes(bytes: [u8; HEADER_LEN]) {
            let repr = Repr::parse(&Header::new_checked(bytes).unwrap());
            let mut copy = Header::new_checked([0xa5; HEADER_LEN]).unwrap();
            repr.emit(&mut copy);
            prop_assert_eq!(copy.into_inner(), bytes);
        }
    }
}
