//! What finders give.

/// Most rings of an event.
pub const RINGS_MAX: usize = 5;

/// A ring.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ring {
    /// Centre on the common plane, mm.
    pub x: f32,
    /// Centre on the common plane, mm.
    pub y: f32,
    /// Radius, mm.
    pub radius: f32,
    /// Hits that it was fitted to.
    pub hits: u16,
}

/// An event that was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its time in units of the fine time (97.46 ps), 40 bits.
    pub time: u64,
    /// Index of its first ring in [`Found::rings`].
    pub first: u32,
    /// Number of its rings, at most [`RINGS_MAX`].
    pub rings: u8,
    /// Number of its hits, dead ones included.
    pub hits: u8,
}

/// What was seen in the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events.
    pub events: u64,
    /// Hits, dead ones included.
    pub hits: u64,
    /// Hits on channels without position, which take no part.
    pub dead_hits: u64,
    /// Hits of numbers that are no channel's, which take no part.
    pub unknown_channels: u64,
    /// Events in which the counts of the boards are not the number of hits. They are taken all the same.
    pub board_counts_wrong: u64,
    /// Buffers that were left because a header was none, or its event went beyond the buffer.
    pub malformed: u64,
}

/// Events and their rings, in the order of the bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Events.
    pub events: Vec<Event>,
    /// Rings of all events, those of an event together.
    pub rings: Vec<Ring>,
    /// What was seen in the bytes, summed up until it is taken.
    pub counts: Counts,
}

impl Found {
    /// The rings of an event.
    pub fn rings_of(&self, event: &Event) -> &[Ring] {
        let first = event.first as usize;
        self.rings.get(first..first + usize::from(event.rings)).unwrap_or_default()
    }

    /// Forgets events and rings; keeps the counts, and the memory.
    pub fn clear(&mut self) {
        self.events.clear();
        self.rings.clear();
    }
}
