//! What a packet meets on its way.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use gannet_measure::random::Random;
use gannet_wire::exchange::Message;
use gannet_wire::rdma::{DATA_LEN, DATA_LEN_MAX, HEADER_LEN};

/// Picoseconds of a nanosecond: a short packet passes a fast hop in less than one.
const PS: u128 = 1000;

/// A hop of a path: it passes packets on whole, one after the other.
///
/// What finds no room at the first hop waits in the engine that sends: a card knows its own link. At any later one it is
/// dropped, since nobody there can tell the sender to wait; the engine sends it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Bytes that pass in a second; with [`u64::MAX`] all pass at once.
    pub bytes_per_s: u64,
    /// Time from one end to the other.
    pub latency_ns: u64,
    /// Bytes that find room before it, those that are passing included. A packet always finds room where there is no other.
    pub queue_bytes: u64,
}

impl Hop {
    /// Time that bytes take to pass, ps.
    fn span(&self, bytes: u64) -> u128 {
        match self.bytes_per_s {
            u64::MAX => 0,
            rate => (u128::from(bytes) * 1_000_000_000 * PS).div_ceil(rate.into()),
        }
    }
}

/// What goes wrong at the end of a path. Shares are of all packets, each for itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Share that is lost.
    pub loss: f64,
    /// Share that comes twice.
    pub doubling: f64,
    /// Share of which a bit is wrong.
    pub damage: f64,
    /// Share that is held up, so that others overtake it.
    pub reordering: f64,
    /// The longest time that these are held up.
    pub reordering_ns: u64,
    /// When the path is cut, in ns: what is sent or under way then is lost. Messages that open and close windows wait, and an
    /// endpoint that hears nothing for its deadline gives the other one up.
    pub cuts: Vec<Range<u64>>,
}

/// The way of packets in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Its hops, at least one.
    pub hops: Vec<Hop>,
    /// Most bytes of data in a packet; of the two directions of a cable the less.
    pub packet_bytes: usize,
    /// What goes wrong.
    pub faults: Faults,
}

impl Path {
    /// A path without faults, whose packets have 4096 bytes with their header.
    pub fn new(hops: Vec<Hop>) -> Self {
        Self { hops, packet_bytes: DATA_LEN, faults: Faults::default() }
    }

    /// Time from one end to the other without the time that bytes take to pass, ns.
    pub fn latency_ns(&self) -> u64 {
        self.hops.iter().map(|hop| hop.latency_ns).sum()
    }

    /// Time that a packet with so many bytes of data takes when nothing else is on its way, ns.
    pub fn packet_ns(&self, bytes: u64) -> f64 {
        let pass = self.hops.iter().map(|hop| hop.span(bytes + HEADER_LEN as u64)).sum::<u128>();
        self.latency_ns() as f64 + pass as f64 / PS as f64
    }

    /// # Panics
    /// When there is no hop, a hop passes nothing, a share is none, or packets are too short or too long.
    pub(super) fn check(&self) {
        let Faults { loss, doubling, damage, reordering, .. } = self.faults;
        let shares = [loss, doubling, damage, reordering];
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{:?}", self.faults);
        assert!(!self.hops.is_empty(), "a path without hops");
        assert!(self.hops.iter().all(|hop| hop.bytes_per_s > 0), "{:?}", self.hops);
        assert!((1..=DATA_LEN_MAX).contains(&self.packet_bytes), "{} bytes", self.packet_bytes);
    }

    /// The first cut of more than no time within `from..to`.
    fn cut(&self, from: u64, to: u64) -> Option<&Range<u64>> {
        let is_within = |cut: &&Range<u64>| cut.start < to && from < cut.end && !cut.is_empty();
        self.faults.cuts.iter().filter(is_within).min_by_key(|cut| cut.start)
    }

    /// When somebody who waits from `now` on for as long as `patience_ns` takes the path for cut.
    pub(super) fn silent_at(&self, now: u64, patience_ns: u64) -> u64 {
        let cuts = self.faults.cuts.iter().map(|cut| (cut.start.max(now), cut.end));
        let is_long = |&(start, end): &(u64, u64)| end.saturating_sub(start) > patience_ns;
        let times = cuts.filter(is_long).map(|(start, _)| start.saturating_add(patience_ns));
        times.min().unwrap_or(u64::MAX)
    }
}

/// What became of the packets of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// Packets that were sent.
    pub sent: u64,
    /// Those of them that found no room at a hop.
    pub dropped: u64,
    /// Those that were lost in a cut.
    pub cut: u64,
    /// Those that were lost otherwise.
    pub lost: u64,
    /// Those that came twice.
    pub doubled: u64,
    /// Packets that came with a wrong bit, copies included.
    pub damaged: u64,
    /// Packets that were held up, copies included.
    pub held_up: u64,
}

/// When a packet arrives, its number, and its bytes.
type Arrival = (u64, u64, Vec<u8>);

/// A path, and what is on it.
#[derive(Debug)]
pub(super) struct Way {
    pub path: Path,
    random: Random,
    /// When each hop has passed on what it was given, ps.
    free_at: Vec<u128>,
    under_way: BinaryHeap<Reverse<Arrival>>,
    /// When the last packet of those that were sent arrives.
    last_at: u64,
    messages: VecDeque<(u64, Message)>,
    /// When the last message arrives, and when the other end learns that there are no more.
    told_at: u64,
    ends_at: u64,
    /// When the sender wants to go on.
    pub timer_at: u64,
    pub fates: Fates,
}

impl Way {
    pub fn new(path: Path, random: Random) -> Self {
        Self {
            free_at: vec![0; path.hops.len()],
            path,
            random,
            under_way: BinaryHeap::new(),
            last_at: 0,
            messages: VecDeque::new(),
            told_at: 0,
            ends_at: u64::MAX,
            timer_at: u64::MAX,
            fates: Fates::default(),
        }
    }

    /// When the first hop has room for any packet.
    pub fn room_at(&self) -> u64 {
        let hop = &self.path.hops[0];
        let packet = (HEADER_LEN + self.path.packet_bytes) as u64;
        let ahead = hop.span(hop.queue_bytes.saturating_sub(packet));
        self.free_at[0].saturating_sub(ahead).div_ceil(PS) as u64
    }

    /// Sends a packet.
    pub fn send(&mut self, now: u64, packet: &[u8]) {
        self.fates.sent += 1;
        let Some(at) = self.pass(now, packet.len() as u64) else {
            self.fates.dropped += 1;
            return;
        };
        if self.path.cut(now, at).is_some() {
            self.fates.cut += 1;
            return;
        }
        if self.random.chance(self.path.faults.loss) {
            self.fates.lost += 1;
            return;
        }
        self.arrive(at, packet.to_vec());
        if self.random.chance(self.path.faults.doubling) {
            self.fates.doubled += 1;
            self.arrive(at, packet.to_vec());
        }
    }

    /// When a packet has passed all hops, if it finds room at each.
    ///
    /// Packets come to each hop in the order in which they were sent, so what those before have taken is known.
    fn pass(&mut self, now: u64, bytes: u64) -> Option<u64> {
        let mut time = u128::from(now) * PS;
        for (number, (hop, free_at)) in self.path.hops.iter().zip(&mut self.free_at).enumerate() {
            let wait = free_at.saturating_sub(time);
            let span = hop.span(bytes);
            if number > 0 && wait > 0 && wait + span > hop.span(hop.queue_bytes) {
                return None;
            }
            *free_at = time + wait + span;
            time = *free_at + u128::from(hop.latency_ns) * PS;
        }
        // What follows from a call comes after it: nothing arrives at the time at which it was sent.
        Some((time.div_ceil(PS) as u64).max(now + 1))
    }

    fn arrive(&mut self, mut at: u64, mut packet: Vec<u8>) {
        if self.random.chance(self.path.faults.reordering) {
            self.fates.held_up += 1;
            at += self.random.below(self.path.faults.reordering_ns + 1);
        }
        if self.random.chance(self.path.faults.damage) {
            self.fates.damaged += 1;
            let bit = self.random.below(8 * packet.len() as u64);
            packet[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        self.last_at = self.last_at.max(at);
        let number = self.fates.sent;
        self.under_way.push(Reverse((at, number, packet)));
    }

    /// The next packet that has arrived.
    pub fn arrived(&mut self, now: u64) -> Option<Vec<u8>> {
        let is_here = self.under_way.peek().is_some_and(|Reverse((at, ..))| *at <= now);
        is_here.then(|| self.under_way.pop()).flatten().map(|Reverse((_, _, packet))| packet)
    }

    /// When a message arrives that is sent now: after those before, and not while the path is cut.
    fn message_at(&self, now: u64) -> u64 {
        let latency = self.path.latency_ns().max(1);
        let mut from = now;
        while let Some(cut) = self.path.cut(from, from.saturating_add(latency)) {
            from = cut.end;
        }
        from.saturating_add(latency).max(self.told_at)
    }

    pub fn tell(&mut self, now: u64, message: &Message) {
        self.told_at = self.message_at(now);
        self.messages.push_back((self.told_at, *message));
    }

    /// Messages that have not been heard.
    pub fn waiting(&self) -> usize {
        self.messages.len()
    }

    /// The next message that has arrived.
    pub fn heard(&mut self, now: u64) -> Option<Message> {
        self.messages.pop_front_if(|(at, _)| *at <= now).map(|(_, message)| message)
    }

    /// Sends nothing any more; the other end learns that after all that was sent.
    pub fn end(&mut self, now: u64) {
        (self.ends_at, self.timer_at) = (self.message_at(now).max(self.last_at), u64::MAX);
    }

    pub fn is_over(&self, now: u64) -> bool {
        self.ends_at <= now
    }

    /// When something happens next, after `now`.
    pub fn due(&self, now: u64) -> u64 {
        let packet = self.under_way.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        let message = self.messages.front().map_or(u64::MAX, |(at, _)| *at);
        let times = [packet, message, self.ends_at, self.timer_at];
        times.into_iter().filter(|&at| at > now).min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 byte a nanosecond.
    const HOP: Hop = Hop { bytes_per_s: 1_000_000_000, latency_ns: 500, queue_bytes: 1000 };

    fn way(hops: Vec<Hop>, faults: Faults) -> Way {
        Way::new(Path { packet_bytes: 100, faults, ..Path::new(hops) }, Random::new(1))
    }

    /// When the packets that were sent arrive.
    fn arrivals(way: &mut Way) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some(Reverse((at, ..))) = way.under_way.pop() {
            times.push(at);
        }
        times
    }

    #[test]
    fn packets_pass_one_after_the_other() {
        let slow = Hop { bytes_per_s: 500_000_000, ..HOP };
        let mut way = way(vec![HOP, slow], Faults::default());
        (0..3).for_each(|_| way.send(0, &[0; 100]));
        // At the second hop the next one has to wait.
        assert_eq!(arrivals(&mut way), [1300, 1500, 1700]);
        way.send(10_000, &[0; 50]);
        assert_eq!(arrivals(&mut way), [11_150]);
        let packet = way.path.packet_ns(50 - HEADER_LEN as u64);
        assert!((packet - 1150.0).abs() < 1e-9, "{packet}");
    }

    #[test]
    fn what_finds_no_room_waits_at_the_first_hop_and_is_dropped_behind() {
        let narrow = Hop { bytes_per_s: 100_000_000, queue_bytes: 250, ..HOP };
        let mut way = way(vec![Hop { queue_bytes: 300, ..HOP }, narrow], Faults::default());
        assert_eq!(way.room_at(), 0);
        way.send(0, &[0; 100]);
        way.send(0, &[0; 100]);
        let packet = 100 + HEADER_LEN as u64;
        assert_eq!(way.room_at(), 200 - (300 - packet), "for any packet");
        way.send(0, &[0; 100]);
        // When the third one comes, 200 bytes less what has passed are before it.
        assert_eq!((way.fates.sent, way.fates.dropped), (3, 1));
        assert_eq!(arrivals(&mut way), [100 + 500 + 1000 + 500, 100 + 500 + 2000 + 500]);
        // Alone a packet finds room that is longer than the queue.
        way.send(1 << 20, &[0; 300]);
        assert_eq!(way.fates.dropped, 1);
    }

    #[test]
    fn faults_have_their_shares() {
        let faults = Faults {
            loss: 0.1,
            doubling: 0.2,
            damage: 0.3,
            reordering: 0.4,
            reordering_ns: 1000,
            cuts: Vec::new(),
        };
        let mut way = way(vec![Hop { bytes_per_s: u64::MAX, ..HOP }], faults);
        (0..10_000).for_each(|_| way.send(0, &[0; 10]));
        let Fates { lost, doubled, damaged, held_up, .. } = way.fates;
        let is_near = |count: u64, of: f64| (count as f64 - of).abs() < 0.1 * of;
        let copies = 9000.0 * 1.2;
        assert!(is_near(lost, 1000.0) && is_near(doubled, 1800.0), "{:?}", way.fates);
        assert!(is_near(damaged, 0.3 * copies) && is_near(held_up, 0.4 * copies));
        let mut damage = 0;
        while let Some(packet) = way.arrived(u64::MAX) {
            damage += packet.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
        }
        assert_eq!(damage, damaged, "a bit of each");
    }

    #[test]
    fn a_cut_takes_packets_and_holds_messages() {
        let cuts = vec![1000..2000, 2200..2300];
        let mut way = way(vec![HOP], Faults { cuts, ..Faults::default() });
        for at in [0, 499, 500, 501, 1999, 2000, 5000] {
            way.send(at, &[0; 1]);
        }
        assert_eq!((way.fates.cut, arrivals(&mut way).len()), (4, 3));
        let message = Message::Close { key: 1 };
        way.tell(100, &message);
        way.tell(900, &message);
        assert_eq!(way.messages.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [600, 2800]);
        assert_eq!(way.heard(599), None);
        assert_eq!((way.heard(600), way.heard(2799)), (Some(message), None));
        assert_eq!(way.path.silent_at(0, 999), 1999);
        assert_eq!(way.path.silent_at(0, 1000), u64::MAX);
        assert_eq!(way.path.silent_at(1500, 99), 1599);
    }
}
