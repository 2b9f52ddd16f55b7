//! What the payload of a fragment is.

use crate::numbered::numbered;

numbered! {
    /// Format of the payload of a fragment; the name is part of data-set names.
    ///
    /// Source: DUNE-DAQ/daqdataformats `FragmentHeader.hpp`, header versions 5 and 6. Version 4
    /// numbered the types otherwise.
    pub enum FragmentType: u32 {
        Unknown = 0 => "Unknown",
        ProtoWib = 1 => "ProtoWIB",
        Wib = 2 => "WIB",
        Daphne = 3 => "DAPHNE",
        TdeAmc = 4 => "TDE_AMC",
        FwTriggerPrimitive = 5 => "FW_Trigger_Primitive",
        TriggerPrimitive = 6 => "Trigger_Primitive",
        TriggerActivity = 7 => "Trigger_Activity",
        TriggerCandidate = 8 => "Trigger_Candidate",
        HardwareSignal = 9 => "Hardware_Signal",
        Pacman = 10 => "PACMAN",
        Mpd = 11 => "MPD",
        WibEth = 12 => "WIBEth",
        DaphneStream = 13 => "DAPHNEStream",
        Crt = 14 => "CRT",
        TdeEth = 15 => "TDEEth",
        CrtBern = 16 => "CRTBern",
        CrtGrenoble = 17 => "CRTGrenoble",
        DaphneEth = 18 => "DAPHNEEth",
        DaphneEthStream = 19 => "DAPHNEEthStream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_header_version_5() {
        for (number, kind) in FragmentType::ALL.iter().enumerate() {
            assert_eq!(kind.number(), number as u32);
        }
        assert_eq!(FragmentType::WibEth.number(), 12);
        assert_eq!(FragmentType::from_name("FW_Trigger_Primitive").unwrap().number(), 5);
        assert_eq!(FragmentType::from_number(u32::MAX).name(), "Unknown");
    }
}
