//! What the finders hand to the trigger.

use gannet_trigger::Item;

/// Channels that one item holds; more of a board take several.
pub const HITS_MAX: usize = 25;
/// Rings that one event has at most.
pub const RINGS_MAX: usize = 5;

/// Something at a time, in one line of the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
pub struct RichItem {
    /// Detector time in fine units, which goes on where the 40 bits of the formats wrap.
    pub time: u64,
    /// What it is.
    pub what: What,
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// Data of a board are missing from here on.
    Gap {
        /// The board, 0 to 3.
        board: u8,
        /// Time from which they are there again.
        until: u64,
    },
    /// Hits of one board.
    Hits(Hits),
    /// An event whose rings were found where it landed.
    Event(Rings),
}

/// Hits of one board at one time, or a part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hits {
    /// The board, 0 to 3.
    pub board: u8,
    /// Which part of the hits of this board and time it is.
    pub part: u8,
    /// How many there are.
    pub count: u8,
    /// Their channels in the detector, 0 to 2047.
    pub channels: [u16; HITS_MAX],
}

impl Hits {
    /// The channels.
    pub fn channels(&self) -> &[u16] {
        &self.channels[..usize::from(self.count)]
    }
}

/// The rings of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// A bit for each board whose data are missing, board 0 the lowest.
    pub missing: u8,
    /// How many rings there are.
    pub count: u8,
    /// The rings.
    pub rings: [Ring; RINGS_MAX],
}

impl Rings {
    /// The rings.
    pub fn as_slice(&self) -> &[Ring] {
        &self.rings[..usize::from(self.count)]
    }
}

/// A ring, its lengths in units of [`Ring::UNIT_MM`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    /// Centre.
    pub x: i16,
    /// Centre.
    pub y: i16,
    /// Radius.
    pub radius: u16,
    /// Hits on it.
    pub hits: u8,
}

impl Ring {
    /// Unit of its lengths, in mm.
    pub const UNIT_MM: f32 = 1.0 / 32.0;

    /// A ring of these lengths in mm; what is too long becomes the longest that there is.
    pub fn of_mm([x, y, radius]: [f32; 3], hits: u8) -> Self {
        let units = |mm: f32| (mm / Self::UNIT_MM).round();
        Self { x: units(x) as i16, y: units(y) as i16, radius: units(radius) as u16, hits }
    }

    /// The radius in mm.
    pub fn radius_mm(&self) -> f32 {
        f32::from(self.radius) * Self::UNIT_MM
    }

    /// The centre in mm.
    pub fn centre_mm(&self) -> [f32; 2] {
        [self.x, self.y].map(|units| f32::from(units) * Self::UNIT_MM)
    }
}

const _: () = assert!(size_of::<RichItem>() == 64);

impl Item for RichItem {
    /// Kind, then board, then part.
    type Place = (u8, u8, u8);

    #[inline]
    fn time(&self) -> u64 {
        self.time
    }

    #[inline]
    fn place(&self) -> Self::Place {
        match self.what {
            What::Gap { board, .. } => (0, board, 0),
            What::Hits(hits) => (1, hits.board, hits.part),
            What::Event(_) => (2, 0, 0),
        }
    }
}
