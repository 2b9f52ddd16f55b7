//! Is a fault known, must it be, and is what is said true?

use gannet_lattice::{Direction, Lattice, Node};
use gannet_lofamo::Master;
use gannet_wire::lofamo::Status;

use super::fault::{Fault, FaultKind};
use super::truth::Truth;

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
