//! What the streams of one run bring: datagrams of the RICH, and primitives of other sources.

use std::ops::RangeInclusive;

use gannet_wire::na62::mgp::MgpFormat;
use gannet_wire::na62::mtp::MtpFormat;
use gannet_wire::{FrameFormat, Heading, Result, Rhythm, StreamKey};

/// Format of the frames of a source.
#[derive(Clone, Debug)]
pub enum RichFormat {
    /// Hits of boards or merged events.
    Mgp(MgpFormat),
    /// Primitives.
    Mtp(MtpFormat),
}

impl FrameFormat for RichFormat {
    fn lengths(&self) -> RangeInclusive<usize> {
        match self {
            Self::Mgp(format) => FrameFormat::lengths(format),
            Self::Mtp(format) => FrameFormat::lengths(format),
        }
    }

    fn rhythm(&self) -> Rhythm {
        match self {
            Self::Mgp(format) => FrameFormat::rhythm(format),
            Self::Mtp(format) => FrameFormat::rhythm(format),
        }
    }

    #[inline]
    fn heading(&self, datagram: &[u8]) -> Result<Heading> {
        match self {
            Self::Mgp(format) => FrameFormat::heading(format, datagram),
            Self::Mtp(format) => FrameFormat::heading(format, datagram),
        }
    }

    fn set_heading(&self, datagram: &mut [u8], heading: &Heading) {
        match self {
            Self::Mgp(format) => FrameFormat::set_heading(format, datagram, heading),
            Self::Mtp(format) => FrameFormat::set_heading(format, datagram, heading),
        }
    }

    fn stream_name(&self, stream: StreamKey) -> String {
        match self {
            Self::Mgp(format) => FrameFormat::stream_name(format, stream),
            Self::Mtp(format) => FrameFormat::stream_name(format, stream),
        }
    }
}
