//! What the timing of passes need not know of a format of frames.

use gannet_kernels::Tpg;
use gannet_wire::TriggerPrimitive;

use super::content::Content;

/// A format of frames in memory.
pub(super) trait Format {
    /// Bytes that are searched at once: a frame, or several that belong together.
    const FRAME_LEN: usize;
    /// Samples of all channels in them.
    const SAMPLES: usize;
    /// Ticks from the first of a stream to the next.
    const TICKS: u64;
    /// Chains of 64 channels that a stream takes.
    const CHAINS: usize;

    /// Fills `memory` with frames of `streams` streams in turn, all different. The streams take
    /// their samples from the seeds `seed`, `seed + 1` and so on.
    fn fill(memory: &mut [u8], streams: usize, content: &Content, seed: u64);

    /// Searches a frame with the chains of its stream; the primitives are appended to `tps`.
    fn search(chains: &mut [Tpg], frame: &[u8], timestamp: u64, tps: &mut Vec<TriggerPrimitive>);
}
