//! The sending side of a node: packets wait here until the router takes them.

use std::collections::VecDeque;

use super::packet::Packet;
use super::rules::Rules;
use super::traffic::Generator;
use crate::router::Turn;

/// One node's queue into its router, a flit per cycle.
///
/// The queue has no end, yet holds nothing: packets are drawn from the generator when their turn
/// comes, with the time at which they were made.
#[derive(Clone, Debug)]
pub(super) struct Source<const V: usize> {
    pub generator: Generator,
    /// Packets that were lost and wait to be sent again, with the cycle at which they may.
    pub again: VecDeque<(u32, Packet)>,
    is_dead: bool,
    /// Flits of the packet under way that have not been sent.
    left: u16,
    /// Channel of the packet under way, or of the last one.
    vc: u8,
    /// Turn of the channels with room.
    turn: Turn,
    /// Free places of each channel into the router.
    credits: [u16; V],
}

impl<const V: usize> Source<V> {
    pub fn new(generator: Generator, rules: &Rules) -> Self {
        Self {
            generator,
            again: VecDeque::new(),
            is_dead: false,
            left: 0,
            vc: 0,
            turn: Turn::default(),
            credits: std::array::from_fn(
                |vc| if vc < usize::from(rules.vcs) { rules.depth } else { 0 },
            ),
        }
    }

    /// Makes and sends nothing any more; what was lost stays lost.
    pub fn fail(&mut self) {
        self.generator.stop();
        self.again.clear();
        self.left = 0;
        self.is_dead = true;
    }

    /// Makes no packets any more, and finishes what it has begun.
    pub fn hang(&mut self) {
        self.generator.stop();
    }

    /// Whether it has a flit to send or a packet to make in cycle `now`.
    #[inline]
    pub fn is_busy(&self, now: u32) -> bool {
        self.left != 0 || self.generator.next_at() <= now || self.has_lost(now)
    }

    /// Whether a lost packet may be sent again.
    #[inline]
    pub fn has_lost(&self, now: u32) -> bool {
        self.again.front().is_some_and(|&(due, _)| due <= now)
    }

    /// Queues a lost packet, to be sent again from cycle `due` on.
    ///
    /// The order does not depend on the order in which losses become known.
    pub fn send_again(&mut self, due: u32, packet: Packet) {
        if self.is_dead {
            return;
        }
        let key = |&(due, packet): &(u32, Packet)| {
            (due, packet.born, packet.destination, packet.flits, packet.replays)
        };
        let entry = (due, packet);
        let place = self.again.partition_point(|other| key(other) <= key(&entry));
        self.again.insert(place, entry);
    }

    /// Whether the packet under way has flits left.
    #[inline]
    pub fn is_sending(&self) -> bool {
        self.left != 0
    }

    /// Takes credits back, by channel.
    #[inline]
    pub fn credit(&mut self, channels: u64) {
        for (vc, credits) in self.credits.iter_mut().enumerate() {
            *credits += (channels >> vc & 1) as u16;
        }
    }

    /// Whether any channel has room for the first flit of a packet; the one whose turn it is becomes
    /// the channel of that packet.
    #[inline]
    pub fn choose_channel(&mut self) -> bool {
        let room = |room, (vc, &credits): (usize, &u16)| room | u64::from(credits > 0) << vc;
        let room = self.credits.iter().enumerate().fold(0, room);
        if room != 0 {
            self.vc = self.turn.first(room);
            self.turn.served(self.vc);
        }
        room != 0
    }

    /// Starts to send a packet of so many flits.
    #[inline]
    pub fn start(&mut self, flits: u16) {
        self.left = flits;
    }

    /// Sends a flit if there is room: the channel that it goes to.
    #[inline]
    pub fn send_flit(&mut self) -> Option<u8> {
        let credits = &mut self.credits[usize::from(self.vc)];
        if *credits == 0 {
            return None;
        }
        *credits -= 1;
        self.left -= 1;
        Some(self.vc)
    }
}
