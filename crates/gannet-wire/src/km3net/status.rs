//! What a module says of itself in every packet.

use core::fmt;

use crate::little_endian as le;

/// Bit of the first two words that is not of a photomultiplier.
const FLAG: u32 = 1 << 31;

/// Status words of a module. Words that a packet does not have are 0.
///
/// Bits 0 to 30 of the first word tell which photomultipliers were switched off for a while because
/// of their rate (high-rate veto), bit 31 that the clock is locked (White Rabbit). Bits 0 to 30 of
/// the second word tell whose FIFOs were almost full, bit 31 that the last packet of the slice is
/// there (UDP trailer).
///
/// Source: KM3NeT/km3pipe, `io/daq.py`; KM3NeT/KM3io.jl, `daq.jl`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status(pub [u32; Status::WORDS]);

impl Status {
    /// Status words, where all are there.
    pub const WORDS: usize = 4;

    /// The words at the begin of `bytes`, little-endian.
    pub(super) fn read_le(bytes: &[u8]) -> Self {
        Self(core::array::from_fn(|index| le::u32(bytes, 4 * index)))
    }

    /// Whether the clock is locked.
    pub const fn white_rabbit(&self) -> bool {
        self.0[0] & FLAG != 0
    }

    /// A bit for each photomultiplier under the high-rate veto.
    pub const fn vetoed(&self) -> u32 {
        self.0[0] & !FLAG
    }

    /// Whether the last packet of the slice is there.
    pub const fn udp_trailer(&self) -> bool {
        self.0[1] & FLAG != 0
    }

    /// A bit for each photomultiplier whose FIFO was almost full.
    pub const fn fifo_almost_full(&self) -> u32 {
        self.0[1] & !FLAG
    }

    /// The status of these marks; the last two words are 0.
    ///
    /// # Panics
    /// If `vetoed` or `fifo_almost_full` has bit 31 set.
    pub const fn new(
        white_rabbit: bool,
        vetoed: u32,
        udp_trailer: bool,
        fifo_almost_full: u32,
    ) -> Self {
        assert!((vetoed | fifo_almost_full) & FLAG == 0, "a module has 31 photomultipliers");
        let [clock, trailer] = [(white_rabbit as u32) << 31, (udp_trailer as u32) << 31];
        Self([clock | vetoed, trailer | fifo_almost_full, 0, 0])
    }
}

/// Prints the four words and what is known of them.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0;
        write!(f, "{a:#010x} {b:#010x} {c:#010x} {d:#010x}")?;
        let clock = if self.white_rabbit() { "locked" } else { "free" };
        let trailer = if self.udp_trailer() { "seen" } else { "not seen" };
        let (vetoed, full) = (self.vetoed().count_ones(), self.fifo_almost_full().count_ones());
        write!(f, " (clock {clock}, {vetoed} vetoed, trailer {trailer}, {full} FIFOs almost full)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_bit_of_each_word_is_of_no_photomultiplier() {
        let status = Status::new(true, 1 << 30, true, 0b11);
        assert_eq!(status.0, [0xc000_0000, 0x8000_0003, 0, 0]);
        assert!(status.white_rabbit() && status.udp_trailer());
        assert_eq!((status.vetoed(), status.fifo_almost_full()), (1 << 30, 0b11));
        let text = "0xc0000000 0x80000003 0x00000000 0x00000000 \
                    (clock locked, 1 vetoed, trailer seen, 2 FIFOs almost full)";
        assert_eq!(status.to_string(), text);
    }
}
