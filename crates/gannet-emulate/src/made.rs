//! A front end whose frames a function makes.

use gannet_measure::random::Random;
use gannet_wire::{FrameFormat, Heading, StreamKey};

use crate::front_end::{Body, FrontEnd};

/// Makes what follows the header of a frame with this heading, by random numbers that depend on
/// seed, stream and number of the frame alone.
pub type Make = fn(&Heading, &mut Random, &mut Vec<u8>);

/// Front ends of streams whose frames a function makes, behind headers as long as the shortest frame.
#[derive(Clone, Debug)]
pub struct Made<T> {
    /// Format of the frames.
    pub format: T,
    /// The streams.
    pub streams: Vec<StreamKey>,
    /// Seed of what is in the frames.
    pub seed: u64,
    /// Time at which frame 0 of every stream begins, in ticks.
    pub start: u64,
    /// What makes the frames.
    pub make: Make,
}

impl<T: FrameFormat> FrontEnd for Made<T> {
    type Format = T;

    fn format(&self) -> &T {
        &self.format
    }

    fn streams(&self) -> &[StreamKey] {
        &self.streams
    }

    fn start(&self) -> u64 {
        self.start
    }

    fn make(&mut self, stream: usize, index: u64, frame: &mut Vec<u8>) -> Body {
        let header_len = *self.format.lengths().start();
        frame.resize(header_len, 0);
        let heading = self.heading(stream, index);
        self.format.set_heading(frame, &heading);
        let mut random = Random::stream(self.seed ^ (stream as u64) << 32, index);
        (self.make)(&heading, &mut random, frame);
        Body::Own(header_len)
    }
}
