//! What is really broken, which only the simulation knows, and what must be said of it: is a fault
//! known, must it be, and is what is said true?

use gannet_lattice::{Cable, DIMENSIONS, Direction, Lattice, Node};
use gannet_lofamo::Master;
use gannet_wire::lofamo::Status;

use super::fault::{Fault, FaultKind};

#[derive(Clone, Copy, Debug)]
struct NodeTruth {
    host_works: bool,
    nic_works: bool,
    service_works: bool,
    host_sick: bool,
    sensor_high: bool,
    /// By dimension, of the cable in its plus direction.
    cables: [Status; DIMENSIONS],
}

const HEALTHY: NodeTruth = NodeTruth {
    host_works: true,
    nic_works: true,
    service_works: true,
    host_sick: false,
    sensor_high: false,
    cables: [Status::Normal; DIMENSIONS],
};

/// The true state of all nodes and cables.
#[derive(Clone, Debug)]
pub(super) struct Truth {
    lattice: Lattice,
    nodes: Vec<NodeTruth>,
}

impl Truth {
    /// All is well.
    pub fn new(lattice: Lattice) -> Self {
        Self { lattice, nodes: vec![HEALTHY; lattice.nodes()] }
    }

    /// Repairs everything.
    pub fn repair(&mut self) {
        self.nodes.fill(HEALTHY);
    }

    /// Lets a fault happen.
    pub fn apply(&mut self, fault: &Fault) {
        let node = &mut self.nodes[fault.node.index()];
        match fault.kind {
            FaultKind::HostHung => node.host_works = false,
            FaultKind::NicDead => node.nic_works = false,
            FaultKind::NodeDead => (node.host_works, node.nic_works) = (false, false),
            FaultKind::ServiceDown => node.service_works = false,
            FaultKind::HostSick => node.host_sick = true,
            FaultKind::SensorHigh => node.sensor_high = true,
            FaultKind::CableCut => node.cables[fault.dimension] = Status::Failed,
            FaultKind::CableFlaky => {
                let cable = &mut node.cables[fault.dimension];
                *cable = (*cable).max(Status::Sick);
            }
        }
    }

    #[inline]
    pub fn host_works(&self, node: Node) -> bool {
        self.nodes[node.index()].host_works
    }

    #[inline]
    pub fn nic_works(&self, node: Node) -> bool {
        self.nodes[node.index()].nic_works
    }

    #[inline]
    pub fn sensor_high(&self, node: Node) -> bool {
        self.nodes[node.index()].sensor_high
    }

    /// Whether the host can speak with the master.
    #[inline]
    pub fn can_deliver(&self, node: Node) -> bool {
        let node = &self.nodes[node.index()];
        node.host_works && node.service_works
    }

    #[inline]
    pub fn cable(&self, cable: Cable) -> Status {
        self.nodes[cable.from.index()].cables[cable.dimension]
    }

    /// Whether words sent on this link arrive at a NIC that works.
    #[inline]
    pub fn link_works(&self, node: Node, direction: Direction) -> bool {
        self.lattice.has(direction)
            && self.cable(self.lattice.cable(node, direction)) != Status::Failed
            && self.nic_works(node)
            && self.nic_works(self.lattice.neighbour(node, direction))
    }

    /// What a host deserves to be called at worst.
    pub fn host_status(&self, node: Node) -> Status {
        let node = &self.nodes[node.index()];
        match (node.host_works, node.host_sick || !node.service_works) {
            (false, _) => Status::Failed,
            (true, true) => Status::Sick,
            (true, false) => Status::Normal,
        }
    }

    /// What a NIC deserves to be called at worst.
    pub fn nic_status(&self, node: Node) -> Status {
        match (self.nic_works(node), self.sensor_high(node)) {
            (false, _) => Status::Failed,
            (true, true) => Status::Sick,
            (true, false) => Status::Normal,
        }
    }

    /// What a link deserves to be called at worst, by the end at `node`.
    pub fn link_status(&self, node: Node, direction: Direction) -> Status {
        if self.nic_works(self.lattice.neighbour(node, direction)) {
            self.cable(self.lattice.cable(node, direction))
        } else {
            Status::Failed
        }
    }

    /// Whether what the NIC of `node` says can come to the master: some host that it reaches over
    /// NICs and cables that work, which may be its own, can speak with the master.
    pub fn is_heard(&self, node: Node) -> bool {
        if !self.nic_works(node) {
            return false;
        }
        let mut seen = vec![false; self.nodes.len()];
        let mut open = vec![node];
        seen[node.index()] = true;
        while let Some(node) = open.pop() {
            if self.can_deliver(node) {
                return true;
            }
            for direction in Direction::ALL {
                let other = self.lattice.neighbour(node, direction);
                if self.link_works(node, direction) && !seen[other.index()] {
                    seen[other.index()] = true;
                    open.push(other);
                }
            }
        }
        false
    }

    /// The nodes at the other ends of cables that work, which notice when `node` falls silent.
    pub fn witnesses(&self, node: Node) -> impl Iterator<Item = Node> {
        let joined = move |direction: &Direction| {
            let cable = self.lattice.cable(node, *direction);
            self.lattice.has(*direction) && self.cable(cable) != Status::Failed
        };
        let lattice = self.lattice;
        Direction::ALL
            .into_iter()
            .filter(joined)
            .map(move |direction| lattice.neighbour(node, direction))
    }
}

/// Whether the master knows of the fault.
pub(super) fn is_known(master: &Master, fault: &Fault) -> bool {
    let picture = master.picture(fault.node);
    match fault.kind {
        FaultKind::HostHung => picture.host == Status::Failed,
        FaultKind::NicDead => picture.nic == Status::Failed,
        FaultKind::NodeDead => {
            picture.nic == Status::Failed
                && matches!(picture.host, Status::Unknown | Status::Failed)
        }
        FaultKind::ServiceDown | FaultKind::HostSick => picture.host.is_fault(),
        FaultKind::SensorHigh => picture.nic.is_fault(),
        FaultKind::CableCut => master.link(fault.node, fault.direction()) == Status::Failed,
        FaultKind::CableFlaky => master.link(fault.node, fault.direction()).is_fault(),
    }
}

/// The rule of reachability: whether the master must learn of the fault, given all that is broken
/// in the end.
///
/// What a NIC says must be heard. A host that can speak with the master must tell of itself and of
/// its NIC also when that is dead. A NIC that is dead must have a witness that is heard, or such a
/// host. This asks for more than the published rule, which
/// needs a neighbour whose own host and path to the master live.
pub(super) fn must_be_known(lattice: Lattice, truth: &Truth, fault: &Fault) -> bool {
    let node = fault.node;
    let is_witnessed = || truth.witnesses(node).any(|witness| truth.is_heard(witness));
    match fault.kind {
        FaultKind::HostHung | FaultKind::SensorHigh => truth.is_heard(node),
        // A host that hangs before its next beat takes with it what ailed it. One that cannot speak
        // with the master needs a NIC that is heard.
        FaultKind::ServiceDown | FaultKind::HostSick => {
            truth.host_works(node) && (truth.is_heard(node) || truth.can_deliver(node))
        }
        FaultKind::NodeDead => is_witnessed(),
        FaultKind::NicDead => truth.can_deliver(node) || is_witnessed(),
        FaultKind::CableCut | FaultKind::CableFlaky => {
            let far = lattice.neighbour(node, fault.direction());
            // Errors need traffic: a NIC that died before they added up leaves none to count.
            let needs_both = fault.kind == FaultKind::CableFlaky;
            let both = truth.link_works(node, fault.direction());
            (truth.is_heard(node) || truth.is_heard(far)) && (both || !needs_both)
        }
    }
}

/// What the master says of a node that is worse than the truth; none for a node that nothing and
/// nobody can reach, which is as good as dead.
pub(super) fn false_claim(
    lattice: Lattice,
    master: &Master,
    truth: &Truth,
    node: Node,
) -> Option<String> {
    let picture = master.picture(node);
    let is_worse = |said: Status, deserved: Status| said.is_fault() && said > deserved;
    let claim = |what: &str, said: Status, deserved: Status| {
        format!("{what} of {node} is called {said}, and is {deserved}")
    };
    let (host, nic) = (truth.host_status(node), truth.nic_status(node));
    if is_worse(picture.host, host) {
        return Some(claim("the host", picture.host, host));
    }
    if is_worse(picture.nic, nic) && (truth.is_heard(node) || truth.can_deliver(node)) {
        return Some(claim("the NIC", picture.nic, nic));
    }
    let links = Direction::ALL.into_iter().filter(|&direction| lattice.has(direction));
    links.into_iter().find_map(|direction| {
        let said = picture.links[direction.index()];
        let deserved = truth.link_status(node, direction);
        let what = || format!("the link {direction}");
        is_worse(said, deserved).then(|| claim(&what(), said, deserved))
    })
}
