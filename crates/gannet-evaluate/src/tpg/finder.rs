//! The chains that run over frames in memory.

use gannet_dune::tpg::{InitialPedestal, TpgConfig};
use gannet_kernels::Isa;
use gannet_kernels::tpg::{CHANNELS, ChainConfig, ChannelTable, Fetch, MAX_TPS_PER_FRAME, Path};
use gannet_wire::TriggerPrimitive;

use super::content::PEDESTAL;
use super::format::Format;
use super::{Error, PathChoice, TpgSearch};

/// What the chain of every stream does in a search.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    config: ChainConfig,
    table: ChannelTable,
    path: Path,
    isa: Isa,
}

impl Setup {
    /// The chain of `search` with the published parameters but the threshold, its pedestal near
    /// that of the content.
    pub fn new<F: Format>(search: &TpgSearch, threshold: u16) -> Self {
        let config = TpgConfig {
            chain: search.chain,
            initial_pedestal: InitialPedestal::Counts(PEDESTAL as u16),
            ..TpgConfig::default()
        };
        let table = ChannelTable {
            threshold: [threshold as i16; CHANNELS],
            ticks_per_sample: F::TICKS_PER_SAMPLE,
            ..ChannelTable::default()
        };
        let path = match search.path {
            PathChoice::Adaptive => Path::Adaptive,
            PathChoice::Sparse => Path::Sparse,
            PathChoice::Dense => Path::Dense,
        };
        Self { config: config.chain_config(), table, path, isa: search.isa.isa() }
    }

    /// The same with the scalar chain, which defines what is to be found; none if it is that.
    pub fn scalar(&self) -> Option<Self> {
        (self.isa != Isa::Scalar).then(|| Self { isa: Isa::Scalar, ..self.clone() })
    }

    fn chain<F: Format>(&self) -> Result<F::Chain, Error> {
        Ok(F::chain(&self.config, &self.table, self.isa, self.path)?)
    }
}

/// The chains of the streams of one thread.
#[derive(Debug)]
pub(super) struct Finder<F: Format> {
    /// That of each stream.
    chains: Vec<F::Chain>,
    /// State that every pass begins with.
    settled: Vec<F::Chain>,
    tps: Vec<TriggerPrimitive>,
}

impl<F: Format> Finder<F> {
    /// Chains for `streams` streams.
    ///
    /// # Errors
    /// When the kernels refuse the chain.
    pub fn new(setup: &Setup, streams: usize) -> Result<Self, Error> {
        let chains = vec![setup.chain::<F>()?; streams];
        Ok(Self {
            settled: chains.clone(),
            chains,
            tps: Vec::with_capacity(F::CHANNELS / CHANNELS * MAX_TPS_PER_FRAME),
        })
    }

    /// Searches all frames of `memory` `rounds` times, and counts the primitives.
    pub fn pass(&mut self, memory: &[u8], rounds: u32) -> u64 {
        let (mut count, mut timestamp) = (0, 0);
        let turn = self.chains.len() * F::FRAME_LEN;
        for _ in 0..rounds {
            for frames in memory.chunks_exact(turn) {
                let frames = frames.chunks_exact(F::FRAME_LEN);
                for (chain, frame) in self.chains.iter_mut().zip(frames) {
                    self.tps.clear();
                    F::search(chain, frame, timestamp, &mut self.tps);
                    count += self.tps.len() as u64;
                }
                timestamp += F::TICKS;
            }
        }
        count
    }

    /// Searches one frame, of the stream whose turn it is at this number.
    fn search(&mut self, number: usize, frame: &[u8]) -> &[TriggerPrimitive] {
        let streams = self.chains.len();
        let chain = &mut self.chains[number % streams];
        self.tps.clear();
        F::search(chain, frame, (number / streams) as u64 * F::TICKS, &mut self.tps);
        &self.tps
    }

    /// Says how far ahead all chains fetch.
    pub fn set_fetch(&mut self, fetch: Fetch) {
        for chain in self.chains.iter_mut().chain(&mut self.settled) {
            F::set_fetch(chain, fetch);
        }
    }

    /// Takes the state of now as that which passes begin with.
    pub fn settle(&mut self) {
        self.settled.clone_from(&self.chains);
    }

    /// Goes back to the state that passes begin with, so that each finds the same.
    pub fn rewind(&mut self) {
        self.chains.clone_from(&self.settled);
    }
}

/// Compares the primitives of the first `frames` frames with those of the scalar chain, and gives
/// the number of frames compared: 0 for the scalar chain itself.
///
/// # Errors
/// [`Error::Differs`] at the first frame with others.
pub(super) fn verify<F: Format>(
    setup: &Setup,
    streams: usize,
    memory: &[u8],
    frames: usize,
) -> Result<usize, Error> {
    let Some(scalar) = setup.scalar() else { return Ok(0) };
    let mut finder = Finder::<F>::new(setup, streams)?;
    let mut scalar = Finder::<F>::new(&scalar, streams)?;
    let frames = memory.chunks_exact(F::FRAME_LEN).take(frames);
    let count = frames.len();
    for (number, frame) in frames.enumerate() {
        if finder.search(number, frame) != scalar.search(number, frame) {
            return Err(Error::Differs { isa: setup.isa, frame: number });
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpg::content::Content;
    use crate::tpg::wibeth::WibEth;
    use gannet_dune::tpg::IsaChoice;

    fn setup(isa: IsaChoice) -> Setup {
        Setup::new::<WibEth>(&TpgSearch { isa, ..TpgSearch::default() }, 60)
    }

    fn memory(frames: usize, streams: usize) -> Vec<u8> {
        let mut memory = vec![0; frames * WibEth::FRAME_LEN];
        WibEth::fill(&mut memory, streams, &Content::new(20e3, 2e6), 1);
        memory
    }

    #[test]
    fn a_pass_after_rewinding_finds_the_same() {
        let (memory, streams) = (memory(96, 3), 3);
        let mut finder = Finder::<WibEth>::new(&setup(IsaChoice::Auto), streams).unwrap();
        finder.pass(&memory, 2);
        finder.settle();
        let found = finder.pass(&memory, 3);
        assert!(found > 0);
        finder.pass(&memory, 1);
        finder.rewind();
        assert_eq!(finder.pass(&memory, 3), found);
    }

    #[test]
    fn every_instruction_set_agrees_with_the_scalar_chain() {
        let memory = memory(64, 2);
        let verified = |setup: &Setup, frames| verify::<WibEth>(setup, 2, &memory, frames).unwrap();
        for isa in Isa::available().filter(|isa| *isa != Isa::Scalar) {
            let setup = Setup { isa, ..setup(IsaChoice::Scalar) };
            assert_eq!((verified(&setup, 40), verified(&setup, 400)), (40, 64));
        }
        assert_eq!(verified(&setup(IsaChoice::Scalar), 40), 0, "nothing to compare it with");
    }

    #[test]
    fn a_pass_finds_what_its_frames_hold_one_by_one() {
        let (memory, streams) = (memory(12, 4), 4);
        let new = || Finder::<WibEth>::new(&setup(IsaChoice::Scalar), streams);
        let (mut one_by_one, mut count) = (new().unwrap(), 0);
        for (number, frame) in memory.chunks(WibEth::FRAME_LEN).enumerate() {
            count += one_by_one.search(number, frame).len() as u64;
        }
        assert!(count > 0);
        assert_eq!(new().unwrap().pass(&memory, 1), count);
    }
}
