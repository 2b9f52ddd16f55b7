//! Endpoints whose data go as packets of the engine of the torus ([`gannet_rdma`]), whatever carries these.
//!
//! Each pair of endpoints has an engine of its own at both ends, so that nothing is left of one that leaves, and one that
//! comes back is another one. Loss, doubling and disorder are the engine's to mend. A PUT is a PUT of the engine: one that
//! tells is for the process after that of its key, which is odd, and its immediate is the tag. What opens and closes windows
//! goes beside the packets, as messages that come whole and in order.
//!
//! A backend is a [`Port`], and [`Cable`]s that are plugged into it.

mod endpoint;
mod memory;
mod pair;

use std::fmt::Debug;

use gannet_rdma::Engine;
use gannet_wire::exchange::Message;

use crate::endpoint::Failure;
use crate::exchange::Side;

pub use endpoint::{PacketEndpoint, Pairs};
pub use memory::Memory;

/// What joins an endpoint to one other.
pub trait Cable: Debug {
    /// Which of its ends this is.
    fn side(&self) -> Side;

    /// Sends a message, now or later; no more than `waiting_max` may wait.
    fn tell(&mut self, message: &Message, waiting_max: usize) -> Result<(), Failure>;

    /// Sends what waits of the messages.
    fn empty_outbox(&mut self) -> Result<(), Failure>;

    /// The next message that has come.
    fn hear(&mut self) -> Result<Option<Message>, Failure>;
}

/// Where an endpoint sends packets and takes them.
pub trait Port: Debug + Sized {
    /// What joins it to another one.
    type Cable: Cable;

    /// Name of the backend.
    const NAME: &'static str;

    /// The time, in nanoseconds from any origin.
    fn now(&self) -> u64;

    /// Takes note of the time that the caller has.
    fn reach(&mut self, now_ns: u64);

    /// Sends what the engine has, as much as can be sent.
    fn send(&self, cable: &mut Self::Cable, now: u64, engine: &mut Engine<Memory>);

    /// Gives the pairs the packets that have come, or some of them; gives whether that were all.
    fn receive(&mut self, pairs: &mut Pairs<'_, Self::Cable>) -> bool;

    /// Whether to look for messages now.
    fn is_time_to_look(&mut self, now: u64) -> bool;

    /// When something comes next, or may have come.
    fn due(&self, now: u64) -> u64;
}
