//! What passes between hosts and master over the service network, and which of two messages of a
//! node is the newer.

use gannet_lattice::Node;
use gannet_wire::lofamo::{FaultDescriptorRepr, HostWatchdogRepr};

/// Who concluded what a report says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Author {
    /// The NIC of the origin, with its own count of changes.
    Nic,
    /// The host of the origin, because its NIC no longer speaks, with a count of its own.
    Host,
}

/// A host tells the master of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    /// Node whose host reports.
    pub from: Node,
    /// What it reports; of itself, a neighbour, or a node further away.
    pub descriptor: FaultDescriptorRepr,
    /// Who concluded it.
    pub author: Author,
    /// Whether it was passed on over the torus for want of a host nearer to its origin.
    pub relayed: bool,
}

/// The master tells a host that its report has come; until then it is said again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// Node that the report is of.
    pub origin: Node,
    /// Number of the change that it tells of.
    pub epoch: u8,
    /// Who concluded it.
    pub author: Author,
}

/// A host answers a probe of the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// Node that answers.
    pub from: Node,
    /// Number of the probe.
    pub number: u32,
    /// The host's register.
    pub host: HostWatchdogRepr,
    /// What its NIC says of the node; none where the NIC no longer beats.
    pub descriptor: Option<FaultDescriptorRepr>,
}

pub(super) const MS_NS: u64 = 1_000_000;
/// A change that is younger by this than the one known is believed whatever its epoch: the node has
/// started anew.
const RESTART_NS: u64 = 1000 * MS_NS;

/// A change of a node: its number in the node's own count, and when it was by our clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub epoch: u8,
    pub at_ns: u64,
}

impl Change {
    /// The change that a descriptor which came now tells of.
    pub fn of(now_ns: u64, descriptor: &FaultDescriptorRepr) -> Self {
        let age_ns = u64::from(descriptor.age_ms) * MS_NS;
        Self { epoch: descriptor.epoch, at_ns: now_ns.saturating_sub(age_ns) }
    }

    /// Its age in whole milliseconds, at most what a descriptor holds.
    pub fn age_ms(self, now_ns: u64) -> u16 {
        let age_ms = now_ns.saturating_sub(self.at_ns) / MS_NS;
        age_ms.min(u64::from(u16::MAX)) as u16
    }

    /// Whether it comes after `known`, of the same node: a later epoch, or a change so much later
    /// that the node must have begun its count anew.
    pub fn is_after(self, known: Self) -> bool {
        let is_younger = self.at_ns > known.at_ns + RESTART_NS;
        is_after(self.epoch, known.epoch) || self.epoch != known.epoch && is_younger
    }
}

/// Whether epoch `a` comes after `b`, of numbers that wrap around.
#[inline]
pub(super) fn is_after(a: u8, b: u8) -> bool {
    a != b && a.wrapping_sub(b) < 128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_changes_are_told_from_new_ones_also_after_a_restart() {
        let change = |now_ms: u64, epoch, age_ms| {
            let descriptor = FaultDescriptorRepr { epoch, age_ms, ..Default::default() };
            Change::of(now_ms * MS_NS, &descriptor)
        };
        let known = change(100_000, 250, 0);
        assert!(!change(100_000, 250, 0).is_after(known));
        assert!(!change(100_000, 249, 5).is_after(known));
        assert!(change(100_000, 3, 0).is_after(known), "the count wraps");
        assert!(!change(105_000, 200, 4990).is_after(known), "old, and long on its way");
        assert!(change(105_000, 200, 100).is_after(known), "begun anew");
        assert!(!change(105_000, 250, 100).is_after(known), "clocks that drift apart");
    }

    #[test]
    fn the_age_grows_on_the_way() {
        let descriptor = FaultDescriptorRepr { age_ms: 30, ..Default::default() };
        let change = Change::of(50 * MS_NS, &descriptor);
        assert_eq!((change.age_ms(70 * MS_NS), change.age_ms(u64::MAX)), (50, u16::MAX));
    }
}
