//! Detectors and their numbers.

use crate::numbered::numbered;

numbered! {
    /// The detector that data come from: `det_id` in frames, `detector_id` in fragments, `detid`
    /// in trigger objects.
    ///
    /// Frames store six bits of the number, trigger objects eight, headers sixteen.
    ///
    /// Source: DUNE-DAQ/detdataformats `DetID.hpp`, with the names that files of 2022 to 2025
    /// carry; the names of 2026 are read too.
    pub enum Detector: u16 {
        Unknown = 0 => "Unknown",
        Daq = 1 => "DAQ",
        HdPds = 2 => "HD_PDS",
        HdTpc = 3 => "HD_TPC",
        HdCrt = 4 => "HD_CRT",
        VdCathodePds = 8 => "VD_Cathode_PDS" | "VD_CathodePDS",
        VdMembranePds = 9 => "VD_Membrane_PDS" | "VD_MembranePDS",
        VdBottomTpc = 10 => "VD_Bottom_TPC" | "VD_BottomTPC",
        VdTopTpc = 11 => "VD_Top_TPC" | "VD_TopTPC",
        VdCrt = 12 => "VD_CRT",
        NdlarTpc = 32 => "NDLAr_TPC",
        NdlarPds = 33 => "NDLAr_PDS",
        NdGar = 34 => "ND_GAr",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_generations_are_read() {
        assert_eq!(Detector::from_name("VD_Bottom_TPC"), Some(Detector::VdBottomTpc));
        assert_eq!(Detector::from_name("VD_BottomTPC"), Some(Detector::VdBottomTpc));
        assert_eq!(Detector::from_number(3).name(), "HD_TPC");
        assert_eq!(Detector::from_number(63).to_string(), "Unknown(63)");
    }

    #[test]
    fn numbers_are_distinct_and_ordered() {
        let numbers: Vec<_> = Detector::ALL.iter().map(|detector| detector.number()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b));
    }
}
