//! Events in the order of time, and of their making where times are equal.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use gannet_lattice::{Direction, Node};
use gannet_lofamo::{Answer, Receipt, Report};
use gannet_wire::lofamo::Diagnostic;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A host beats.
    HostBeat(Node),
    /// A NIC beats, and in poll mode checks its host.
    NicTick(Node),
    /// Poll mode: a host reads its NIC's registers.
    HostRead(Node),
    /// A deadline of a host may have come.
    HostTimer(Node),
    /// A deadline of a NIC may have come.
    NicTimer(Node),
    /// A link of a NIC has been silent for too long, unless it was heard again.
    LinkSilent(Node),
    /// An error on a link, as counted by its receiving end.
    LinkError(Node, Direction),
    /// A link can take the next message.
    LineFree(Node, Direction),
    /// A message comes to a NIC on this link.
    Arrive(Node, Direction, Diagnostic),
    /// A host awakes to an interrupt.
    Notice(Node, Diagnostic),
    /// A report comes to the master.
    Report(Report),
    /// An acknowledgement comes to a host.
    Acknowledged(Node, Receipt),
    /// A probe of this number comes to a host.
    Probe(Node, u32),
    /// An answer comes to the master.
    Answer(Answer),
    /// A deadline of the master may have come.
    MasterTimer,
    /// The fault of this number happens.
    Fault(u32),
    /// The fault of this number heals.
    Heal(u32),
    /// No picture may tell of a fault any more that healed a while ago.
    HealKnown,
    /// The credit words of a link that works stay away for too long.
    Lull(Node, Direction),
    /// They come again, if the link still works.
    Flow(Node, Direction),
    /// Another master begins.
    TakeOver,
    /// A host hears that there is another master.
    NewMaster(Node),
}

#[derive(Clone, Copy, Debug)]
struct Scheduled {
    at_ns: u64,
    number: u64,
    event: Event,
}

impl Scheduled {
    fn key(&self) -> (u64, u64) {
        (self.at_ns, self.number)
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    /// Earliest greatest, as the heap gives the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Events to come.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Scheduled>,
    number: u64,
}

impl Queue {
    /// Forgets all events.
    pub fn clear(&mut self) {
        self.heap.clear();
        self.number = 0;
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, at_ns: u64, event: Event) {
        self.heap.push(Scheduled { at_ns, number: self.number, event });
        self.number += 1;
    }

    /// Takes the next event, if it comes no later than `end_ns`.
    #[inline]
    pub fn pop(&mut self, end_ns: u64) -> Option<(u64, Event)> {
        let next = self.heap.peek()?;
        if next.at_ns > end_ns {
            return None;
        }
        self.heap.pop().map(|next| (next.at_ns, next.event))
    }

    /// Number of events so far.
    pub fn made(&self) -> u64 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_as_they_were_made() {
        let mut queue = Queue::default();
        for (at_ns, node) in [(5, 0), (3, 1), (5, 2), (9, 3)] {
            queue.push(at_ns, Event::HostBeat(Node(node)));
        }
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop(5))
            .map(|(at_ns, event)| match event {
                Event::HostBeat(node) => 10 * at_ns + u64::from(node.0),
                _ => unreachable!("only beats were pushed"),
            })
            .collect();
        assert_eq!(order, [31, 50, 52]);
    }
}
