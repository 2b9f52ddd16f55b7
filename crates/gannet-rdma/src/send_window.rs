//! Packets under way to one node, until it has acknowledged them.

use crate::receive_window::{Mask, WINDOW_MAX};

use super::configuration::Replay;
use super::epoch::Epoch;
use super::round_trip::RoundTrip;

/// A packet under way: which piece of which operation it carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    /// The operation; 0 or one that has ended means that the packet says nothing.
    pub request: u32,
    /// Place in the message, bytes.
    pub offset: u32,
    /// Bytes of data.
    pub length: u16,
    /// How often it was sent.
    sends: u8,
    /// How often the time to wait for its answer has doubled.
    doublings: u8,
    /// Whether its number was sent more than once, also with what it said before.
    is_repeated: bool,
    /// When it was sent last.
    sent_at: u64,
}

impl Slot {
    pub fn new(request: u32, offset: u32, length: u16) -> Self {
        Self { request, offset, length, ..Self::default() }
    }

    /// A packet that says nothing, in the place of this one.
    fn emptied(&self) -> Self {
        Self { is_repeated: self.is_repeated || self.sends > 0, ..Self::default() }
    }
}

/// What waiting has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    /// So many packets are to be sent again.
    Replay(u32),
    /// A packet was sent as often as allowed.
    GiveUp,
}

/// Up to [`WINDOW_MAX`] packets, numbered from `base`. Bit `i` of a mask speaks of number `base + i`.
#[derive(Clone, Debug)]
pub(super) struct SendWindow {
    pub epoch: Epoch,
    /// What the receiver last reported, if it was not about these numbers.
    reported: Option<Epoch>,
    base: u32,
    count: u32,
    slots: [Slot; WINDOW_MAX as usize],
    /// To be sent, or sent again.
    pending: Mask,
    /// Sent and waited for.
    sent: Mask,
    /// Told to have arrived, ahead of their turn.
    placed: Mask,
    round_trip: RoundTrip,
    /// When the receiver last told of a packet that it had not told of before.
    heard_at: u64,
}

/// Mask of the lowest `count` bits.
fn low(count: u32) -> Mask {
    (1 as Mask).checked_shl(count).map_or(Mask::MAX, |bit| bit - 1)
}

fn bits(mask: Mask) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(mask), |left| Some(left & left.wrapping_sub(1)))
        .take_while(|&left| left != 0)
        .map(Mask::trailing_zeros)
}

impl SendWindow {
    pub fn new(epoch: Epoch) -> Self {
        let slots = [Slot::default(); WINDOW_MAX as usize];
        Self {
            epoch,
            reported: None,
            base: 0,
            count: 0,
            slots,
            pending: 0,
            sent: 0,
            placed: 0,
            round_trip: RoundTrip::default(),
            heard_at: 0,
        }
    }

    /// Gives up all packets under way, after whose operations nobody asks any more.
    ///
    /// The receiver may have them or not, so their numbers are not used again: empty packets take
    /// their places, and are sent with the next request. A receiver that has reported other
    /// numbers has none of these; then they begin anew, in the epoch after the one it has reported.
    pub fn give_up(&mut self) {
        let next = match self.reported {
            Some(Epoch::NONE) => self.epoch.next(),
            Some(reported) => reported.next(),
            None => self.epoch,
        };
        if next != self.epoch {
            *self = Self::new(next);
            return;
        }
        for index in 0..self.count {
            let slot = self.slot_at(index);
            *slot = slot.emptied();
        }
        // What it was like before it fell silent says little of the node that comes back.
        self.round_trip = RoundTrip::default();
        (self.sent, self.pending) = (0, low(self.count) & (!self.placed | 1));
    }

    /// The receiver has begun anew, and knows none of the numbers.
    pub fn disown(&mut self) {
        self.reported = Some(self.epoch);
    }

    /// Whether fewer than `most` packets are under way.
    pub fn has_room(&self, most: u32) -> bool {
        self.count < most
    }

    pub fn has_pending(&self) -> bool {
        self.pending != 0
    }

    /// Adds a packet and gives its number; it is at once taken to be sent.
    pub fn push(&mut self, slot: Slot) -> u32 {
        debug_assert!(self.has_room(WINDOW_MAX));
        let sequence = self.base.wrapping_add(self.count);
        self.count += 1;
        *self.slot_mut(sequence) = slot;
        sequence
    }

    /// Takes the first packet that is to be sent again.
    pub fn take_pending(&mut self) -> Option<u32> {
        let index = bits(self.pending).next()?;
        self.pending &= !(1 << index);
        Some(self.base.wrapping_add(index))
    }

    /// The packet of a bit of a mask.
    fn slot_at(&mut self, index: u32) -> &mut Slot {
        self.slot_mut(self.base.wrapping_add(index))
    }

    fn slot_mut(&mut self, sequence: u32) -> &mut Slot {
        &mut self.slots[(sequence % WINDOW_MAX) as usize]
    }

    /// The packet of a number under way.
    pub fn slot(&self, sequence: u32) -> Option<&Slot> {
        let under_way = sequence.wrapping_sub(self.base) < self.count;
        under_way.then(|| &self.slots[(sequence % WINDOW_MAX) as usize])
    }

    /// Whether sending the packet may tell its receiver something. The first one always may: its
    /// answer tells whether the receiver still holds the sender back.
    pub fn is_wanted(&self, sequence: u32) -> bool {
        let index = sequence.wrapping_sub(self.base);
        index == 0 || self.placed >> index & 1 == 0
    }

    /// Notes that the link has taken a packet; gives the time at which it expires.
    pub fn sent(&mut self, sequence: u32, now: u64, replay: &Replay) -> u64 {
        self.sent |= 1 << sequence.wrapping_sub(self.base);
        let round_trip = self.round_trip;
        let slot = self.slot_mut(sequence);
        slot.is_repeated |= slot.sends > 0;
        slot.sends = slot.sends.saturating_add(1);
        slot.doublings = round_trip.doublings(slot.sends);
        slot.sent_at = now;
        now.saturating_add(round_trip.timeout(slot.doublings, replay))
    }

    /// Notes what the receiver told: the epoch, the number that it waits for, and which later ones it has. Hands out the
    /// operations of the packets that are done, and marks those that seem lost; gives the number of the latter.
    pub fn acknowledge(
        &mut self,
        now: u64,
        (epoch, acknowledged, selective): (Epoch, u32, u32),
        reorder: u32,
        mut done: impl FnMut(u32),
    ) -> u32 {
        let count = acknowledged.wrapping_sub(self.base);
        if epoch != self.epoch || count > self.count {
            self.reported = Some(epoch);
            return 0;
        }
        self.reported = None;
        let selective = Mask::from(selective);
        let told = low(count) | selective.checked_shl(count).unwrap_or(0);
        self.hear(now, told & low(self.count) & !self.placed);
        for index in 0..count {
            done(self.slot_at(index).request);
        }
        let shift = |mask: Mask| mask.checked_shr(count).unwrap_or(0);
        (self.pending, self.sent) = (shift(self.pending), shift(self.sent));
        self.placed = shift(self.placed);
        (self.base, self.count) = (acknowledged, self.count - count);
        self.placed |= selective & low(self.count);
        // What has arrived needs no repetition, but its time may be watched again.
        self.pending &= !self.placed;
        self.sent |= self.placed;
        if self.placed & 1 == 1 {
            // The receiver answers: it has the packet, and only waits for its host.
            let slot = self.slot_mut(acknowledged);
            (slot.sends, slot.doublings) = (1, 0);
            self.round_trip.answered();
        }
        self.mark_overtaken(reorder)
    }

    /// Notes that the packets of a mask have arrived, of which nothing was known before.
    fn hear(&mut self, now: u64, news: Mask) {
        if news == 0 {
            return;
        }
        self.heard_at = now;
        for index in bits(news) {
            let slot = *self.slot_at(index);
            if slot.sends > 0 && !slot.is_repeated {
                self.round_trip.measure(slot.sent_at, now);
            }
        }
    }

    /// Marks what was sent once and overtaken by `reorder` packets; later losses of the same
    /// packet are left to time, since what overtook it may have done so before.
    fn mark_overtaken(&mut self, reorder: u32) -> u32 {
        let last = Mask::BITS - self.placed.leading_zeros();
        let overtaken = self.sent & !self.placed & low(last.saturating_sub(reorder));
        let mut marked = 0;
        for index in bits(overtaken) {
            if self.slot_at(index).sends == 1 {
                self.pending |= 1 << index;
                self.sent &= !(1 << index);
                marked += 1;
            }
        }
        marked
    }

    /// Packets whose time is watched: those sent and not known to have arrived, and the first one,
    /// which asks a receiver that holds back whether it goes on.
    fn watched(&self) -> Mask {
        self.sent & (!self.placed | 1)
    }

    /// When the first packet expires.
    pub fn deadline(&self, replay: &Replay) -> u64 {
        let expires = |index| self.expires(index, replay);
        bits(self.watched()).map(expires).min().unwrap_or(u64::MAX)
    }

    /// When the packet of a bit of a mask expires.
    fn expires(&self, index: u32, replay: &Replay) -> u64 {
        let slot = &self.slots[(self.base.wrapping_add(index) % WINDOW_MAX) as usize];
        // What was sent again has waited long enough for those before it.
        let since = if slot.is_repeated { slot.sent_at } else { slot.sent_at.max(self.heard_at) };
        since.saturating_add(self.round_trip.timeout(slot.doublings, replay))
    }

    /// Marks the packets that have expired.
    pub fn expire(&mut self, now: u64, replay: &Replay) -> Expiry {
        let mut replayed = 0;
        for index in bits(self.watched()) {
            if self.expires(index, replay) > now {
                continue;
            }
            let slot = *self.slot_at(index);
            // A receiver that has told of others since has lost this one; of one that is silent the path may have grown longer.
            if slot.sent_at >= self.heard_at {
                self.round_trip.expired(slot.doublings);
            }
            if slot.sends >= replay.attempts {
                return Expiry::GiveUp;
            }
            self.pending |= 1 << index;
            self.sent &= !(1 << index);
            replayed += 1;
        }
        Expiry::Replay(replayed)
    }

    /// Marks all packets that are waited for to be sent again, beside the times that they may be sent; what is heard of them measures
    /// nothing.
    pub fn resend(&mut self) {
        let lost = self.sent & !self.placed;
        for index in bits(lost) {
            let slot = self.slot_at(index);
            (slot.is_repeated, slot.sends) = (true, slot.sends.saturating_sub(1));
        }
        (self.pending, self.sent) = (self.pending | lost, self.sent & !lost);
    }

    /// Makes all packets of an operation say nothing, and sends them at once.
    pub fn abandon(&mut self, request: u32) {
        for index in 0..self.count {
            let slot = self.slot_at(index);
            if slot.request == request {
                *slot = slot.emptied();
                if self.sent >> index & 1 == 1 && self.placed >> index & 1 == 0 {
                    self.sent &= !(1 << index);
                    self.pending |= 1 << index;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay() -> Replay {
        let (timeout_ns, timeout_min_ns, timeout_max_ns) = (100, 20, 350);
        Replay { timeout_ns, timeout_min_ns, timeout_max_ns, attempts: 4, ..Replay::DEFAULT }
    }

    fn window(packets: u32) -> SendWindow {
        let mut window = SendWindow::new(Epoch::first(1));
        window.base = u32::MAX - 2;
        for number in 0..packets {
            let sequence = window.push(Slot::new(number + 1, 0, 1));
            window.sent(sequence, 0, &replay());
        }
        window
    }

    fn pending(window: &mut SendWindow) -> Vec<u32> {
        let base = window.base;
        std::iter::from_fn(|| window.take_pending()).map(|s| s.wrapping_sub(base)).collect()
    }

    #[test]
    fn numbers_wrap_and_the_window_is_bounded() {
        let mut window = window(WINDOW_MAX);
        assert!(!window.has_room(WINDOW_MAX));
        let mut done = Vec::new();
        window.acknowledge(0, (Epoch::first(1), 2, 0), 8, |request| done.push(request));
        assert_eq!((window.base, window.count, done), (2, WINDOW_MAX - 5, vec![1, 2, 3, 4, 5]));
        window.acknowledge(0, (Epoch::first(1), 2 + WINDOW_MAX, 0), 8, |_| {
            panic!("more than was sent")
        });
        window.acknowledge(0, (Epoch::first(1), 1, 0), 8, |_| panic!("an old acknowledgement"));
        window.acknowledge(0, (Epoch::first(1), 2 + WINDOW_MAX - 5, u32::MAX), 8, |_| ());
        assert_eq!((window.count, window.placed, window.sent), (0, 0, 0));
        assert_eq!(window.deadline(&replay()), u64::MAX);
    }

    #[test]
    fn what_was_overtaken_is_sent_again_once_without_waiting() {
        let mut window = window(12);
        let base = window.base;
        window.acknowledge(0, (Epoch::first(1), base, 0b0000_0010), 3, |_| ());
        assert!(pending(&mut window).is_empty());
        window.acknowledge(0, (Epoch::first(1), base, 0b0010_0010), 3, |_| ());
        assert_eq!(pending(&mut window), [0, 2]);
        for index in [0, 2] {
            window.sent(base.wrapping_add(index), 10, &replay());
        }
        window.acknowledge(0, (Epoch::first(1), base, 0b0010_0010), 3, |_| ());
        assert!(pending(&mut window).is_empty());
    }

    #[test]
    fn patience_doubles_to_its_limit_and_ends() {
        let mut window = window(1);
        let (mut now, mut waits) = (0, Vec::new());
        loop {
            let next = window.deadline(&replay());
            assert_eq!(window.expire(next - 1, &replay()), Expiry::Replay(0));
            waits.push(next - now);
            now = next;
            if window.expire(now, &replay()) == Expiry::GiveUp {
                break;
            }
            let sequence = window.take_pending().unwrap();
            window.sent(sequence, now, &replay());
        }
        assert_eq!(waits, [100, 200, 350, 350]);
    }

    #[test]
    fn a_receiver_that_holds_back_is_asked_for_ever() {
        let mut window = window(3);
        let base = window.base;
        for round in 1..100 {
            window.acknowledge(0, (Epoch::first(1), base, 0b111), 8, |_| panic!("not done"));
            let now = window.deadline(&replay());
            assert_eq!(window.expire(now, &replay()), Expiry::Replay(1), "round {round}");
            assert_eq!(window.take_pending(), Some(base));
            assert!(window.is_wanted(base) && !window.is_wanted(base.wrapping_add(1)));
            window.sent(base, now, &replay());
        }
    }

    #[test]
    fn a_receiver_that_has_what_was_to_be_sent_again_is_asked_too() {
        let mut window = window(2);
        let base = window.base;
        assert_eq!(window.expire(100, &replay()), Expiry::Replay(2));
        window.acknowledge(0, (Epoch::first(1), base, 0b10), 8, |_| panic!("not done"));
        window.acknowledge(0, (Epoch::first(1), base.wrapping_add(1), 0b1), 8, |_| ());
        assert!(!window.has_pending());
        let now = window.deadline(&replay());
        assert_eq!(window.expire(now, &replay()), Expiry::Replay(1));
    }

    #[test]
    fn numbers_are_used_again_only_if_the_receiver_has_none_of_them() {
        let after = |reported: &[(u8, u32)]| {
            let mut window = window(5);
            for &(epoch, acknowledged) in reported {
                let acknowledged = window.base.wrapping_add(acknowledged);
                window.acknowledge(0, (Epoch::from_number(epoch), acknowledged, 0b100), 8, |_| ());
            }
            window.give_up();
            (window.epoch.number(), window.count, window.pending)
        };
        assert_eq!(after(&[]), (1, 5, 0b11111));
        assert_eq!(after(&[(1, 1)]), (1, 4, 0b1011));
        assert_eq!(after(&[(0, 0)]), (2, 0, 0));
        assert_eq!(after(&[(7, 1)]), (8, 0, 0));
        // An epoch before this one: the receiver will take this one for the next.
        assert_eq!(after(&[(255, 0)]), (1, 5, 0b11111));
        // A report of other numbers that came late.
        assert_eq!(after(&[(7, 1), (1, 0)]), (1, 5, 0b11011));
        assert_eq!(after(&[(1, 6)]), (2, 0, 0));
    }

    #[test]
    fn an_abandoned_operation_leaves_empty_packets() {
        let mut window = window(4);
        let base = window.base;
        window.slots[(base.wrapping_add(2) % WINDOW_MAX) as usize].request = 2;
        window.abandon(2);
        assert_eq!(pending(&mut window), [1, 2]);
        assert_eq!(
            window.slot(base.wrapping_add(2)).map(|slot| (slot.request, slot.length)),
            Some((0, 0))
        );
        assert_eq!(window.slot(base.wrapping_add(4)), None);
    }

    #[test]
    fn what_was_sent_twice_measures_nothing_and_later_packets_wait_longer_too() {
        let mut window = window(1);
        let base = window.base;
        window.expire(100, &replay());
        window.take_pending();
        assert_eq!(window.sent(base, 100, &replay()), 300);
        // The answer to the first one, or a very fast one to the second.
        window.acknowledge(101, (Epoch::first(1), base.wrapping_add(1), 0), 8, |_| ());
        let sequence = window.push(Slot::new(2, 0, 1));
        assert_eq!(window.sent(sequence, 110, &replay()), 310);
        window.acknowledge(150, (Epoch::first(1), sequence.wrapping_add(1), 0), 8, |_| ());
        // 40 and 4 times 20.
        let sequence = window.push(Slot::new(3, 0, 1));
        assert_eq!(window.sent(sequence, 200, &replay()), 320);
    }

    #[test]
    fn what_a_number_said_before_measures_nothing() {
        for end in [|window: &mut SendWindow| window.abandon(1), SendWindow::give_up] {
            let mut window = window(1);
            let base = window.base;
            end(&mut window);
            assert_eq!(window.take_pending(), Some(base));
            window.sent(base, 90, &replay());
            window.acknowledge(91, (Epoch::first(1), base.wrapping_add(1), 0), 8, |_| ());
            let sequence = window.push(Slot::new(2, 0, 1));
            assert_eq!(window.sent(sequence, 100, &replay()), 200, "the first time to wait");
        }
    }

    #[test]
    fn what_is_sent_again_for_another_reason_is_not_counted_as_an_attempt() {
        let mut window = window(3);
        window.acknowledge(10, (Epoch::first(1), window.base, 0b100), 8, |_| ());
        for round in 0..10 {
            window.resend();
            assert_eq!(pending(&mut window), [0, 1], "{round}");
            for index in 0..2 {
                window.sent(window.base.wrapping_add(index), 20, &replay());
            }
        }
        assert!(matches!(window.expire(1000, &replay()), Expiry::Replay(_)), "none was given up");
    }

    #[test]
    fn packets_expire_together_and_the_time_to_wait_doubles_once() {
        let mut window = window(8);
        assert_eq!(window.expire(100, &replay()), Expiry::Replay(8));
        let sequence = window.push(Slot::new(9, 0, 1));
        assert_eq!(window.sent(sequence, 100, &replay()), 300);
    }

    #[test]
    fn losses_among_packets_that_arrive_let_no_others_wait_longer() {
        let mut window = window(8);
        let base = window.base;
        window.acknowledge(40, (Epoch::first(1), base, 0b10), 8, |_| ());
        assert_eq!(window.expire(40 + 120, &replay()), Expiry::Replay(7));
        let sequence = window.push(Slot::new(9, 0, 1));
        assert_eq!(window.sent(sequence, 200, &replay()), 320);
        assert_eq!(window.take_pending(), Some(base));
        assert_eq!(window.sent(base, 200, &replay()), 440, "but itself");
    }

    #[test]
    fn a_receiver_that_goes_on_is_waited_for_anew() {
        let mut window = window(12);
        let base = window.base;
        for told in 1..=10 {
            let now = u64::from(told) * 90;
            assert_eq!(window.expire(now, &replay()), Expiry::Replay(0), "at {now}");
            window.acknowledge(now, (Epoch::first(1), base.wrapping_add(told), 0), 8, |_| ());
        }
        // 90 and 4 times 45: all were sent before it was measured. Two are left, of which one is told again.
        window.acknowledge(1000, (Epoch::first(1), base.wrapping_add(10), 0), 8, |_| ());
        assert_eq!(window.deadline(&replay()), 900 + 270);
        window.acknowledge(1000, (Epoch::first(1), base.wrapping_add(10), 0b10), 8, |_| ());
        assert_eq!(window.deadline(&replay()), 1000 + 270);
    }
}
