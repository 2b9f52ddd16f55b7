//! What every way out for datagrams offers.

use crate::Error;

/// A datagram to be sent: its two parts are gathered by the kernel, not copied together before.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// First part, for example a frame header made for this datagram.
    pub header: &'a [u8],
    /// Second part, for example samples that many datagrams share.
    pub body: &'a [u8],
}

impl Datagram<'_> {
    /// Bytes of the datagram.
    pub const fn len(&self) -> usize {
        self.header.len() + self.body.len()
    }

    /// Whether it has no bytes at all.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What became of the datagrams of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams the kernel took, always the first of those offered.
    pub datagrams: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Reports that nobody listens at the target. They come late: each speaks of datagrams
    /// taken earlier, perhaps in an earlier call.
    pub refused: u64,
}

/// Sends datagrams to one target.
pub trait Sink: Send {
    /// Sends `datagrams` in order. When the kernel has no room it waits for a bounded time and
    /// then returns with fewer sent; the caller goes on from there or counts them as lost.
    ///
    /// # Errors
    /// When the operating system refuses for a reason that waiting does not cure.
    fn send(&mut self, datagrams: &[Datagram<'_>]) -> Result<Sent, Error>;

    /// Does what is due though nothing is sent; who waits for longer than a few milliseconds calls it
    /// meanwhile.
    fn tend(&mut self) {}
}
