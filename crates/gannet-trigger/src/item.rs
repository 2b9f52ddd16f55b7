//! What is found in frames, and what finds it.

use std::fmt;

use gannet_wire::{Heading, TriggerPrimitive};

/// Something found in frames, such as a trigger primitive.
pub trait Item: Copy + fmt::Debug + Send + 'static {
    /// What tells items of one time apart, so that their order does not depend on how streams
    /// interleave.
    type Place: Ord;

    /// When it begins, in ticks.
    fn time(&self) -> u64;

    /// Its place among the items of its time.
    fn place(&self) -> Self::Place;
}

impl Item for TriggerPrimitive {
    /// Channel, then all that is left.
    type Place = (u32, u64, u64);

    #[inline]
    fn time(&self) -> u64 {
        self.time_start()
    }

    #[inline]
    fn place(&self) -> Self::Place {
        (self.channel(), self.words[0], self.words[2])
    }
}

/// Finds the items of one stream, frame by frame, in the memory in which the frames landed.
pub trait Finder: fmt::Debug + Send + 'static {
    /// What it finds.
    type Item: Item;

    /// Most items that it finds in one frame.
    const ITEMS_MAX: usize;

    /// Searches a frame and appends what it finds to `found`, where there is room for
    /// [`ITEMS_MAX`](Self::ITEMS_MAX) more. Says whether the frame was searched; one that comes too
    /// late for it is not.
    fn frame(&mut self, heading: &Heading, frame: &[u8], found: &mut Vec<Self::Item>) -> bool;

    /// The tick up to which the stream has been searched: all items that ended before it were found.
    fn searched_to(&self) -> u64;

    /// Finds what waited for frames that will not come, as the stream has ended or goes on from another
    /// time: at most [`ITEMS_MAX`](Self::ITEMS_MAX) items.
    fn finish(&mut self, _found: &mut Vec<Self::Item>) {}

    /// Lets the stream go on from another time with the next frame.
    fn begin_anew(&mut self);
}
