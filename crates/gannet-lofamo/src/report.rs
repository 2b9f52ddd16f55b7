//! What passes between hosts and master over the service network.

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
