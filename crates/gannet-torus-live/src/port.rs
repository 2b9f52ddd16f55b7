//! What carries the frames of a link.

use std::fmt::Debug;
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use gannet_torus::link::Most;

/// One end of a cable.
///
/// A cable carries whole frames in the order in which they were sent, or loses them; it may damage them, and bring
/// frames of strangers. It never waits.
pub trait Port: Debug {
    /// Longest frame that the cable carries, bytes.
    fn frame_bytes(&self) -> usize;

    /// Bytes of frames that may be under way to this end without being lost.
    fn window_bytes(&self) -> usize;

    /// How much is sent at once.
    fn at_once(&self) -> Most {
        Most::ONE
    }

    /// Sends frames, of `frame` bytes each but the last, which may be shorter; gives whether the cable has taken them, which it does with all or none.
    ///
    /// # Errors
    /// When the cable is not there; these frames are lost.
    fn send(&mut self, frames: &[u8], frame: usize) -> io::Result<bool>;

    /// Whether a cable that has taken none may take some now, so that frames need not be prepared and proved in vain.
    fn may_send(&self) -> bool {
        true
    }

    /// After how long a cable that has taken none is to be asked again.
    fn asked_again_after(&self) -> Duration {
        Duration::from_micros(100)
    }

    /// Gives `take` frames that have come, oldest first; gives whether those were all.
    ///
    /// # Errors
    /// When the cable is not there.
    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<bool>;

    /// Frames that came from others than the other end and were dropped.
    fn strangers(&self) -> u64 {
        0
    }

    /// Whoever has sent what was taken last has proved to be the other end.
    fn confirm(&mut self) {}

    /// The interface of this host that the cable is plugged into, and the address of the other end on that link once it was
    /// met; none where the cable is not one between interfaces.
    fn interface(&self) -> Option<(&str, Option<Ipv6Addr>)> {
        None
    }

    /// What becomes readable when a frame comes.
    fn descriptor(&self) -> BorrowedFd<'_>;
}
