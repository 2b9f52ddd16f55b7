//! Frames of WIBEth.

use gannet_kernels::Isa;
use gannet_kernels::tpg::{CHANNELS, ChainConfig, ChannelTable, Fetch, Path, Result, SAMPLES, Tpg};
use gannet_wire::daq_ethernet::SEQ_MODULUS;
use gannet_wire::tpc_frame::{self, BLOCK_LENGTH};
use gannet_wire::wibeth::{Frame, HeaderRepr, Repr, TICKS_PER_FRAME};
use gannet_wire::{TriggerPrimitive, daq_ethernet};

use super::content::Content;
use super::format::Format;

/// HD_TPC, as in the frames of ProtoDUNE-HD.
const DETECTOR: u8 = 3;

/// WIBEth: 64 samples of 64 channels, 14 bits each.
pub(super) struct WibEth;

impl Format for WibEth {
    const FRAME_LEN: usize = tpc_frame::FRAME_LEN;
    const SAMPLES: usize = SAMPLES;
    const CHANNELS: usize = CHANNELS;
    const TICKS_PER_SAMPLE: u32 = 32;
    const TICKS_PER_S: f64 = 62.5e6;
    type Chain = Tpg;

    fn fill(memory: &mut [u8], streams: usize, content: &Content, seed: u64) {
        for number in 0..streams {
            let mut stream = content.stream::<CHANNELS>(seed + number as u64);
            let frames = memory.chunks_exact_mut(Self::FRAME_LEN);
            for (index, frame) in frames.skip(number).step_by(streams).enumerate() {
                let mut repr = headers(number, index as u64);
                repr.adc.iter_mut().for_each(|row| stream.sample(row));
                repr.emit(&mut Frame::new_unchecked(frame));
            }
        }
    }

    fn chain(config: &ChainConfig, table: &ChannelTable, isa: Isa, path: Path) -> Result<Tpg> {
        let mut chain = Tpg::new(config, table, isa)?;
        chain.set_path(path);
        Ok(chain)
    }

    fn set_fetch(chain: &mut Self::Chain, fetch: Fetch) {
        chain.set_fetch(fetch);
    }

    #[inline]
    fn search(chain: &mut Tpg, frame: &[u8], timestamp: u64, tps: &mut Vec<TriggerPrimitive>) {
        chain.process(Frame::new_unchecked(frame).adc_block(), timestamp, tps);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_dealt_out_in_turn() {
        let mut memory = vec![0; 4 * WibEth::FRAME_LEN];
        WibEth::fill(&mut memory, 2, &Content::new(20e3, 2e6), 1);
        let frames: Vec<_> = memory.chunks(WibEth::FRAME_LEN).collect();
        let facts = frames.iter().map(|frame| {
            let frame = Frame::new_checked(frame).unwrap();
            (frame.daq().stream_id(), frame.daq().seq_id(), frame.timestamp())
        });
        assert!(facts.eq([(0, 0, 0), (1, 0, 0), (0, 1, 2048), (1, 1, 2048)]));
        assert!((0..4).all(|i| (0..i).all(|j| frames[i][32..] != frames[j][32..])));
    }
}
