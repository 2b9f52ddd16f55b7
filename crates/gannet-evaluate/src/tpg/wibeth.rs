//! WIBEth frames in memory, and the chain that runs over them.

use gannet_kernels::{CHANNELS, ChainConfig, ChannelTable, Isa, MAX_TPS_PER_FRAME, SAMPLES, Tpg};
use gannet_trigger::tpg::TpgConfig;
use gannet_wire::daq_ethernet::SEQ_MODULUS;
use gannet_wire::tpc_frame::{self, BLOCK_LENGTH};
use gannet_wire::wibeth::{Frame, HeaderRepr, Repr, TICKS_PER_FRAME};
use gannet_wire::{TriggerPrimitive, daq_ethernet};

use super::content::{Content, PEDESTAL};
use super::{Error, TpgPlan};

/// Bytes of a frame.
pub(super) const FRAME_LEN: usize = tpc_frame::FRAME_LEN;
/// Samples of all channels in a frame.
pub(super) const FRAME_SAMPLES: usize = CHANNELS * SAMPLES;
/// HD_TPC, as in the frames of ProtoDUNE-HD.
const DETECTOR: u8 = 3;

/// Fills `memory` with frames of `streams` streams in turn. The first `distinct` frames differ
/// from each other, those after them repeat them.
///
/// # Panics
/// When the memory has fewer frames than `distinct`.
pub(super) fn fill(
    memory: &mut [u8],
    streams: usize,
    distinct: usize,
    content: &Content,
    seed: u64,
) {
    let (first, repeated) = memory.split_at_mut(distinct * FRAME_LEN);
    for number in 0..streams {
        let mut stream = content.stream::<CHANNELS>(seed + number as u64);
        let frames = first.as_chunks_mut::<FRAME_LEN>().0.iter_mut();
        for (index, frame) in frames.skip(number).step_by(streams).enumerate() {
            let mut repr = headers(number, index as u64);
            repr.adc.iter_mut().for_each(|row| stream.sample(row));
            repr.emit(&mut Frame::new_unchecked(&mut frame[..]));
        }
    }
    for part in repeated.chunks_mut(first.len()) {
        part.copy_from_slice(&first[..part.len()]);
    }
}

/// Frame `index` of a stream without its samples.
fn headers(stream: usize, index: u64) -> Repr {
    let timestamp = index * TICKS_PER_FRAME;
    let daq = daq_ethernet::Repr {
        version: 0,
        det_id: DETECTOR,
        crate_id: 1 + (stream >> 6) as u16,
        slot_id: (stream >> 3 & 7) as u8,
        stream_id: (stream & 7) as u8,
        reserved: 0,
        seq_id: (index % u64::from(SEQ_MODULUS)) as u16,
        block_length: BLOCK_LENGTH,
        timestamp,
    };
    Repr { daq, front_end: HeaderRepr::healthy(timestamp), adc: [[0; CHANNELS]; SAMPLES] }
}

/// What the chain of every stream does.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    config: ChainConfig,
    table: ChannelTable,
}

impl Setup {
    /// The chain of `plan` with the published parameters but the threshold, its pedestal near
    /// that of the content.
    pub fn new(plan: &TpgPlan) -> Self {
        let config = TpgConfig {
            chain: plan.chain,
            initial_pedestal: PEDESTAL as u16,
            ..TpgConfig::default()
        };
        let threshold = [plan.threshold as i16; CHANNELS];
        let table = ChannelTable { threshold, ..ChannelTable::default() };
        Self { config: config.chain_config(), table }
    }

    fn chain(&self, isa: Isa) -> Result<Tpg, Error> {
        Ok(Tpg::new(&self.config, &self.table, isa)?)
    }
}

/// The chains of the streams of one thread.
#[derive(Debug)]
pub(super) struct Finder {
    chains: Vec<Tpg>,
    /// State that every pass begins with.
    settled: Vec<Tpg>,
    tps: Vec<TriggerPrimitive>,
}

impl Finder {
    /// Chains for `streams` streams.
    ///
    /// # Errors
    /// When the kernels refuse the chain.
    pub fn new(setup: &Setup, isa: Isa, streams: usize) -> Result<Self, Error> {
        let chain = setup.chain(isa)?;
        let chains = vec![chain; streams];
        Ok(Self { settled: chains.clone(), chains, tps: Vec::with_capacity(MAX_TPS_PER_FRAME) })
    }

    /// Searches all frames of `memory` `rounds` times, and counts the primitives.
    pub fn pass(&mut self, memory: &[u8], rounds: u32) -> u64 {
        let (mut count, mut timestamp) = (0, 0);
        for _ in 0..rounds {
            for frames in memory.as_chunks::<FRAME_LEN>().0.chunks_exact(self.chains.len()) {
                for (chain, frame) in self.chains.iter_mut().zip(frames) {
                    self.tps.clear();
                    chain.process(view(frame).adc_block(), timestamp, &mut self.tps);
                    count += self.tps.len() as u64;
                }
                timestamp += TICKS_PER_FRAME;
            }
        }
        count
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
/// the number of frames compared.
///
/// # Errors
/// [`Error::Differs`] at the first frame with others.
pub(super) fn verify(
    setup: &Setup,
    isa: Isa,
    streams: usize,
    memory: &[u8],
    frames: usize,
) -> Result<usize, Error> {
    let mut pairs = vec![(setup.chain(isa)?, setup.chain(Isa::Scalar)?); streams];
    let (mut tps, mut expected) = (Vec::new(), Vec::new());
    let frames = memory.as_chunks::<FRAME_LEN>().0.iter().take(frames);
    let count = frames.len();
    for (number, frame) in frames.enumerate() {
        let timestamp = (number / streams) as u64 * TICKS_PER_FRAME;
        let (chain, scalar) = &mut pairs[number % streams];
        tps.clear();
        expected.clear();
        chain.process(view(frame).adc_block(), timestamp, &mut tps);
        scalar.process(view(frame).adc_block(), timestamp, &mut expected);
        if tps != expected {
            return Err(Error::Differs { isa, frame: number });
        }
    }
    Ok(count)
}

/// View of a frame in memory.
fn view(frame: &[u8; FRAME_LEN]) -> Frame<&[u8]> {
    Frame::new_unchecked(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(frames: usize, streams: usize, distinct: usize) -> Vec<u8> {
        let mut memory = vec![0; frames * FRAME_LEN];
        fill(&mut memory, streams, distinct, &Content::new(20e3), 1);
        memory
    }

    #[test]
    fn streams_are_dealt_out_in_turn_and_repeat_after_the_distinct_frames() {
        let memory = memory(10, 2, 4);
        let frames = memory.as_chunks::<FRAME_LEN>().0;
        let facts: Vec<_> = frames[..4]
            .iter()
            .map(|frame| {
                let frame = Frame::new_checked(&frame[..]).unwrap();
                (frame.daq().stream_id(), frame.daq().seq_id(), frame.timestamp())
            })
            .collect();
        assert_eq!(facts, [(0, 0, 0), (1, 0, 0), (0, 1, 2048), (1, 1, 2048)]);
        assert!((0..4).all(|i| (0..i).all(|j| frames[i][32..] != frames[j][32..])));
        assert!((4..10).all(|i| frames[i] == frames[i % 4]));
    }

    #[test]
    fn a_pass_after_rewinding_finds_the_same() {
        let (memory, streams) = (memory(96, 3, 96), 3);
        let setup = Setup::new(&TpgPlan::default());
        let mut finder = Finder::new(&setup, Isa::best(), streams).unwrap();
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
        let memory = memory(64, 2, 64);
        let setup = Setup::new(&TpgPlan::default());
        for isa in Isa::available() {
            assert_eq!(verify(&setup, isa, 2, &memory, 40).unwrap(), 40);
            assert_eq!(verify(&setup, isa, 2, &memory, 400).unwrap(), 64);
        }
    }
}
