//! Super-chunks of ProtoDUNE-SP frames.

use gannet_kernels::Isa;
use gannet_kernels::tpg::{ChainConfig, ChannelTable, Fetch, Path, Result, Tpg};
use gannet_wire::TriggerPrimitive;
use gannet_wire::protowib::{
    self, BLOCKS, FRAMES_PER_SUPERCHUNK, Frame, Repr, SUPERCHUNK_LEN, TICKS_PER_FRAME, WibRepr,
    coldata,
};

use super::content::Content;
use super::format::Format;

/// ProtoDUNE-SP: one sample of 256 channels in a frame, 12 bits each, 12 frames together.
pub(super) struct ProtoWib;

impl Format for ProtoWib {
    const FRAME_LEN: usize = SUPERCHUNK_LEN;
    const SAMPLES: usize = FRAMES_PER_SUPERCHUNK;
    const CHANNELS: usize = protowib::CHANNELS;
    const TICKS_PER_SAMPLE: u32 = TICKS_PER_FRAME as u32;
    const TICKS_PER_S: f64 = 50e6;
    type Chain = Tpg<BLOCKS>;

    fn fill(memory: &mut [u8], streams: usize, content: &Content, seed: u64) {
        for number in 0..streams {
            let mut stream = content.stream::<{ protowib::CHANNELS }>(seed + number as u64);
            let mut timestamp = 0;
            let chunks = memory.chunks_exact_mut(Self::FRAME_LEN);
            for chunk in chunks.skip(number).step_by(streams) {
                for frame in chunk.as_chunks_mut::<{ protowib::FRAME_LEN }>().0 {
                    let mut repr = headers(number, timestamp);
                    stream.sample(&mut repr.adc);
                    repr.emit(&mut Frame::new_unchecked(&mut frame[..]));
                    timestamp += TICKS_PER_FRAME;
                }
            }
        }
    }

    fn chain(
        config: &ChainConfig,
        table: &ChannelTable,
        isa: Isa,
        path: Path,
    ) -> Result<Self::Chain> {
        let mut chain = Tpg::for_frames(config, [table; BLOCKS], isa)?;
        chain.set_path(path);
        Ok(chain)
    }

    fn set_fetch(chain: &mut Self::Chain, fetch: Fetch) {
        chain.set_fetch(fetch);
    }

    #[inline]
    fn search(
        chain: &mut Self::Chain,
        frame: &[u8],
        timestamp: u64,
        tps: &mut Vec<TriggerPrimitive>,
    ) {
        chain.process_frames(frame.as_chunks().0, timestamp, tps);
    }
}

/// A frame of a stream without its samples.
fn headers(stream: usize, timestamp: u64) -> Repr {
    let wib = WibRepr {
        sof: 0,
        version: 1,
        fiber: (stream & 3) as u8,
        crate_id: (stream >> 5 & 31) as u8,
        slot: (stream >> 2 & 7) as u8,
        reserved_1: 0,
        mm: false,
        oos: false,
        reserved_2: 0,
        wib_errors: 0,
        timestamp_low: timestamp,
        counter: 0,
        z: false,
    };
    Repr { wib, coldata: [coldata::HeaderRepr::default(); BLOCKS], adc: [0; protowib::CHANNELS] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_dealt_out_in_turn_by_super_chunks() {
        let mut memory = vec![0; 4 * ProtoWib::FRAME_LEN];
        ProtoWib::fill(&mut memory, 2, &Content::new(20e3, 2e6), 1);
        let facts = memory.chunks(protowib::FRAME_LEN).step_by(12).map(|frame| {
            let frame = Frame::new_checked(frame).unwrap();
            (frame.wib().fiber(), frame.wib().timestamp())
        });
        assert!(facts.eq([(0, 0), (1, 0), (0, 300), (1, 300)]));
    }
}
