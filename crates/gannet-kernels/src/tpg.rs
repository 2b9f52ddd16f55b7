//! Trigger primitive generation on the blocks of one stream.

use gannet_wire::TriggerPrimitive;

use crate::block::{Block, CHANNELS, SAMPLES};
use crate::chain::{ChainConfig, ChannelTable, Error, Parameters, Result};
use crate::isa::{Isa, Kernel};
use crate::job::{Completed, Job};
use crate::scalar;
use crate::state::State;

/// The trigger primitive chain on one stream: its parameters, its state, its instruction set.
#[derive(Clone, Debug)]
pub struct Tpg {
    parameters: Parameters,
    state: State,
    completed: Completed,
    kernel: Kernel,
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
            state: State::new(config.initial_pedestal),
            completed: Completed::new(),
            kernel: Kernel::detect(isa).ok_or(Error::IsaUnavailable { isa, best: Isa::best() })?,
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
        let Self { parameters, state, completed, .. } = self;
        let mut job = Job { parameters, state, block, timestamp, completed };
        match self.kernel {
            Kernel::Scalar => scalar::process(&mut job),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(avx2) => avx2.process(&mut job),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(avx512) => avx512.process(&mut job),
        }
        self.state.samples += SAMPLES as u64;
        self.completed.drain_into(out);
    }

    /// Drops the open hits, as is right after a gap in the data, and gives their number.
    ///
    /// Pedestals and running sums are kept.
    pub fn reset_hits(&mut self) -> usize {
        self.state.reset_hits()
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
