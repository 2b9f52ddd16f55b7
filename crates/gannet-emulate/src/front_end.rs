//! What a detector says of its front ends, so that their frames can be sent, disturbed and counted.

use std::io;
use std::ops::Range;

use gannet_measure::random::Random;
use gannet_wire::{FrameFormat, Heading, StreamKey};

/// Where a frame goes on after its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// In what was written, from this byte on.
    Own(usize),
    /// With the shared body of this number, after all that was written.
    Shared(usize),
}

impl Default for Body {
    fn default() -> Self {
        Self::Own(0)
    }
}

/// What a stream sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Frames in a second.
    pub frames_per_s: f64,
    /// Bytes of a frame, on average.
    pub frame_bytes: f64,
}

/// Something that a front end put into its frames, for a search to find.
pub trait InjectedEvent {
    /// What it is, in one word such as `track`.
    fn kind(&self) -> &'static str;

    /// When it begins, in ticks.
    fn time(&self) -> u64;

    /// Writes all that is known of it as JSON, in one line without its end.
    ///
    /// # Errors
    /// Those of `out`.
    fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()>;
}

/// Front ends of one detector: frames by stream and number.
///
/// A frame must depend on its stream and number alone, not on what was made before: then a run can
/// be repeated, and checked, from its seed.
pub trait FrontEnd: Send + 'static {
    /// Format of the frames.
    type Format: FrameFormat;

    /// The format of the frames.
    fn format(&self) -> &Self::Format;

    /// The streams. Elsewhere each is named by its place in this list.
    fn streams(&self) -> &[StreamKey];

    /// Time at which frame 0 of every stream begins, in ticks.
    fn start(&self) -> u64;

    /// Time at which frame `index` of every stream begins, in ticks: the longest step of the format
    /// after the one before, unless a front end knows better.
    fn begin(&self, index: u64) -> u64 {
        self.start().wrapping_add(index.wrapping_mul(self.format().rhythm().step.longest()))
    }

    /// Frames of a stream in a second at the true rate, on average.
    fn frames_per_s(&self) -> f64 {
        self.format().rhythm().frames_per_s()
    }

    /// What frame `index` of `stream` tells: its sequence number is `index`, as far as these count.
    fn heading(&self, stream: usize, index: u64) -> Heading {
        let modulus = u64::from(self.format().rhythm().sequence_modulus);
        let (stream, begin) = (self.streams()[stream], self.begin(index));
        Heading { stream, begin, sequence: (index % modulus) as u32 }
    }

    /// Writes frame `index` of `stream` to `frame`, which is empty: all of it, or its header alone
    /// if it goes on with a shared body.
    fn make(&mut self, stream: usize, index: u64, frame: &mut Vec<u8>) -> Body;

    /// The shared body of this number. Frames that have one are sent without a copy of it.
    fn body(&self, number: usize) -> &[u8] {
        let _ = number;
        &[]
    }

    /// Frame `index` of `stream` as it is sent without faults.
    fn frame(&mut self, stream: usize, index: u64) -> Vec<u8> {
        let mut frame = Vec::new();
        if let Body::Shared(number) = self.make(stream, index, &mut frame) {
            frame.extend_from_slice(self.body(number));
        }
        frame
    }

    /// A stream that does not exist, for frames of `stream` that name a wrong one: the one after
    /// the last of all, unless the format has no room for it.
    fn stranger(&self, stream: usize, random: &mut Random) -> StreamKey {
        let _ = (stream, random);
        StreamKey(self.streams().iter().max().map_or(0, |last| last.0 + 1))
    }

    /// Number in the detector of the channel of `stream` that [`add_noise`](Self::add_noise) strikes; none where frames
    /// have no samples of channels.
    fn noisy_channel(&self, stream: usize) -> Option<u32> {
        let _ = stream;
        None
    }

    /// Puts a hit that no particle made, and that every search finds, into a whole frame of `stream`.
    fn add_noise(&self, stream: usize, frame: &mut [u8]) {
        let _ = (stream, frame);
    }

    /// Passes everything that was put into the frames of these numbers to `event`, in order of
    /// time.
    fn report(&mut self, frames: Range<u64>, event: &mut dyn FnMut(&dyn InjectedEvent)) {
        let _ = (frames, event);
    }

    /// Tells how many events of which kind [`report`](Self::report) would pass for these frames,
    /// for front ends with too many of them to pass each.
    fn count(&mut self, frames: Range<u64>, add: &mut dyn FnMut(&'static str, u64)) {
        self.report(frames, &mut |event| add(event.kind(), 1));
    }
}
