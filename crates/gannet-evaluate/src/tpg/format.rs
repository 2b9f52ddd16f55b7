//! What the timing of passes need not know of a format of frames.

use std::fmt::Debug;

use gannet_kernels::Isa;
use gannet_kernels::tpg::{ChainConfig, ChannelTable, Fetch, Path, Result};
use gannet_wire::TriggerPrimitive;
use serde::{Deserialize, Serialize};

use super::content::Content;

/// Names of the formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameFormat {
    /// WIBEth frames: 64 samples of 64 channels, 14 bits each, 7200 bytes.
    #[default]
    WibEth,
    /// Super-chunks of 12 ProtoDUNE-SP frames: 12 samples of 256 channels, 12 bits each, 5568
    /// bytes.
    ProtoWib,
}

/// A format of frames in memory.
pub(super) trait Format {
    /// Bytes that are searched at once: a frame, or several that belong together.
    const FRAME_LEN: usize;
    /// Samples of a channel in them.
    const SAMPLES: usize;
    /// Channels of a stream.
    const CHANNELS: usize;
    /// Ticks from one sample to the next.
    const TICKS_PER_SAMPLE: u32;
    /// Ticks in a second.
    const TICKS_PER_S: f64;

    /// The chain of a stream.
    type Chain: Clone + Debug;

    /// Samples of all channels.
    const ALL_SAMPLES: usize = Self::SAMPLES * Self::CHANNELS;
    /// Ticks from the first of a stream to the next.
    const TICKS: u64 = Self::SAMPLES as u64 * Self::TICKS_PER_SAMPLE as u64;
    /// Samples of a channel in a second.
    const SAMPLES_PER_S: f64 = Self::TICKS_PER_S / Self::TICKS_PER_SAMPLE as f64;

    /// Fills `memory` with frames of `streams` streams in turn, all different. The streams take
    /// their samples from the seeds `seed`, `seed + 1` and so on.
    fn fill(memory: &mut [u8], streams: usize, content: &Content, seed: u64);

    /// The chain of a stream; all channels share the table.
    ///
    /// # Errors
    /// When the kernels refuse it.
    fn chain(
        config: &ChainConfig,
        table: &ChannelTable,
        isa: Isa,
        path: Path,
    ) -> Result<Self::Chain>;

    /// Says how far ahead a chain fetches.
    fn set_fetch(chain: &mut Self::Chain, fetch: Fetch);

    /// Searches a frame with the chain of its stream; the primitives are appended to `tps`.
    fn search(
        chain: &mut Self::Chain,
        frame: &[u8],
        timestamp: u64,
        tps: &mut Vec<TriggerPrimitive>,
    );
}
