//! What the master knows of one node.

use gannet_lattice::{LINKS, Node};
use gannet_wire::lofamo::{FaultDescriptorRepr, Status};

/// How the newest about a node came to the master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heard {
    /// Nothing came.
    #[default]
    Never,
    /// From its own host.
    Own,
    /// From the host of a neighbour.
    Neighbour(Node),
    /// From the host of this node, to which it was passed on over the torus.
    Relay(Node),
    /// Not at all: no link leads there any more, and its host does not answer.
    Inferred,
}

/// What the master knows of one node: unknown until something was heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// The host.
    pub host: Status,
    /// The NIC.
    pub nic: Status,
    /// The links as their end at this node sees them, in the order X+, X-, Y+, Y-, Z+, Z-.
    pub links: [Status; LINKS],
    /// Since when the statuses are what they are, by the master's clock.
    pub since_ns: u64,
    /// The node's own number of the change.
    pub epoch: u8,
    /// How it was heard.
    pub heard: Heard,
}

impl Picture {
    /// Whether the statuses are those of `descriptor`.
    pub fn says(&self, descriptor: &FaultDescriptorRepr) -> bool {
        self.host == descriptor.host
            && self.nic == descriptor.nic
            && self.links == descriptor.links()
    }
}
