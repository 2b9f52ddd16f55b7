//! What is under way to another node, in a ring of bytes there.

use std::collections::VecDeque;

/// A packet in the ring.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    number: u32,
    /// Position behind its last byte.
    end: u64,
    since: u64,
    is_free: bool,
}

/// Where packets to a node lie. Each lies in one piece, and is numbered; the other side says up to which number it has
/// taken them.
#[derive(Debug)]
pub struct Lane {
    bytes: u64,
    /// Positions count on; a byte lies at its position modulo the length of the ring.
    head: u64,
    tail: u64,
    waiting: VecDeque<Waiting>,
    next_number: u32,
    is_stuck: bool,
}

impl Lane {
    /// A ring of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        Self { bytes, head: 0, tail: 0, waiting: VecDeque::new(), next_number: 0, is_stuck: false }
    }

    /// A place for a packet, and its number, if there is room.
    pub fn place(&mut self, length: usize, now: u64) -> Option<(u64, u32)> {
        let length = length as u64;
        let mut start = self.head;
        if start % self.bytes + length > self.bytes {
            start = start.next_multiple_of(self.bytes);
        }
        if self.waiting.is_empty() {
            self.tail = start;
        }
        let end = start + length;
        if length > self.bytes || end - self.tail > self.bytes {
            return None;
        }
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.head = end;
        self.waiting.push_back(Waiting { number, end, since: now, is_free: false });
        Some((start % self.bytes, number))
    }

    /// Takes note that the other side has taken all packets up to that of this number.
    pub fn taken(&mut self, number: u32) {
        let Some(at) = self.find(number) else { return };
        self.waiting.range_mut(..=at).for_each(|it| it.is_free = true);
        self.settle();
    }

    /// Takes note that the packet of this number does not arrive.
    pub fn failed(&mut self, number: u32) {
        let Some(at) = self.find(number) else { return };
        self.waiting[at].is_free = true;
        self.settle();
    }

    /// Frees what has waited for longer than `patience`, of which the other side does not say any more that it has taken it; gives how
    /// many packets those are.
    pub fn expire(&mut self, now: u64, patience: u64) -> usize {
        let is_old = |it: &&Waiting| now.saturating_sub(it.since) > patience;
        let old = self.waiting.iter().take_while(is_old).count();
        self.waiting.range_mut(..old).for_each(|it| it.is_free = true);
        self.settle();
        old
    }

    /// Whether it was full for too long, and nothing was taken since.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// Takes note that it was full for too long.
    pub fn set_stuck(&mut self) {
        self.is_stuck = true;
    }

    fn find(&self, number: u32) -> Option<usize> {
        let at = number.wrapping_sub(self.waiting.front()?.number) as usize;
        (at < self.waiting.len()).then_some(at)
    }

    fn settle(&mut self) {
        while let Some(first) = self.waiting.pop_front_if(|it| it.is_free) {
            self.tail = first.end;
            self.is_stuck = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn packets_lie_in_one_piece_and_wait_for_the_other_side() {
        let mut lane = Lane::new(100);
        assert_eq!(lane.place(101, 0), None);
        assert_eq!(lane.place(60, 0), Some((0, 0)));
        assert_eq!(lane.place(30, 0), Some((60, 1)));
        assert_eq!(lane.place(20, 0), None, "there is no room in one piece");
        lane.taken(0);
        assert_eq!(lane.place(20, 0), Some((0, 2)));
        lane.failed(2);
        lane.taken(7);
        assert_eq!(lane.place(41, 0), None, "the second one still waits");
        assert_eq!(lane.expire(5, 5), 0);
        assert_eq!(lane.expire(6, 5), 2);
        assert_eq!(lane.place(41, 0), Some((20, 3)));
    }

    proptest! {
        /// No byte of a packet that waits is given to another one.
        #[test]
        fn packets_under_way_never_overlap(
            steps in prop::collection::vec((1..70usize, any::<bool>()), 1..300),
        ) {
            let mut lane = Lane::new(128);
            let mut under_way: VecDeque<(u32, u64, u64)> = VecDeque::new();
            for (length, places) in steps {
                if places {
                    if let Some((at, number)) = lane.place(length, 0) {
                        let end = at + length as u64;
                        prop_assert!(end <= 128);
                        for &(_, begin, last) in &under_way {
                            prop_assert!(end <= begin || at >= last);
                        }
                        under_way.push_back((number, at, end));
                    } else {
                        prop_assert!(!under_way.is_empty());
                    }
                } else if let Some((number, ..)) = under_way.pop_front() {
                    lane.taken(number);
                }
            }
        }
    }
}
