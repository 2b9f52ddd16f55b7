//! Which stream a frame is of: chains are made for streams as they are met.

use std::collections::HashMap;

use gannet_wire::{GeoId, channel_map};

use super::chain::{ChainSettings, StreamChain};
use super::error::FindError;
use super::origin::Origin;

/// Numbers the streams of a recording in the order in which they are met.
pub(super) struct Streams<'a> {
    origin: &'a Origin,
    settings: &'a ChainSettings,
    numbers: HashMap<GeoId, Option<usize>>,
    count: usize,
    /// The stream of the last frame, which is mostly that of the next.
    last: Option<(GeoId, Option<usize>)>,
    fresh: Vec<StreamChain>,
    unmapped: Unmapped,
    failure: Option<FindError>,
}

/// Frames of streams whose channels are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unmapped {
    /// Frames.
    pub frames: u64,
    /// The first such stream met.
    pub first: Option<GeoId>,
}

impl<'a> Streams<'a> {
    /// No stream yet.
    pub fn new(origin: &'a Origin, settings: &'a ChainSettings) -> Self {
        Self {
            origin,
            settings,
            numbers: HashMap::new(),
            count: 0,
            last: None,
            fresh: Vec::new(),
            unmapped: Unmapped::default(),
            failure: None,
        }
    }

    /// Number of a stream, of which a frame was met; absent when its channels are not known.
    #[inline]
    pub fn number(&mut self, geo_id: GeoId) -> Option<usize> {
        let number = match self.last {
            Some((last, number)) if last == geo_id => number,
            _ => self.look_up(geo_id),
        };
        if number.is_none() {
            self.unmapped.first.get_or_insert(geo_id);
            self.unmapped.frames += 1;
        }
        number
    }

    /// The chains of the streams that were met since the last call, in the order of their numbers.
    ///
    /// # Errors
    /// A chain cannot be set up.
    pub fn take_fresh(&mut self) -> Result<Vec<StreamChain>, FindError> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(std::mem::take(&mut self.fresh)),
        }
    }

    /// Frames that no chain was there for.
    pub fn unmapped(&self) -> Unmapped {
        self.unmapped
    }

    fn look_up(&mut self, geo_id: GeoId) -> Option<usize> {
        let number = match self.numbers.get(&geo_id) {
            Some(number) => *number,
            None => {
                let number = self.meet(geo_id);
                // Damaged headers may name any stream; no more are remembered than can be.
                if self.numbers.len() < 2 * channel_map::STREAMS_MAX {
                    self.numbers.insert(geo_id, number);
                }
                number
            }
        };
        self.last = Some((geo_id, number));
        number
    }

    fn meet(&mut self, geo_id: GeoId) -> Option<usize> {
        let (format, channels) = self.origin.stream(geo_id)?;
        match StreamChain::new(geo_id, format, &channels, self.settings) {
            Ok(chain) => self.fresh.push(chain),
            Err(error) => self.failure = self.failure.take().or(Some(error)),
        }
        self.count += 1;
        Some(self.count - 1)
    }
}
