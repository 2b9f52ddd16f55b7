//! Trigger primitive generation on the blocks of one stream.

use gannet_wire::TriggerPrimitive;

use crate::block::{Block, CHANNELS};
use crate::chain::{ChainConfig, ChannelTable, Error, Result, Transform};
use crate::isa::{Isa, Kernel};
use crate::job::{Completed, Job};
use crate::parameters::Parameters;
use crate::samples::Samples;
use crate::scalar;
use crate::state::State;
#[cfg(target_arch = "x86_64")]
use crate::vector::Batch;

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

/// What a search fetches into the caches of what lies behind the row in hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fetch {
    /// As much as memory takes to answer, for samples that nobody has touched lately.
    #[default]
    Memory,
    /// A little into the first-level cache, for samples that were just written.
    Cache,
}

/// The trigger primitive chain on one stream: its parameters, its state, its instruction set.
#[derive(Clone, Debug)]
pub struct Tpg {
    parameters: Parameters,
    state: State,
    completed: Completed,
    kernel: Kernel,
    #[cfg(target_arch = "x86_64")]
    batch: Batch,
    /// Whether the pedestals start from the next sample.
    unstarted: bool,
}

impl Tpg {
    /// Sets up the chain of a stream.
    ///
    /// # Errors
    ///
    /// When a number of the chain or the table is out of its range, or this machine lacks the
    /// instruction set.
    pub fn new(config: &ChainConfig, table: &ChannelTable, isa: Isa) -> Result<Self> {
        Ok(Self {
            parameters: Parameters::new(config, table)?,
            state: State::new([config.initial_pedestal; CHANNELS]),
            completed: Completed::new(),
            kernel: Kernel::detect(isa)
                .and_then(|kernel| kernel.for_accum_limit(config.subtraction.accum_limit()))
                .ok_or(Error::IsaUnavailable { isa, best: Isa::best() })?,
            #[cfg(target_arch = "x86_64")]
            batch: Batch::new(),
            unstarted: config.transform.is_some_and(Transform::starts_from_sample),
        })
    }

    /// Runs the chain over a block whose first sample was taken at `timestamp` (ticks) and
    /// appends the hits that end in it to `out`.
    ///
    /// Primitives come in the order in which hits end; those that end at the same sample come in
    /// channel order. A hit never ends at the border of a block, so `time_start` may lie before
    /// `timestamp`.
    ///
    /// A block gives at most [`MAX_TPS_PER_FRAME`](crate::MAX_TPS_PER_FRAME) primitives. With room for that many in `out`
    /// nothing is allocated.
    pub fn process(&mut self, block: &Block, timestamp: u64, out: &mut Vec<TriggerPrimitive>) {
        self.process_samples(&Samples::block(block), timestamp, out);
    }

    /// As [`Tpg::process`], for samples of any packing.
    pub fn process_samples(
        &mut self,
        samples: &Samples,
        timestamp: u64,
        out: &mut Vec<TriggerPrimitive>,
    ) {
        if self.unstarted && samples.count() > 0 {
            self.set_pedestals(core::array::from_fn(|c| samples.sample(0, c) as i16));
        }
        let Self { parameters, state, completed, .. } = self;
        let mut job = Job { parameters, state, samples, timestamp, completed };
        match self.kernel {
            Kernel::Scalar => scalar::process(&mut job),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(avx2) => avx2.process(&mut job, &mut self.batch),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(avx512) => avx512.process(&mut job, &mut self.batch),
        }
        self.state.samples += samples.count() as u64;
        self.completed.drain_into(out);
    }

    /// Puts the pedestals to known values, `0..=`[`ChainConfig::PEDESTAL_UNSET`] ADC counts.
    ///
    /// The estimate goes on from there, with nothing counted yet. Values outside the range are
    /// brought into it.
    pub fn set_pedestals(&mut self, pedestals: [i16; CHANNELS]) {
        self.state.set_pedestals(pedestals.map(|p| p.clamp(0, ChainConfig::PEDESTAL_UNSET)));
        self.unstarted = false;
    }

    /// Starts again with these pedestals, as a new chain does: nothing of earlier samples is kept,
    /// open hits included. Values outside `0..=`[`ChainConfig::PEDESTAL_UNSET`] are brought into it.
    pub fn restart(&mut self, pedestals: [i16; CHANNELS]) {
        self.state = State::new(pedestals.map(|p| p.clamp(0, ChainConfig::PEDESTAL_UNSET)));
        self.unstarted = false;
    }

    /// Chooses the form of the vector kernels; it makes no difference to the scalar one.
    pub fn set_path(&mut self, path: Path) {
        #[cfg(target_arch = "x86_64")]
        self.batch.set_path(path);
        #[cfg(not(target_arch = "x86_64"))]
        let _ = path;
    }

    /// Drops the open hits, as is right after a gap in the data, and gives their number.
    ///
    /// Pedestals and running sums are kept.
    pub fn reset_hits(&mut self) -> usize {
        self.state.reset_hits()
    }

    /// Says where the samples will lie; it makes no difference to the scalar kernel.
    pub fn set_fetch(&mut self, fetch: Fetch) {
        #[cfg(target_arch = "x86_64")]
        {
            self.parameters.fetch = fetch;
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = fetch;
    }

    /// The pedestals of the 64 channels, ADC counts.
    pub fn pedestals(&self) -> [i16; CHANNELS] {
        self.state.pedestal
    }

    /// The whole state of the chain.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.kernel.isa()
    }
}
