//! WIBEth frame: 64 channels of a DUNE horizontal-drift or bottom vertical-drift TPC, 7200 bytes.
//!
//! Bytes 0-15 are the [DAQ Ethernet header](crate::daq_ethernet), bytes 32-7199 the
//! [ADC block](crate::adc14). Between them is the header of the warm interface board (WIB):
//!
//! ```text
//! word 0   63     56 55   52 51     44 43    42    41   40    39   38     37  36     35 34    33 32
//!         +---------+-------+---------+-----+-----+-----+---------+------+-----+----------+--------+--+
//!         | channel |version| context |ready|calib|pulse|femb_sync|wib_  | lol |link_valid|crc_err |cd|
//!         |    8    |   4   |    8    |  1  |  1  |  1  |    2    |sync 1|  1  |    2     |   2    |1 |
//!         +---------+-------+---------+-----+-----+-----+---------+------+-----+----------+--------+--+
//!          31  30                    16 15  14                     0
//!         +---+------------------------+---+------------------------+
//!         |pad|  colddata_timestamp_1  |pad|  colddata_timestamp_0  |
//!         | 1 |           15           | 1 |           15           |
//!         +---+------------------------+---+------------------------+
//! word 1  |                     extra_data (64)                     |
//!         +---------------------------------------------------------+
//! ```
//!
//! Little-endian 64-bit words. Sampling every 32 ticks of 16 ns: 1.953125 MHz, 30 517.6 frames/s.
//! A healthy real frame has version 5, `link_valid` 3, `lol` 0, `wib_sync` 1, `femb_sync` 3,
//! `crc_err` 0, and both COLDATA timestamps equal to the low 15 bits of the frame's timestamp.
//!
//! Source: DUNE-DAQ/fddetdataformats `include/fddetdataformats/WIBEthFrame.hpp`; EDMS 2088713.

use crate::layout::word_format;
use crate::tpc_frame::{self, FRONT_END_LEN, FrontEnd};

pub use crate::tpc_frame::{BLOCK_LENGTH, CHANNELS, FRAME_LEN, SAMPLES};

/// Ticks of 16 ns from one sample to the next.
pub const TICKS_PER_SAMPLE: u64 = 32;
/// Ticks of 16 ns from one frame of a stream to the next.
pub const TICKS_PER_FRAME: u64 = SAMPLES as u64 * TICKS_PER_SAMPLE;

/// View of a WIBEth frame.
pub type Frame<T> = tpc_frame::Frame<T, HeaderRepr>;
/// A WIBEth frame as plain values.
pub type Repr = tpc_frame::Repr<HeaderRepr>;

word_format! {
    /// View of the WIB's own header.
    view Header;
    /// The WIB's own header as plain values.
    repr HeaderRepr;
    format "WIBEth header", 2 words;

    /// Low 15 bits of the time at the first COLDATA, in ticks.
    colddata_timestamp_0, set_colddata_timestamp_0: u16 = word 0, bits 0..=14, "ticks of 16 ns, modulo 32768";
    /// Padding, 0.
    pad_0, set_pad_0: bool = word 0, bits 15..=15;
    /// Low 15 bits of the time at the second COLDATA, in ticks.
    colddata_timestamp_1, set_colddata_timestamp_1: u16 = word 0, bits 16..=30, "ticks of 16 ns, modulo 32768";
    /// Padding, 0.
    pad_1, set_pad_1: bool = word 0, bits 31..=31;
    /// Which COLDATA of the front-end motherboard (FEMB).
    cd, set_cd: u8 = word 0, bits 32..=32;
    /// One bit a link: its check sum was wrong.
    crc_err, set_crc_err: u8 = word 0, bits 33..=34;
    /// One bit a link: the link is up.
    link_valid, set_link_valid: u8 = word 0, bits 35..=36;
    /// Loss of lock of the timing clock.
    lol, set_lol: bool = word 0, bits 37..=37;
    /// The WIB is synchronised to the timing system.
    wib_sync, set_wib_sync: bool = word 0, bits 38..=38;
    /// One bit a COLDATA: it is synchronised.
    femb_sync, set_femb_sync: u8 = word 0, bits 39..=40;
    /// The pulser is on.
    pulser, set_pulser: bool = word 0, bits 41..=41;
    /// Calibration is on.
    calibration, set_calibration: bool = word 0, bits 42..=42;
    /// The board reports ready.
    ready, set_ready: bool = word 0, bits 43..=43;
    /// Free code of the run's context.
    context, set_context: u8 = word 0, bits 44..=51;
    /// Version of this header; 5 in data of 2024.
    version, set_version: u8 = word 0, bits 52..=55;
    /// Channel identifier of the frame.
    channel, set_channel: u8 = word 0, bits 56..=63;
    /// Free word.
    extra_data, set_extra_data: u64 = word 1, bits 0..=63;
}

impl HeaderRepr {
    /// What a healthy board sends in the frame that begins at `timestamp` (ticks).
    pub const fn healthy(timestamp: u64) -> Self {
        let cold = timestamp as u16 & 0x7fff;
        Self {
            colddata_timestamp_0: cold,
            pad_0: false,
            colddata_timestamp_1: cold,
            pad_1: false,
            cd: 0,
            crc_err: 0,
            link_valid: 3,
            lol: false,
            wib_sync: true,
            femb_sync: 3,
            pulser: false,
            calibration: false,
            ready: false,
            context: 0,
            version: 5,
            channel: 0,
            extra_data: 0,
        }
    }
}

impl FrontEnd for HeaderRepr {
    const FORMAT: &'static str = "WIBEth frame";
    const TICKS_PER_FRAME: u64 = TICKS_PER_FRAME;

    fn parse(bytes: &[u8; FRONT_END_LEN]) -> Self {
        Self::parse(&Header::new_unchecked(bytes))
    }

    fn emit(&self, bytes: &mut [u8; FRONT_END_LEN]) {
        Self::emit(self, &mut Header::new_unchecked(bytes));
    }
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// The WIB's own header.
    #[inline]
    pub fn wib(&self) -> Header<&[u8]> {
        Header::new_unchecked(self.front_end())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Frame<T> {
    /// The WIB's own header, for writing.
    #[inline]
    pub fn wib_mut(&mut self) -> Header<&mut [u8]> {
        Header::new_unchecked(self.front_end_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, GeoId, noise};
    use proptest::prelude::*;

    /// First 32 bytes of two successive frames of ProtoDUNE-HD run 27980.
    const REAL: [[u64; 4]; 2] = [
        [0x3838_a600_0000_10c0, 0x017e_1344_7c5b_280b, 0x0050_01d8_280b_280b, 0],
        [0x3838_a700_0000_10c0, 0x017e_1344_7c5b_300b, 0x0050_01d8_300b_300b, 0],
    ];

    fn real_frame(words: [u64; 4]) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(FRAME_LEN, 0);
        bytes
    }

    #[test]
    fn the_geometry_is_the_documented_one() {
        assert_eq!((FRAME_LEN, CHANNELS, SAMPLES), (7200, 64, 64));
        assert_eq!((TICKS_PER_FRAME, BLOCK_LENGTH), (2048, 899));
    }

    #[test]
    fn reads_the_headers_of_a_real_frame() {
        let frame = Frame::new_checked(real_frame(REAL[0])).unwrap();
        assert_eq!(frame.geo_id(), GeoId::new(3, 1, 0, 0));
        assert_eq!(frame.daq().block_length(), BLOCK_LENGTH);
        assert_eq!(HeaderRepr::parse(&frame.wib()), HeaderRepr::healthy(frame.timestamp()));
        assert_eq!(frame.wib().version(), 5);
        assert_eq!(frame.wib().link_valid(), 3);
        assert_eq!(frame.wib().femb_sync(), 3);
        assert!(frame.wib().wib_sync() && !frame.wib().lol());
    }

    #[test]
    fn successive_real_frames_are_one_frame_of_ticks_apart() {
        let [first, second] = REAL.map(|words| Frame::new_checked(real_frame(words)).unwrap());
        assert_eq!(second.timestamp() - first.timestamp(), TICKS_PER_FRAME);
        assert_eq!(second.daq().seq_id() - first.daq().seq_id(), 1);
        let (cold_0, cold_1) =
            (first.wib().colddata_timestamp_0(), second.wib().colddata_timestamp_0());
        assert_eq!(u64::from(cold_1 - cold_0), TICKS_PER_FRAME);
    }

    #[test]
    fn each_header_field_lies_where_the_diagram_says() {
        let one_field = |set: fn(&mut Header<[u8; FRONT_END_LEN]>)| {
            let mut header = Header::new_unchecked([0; FRONT_END_LEN]);
            set(&mut header);
            u64::from_le_bytes(header.into_inner()[..8].try_into().unwrap())
        };
        assert_eq!(one_field(|h| h.set_colddata_timestamp_1(u16::MAX)), 0x7fff << 16);
        assert_eq!(one_field(|h| h.set_cd(u8::MAX)), 1 << 32);
        assert_eq!(one_field(|h| h.set_crc_err(u8::MAX)), 3 << 33);
        assert_eq!(one_field(|h| h.set_link_valid(u8::MAX)), 3 << 35);
        assert_eq!(one_field(|h| h.set_lol(true)), 1 << 37);
        assert_eq!(one_field(|h| h.set_femb_sync(u8::MAX)), 3 << 39);
        assert_eq!(one_field(|h| h.set_pulser(true)), 1 << 41);
        assert_eq!(one_field(|h| h.set_context(u8::MAX)), 0xff << 44);
        assert_eq!(one_field(|h| h.set_channel(u8::MAX)), 0xff << 56);
    }

    #[test]
    fn a_value_written_into_the_view_is_read_back() {
        let mut frame = Frame::new_checked(vec![0; FRAME_LEN]).unwrap();
        frame.set_adc(17, 42, 8200);
        frame.daq_mut().set_timestamp(77);
        frame.wib_mut().set_pulser(true);
        assert_eq!(frame.adc(17, 42), 8200);
        assert_eq!(frame.timestamp(), 77);
        assert!(frame.wib().pulser());
        assert_eq!(frame.adc_block().iter().filter(|&&byte| byte != 0).count(), 2);
    }

    #[test]
    fn refuses_a_frame_cut_short() {
        let error = Frame::new_checked(vec![0; FRAME_LEN - 1]).unwrap_err();
        assert_eq!(error, Error::Truncated { format: "WIBEth frame", expected: 7200, got: 7199 });
    }

    #[test]
    fn accepts_a_pad_byte_after_the_frame() {
        assert!(Frame::new_checked(vec![0; FRAME_LEN + 1]).is_ok());
    }

    #[test]
    fn prints_the_headers_and_on_request_every_value() {
        let mut frame = Frame::new_checked(real_frame(REAL[0])).unwrap();
        frame.set_adc(0, 0, 8153);
        let text = frame.to_string();
        assert!(text.contains("seq_id                 2214"), "{text}");
        assert!(text.contains("femb_sync              3"), "{text}");
        assert!(text.ends_with("64 channels x 64 samples, 0 to 8153 counts"), "{text}");
        assert_eq!(format!("{frame:#}").lines().count(), text.lines().count() + SAMPLES);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn emit_after_parse_gives_back_any_frame(seed: u64) {
            let bytes = noise::bytes(seed, FRAME_LEN);
            let repr = Repr::parse(&Frame::new_checked(&bytes[..]).unwrap());
            let mut copy = Frame::new_checked(vec![0; FRAME_LEN]).unwrap();
            repr.emit(&mut copy);
            prop_assert!(copy.into_inner() == bytes);
        }
    }
}
