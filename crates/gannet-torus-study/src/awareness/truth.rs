//! What is really broken, which only the simulation knows, and what must be said of it: is a fault
//! known, must it be, and is what is said true?

use gannet_lattice::{Direction, LINKS, Lattice, Node};
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
    /// By link, of what it carries away from here.
    lines: [Status; LINKS],
    /// One bit a link on which more errors came in than are borne.
    noisy: u8,
}

const HEALTHY: NodeTruth = NodeTruth {
    host_works: true,
    nic_works: true,
    service_works: true,
    host_sick: false,
    sensor_high: false,
    lines: [Status::Normal; LINKS],
    noisy: 0,
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

    /// Makes it what it is while these faults last; what errors came in is not undone.
    pub fn rebuild<'a>(&mut self, faults: impl Iterator<Item = &'a Fault>) {
        for node in &mut self.nodes {
            *node = NodeTruth { noisy: node.noisy, ..HEALTHY };
        }
        faults.for_each(|fault| self.apply(fault));
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
            FaultKind::CableHalfCut => self.worsen(fault.node, fault.direction, Status::Failed),
            FaultKind::CableCut => self.worsen_both(fault, Status::Failed),
            FaultKind::CableFlaky => self.worsen_both(fault, Status::Sick),
        }
    }

    fn worsen(&mut self, node: Node, direction: Direction, to: Status) {
        let line = &mut self.nodes[node.index()].lines[direction.index()];
        *line = (*line).max(to);
    }

    fn worsen_both(&mut self, fault: &Fault, to: Status) {
        let far = self.lattice.neighbour(fault.node, fault.direction);
        self.worsen(fault.node, fault.direction, to);
        self.worsen(far, fault.direction.opposite(), to);
    }

    /// More errors came in to `node` on this link than are borne.
    pub fn note_errors(&mut self, node: Node, direction: Direction) {
        self.nodes[node.index()].noisy |= 1 << direction.index();
    }

    #[inline]
    fn is_noisy(&self, node: Node, direction: Direction) -> bool {
        self.nodes[node.index()].noisy >> direction.index() & 1 == 1
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

    #[inline]
    pub fn is_service_down(&self, node: Node) -> bool {
        !self.nodes[node.index()].service_works
    }

    #[inline]
    pub fn is_host_sick(&self, node: Node) -> bool {
        self.nodes[node.index()].host_sick
    }

    /// Whether the host can speak with the master.
    #[inline]
    pub fn can_deliver(&self, node: Node) -> bool {
        let node = &self.nodes[node.index()];
        node.host_works && node.service_works
    }

    /// The state of what a link carries away from `node`.
    #[inline]
    pub fn line(&self, node: Node, direction: Direction) -> Status {
        self.nodes[node.index()].lines[direction.index()]
    }

    /// Whether words that `node` sends on this link arrive at a NIC that works.
    #[inline]
    pub fn carries(&self, node: Node, direction: Direction) -> bool {
        self.lattice.has(direction)
            && self.line(node, direction) != Status::Failed
            && self.nic_works(node)
            && self.nic_works(self.lattice.neighbour(node, direction))
    }

    /// Whether words come to `node` on this link.
    #[inline]
    pub fn hears(&self, node: Node, direction: Direction) -> bool {
        self.carries(self.lattice.neighbour(node, direction), direction.opposite())
    }

    /// Whether words pass on this link both ways, between NICs that work. NICs send no news where
    /// they hear nothing.
    #[inline]
    pub fn link_works(&self, node: Node, direction: Direction) -> bool {
        self.carries(node, direction) && self.hears(node, direction)
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
        let far = self.lattice.neighbour(node, direction);
        if !self.nic_works(far) || self.line(far, direction.opposite()) == Status::Failed {
            Status::Failed
        } else if self.is_noisy(node, direction) {
            Status::Sick
        } else {
            Status::Normal
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

    /// The nodes to which cables carry what `node` sends, which notice when it falls silent.
    pub fn witnesses(&self, node: Node) -> impl Iterator<Item = Node> {
        let joined = move |direction: &Direction| {
            self.lattice.has(*direction) && self.line(node, *direction) != Status::Failed
        };
        let lattice = self.lattice;
        Direction::ALL
            .into_iter()
            .filter(joined)
            .map(move |direction| lattice.neighbour(node, direction))
    }

    /// Whether an end of the link that is heard got more errors than are borne.
    fn has_told_noise(&self, node: Node, direction: Direction) -> bool {
        let far = (self.lattice.neighbour(node, direction), direction.opposite());
        let told = |(node, direction)| self.is_noisy(node, direction) && self.is_heard(node);
        told((node, direction)) || told(far)
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
        FaultKind::CableCut | FaultKind::CableHalfCut => {
            master.link(fault.node, fault.direction) == Status::Failed
        }
        FaultKind::CableFlaky => master.link(fault.node, fault.direction).is_fault(),
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
        FaultKind::CableCut => {
            let far = lattice.neighbour(node, fault.direction);
            truth.is_heard(node) || truth.is_heard(far)
        }
        FaultKind::CableHalfCut => truth.is_heard(lattice.neighbour(node, fault.direction)),
        // Errors need traffic: a NIC that died before they added up leaves none to count.
        FaultKind::CableFlaky => {
            truth.link_works(node, fault.direction) && truth.has_told_noise(node, fault.direction)
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
