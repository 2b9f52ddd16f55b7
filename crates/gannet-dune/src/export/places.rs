//! Which stream and plane a channel belongs to.

use std::collections::HashMap;

use gannet_table::Text;
use gannet_wire::GeoId;

/// The stream and the plane of offline channels, for the columns of the same name.
#[derive(Clone, Debug, Default)]
pub struct ChannelPlaces {
    channels: HashMap<u32, Place>,
}

/// Where a channel is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Plane of the wire.
    pub plane: u8,
    /// Stream, as detector/crate/slot/stream.
    pub stream: Text,
}

impl Place {
    /// The place of a channel that no stream is known for.
    pub fn unknown() -> Self {
        Self { plane: ChannelPlaces::UNKNOWN_PLANE, stream: Text::from("") }
    }
}

impl ChannelPlaces {
    /// The plane of a channel that no stream is known for.
    pub const UNKNOWN_PLANE: u8 = u8::MAX;

    /// Adds the channels of a stream: their offline numbers, and the plane of each.
    ///
    /// A channel that another stream has already stays with that.
    pub fn add(&mut self, stream: GeoId, offline: &[u32], plane: &[u8]) {
        let name = Text::from(stream.to_string().as_str());
        for (&channel, &plane) in offline.iter().zip(plane) {
            let place = || Place { plane, stream: name.clone() };
            self.channels.entry(channel).or_insert_with(place);
        }
    }

    /// Where a channel is, if its stream is known.
    pub(super) fn of(&self, channel: u32) -> Option<&Place> {
        self.channels.get(&channel)
    }
}
