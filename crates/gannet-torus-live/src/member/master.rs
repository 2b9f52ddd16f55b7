//! What the master of the moment does: it finds the lattice, and says what of it is dead.

use std::collections::{BTreeMap, BTreeSet};

use gannet_lattice::cabling::{self, Cabling, Recognised, recognise};
use gannet_lattice::{DIMENSIONS, Direction, LINKS, Lattice, Node};
use gannet_wire::neighbour::{AdvertPort, HOSTS_MAX, HostId, Order, OrderNode, PortState};

use super::Member;

/// Bit of [`OrderNode::dead`] for the node itself.
const NODE: u8 = 1 << DIMENSIONS;
/// How far the numbers of orders of a host that is alone are from those of others, so that their routes are told apart by the last byte.
const ALONE: u64 = 128;

/// The hosts that a host can reach, and the cables between them.
pub(super) struct Reach {
    pub hosts: BTreeSet<HostId>,
    /// From each end of a cable to the other.
    pub cables: BTreeMap<(HostId, u16), (HostId, u16)>,
    /// Ends of cables, among those above, where much of what the other end sends is lost.
    pub lossy: BTreeSet<(HostId, u16)>,
}

impl Reach {
    /// The cables that had better carry packets: without those that are lossy, unless some host is reached by these alone.
    fn worthy(&self) -> BTreeMap<(HostId, u16), (HostId, u16)> {
        let is_good = |(from, to): &(_, _)| !self.lossy.contains(from) && !self.lossy.contains(to);
        let good: BTreeMap<_, _> = self.cables.clone().into_iter().filter(is_good).collect();
        let mut met: BTreeSet<HostId> = self.hosts.first().copied().into_iter().collect();
        let mut open: Vec<HostId> = met.iter().copied().collect();
        while let Some(host) = open.pop() {
            for (_, &(other, _)) in good.range((host, 0)..=(host, u16::MAX)) {
                if met.insert(other) {
                    open.push(other);
                }
            }
        }
        if met.len() == self.hosts.len() { good } else { self.cables.clone() }
    }
}

impl Member {
    /// The cables that both ends say they hear each other by, of the hosts that can be reached.
    pub(super) fn reach(&self) -> Reach {
        self.reach_by(|_, port| !port.is_service)
    }

    /// Whether this host is a part of the machine, as `host` is, and cables between parts of it lead there from other ports than this one.
    pub(super) fn reaches_without(&self, port: usize, host: HostId) -> bool {
        let own = self.setup.host;
        let counts = |host: HostId, it: &AdvertPort| {
            !it.is_service && self.has_place(host) && (host, usize::from(it.port)) != (own, port)
        };
        [own, host].into_iter().all(|it| self.has_place(it))
            && self.reach_by(counts).hosts.contains(&host)
    }

    /// The hosts that live, but which no cable reaches: they are heard over the service network.
    pub fn astray(&self) -> BTreeSet<HostId> {
        let reached = self.reach().hosts;
        self.reach_by(|_, _| true).hosts.difference(&reached).copied().collect()
    }

    pub(super) fn reach_by(&self, counts: impl Fn(HostId, &AdvertPort) -> bool) -> Reach {
        let up = |host: HostId, port: u16| {
            let advert = self.adverts.get(&host)?;
            let port = advert.ports.iter().find(|it| it.port == port && counts(host, it))?;
            let is_up = matches!(port.state, PortState::Up | PortState::Lossy);
            is_up.then_some((port.other?, port.state == PortState::Lossy))
        };
        let mut reach = Reach {
            hosts: BTreeSet::from([self.setup.host]),
            cables: BTreeMap::new(),
            lossy: BTreeSet::new(),
        };
        let mut open = vec![self.setup.host];
        while let Some(host) = open.pop() {
            let ports = self.adverts.get(&host).into_iter().flat_map(|advert| &advert.ports);
            for port in ports.map(|port| port.port) {
                let Some((other, is_lossy)) = up(host, port) else { continue };
                let back = up(other.0, other.1).map(|(back, _)| back);
                if other.0 == host || back != Some((host, port)) {
                    continue;
                }
                reach.cables.insert((host, port), other);
                if is_lossy {
                    reach.lossy.insert((host, port));
                }
                if reach.hosts.insert(other.0) {
                    open.push(other.0);
                }
            }
        }
        reach
    }

    /// The master of this host: of those that it can reach, the one with the least number that is a part of the machine, or
    /// of all while there is none.
    pub fn master(&self) -> HostId {
        self.master_of(&self.reach())
    }

    fn master_of(&self, reach: &Reach) -> HostId {
        let first =
            reach.hosts.iter().find(|host| self.has_place(**host)).or_else(|| reach.hosts.first());
        first.copied().unwrap_or(self.setup.host)
    }

    /// When the master has something to do by itself.
    pub(super) fn governs_at(&self) -> u64 {
        match (self.is_changed, self.is_unsettled) {
            (true, _) => self.answered_at(),
            (false, true) => self.changed_at.saturating_add(self.setup.settle_ns),
            (false, false) => u64::MAX,
        }
    }

    /// When the others have had time to answer a host that did not run for so long that it hears none of them. Until then it does not take
    /// them for dead.
    fn answered_at(&self) -> u64 {
        self.resumed_at + self.setup.watchdog_ns / 2
    }

    /// Does what a master does, if this host is the one.
    pub(super) fn govern(&mut self, now: u64) {
        let is_settled = now >= self.changed_at.saturating_add(self.setup.settle_ns);
        let is_due = self.is_changed || self.is_unsettled && is_settled;
        if !is_due {
            return;
        }
        let reach = self.reach();
        self.is_changed = reach.hosts.len() == 1 && now < self.answered_at();
        if self.is_changed {
            return;
        }
        self.is_unsettled &= !is_settled;
        if reach.hosts.len() > 1
            && let Some(before) = self.orders.before_alone.take()
        {
            // The others have perhaps not missed it.
            self.follow(before, None, now);
            self.is_changed = false;
        }
        if self.master_of(&reach) != self.setup.host {
            self.found = None;
            return;
        }
        if let Some(order) = self.orders.followed.clone() {
            if !is_settled && !self.is_informed(&order) {
                // Who has just started hears of the others one after the other.
                self.is_unsettled = true;
                return;
            }
            self.mend(order, &reach, now);
        }
        if reach.hosts.len() < 2 || reach.hosts.iter().all(|host| self.has_place(*host)) {
            self.found = None;
        } else {
            self.form(&reach, is_settled, now);
        }
    }

    /// Whether all hosts that live by an order have been heard of.
    fn is_informed(&self, order: &Order) -> bool {
        let living = order.nodes.iter().filter(|node| node.dead & NODE == 0);
        living.map(|node| node.host).all(|host| self.adverts.contains_key(&host))
    }

    /// Makes a machine of all hosts, if their cables are those of a lattice.
    fn form(&mut self, reach: &Reach, is_settled: bool, now: u64) {
        // Whoever waits for a certain lattice need not wait longer than until it is there.
        let is_whole = |lattice: Lattice| {
            lattice.nodes() == reach.hosts.len()
                && 2 * lattice.cables().count() == reach.cables.len()
        };
        if !is_settled && !self.setup.lattice.is_some_and(is_whole) {
            return;
        }
        self.found = None;
        if reach.hosts.len() > HOSTS_MAX || !self.namesakes().is_empty() {
            return;
        }
        let hosts: Vec<HostId> = reach.hosts.iter().copied().collect();
        let Some(found) = recognise(&self.cabling(&hosts, reach), self.setup.lattice) else {
            return;
        };
        if !self.may_become(&found) {
            return;
        }
        // What only lacks something is run without it; what is wrong is to be mended first.
        let is_wrong = |mend: &cabling::Mend| {
            matches!(mend, cabling::Mend::Swap { .. } | cabling::Mend::Move { .. })
        };
        if found.mends.iter().any(is_wrong) || found.lattice.nodes() > HOSTS_MAX {
            self.found = Some(found);
            return;
        }
        let node = |node: Node| OrderNode {
            host: found.hosts[node.index()].map_or(HostId(0), |host| hosts[host]),
            ports: found.ports[node.index()],
            dead: 0,
        };
        let bytes = hosts.iter().filter_map(|host| Some(self.adverts.get(host)?.frame_bytes)).min();
        let mut order = Order {
            number: self.orders.next(),
            master: self.setup.host,
            sizes: found.lattice.sizes(),
            frame_bytes: bytes.unwrap_or(0),
            nodes: found.lattice.all().map(node).collect(),
        };
        judge(&mut order, reach);
        self.orders.before_alone = None;
        self.follow(order, None, now);
    }

    /// Whether a machine is made of what was found. One that runs becomes larger only where no host and no place is left over: somebody
    /// who is plugged in by mistake does not turn all others out of their places.
    fn may_become(&self, found: &Recognised) -> bool {
        let Some(order) = self.orders.followed.as_ref().filter(|_| self.node().is_some()) else {
            return true;
        };
        let is_left_over = |mend: &cabling::Mend| matches!(mend, cabling::Mend::Unplug(_));
        let is_full = found.hosts.iter().all(Option::is_some);
        found.lattice.nodes() <= order.nodes.len()
            || is_full && !found.mends.iter().any(is_left_over)
    }

    /// The cables of `hosts` as the recogniser wants them.
    fn cabling(&self, hosts: &[HostId], reach: &Reach) -> Cabling {
        let place = |host: HostId| hosts.binary_search(&host).ok();
        let end = |(host, port): (HostId, u16)| {
            Some(cabling::End { host: place(host)?, port: u8::try_from(port).ok()? })
        };
        let ports = |host: &HostId| {
            let ports = self.adverts.get(host).into_iter().flat_map(|advert| &advert.ports);
            let ports = ports.filter(|port| !port.is_service).count();
            u8::try_from(ports).unwrap_or(u8::MAX)
        };
        let once = reach.cables.iter().filter(|(from, to)| from < to);
        Cabling {
            ports: hosts.iter().map(ports).collect(),
            cables: once.filter_map(|(from, to)| Some([end(*from)?, end(*to)?])).collect(),
        }
    }

    /// What the cables of all hosts make now, and the names of these hosts, for people who look.
    pub fn survey(&self) -> Option<(Recognised, Vec<HostId>)> {
        let reach = self.reach();
        let hosts: Vec<HostId> = reach.hosts.iter().copied().collect();
        let lattice =
            self.orders.followed.as_ref().and_then(|order| Lattice::new(order.sizes).ok());
        let found = recognise(&self.cabling(&hosts, &reach), self.setup.lattice.or(lattice))?;
        Some((found, hosts))
    }

    /// Cables from a host of the machine to one that has no place in it, by their ends there.
    pub fn astray_cables(&self) -> Vec<[(HostId, u16); 2]> {
        let cables = self.reach().cables.into_iter();
        let leads_out = cables
            .filter(|((here, _), (there, _))| self.has_place(*here) && !self.has_place(*there));
        leads_out.map(|(here, there)| [here, there]).collect()
    }

    /// Gives out another order if something has died or come back, or found its place.
    fn mend(&mut self, mut order: Order, reach: &Reach, now: u64) {
        let before = order.clone();
        // Who has the name of another host takes no place.
        let namesakes: BTreeSet<HostId> = self.namesakes().into_values().flatten().collect();
        adopt(&mut order, reach, &namesakes);
        judge(&mut order, reach);
        let is_own = before.master == self.setup.host;
        if order.nodes == before.nodes && is_own {
            return;
        }
        order.number = self.orders.next();
        if reach.hosts.len() == 1 {
            order.number = (order.number + ALONE).max(before.number + 1);
            self.orders.before_alone.get_or_insert(before);
        }
        order.master = self.setup.host;
        self.follow(order, None, now);
    }
}

/// Takes the direction from ports whose cable leads elsewhere: it was plugged into another port, or its host counts its ports
/// in another order since it was started again.
fn forget_moved(order: &mut Order, lattice: Lattice, reach: &Reach) {
    let is_moved = |node: Node, direction: Direction| {
        let OrderNode { host, ports, .. } = order.nodes[node.index()];
        let end = ports[direction.index()].map(|port| (host, u16::from(port)));
        let there = &order.nodes[lattice.neighbour(node, direction).index()];
        let expected = there.ports[direction.opposite().index()].map(u16::from);
        end.and_then(|end| reach.cables.get(&end)).is_some_and(|&(other, port)| {
            other != there.host || expected.is_some_and(|expected| expected != port)
        })
    };
    let all = lattice.all().flat_map(|node| Direction::ALL.map(|direction| (node, direction)));
    let moved: Vec<_> = all
        .filter(|&(node, direction)| lattice.has(direction) && is_moved(node, direction))
        .collect();
    for (node, direction) in moved {
        order.nodes[node.index()].ports[direction.index()] = None;
    }
}

/// Puts hosts that are new, but for those in `not`, into the places of dead ones to which their cables lead, and cables into those that lacked one.
fn adopt(order: &mut Order, reach: &Reach, not: &BTreeSet<HostId>) {
    let Ok(lattice) = Lattice::new(order.sizes) else { return };
    let mut nodes: BTreeMap<HostId, Node> = BTreeMap::new();
    nodes.extend(lattice.all().map(|node| (order.nodes[node.index()].host, node)));
    for &host in reach.hosts.difference(not) {
        if nodes.contains_key(&host) {
            continue;
        }
        // All of its cables lead to where one dead node was.
        let ends = reach.cables.iter().filter(|((from, _), _)| *from == host);
        let places = ends.map(|(_, &(other, port))| {
            let node = *nodes.get(&other)?;
            let at = order.nodes[node.index()]
                .ports
                .iter()
                .position(|&it| it.map(u16::from) == Some(port))?;
            Some(lattice.neighbour(node, Direction::ALL[at]))
        });
        let places: Option<BTreeSet<Node>> = places.collect();
        let Some(place) = places.filter(|it| it.len() == 1).and_then(|it| it.first().copied())
        else {
            continue;
        };
        let dead = &mut order.nodes[place.index()];
        if !reach.hosts.contains(&dead.host) {
            *dead = OrderNode { host, ports: [None; LINKS], dead: NODE };
            nodes.insert(host, place);
        }
    }
    forget_moved(order, lattice, reach);
    // Ports that have no direction, or no longer, get that in which their cable leads.
    for (&(host, port), &(other, other_port)) in &reach.cables {
        let (Some(&node), Some(&there)) = (nodes.get(&host), nodes.get(&other)) else { continue };
        let [Ok(port), Ok(other_port)] = [port, other_port].map(u8::try_from) else { continue };
        let has = |node: Node, port: u8| order.nodes[node.index()].ports.contains(&Some(port));
        let has_one = has(node, port) || has(there, other_port);
        let port_at =
            |node: Node, direction: Direction| order.nodes[node.index()].ports[direction.index()];
        let is_free = |direction: Direction| {
            let (here, back) = (port_at(node, direction), port_at(there, direction.opposite()));
            lattice.has(direction)
                && lattice.neighbour(node, direction) == there
                && here.is_none_or(|it| it == port)
                && back.is_none_or(|it| it == other_port)
        };
        let mut free = Direction::ALL.into_iter().filter(|&direction| is_free(direction));
        let known = |direction: &Direction| {
            port_at(node, *direction) == Some(port)
                || port_at(there, direction.opposite()) == Some(other_port)
        };
        let direction = if has_one { free.find(known) } else { free.next() };
        if let Some(direction) = direction {
            order.nodes[node.index()].ports[direction.index()] = Some(port);
            order.nodes[there.index()].ports[direction.opposite().index()] = Some(other_port);
        }
    }
}

/// Marks what is dead: nodes whose host cannot be reached, and cables that do not carry packets between the ports that they
/// join.
fn judge(order: &mut Order, reach: &Reach) {
    let Ok(lattice) = Lattice::new(order.sizes) else { return };
    let worthy = reach.worthy();
    let is_alive = |node: Node| reach.hosts.contains(&order.nodes[node.index()].host);
    let end = |node: Node, direction: Direction| {
        let OrderNode { host, ports, .. } = order.nodes[node.index()];
        Some((host, u16::from(ports[direction.index()]?)))
    };
    let dead = lattice.all().map(|node| {
        let cables = lattice.dimensions().filter(|&dimension| {
            let direction = Direction::of(dimension, true);
            let other = lattice.neighbour(node, direction);
            let ends = end(node, direction).zip(end(other, direction.opposite()));
            let carries = ends.is_some_and(|(from, to)| worthy.get(&from) == Some(&to));
            // What leads to a dead node is not dead itself.
            !carries && is_alive(node) && is_alive(other)
        });
        let cables = cables.fold(0, |dead, dimension| dead | 1 << dimension);
        cables | if is_alive(node) { 0 } else { NODE }
    });
    let dead: Vec<u8> = dead.collect();
    order.nodes.iter_mut().zip(dead).for_each(|(node, dead)| node.dead = dead);
}
