//! Trigger primitive generation on the samples of one stream.

use core::array;

use gannet_wire::{TriggerPrimitive, protowib};

#[cfg(target_arch = "x86_64")]
use crate::isa::Avx512;
use crate::isa::{Isa, Kernel};
use crate::tpg::block::{self, Block, CHANNELS, ROW_LEN, Row, SAMPLES};
use crate::tpg::chain::{ChainConfig, ChannelTable, Result, Transform};
use crate::tpg::fetch::{Ahead, Fetch};
use crate::tpg::job::{Completed, Job};
use crate::tpg::parameters::Parameters;
use crate::tpg::samples::{Coldata, Packed};
use crate::tpg::scalar;
use crate::tpg::state::State;
#[cfg(target_arch = "x86_64")]
use crate::tpg::vector::HitBatch;

/// Which form of the vector kernels runs. All give the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Path {
    /// The one that suits the hits of the block before.
    #[default]
    Adaptive,
    /// Rows without a hit are passed over. Best when hits are rare.
    Sparse,
    /// Every row takes the same steps, without a branch that depends on the data. Best when
    /// hits are frequent.
    Dense,
}

/// The trigger primitive chain on one stream: its parameters, its state, its instruction set.
///
/// A stream has 64 channels or, if of ProtoDUNE-SP frames, four blocks of 64, which are searched
/// together.
#[derive(Clone, Debug)]
pub struct Tpg<const BLOCKS: usize = 1> {
    chains: [Chain; BLOCKS],
    kernel: Kernel,
    fetch: Fetch,
    /// Whether the pedestals start from the next sample.
    unstarted: bool,
}

/// The chain on 64 channels.
#[derive(Clone, Debug)]
struct Chain {
    parameters: Parameters,
    state: State,
    completed: Completed,
    #[cfg(target_arch = "x86_64")]
    batch: HitBatch,
}

impl Tpg {
    /// Sets up the chain of a stream. With AVX-512 asked for, a chain with an accumulator limit above 30
    /// runs with 256-bit vectors.
    ///
    /// # Errors
    ///
    /// When a number of the chain or the table is out of its range, or this machine lacks the
    /// instruction set.
    pub fn new(config: &ChainConfig, table: &ChannelTable, isa: Isa) -> Result<Self> {
        Self::of_blocks(config, [table], isa)
    }

    /// Runs the chain over a block whose first sample was taken at `timestamp` (ticks) and
    /// appends the hits that end in it to `out`.
    ///
    /// Primitives come in the order in which hits end; those that end at the same sample come in
    /// channel order. A hit never ends at the border of a block, so `time_start` may lie before
    /// `timestamp`.
    ///
    /// A block gives at most [`MAX_TPS_PER_FRAME`](crate::tpg::MAX_TPS_PER_FRAME) primitives. With room for that many in `out`
    /// nothing is allocated.
    pub fn process(&mut self, block: &Block, timestamp: u64, out: &mut Vec<TriggerPrimitive>) {
        const NONE: &[Row; SAMPLES] = &[[0; ROW_LEN]; SAMPLES];
        let rows = block::rows(block).first_chunk().unwrap_or(NONE);
        self.process_rows([rows], self.fetch.ahead(0), timestamp, out);
    }

    /// Puts the pedestals to known values, `0..=`[`ChainConfig::PEDESTAL_UNSET`] ADC counts.
    ///
    /// The estimate goes on from there, with nothing counted yet. Values outside the range are
    /// brought into it.
    pub fn set_pedestals(&mut self, pedestals: [i16; CHANNELS]) {
        self.chains[0].set_pedestals(pedestals);
        self.unstarted = false;
    }

    /// Starts again with these pedestals, as a new chain does: nothing of earlier samples is kept,
    /// open hits included. Values outside `0..=`[`ChainConfig::PEDESTAL_UNSET`] are brought into it.
    pub fn restart(&mut self, pedestals: [i16; CHANNELS]) {
        self.chains[0].state = State::new(pedestals.map(in_range));
        self.unstarted = false;
    }

    /// The pedestals of the 64 channels, ADC counts.
    pub fn pedestals(&self) -> [i16; CHANNELS] {
        self.state().pedestal
    }

    /// The whole state of the chain.
    pub fn state(&self) -> &State {
        &self.chains[0].state
    }
}

impl Tpg<{ protowib::BLOCKS }> {
    /// Sets up the chain of a stream of ProtoDUNE-SP frames, with a table for each COLDATA block.
    ///
    /// # Errors
    ///
    /// As [`Tpg::new`].
    pub fn for_frames(
        config: &ChainConfig,
        tables: [&ChannelTable; protowib::BLOCKS],
        isa: Isa,
    ) -> Result<Self> {
        Self::of_blocks(config, tables, isa)
    }

    /// Runs the chain over consecutive frames, each a sample of 12 bits of 256 channels, as
    /// [`Tpg::process`] does. A super-chunk is 12 frames. The primitives of each COLDATA block come
    /// together.
    ///
    /// # Panics
    ///
    /// If there are more than [`SAMPLES`] frames.
    pub fn process_frames(
        &mut self,
        frames: &[[u8; protowib::FRAME_LEN]],
        timestamp: u64,
        out: &mut Vec<TriggerPrimitive>,
    ) {
        assert!(frames.len() <= SAMPLES, "{} frames: at most {SAMPLES} a call", frames.len());
        let rows = array::from_fn(|block| Coldata { frames, block });
        // The blocks are searched one after the other, and meanwhile the next frames are fetched.
        let ahead = self.fetch.ahead(size_of_val(frames));
        self.process_rows(rows, ahead, timestamp, out);
    }
}

impl<const BLOCKS: usize> Tpg<BLOCKS> {
    fn of_blocks(config: &ChainConfig, tables: [&ChannelTable; BLOCKS], isa: Isa) -> Result<Self> {
        let chain = Chain::new(config, tables[0])?;
        let mut chains = array::from_fn(|_| chain.clone());
        for (chain, table) in chains.iter_mut().zip(tables).skip(1) {
            *chain = Chain::new(config, table)?;
        }
        Ok(Self {
            chains,
            kernel: for_accum_limit(Kernel::of(isa)?, config.subtraction.accum_limit())?,
            fetch: Fetch::default(),
            unstarted: config.transform.is_some_and(Transform::starts_from_sample),
        })
    }

    fn process_rows<P: Packed>(
        &mut self,
        rows: [P; BLOCKS],
        ahead: Ahead,
        timestamp: u64,
        out: &mut Vec<TriggerPrimitive>,
    ) {
        #[cfg(not(target_arch = "x86_64"))]
        let _ = ahead;
        let count = rows[0].count();
        if self.unstarted && count > 0 {
            for (chain, rows) in self.chains.iter_mut().zip(rows) {
                chain.set_pedestals(array::from_fn(|c| P::adc(rows.row(0), c) as i16));
            }
            self.unstarted = false;
        }
        let mut jobs = self.chains.each_mut().map(|chain| chain.job(timestamp));
        match self.kernel {
            Kernel::Scalar => {
                jobs.iter_mut().zip(rows).for_each(|(job, rows)| scalar::process(job, rows));
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(avx2) => avx2.process(&mut jobs, rows, ahead),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(avx512) => avx512.process(&mut jobs, rows, ahead),
        }
        for chain in &mut self.chains {
            chain.state.samples += count as u64;
            chain.completed.drain_into(out);
        }
    }

    /// Chooses the form of the vector kernels; it makes no difference to the scalar one.
    pub fn set_path(&mut self, path: Path) {
        #[cfg(target_arch = "x86_64")]
        self.chains.iter_mut().for_each(|chain| chain.batch.set_path(path));
        #[cfg(not(target_arch = "x86_64"))]
        let _ = path;
    }

    /// Drops the open hits, as is right after a gap in the data, and gives their number.
    ///
    /// Pedestals and running sums are kept.
    pub fn reset_hits(&mut self) -> usize {
        self.chains.iter_mut().map(|chain| chain.state.reset_hits()).sum()
    }

    /// Says where the samples will lie; it makes no difference to the scalar kernel.
    pub fn set_fetch(&mut self, fetch: Fetch) {
        self.fetch = fetch;
    }

    /// The state of the chain on each 64 channels.
    pub fn states(&self) -> [&State; BLOCKS] {
        self.chains.each_ref().map(|chain| &chain.state)
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.kernel.isa()
    }
}

impl Chain {
    fn new(config: &ChainConfig, table: &ChannelTable) -> Result<Self> {
        Ok(Self {
            parameters: Parameters::new(config, table)?,
            state: State::new([config.initial_pedestal; CHANNELS]),
            completed: Completed::new(),
            #[cfg(target_arch = "x86_64")]
            batch: HitBatch::new(),
        })
    }

    fn set_pedestals(&mut self, pedestals: [i16; CHANNELS]) {
        self.state.set_pedestals(pedestals.map(in_range));
    }

    /// What a kernel needs to process samples of this time.
    #[inline(always)]
    fn job(&mut self, timestamp: u64) -> Job<'_> {
        Job {
            parameters: &self.parameters,
            state: &mut self.state,
            timestamp,
            completed: &mut self.completed,
            #[cfg(target_arch = "x86_64")]
            batch: &mut self.batch,
        }
    }
}

fn in_range(pedestal: i16) -> i16 {
    pedestal.clamp(0, ChainConfig::PEDESTAL_UNSET)
}

/// The kernel that runs chains with this accumulator limit.
#[cfg(target_arch = "x86_64")]
fn for_accum_limit(kernel: Kernel, limit: u16) -> Result<Kernel> {
    match kernel {
        Kernel::Avx512(_) if limit > Avx512::ACCUM_LIMIT_MAX => Ok(Kernel::of(Isa::Avx2)?),
        _ => Ok(kernel),
    }
}

/// The kernel that runs chains with this accumulator limit.
#[cfg(not(target_arch = "x86_64"))]
fn for_accum_limit(kernel: Kernel, _: u16) -> Result<Kernel> {
    Ok(kernel)
}
