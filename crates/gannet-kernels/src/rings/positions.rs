//! Where channels look.

use core::fmt;

/// Channel numbers of hits.
pub const CHANNELS: usize = 2048;

/// Position of each channel on the common plane, mm; none if it is dead or not connected.
#[derive(Clone, PartialEq)]
pub struct Positions(Box<[Option<[f32; 2]>; CHANNELS]>);

impl Positions {
    /// Largest coordinate, mm. A channel farther out counts as dead.
    pub const MAX: f32 = 1000.0;

    /// Asks for the position of each channel.
    pub fn new(mut position: impl FnMut(u16) -> Option<[f32; 2]>) -> Self {
        let mut of_channels = Box::new([None; CHANNELS]);
        for (channel, place) in of_channels.iter_mut().enumerate() {
            let inside = |at: &[f32; 2]| at.iter().all(|x| x.abs() <= Self::MAX);
            *place = position(channel as u16).filter(inside);
        }
        Self(of_channels)
    }

    /// Position of a channel, mm.
    pub fn get(&self, channel: u16) -> Option<[f32; 2]> {
        self.0.get(usize::from(channel)).copied().flatten()
    }
}

impl fmt::Debug for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = self.0.iter().flatten().count();
        f.debug_struct("Positions").field("live", &live).finish()
    }
}
