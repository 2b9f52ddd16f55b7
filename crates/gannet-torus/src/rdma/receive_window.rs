//! Packets that came from one node, until all before them have come.

use gannet_wire::rdma::WINDOW;

use super::completion::Failure;

/// What is to be done when all packets up to this one are in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Nothing: the packet is not the last one of its message, or has none.
    #[default]
    Nothing,
    /// A PUT has ended.
    RxDone { process: u16, address: u64, length: u32, tag: u32 },
    /// A GET of the other node is to be answered.
    Answer { request: u32, process: u16, address: u64, length: u32, tag: u32 },
    /// A GET of this node has ended.
    GetDone { request: u32, outcome: Result<(), Failure> },
}

/// What a sequence number says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It has not been here.
    Fresh,
    /// It has.
    Duplicate,
    /// It is further ahead than may be; its sender does not keep to the window.
    Beyond,
    /// It belongs to an epoch that its sender has given up.
    Stale,
}

/// The next [`WINDOW`] packets of an epoch. Bit `i` of a mask speaks of number `next + i`.
#[derive(Clone, Debug)]
pub(super) struct ReceiveWindow {
    /// Absent before the first packet.
    epoch: Option<u8>,
    next: u32,
    /// Accepted.
    arrived: u32,
    /// Accepted, and their data are in memory.
    placed: u32,
    deliveries: [Delivery; WINDOW as usize],
    /// Packets placed since the last acknowledgement.
    unacknowledged: u8,
    /// When they are to be acknowledged.
    pub acknowledge_at: u64,
}

impl ReceiveWindow {
    pub fn new() -> Self {
        Self {
            epoch: None,
            next: 0,
            arrived: 0,
            placed: 0,
            deliveries: [Delivery::Nothing; WINDOW as usize],
            unacknowledged: 0,
            acknowledge_at: u64::MAX,
        }
    }

    /// Whether a packet of `epoch` begins a new count of the numbers.
    pub fn is_new_epoch(&self, epoch: u8) -> bool {
        self.epoch.is_none_or(|current| (1..128).contains(&epoch.wrapping_sub(current)))
    }

    /// Begins a new count; gives the number of answers that will not be asked for again.
    pub fn restart(&mut self, epoch: u8) -> usize {
        let answers = self.deliveries.iter().filter(|it| matches!(it, Delivery::Answer { .. }));
        let answers = answers.count();
        *self = Self { epoch: Some(epoch), ..Self::new() };
        answers
    }

    pub fn classify(&self, epoch: u8, sequence: u32) -> Arrival {
        let index = sequence.wrapping_sub(self.next);
        if self.epoch != Some(epoch) {
            Arrival::Stale
        } else if index >= 1 << 31 {
            Arrival::Duplicate
        } else if index >= WINDOW {
            Arrival::Beyond
        } else if self.arrived >> index & 1 == 1 {
            Arrival::Duplicate
        } else {
            Arrival::Fresh
        }
    }

    /// Accepts a fresh packet.
    pub fn arrive(&mut self, sequence: u32, delivery: Delivery) {
        debug_assert!(sequence.wrapping_sub(self.next) < WINDOW);
        self.arrived |= 1 << sequence.wrapping_sub(self.next);
        self.deliveries[(sequence % WINDOW) as usize] = delivery;
    }

    /// Notes that the data of an accepted packet are in memory. Gives whether that is news to tell
    /// at once: something is out of order, has ended, or `ack_packets` have come.
    pub fn place(&mut self, epoch: u8, sequence: u32, ack_packets: u8) -> bool {
        if self.epoch != Some(epoch) {
            return false;
        }
        self.placed |= 1 << sequence.wrapping_sub(self.next);
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        self.placed & self.placed.wrapping_add(1) != 0
            || self.deliveries[(sequence % WINDOW) as usize] != Delivery::Nothing
            || self.unacknowledged >= ack_packets
    }

    /// The delivery whose turn it is.
    pub fn front(&self) -> Option<Delivery> {
        (self.placed & 1 == 1).then(|| self.deliveries[(self.next % WINDOW) as usize])
    }

    /// Goes on to the next one.
    pub fn advance(&mut self) {
        self.deliveries[(self.next % WINDOW) as usize] = Delivery::Nothing;
        self.next = self.next.wrapping_add(1);
        (self.arrived, self.placed) = (self.arrived >> 1, self.placed >> 1);
    }

    /// Epoch, next number and later ones, for a packet that tells them; none is owed after that.
    pub fn acknowledge(&mut self) -> (u8, u32, u32) {
        (self.unacknowledged, self.acknowledge_at) = (0, u64::MAX);
        (self.epoch.unwrap_or(0), self.next, self.placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn epochs_follow_each_other_round_the_circle() {
        let mut window = ReceiveWindow::new();
        assert!(window.is_new_epoch(7));
        window.restart(250);
        assert!(window.is_new_epoch(251) && window.is_new_epoch(3));
        assert!(!window.is_new_epoch(250) && !window.is_new_epoch(249));
        assert_eq!(window.classify(249, 0), Arrival::Stale);
        window
            .arrive(0, Delivery::Answer { request: 1, process: 0, address: 0, length: 0, tag: 0 });
        assert_eq!(window.restart(251), 1);
        assert!(!window.place(250, 0, 1) && window.front().is_none());
    }

    proptest! {
        #[test]
        fn every_number_is_delivered_once_and_in_order(
            start: u32,
            steps in proptest::collection::vec(0u32..40, 1..400),
        ) {
            let mut window = ReceiveWindow::new();
            window.restart(0);
            window.next = start;
            let mut seen = BTreeSet::new();
            let mut delivered = 0;
            for step in steps {
                // Numbers around the next one, some old and some too far ahead.
                let number = (delivered + u64::from(step)).saturating_sub(5);
                let sequence = start.wrapping_add(number as u32);
                let expected = match number {
                    _ if seen.contains(&number) => Arrival::Duplicate,
                    _ if number >= delivered + u64::from(WINDOW) => Arrival::Beyond,
                    _ => Arrival::Fresh,
                };
                prop_assert_eq!(window.classify(0, sequence), expected);
                if expected != Arrival::Fresh {
                    continue;
                }
                seen.insert(number);
                let tag = number as u32;
                window.arrive(
                    sequence, Delivery::RxDone { process: 0, address: 0, length: 0, tag },
                );
                prop_assert!(window.place(0, sequence, 4));
                while let Some(Delivery::RxDone { tag, .. }) = window.front() {
                    prop_assert_eq!(u64::from(tag), delivered);
                    prop_assert!(seen.contains(&delivered));
                    delivered += 1;
                    window.advance();
                }
                prop_assert!(!seen.contains(&delivered));
            }
        }
    }
}
