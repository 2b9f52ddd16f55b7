//! The samples of one call: rows of 64 channels, in one of the packed formats.

use gannet_wire::protowib::{self, coldata};

use crate::block::{self, Block, CHANNELS, ROW_LEN, Row, SAMPLES};

/// Up to [`SAMPLES`] time samples of 64 channels, where they landed.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    pub(crate) rows: Rows<'a>,
}

/// Rows as they are packed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rows<'a> {
    /// 64 values of 14 bits, one after the other.
    Adc14(&'a [Row; SAMPLES]),
    /// One COLDATA block of each frame: a header, then 64 values of 12 bits, those of two ADCs
    /// byte by byte in turn.
    Coldata(Coldata<'a>),
}

/// Bytes of a ProtoDUNE-SP frame before its first COLDATA block.
pub(crate) const HEADER: usize = protowib::FRAME_LEN - protowib::BLOCKS * ROW_LEN;

/// One COLDATA block of some ProtoDUNE-SP frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coldata<'a> {
    frames: &'a [[u8; protowib::FRAME_LEN]],
    pub(crate) block: usize,
}

impl<'a> Samples<'a> {
    /// The block of a WIBEth or TDEEth frame: 64 samples of 14 bits.
    pub fn block(block: &'a Block) -> Self {
        const NONE: &[Row; SAMPLES] = &[[0; ROW_LEN]; SAMPLES];
        let rows = block::rows(block).first_chunk().unwrap_or(NONE);
        Self { rows: Rows::Adc14(rows) }
    }

    /// One COLDATA block, 0 to 3, of consecutive ProtoDUNE-SP frames: a sample of 12 bits from
    /// each. A super-chunk is 12 frames.
    ///
    /// Nothing when there is no such block, or more than [`SAMPLES`] frames.
    ///
    /// Source: DUNE-DAQ/fddetdataformats `WIBFrame.hpp`.
    pub fn coldata(frames: &'a [[u8; protowib::FRAME_LEN]], block: usize) -> Option<Self> {
        let fits = block < protowib::BLOCKS && frames.len() <= SAMPLES;
        fits.then_some(Self { rows: Rows::Coldata(Coldata { frames, block }) })
    }

    /// Number of time samples, `0..=SAMPLES`.
    pub fn count(&self) -> usize {
        match self.rows {
            Rows::Adc14(rows) => rows.len(),
            Rows::Coldata(coldata) => coldata.frames(),
        }
    }

    /// The ADC value of a channel at time `t`.
    ///
    /// # Panics
    ///
    /// If `t` is not below the number of samples, or `channel` not below [`CHANNELS`].
    pub fn sample(&self, t: usize, channel: usize) -> u16 {
        match self.rows {
            Rows::Adc14(rows) => block::sample(&rows[t], channel),
            Rows::Coldata(coldata) => coldata::Block::of(coldata.row(t)).adc(channel),
        }
    }
}

impl<'a> Coldata<'a> {
    /// Number of frames, each of which is a sample.
    #[inline(always)]
    pub(crate) fn frames(&self) -> usize {
        self.frames.len()
    }

    /// The block of frame `t`.
    ///
    /// # Panics
    ///
    /// If `t` is not below the number of frames.
    #[inline(always)]
    pub(crate) fn row(&self, t: usize) -> &'a Row {
        const { assert!(coldata::BLOCK_LEN == ROW_LEN && coldata::CHANNELS == CHANNELS) };
        let blocks: &[Row] = self.frames[t][HEADER..].as_chunks().0;
        &blocks[self.block]
    }
}
