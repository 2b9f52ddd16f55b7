//! Where packets wait.

use std::iter::repeat_n;

use crate::simulator::packet::Packet;
use crate::simulator::slab::filled;

/// The packets behind the first two: for each input channel of each router a ring of places.
///
/// The first places of all channels of all routers lie together, then the second places, and so on.
/// A ring that runs empty starts again at its first place, so that under low load a simulation
/// keeps to a small part of this memory.
#[derive(Debug)]
pub(in crate::simulator) struct Queues {
    packets: Vec<Packet>,
    places: u16,
    /// Input channels of a router, and of all routers.
    channels: usize,
    round: usize,
}

impl Queues {
    pub fn new(routers: usize, channels: usize, places: u16) -> Self {
        let round = routers * channels;
        let len = round * usize::from(places);
        Self { packets: filled(len, repeat_n(Packet::default(), len)), places, channels, round }
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.packets)
    }

    /// The queues of one router.
    #[inline]
    pub fn of(&mut self, router: usize) -> Queue<'_> {
        Queue { first: router * self.channels, router, all: self }
    }
}

/// The packets that wait at one router.
pub(in crate::simulator) struct Queue<'a> {
    all: &'a mut Queues,
    pub(super) router: usize,
    first: usize,
}

impl Queue<'_> {
    #[inline]
    pub(super) fn at(&mut self, channel: u8, place: u16) -> &mut Packet {
        let index = usize::from(place) * self.all.round + self.first + usize::from(channel);
        &mut self.all.packets[index]
    }

    /// The place `ahead` places behind `place`, round the ring.
    #[inline]
    pub(super) fn behind(&self, place: u16, ahead: u16) -> u16 {
        let sum = place + ahead;
        if sum >= self.all.places { sum - self.all.places } else { sum }
    }
}
