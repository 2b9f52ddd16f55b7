//! Trigger candidate, version 3: a group of activities that may be worth a readout.

use core::fmt;

use crate::detector::Detector;
use crate::error::{Error, Result};
use crate::little_endian as le;
use crate::numbered::numbered;
use crate::overlay::{Overlay, Overlays};
use crate::record::{BitNames, Record};
use crate::trigger_activity::TriggerActivityData;

/// Offsets of the fields, as a C++ compiler pads the struct on a 64-bit machine.
mod field {
    pub const VERSION: usize = 0;
    pub const TIME_START: usize = 8;
    pub const TIME_END: usize = 16;
    pub const TIME_CANDIDATE: usize = 24;
    pub const DETID: usize = 32;
    pub const TYPE: usize = 36;
    pub const ALGORITHM: usize = 40;
    pub const END: usize = 48;
}

numbered! {
    /// Kind of a candidate; its number is also the bit of a trigger decision.
    ///
    /// The names are those of 2025 and 2026. Earlier files use some numbers otherwise: 15 to 22
    /// were Cherenkov and cosmic triggers of the central trigger board (CTB), and one branch had
    /// 29 for a fake trigger and 30 for a cosmic trigger of other test stands. Version 3 does not
    /// tell them apart.
    ///
    /// CTB: central trigger board, CIB: calibration interface board, DTS: timing system.
    pub enum Type: i32 {
        Unknown = 0 => "Unknown",
        Timing = 1 => "Timing",
        TpcLowE = 2 => "TPCLowE",
        Supernova = 3 => "Supernova",
        Random = 4 => "Random",
        Prescale = 5 => "Prescale",
        AdcSimpleWindow = 6 => "ADCSimpleWindow",
        HorizontalMuon = 7 => "HorizontalMuon",
        MichelElectron = 8 => "MichelElectron",
        PlaneCoincidence = 9 => "PlaneCoincidence",
        Dbscan = 10 => "DBSCAN",
        ChannelDistance = 11 => "ChannelDistance",
        Bundle = 12 => "Bundle",
        CtbFakeTrigger = 13 => "CTBFakeTrigger",
        CtbBeam = 14 => "CTBBeam",
        CtbBeamChkvHL = 15 => "CTBBeamChkvHL",
        CtbCustomD = 16 => "CTBCustomD",
        CtbCustomE = 17 => "CTBCustomE",
        CtbCustomF = 18 => "CTBCustomF",
        CtbCustomG = 19 => "CTBCustomG",
        CtbBeamChkvHLx = 20 => "CTBBeamChkvHLx",
        CtbBeamChkvHxL = 21 => "CTBBeamChkvHxL",
        CtbBeamChkvHxLx = 22 => "CTBBeamChkvHxLx",
        NeutronSourceCalib = 23 => "NeutronSourceCalib",
        ChannelAdjacency = 24 => "ChannelAdjacency",
        CibFakeTrigger = 25 => "CIBFakeTrigger",
        CibLaserTriggerP1 = 26 => "CIBLaserTriggerP1",
        CibLaserTriggerP2 = 27 => "CIBLaserTriggerP2",
        CibLaserTriggerP3 = 28 => "CIBLaserTriggerP3",
        CtbOffSpillSnapshot = 29 => "CTBOffSpillSnapshot",
        CtbOffSpillCosmicJura = 30 => "CTBOffSpillCosmicJura",
        CtbOffSpillCrtCosmic = 31 => "CTBOffSpillCRTCosmic",
        CtbBeamSpillStart = 32 => "CTBBeamSpillStart" | "CTBCustomA",
        CtbBeamSpillSnapshot = 33 => "CTBBeamSpillSnapshot" | "CTBCustomB",
        CtbCustomC = 34 => "CTBCustomC",
        CtbCustomPulseTrain = 35 => "CTBCustomPulseTrain",
        DtsPulser = 36 => "DTSPulser",
        DtsCosmic = 37 => "DTSCosmic",
        SspLedCalibration = 38 => "SSPLEDCalibration",
    }
}

impl Type {
    /// The bit of this type in the trigger type of a decision; 0 for a number without a bit.
    pub const fn mask(self) -> u64 {
        match self.number() {
            bit @ 0..64 => 1 << bit,
            _ => 0,
        }
    }
}

/// The types whose bits are set in the trigger type of a decision or record; prints their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeMask(pub u64);

impl fmt::Display for TypeMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `Type` has no gap, so that a bit is also the index into its values.
        let names: [&str; Type::ALL.len()] = core::array::from_fn(|bit| Type::ALL[bit].name());
        BitNames { word: self.0, names: &names }.fmt(f)
    }
}

numbered! {
    /// Algorithm that made a candidate.
    pub enum Algorithm: i32 {
        Unknown = 0 => "Unknown",
        Supernova = 1 => "Supernova",
        HsiEventToTriggerCandidate = 2 => "HSIEventToTriggerCandidate",
        Prescale = 3 => "Prescale",
        AdcSimpleWindow = 4 => "ADCSimpleWindow",
        HorizontalMuon = 5 => "HorizontalMuon",
        MichelElectron = 6 => "MichelElectron",
        PlaneCoincidence = 7 => "PlaneCoincidence",
        Custom = 8 => "Custom",
        Dbscan = 9 => "DBSCAN",
        ChannelDistance = 10 => "ChannelDistance",
        Bundle = 11 => "Bundle",
        ChannelAdjacency = 12 => "ChannelAdjacency",
    }
}

/// The data of a trigger candidate (TC).
///
/// ```text
///  byte  0        2       4               8
///      0 +---+----------------------------+
///        |ver|           padding          |
///      8 +---+----------------------------+
///        |           time_start           |
///     16 +--------------------------------+
///        |            time_end            |
///     24 +--------------------------------+
///        |         time_candidate         |
///     32 +---+------------+---------------+
///        |det|  padding   |     type      |
///     40 +---+------------+---------------+
///        |   algorithm    |    padding    |
///        +----------------+---------------+
/// ```
///
/// Version and detector have one byte each. Padding may hold anything when read and is written as
/// zero.
///
/// Source: DUNE-DAQ/trgdataformats `TriggerCandidateData.hpp`, version 3, and `Types.hpp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TriggerCandidateData {
    /// Start of the earliest activity, in ticks.
    pub time_start: u64,
    /// End of the last activity, in ticks.
    pub time_end: u64,
    /// Time that stands for the candidate, in ticks: the trigger time.
    pub time_candidate: u64,
    /// Detector identifier.
    pub detid: u8,
    /// Kind of the candidate.
    pub candidate_type: Type,
    /// Algorithm that made the candidate.
    pub algorithm: Algorithm,
}

impl TriggerCandidateData {
    /// Version that this layout carries.
    pub const VERSION: u8 = 3;
}

/// A stored trigger candidate: its data and the data of the activities it was made from.
pub type TriggerCandidate<'a> = Overlay<'a, TriggerCandidateData, TriggerActivityData>;

/// Trigger candidates stored one after the other, as in the payload of a fragment.
pub type TriggerCandidates<'a> = Overlays<'a, TriggerCandidateData, TriggerActivityData>;

impl Record for TriggerCandidateData {
    const FORMAT: &'static str = "trigger candidate";
    const LEN: usize = field::END;

    fn check(bytes: &[u8]) -> Result<()> {
        match bytes[field::VERSION] {
            Self::VERSION => Ok(()),
            got => Err(Error::Version { format: Self::FORMAT, known: "3", got: got.into() }),
        }
    }

    fn read(bytes: &[u8]) -> Self {
        Self {
            time_start: le::u64(bytes, field::TIME_START),
            time_end: le::u64(bytes, field::TIME_END),
            time_candidate: le::u64(bytes, field::TIME_CANDIDATE),
            detid: bytes[field::DETID],
            candidate_type: Type::from_number(le::i32(bytes, field::TYPE)),
            algorithm: Algorithm::from_number(le::i32(bytes, field::ALGORITHM)),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        bytes[..Self::LEN].fill(0);
        bytes[field::VERSION] = Self::VERSION;
        bytes[field::DETID] = self.detid;
        le::put(bytes, field::TIME_START, self.time_start.to_le_bytes());
        le::put(bytes, field::TIME_END, self.time_end.to_le_bytes());
        le::put(bytes, field::TIME_CANDIDATE, self.time_candidate.to_le_bytes());
        le::put(bytes, field::TYPE, self.candidate_type.number().to_le_bytes());
        le::put(bytes, field::ALGORITHM, self.algorithm.number().to_le_bytes());
    }
}

/// Prints every field with its unit on one line.
impl fmt::Display for TriggerCandidateData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "type {}, algorithm {}, detector {}, from {} to {} ticks, time {} ticks",
            self.candidate_type,
            self.algorithm,
            Detector::from_number(self.detid.into()),
            self.time_start,
            self.time_end,
            self.time_candidate
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay;
    use crate::trigger_activity;
    use proptest::prelude::*;

    const DATA: TriggerCandidateData = TriggerCandidateData {
        time_start: 0x10,
        time_end: 0x20,
        time_candidate: 0x15,
        detid: 10,
        candidate_type: Type::HorizontalMuon,
        algorithm: Algorithm::HorizontalMuon,
    };

    const ACTIVITY: TriggerActivityData = TriggerActivityData {
        time_start: 1,
        time_end: 2,
        time_peak: 3,
        time_activity: 4,
        channel_start: 5,
        channel_end: 6,
        channel_peak: 7,
        adc_integral: 8,
        adc_peak: 9,
        detid: 10,
        sensor: trigger_activity::Type::Tpc,
        algorithm: trigger_activity::Algorithm::HorizontalMuon,
    };

    fn stored(n_inputs: usize) -> Vec<u8> {
        let len = overlay::buffer_len::<TriggerCandidateData, TriggerActivityData>(n_inputs);
        let mut bytes = vec![0xee; len];
        overlay::emit(&DATA, &vec![ACTIVITY; n_inputs], &mut bytes);
        bytes
    }

    #[test]
    fn fields_lie_where_the_compiler_puts_them() {
        let mut bytes = [0xee; TriggerCandidateData::LEN];
        DATA.emit(&mut bytes);
        assert_eq!(bytes[..8], [3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!([bytes[8], bytes[16], bytes[24]], [0x10, 0x20, 0x15]);
        assert_eq!(bytes[32..40], [10, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(bytes[40..48], [5, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn overlay_gives_data_and_inputs() {
        let bytes = stored(2);
        assert_eq!(bytes.len(), 48 + 8 + 2 * 80);
        let candidate = TriggerCandidate::new_checked(&bytes).unwrap();
        assert_eq!(candidate.data(), DATA);
        assert_eq!(candidate.inputs().collect::<Vec<_>>(), [ACTIVITY; 2]);
    }

    #[test]
    fn types_are_numbered_without_a_gap_and_give_bits() {
        for (number, kind) in Type::ALL.iter().enumerate() {
            assert_eq!(kind.number(), number as i32);
            assert_eq!(kind.mask(), 1 << number);
        }
        assert_eq!(Type::ALL.len(), 39);
        assert_eq!(Algorithm::ALL.len(), 13);
        assert_eq!(Type::from_number(-1).mask(), 0);
        assert_eq!(Type::from_number(64).mask(), 0);
        assert_eq!(Type::from_number(63).mask(), 1 << 63);
    }

    #[test]
    fn mask_prints_the_names_of_its_bits() {
        let mask = Type::HorizontalMuon.mask() | Type::Random.mask() | 1 << 60;
        assert_eq!(TypeMask(mask).to_string(), "Random, HorizontalMuon, bit 60");
        assert_eq!(TypeMask(0).to_string(), "none");
    }

    #[test]
    fn malformed_count_is_refused_before_use() {
        let mut bytes = stored(1);
        bytes[48..56].copy_from_slice(&2_u64.to_le_bytes());
        let (format, field) = ("trigger candidate", "n_inputs");
        let error = Error::Range { format, field, min: 0, max: 1, got: 2 };
        assert_eq!(TriggerCandidate::new_checked(&bytes).unwrap_err(), error);
    }

    #[test]
    fn malformed_version_of_data_or_input() {
        let mut bytes = stored(1);
        bytes[0] = 2;
        let error = Error::Version { format: "trigger candidate", known: "3", got: 2 };
        assert_eq!(TriggerCandidate::new_checked(&bytes).unwrap_err(), error);
        let mut bytes = stored(1);
        bytes[56] = 1;
        let error = Error::Version { format: "trigger activity", known: "2", got: 1 };
        assert_eq!(TriggerCandidate::new_checked(&bytes).unwrap_err(), error);
    }

    #[test]
    fn malformed_length() {
        let error = Error::Truncated { format: "trigger candidate", expected: 56, got: 55 };
        assert_eq!(TriggerCandidate::new_checked(&stored(0)[..55]).unwrap_err(), error);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn every_stored_value_comes_back(mut stored in any::<[u8; 48]>()) {
            stored[..8].copy_from_slice(&[3, 0, 0, 0, 0, 0, 0, 0]);
            stored[33..36].fill(0);
            stored[44..].fill(0);
            let mut bytes = [0; 48];
            TriggerCandidateData::parse(&stored).unwrap().emit(&mut bytes);
            prop_assert_eq!(bytes, stored);
        }
    }
}
