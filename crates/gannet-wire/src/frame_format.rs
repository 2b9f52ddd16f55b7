//! What the frames of any front end tell, so that its streams can be received, checked and found
//! again by time.
//!
//! Whoever receives frames knows no more of them than a [`FrameFormat`] says: how long a datagram
//! may be, which stream it is of, when it begins, and what follows it.

use core::fmt;
use core::ops::RangeInclusive;

use gannet_measure::ticks::TickRate;

use crate::Result;

/// Which stream a frame is of. What the bits mean is known to its format alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey(pub u64);

/// What is read of every frame when it has landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Its stream.
    pub stream: StreamKey,
    /// Time of its first sample or item, in ticks.
    pub begin: u64,
    /// Its number in the stream, or in its slice where frames come in slices, modulo
    /// [`Rhythm::sequence_modulus`]. Where the step varies it grows by one a frame.
    pub sequence: u32,
}

/// Time from the begin of one frame to that of the next, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Always the same.
    Fixed(u64),
    /// From frame to frame another one, which may be nothing.
    Varying {
        /// Most that it can be.
        longest: u64,
    },
    /// Frames come in slices that follow one another. All of a slice have its begin, and are
    /// numbered from 0 in it; how many they are, differs.
    Slices {
        /// From the begin of one slice to that of the next.
        length: u64,
    },
}

impl Step {
    /// Most ticks from the begin of one frame to that of the next.
    pub const fn longest(self) -> u64 {
        match self {
            Self::Fixed(step) => step,
            Self::Varying { longest } => longest,
            Self::Slices { length } => length,
        }
    }
}

/// How the frames of a stream follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    /// Clock whose ticks time stamps count.
    pub clock: TickRate,
    /// How far frames are apart.
    pub step: Step,
    /// Sequence numbers count modulo this, a power of two.
    pub sequence_modulus: u32,
}

impl Rhythm {
    /// Frames of a stream in a second; where the step is not fixed, so many at least.
    pub fn frames_per_s(&self) -> f64 {
        self.clock.per_s() as f64 / self.step.longest() as f64
    }
}

/// A format of frames, each of which comes as one datagram.
pub trait FrameFormat: Clone + fmt::Debug + Send + 'static {
    /// Bytes that a frame may have.
    fn lengths(&self) -> RangeInclusive<usize>;

    /// How frames follow one another.
    fn rhythm(&self) -> Rhythm;

    /// Reads what every frame tells.
    ///
    /// # Errors
    /// When `datagram` is no frame of this format.
    fn heading(&self, datagram: &[u8]) -> Result<Heading>;

    /// Writes what every frame tells, wherever this format tells it, into a frame or the first
    /// part of one.
    ///
    /// # Panics
    /// If `datagram` ends before what is written.
    fn set_heading(&self, datagram: &mut [u8], heading: &Heading);

    /// What people call a stream.
    fn stream_name(&self, stream: StreamKey) -> String;
}

/// A [`FrameFormat`] as an object, for work that is not done for each frame at the full rate.
pub trait AnyFormat: fmt::Debug + Send + Sync {
    /// As [`FrameFormat::lengths`].
    fn lengths(&self) -> RangeInclusive<usize>;

    /// As [`FrameFormat::rhythm`].
    fn rhythm(&self) -> Rhythm;

    /// As [`FrameFormat::heading`].
    ///
    /// # Errors
    /// When `datagram` is no frame of this format.
    fn heading(&self, datagram: &[u8]) -> Result<Heading>;

    /// As [`FrameFormat::set_heading`].
    ///
    /// # Panics
    /// If `datagram` ends before what is written.
    fn set_heading(&self, datagram: &mut [u8], heading: &Heading);

    /// As [`FrameFormat::stream_name`].
    fn stream_name(&self, stream: StreamKey) -> String;
}

impl<T: FrameFormat + Sync> AnyFormat for T {
    fn lengths(&self) -> RangeInclusive<usize> {
        FrameFormat::lengths(self)
    }

    fn rhythm(&self) -> Rhythm {
        FrameFormat::rhythm(self)
    }

    fn heading(&self, datagram: &[u8]) -> Result<Heading> {
        FrameFormat::heading(self, datagram)
    }

    fn set_heading(&self, datagram: &mut [u8], heading: &Heading) {
        FrameFormat::set_heading(self, datagram, heading);
    }

    fn stream_name(&self, stream: StreamKey) -> String {
        FrameFormat::stream_name(self, stream)
    }
}

impl FrameFormat for &'static dyn AnyFormat {
    fn lengths(&self) -> RangeInclusive<usize> {
        (**self).lengths()
    }

    fn rhythm(&self) -> Rhythm {
        (**self).rhythm()
    }

    fn heading(&self, datagram: &[u8]) -> Result<Heading> {
        (**self).heading(datagram)
    }

    fn set_heading(&self, datagram: &mut [u8], heading: &Heading) {
        (**self).set_heading(datagram, heading);
    }

    fn stream_name(&self, stream: StreamKey) -> String {
        (**self).stream_name(stream)
    }
}
