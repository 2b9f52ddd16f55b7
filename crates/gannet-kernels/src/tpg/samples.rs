//! The samples of one call: rows of 64 channels, in one of the packed formats.

use gannet_wire::protowib::{self, coldata};

use crate::tpg::block::{self, CHANNELS, ROW_LEN, Row, SAMPLES};
#[cfg(target_arch = "x86_64")]
use crate::tpg::vector::Lanes;

/// Up to [`SAMPLES`] rows of 64 channels, packed as they landed.
pub(crate) trait Packed: Copy {
    /// Number of rows, `0..=SAMPLES`.
    fn count(self) -> usize;
    /// Row `t`, which must be below their number.
    fn row(&self, t: usize) -> &Row;
    /// Where memory is reached when row `t` is searched, if all rows of a call go over it evenly.
    #[cfg(target_arch = "x86_64")]
    fn reached(&self, t: usize) -> *const u8;
    /// The ADC value of a channel of a row.
    fn adc(row: &Row, channel: usize) -> u16;
    /// All of them.
    #[cfg(target_arch = "x86_64")]
    fn unpack<L: Lanes>(lanes: L, row: &Row) -> L::Words;
}

/// The block of a WIBEth or TDEEth frame: 64 values of 14 bits a row, one after the other.
impl Packed for &[Row; SAMPLES] {
    #[inline(always)]
    fn count(self) -> usize {
        SAMPLES
    }

    #[inline(always)]
    fn row(&self, t: usize) -> &Row {
        &self[t]
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn reached(&self, t: usize) -> *const u8 {
        self[t].as_ptr()
    }

    fn adc(row: &Row, channel: usize) -> u16 {
        block::sample(row, channel)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, row: &Row) -> L::Words {
        lanes.unpack_adc14(row)
    }
}

/// One COLDATA block of some ProtoDUNE-SP frames, a row of each: a header, then 64 values of 12
/// bits, those of two ADCs byte by byte in turn.
///
/// Source: DUNE-DAQ/fddetdataformats `WIBFrame.hpp`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coldata<'a> {
    /// At most [`SAMPLES`].
    pub(crate) frames: &'a [[u8; protowib::FRAME_LEN]],
    /// Below [`protowib::BLOCKS`].
    pub(crate) block: usize,
}

impl Packed for Coldata<'_> {
    #[inline(always)]
    fn count(self) -> usize {
        self.frames.len()
    }

    #[inline(always)]
    fn row(&self, t: usize) -> &Row {
        const HEADER: usize = protowib::FRAME_LEN - protowib::BLOCKS * ROW_LEN;
        const { assert!(coldata::BLOCK_LEN == ROW_LEN && coldata::CHANNELS == CHANNELS) };
        let blocks: &[Row] = self.frames[t][HEADER..].as_chunks().0;
        &blocks[self.block]
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn reached(&self, t: usize) -> *const u8 {
        const SHARE: usize = protowib::FRAME_LEN / protowib::BLOCKS;
        let rows_before = self.block * self.frames.len() + t;
        self.frames.as_ptr().cast::<u8>().wrapping_add(rows_before * SHARE)
    }

    fn adc(row: &Row, channel: usize) -> u16 {
        coldata::Block::of(row).adc(channel)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn unpack<L: Lanes>(lanes: L, row: &Row) -> L::Words {
        lanes.unpack_coldata(row)
    }
}
