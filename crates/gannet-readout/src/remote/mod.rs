//! Readouts and builder of a run in processes of their own: what stands between the receiving threads and the trigger,
//! and between the trigger and the latency buffers, when these are apart.
//!
//! ```text
//! readout:  receiving threads ──items──▶ ReadoutEnd ══▶ BuilderEnd ──items──▶ trigger      :builder
//!           latency buffers ◀──cut──────  Messenger  ◀══  asks ◀──── RemoteWindows ◀── records
//! ```
//!
//! A builder has several readouts, each with streams of its own. Both ends are state machines without thread: they are
//! stepped with the time, and a [`Messenger`](gannet_fabric::messenger::Messenger) joins each readout to the builder.
//! Layout of the messages: [`gannet_wire::readout_link`].

mod builder_end;
mod far_stream;
mod guest;
mod item_intake;
mod presence;
mod readout_end;
mod remote_windows;

use gannet_fabric::messenger::Ring;
use gannet_trigger::Item;
use gannet_wire::readout_link::{ITEMS_HEADER_LEN, Segment};
use gannet_wire::record::Record;

use crate::items::ItemBatch;

pub use builder_end::{BuilderEnd, Event, READOUTS_MAX, Welcoming};
pub use presence::Presence;
pub use readout_end::{Accounts, LinkDrop, ReadoutEnd};
pub use remote_windows::{Orders, RemoteWindows};

/// Messages that are under way each way.
const SLOTS: u32 = 16;

/// The rings between a readout and a builder, where no frame gives more than `frame_items_max` items.
pub fn ring<I: Item + Record>(frame_items_max: usize) -> Ring {
    let (segments, items) = ItemBatch::<I>::sizes_max(frame_items_max);
    let bytes = ITEMS_HEADER_LEN + segments * Segment::LEN + items * I::LEN;
    Ring { slots: SLOTS, slot_bytes: bytes.next_multiple_of(4096) as u32 }
}

/// The other side does not keep to the rules of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// It is gone, or does not answer.
    #[error(transparent)]
    Gone(#[from] gannet_fabric::Failure),
    /// It sends what is no message, or none that can come now.
    #[error("the other side sent what it should not: {0}")]
    Message(&'static str),
    /// The builder does not want this readout.
    #[error("the builder refuses this readout: {0}")]
    Refused(gannet_wire::readout_link::Refusal),
}
