mod twins;

use std::collections::{BTreeMap, BinaryHeap};

use gannet_lattice::cabling::Mend;
use gannet_measure::random::Random;

use super::*;
use crate::neighbour::MESSAGE_MAX;

const WATCHDOG: u64 = 100_000_000;
const SETTLE: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const DELAY: u64 = 50_000;

/// A datagram under way.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    at: std::cmp::Reverse<u64>,
    number: u64,
    to: (usize, usize),
    bytes: Vec<u8>,
}

/// Hosts joined by cables, in virtual time.
struct Net {
    members: Vec<Option<Member>>,
    frozen: Vec<bool>,
    /// From an end of a cable to the other.
    cables: BTreeMap<(usize, usize), (usize, usize)>,
    /// Ends from which nothing gets through.
    cut: Vec<(usize, usize)>,
    flights: BinaryHeap<Flight>,
    now: u64,
    sent: u64,
    loss: f64,
    random: Random,
    lives: u64,
    /// What hosts have told others to follow, by number and master, and whether there are two machines, each with its own.
    orders: BTreeMap<(u64, HostId), Order>,
    orders_differ: bool,
}

fn setup(host: usize, ports: usize, life: u64) -> Setup {
    // Numbers that are not in the order of the hosts.
    let id = HostId((host as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let port = |port: usize| (Name::of(&format!("p{port}")), 1472);
    Setup {
        host: id,
        life,
        name: Name::of(&format!("n{host:02}")),
        ports: (0..ports).map(port).collect(),
        services: Vec::new(),
        key: Key([7; 32]),
        protects: false,
        watchdog_ns: WATCHDOG,
        lattice: None,
        settle_ns: SETTLE,
    }
}

impl Net {
    fn new(hosts: usize, ports: usize, seed: u64) -> Self {
        let members = (0..hosts).map(|host| Some(Member::new(setup(host, ports, 1)))).collect();
        Self {
            members,
            frozen: vec![false; hosts],
            cables: BTreeMap::new(),
            cut: Vec::new(),
            flights: BinaryHeap::new(),
            now: 0,
            sent: 0,
            loss: 0.0,
            random: Random::new(seed),
            lives: 1,
            orders: BTreeMap::new(),
            orders_differ: false,
        }
    }

    /// Hosts of a lattice, whose ports are in any order.
    fn of(lattice: &str, seed: u64) -> Self {
        let lattice: Lattice = lattice.parse().unwrap();
        let links = 2 * lattice.dimensions().count();
        let mut net = Self::new(lattice.nodes(), links, seed);
        let mut free: Vec<Vec<usize>> = vec![(0..links).collect(); lattice.nodes()];
        let mut end = |node: Node, random: &mut Random| {
            let free = &mut free[node.index()];
            (node.index(), free.swap_remove(random.below(free.len() as u64) as usize))
        };
        for cable in lattice.cables() {
            let other = lattice.neighbour(cable.from, Direction::of(cable.dimension, true));
            let (a, b) = (end(cable.from, &mut net.random), end(other, &mut net.random));
            net.plug(a, b);
        }
        net
    }

    /// The same with a path of the service network from each host to the next.
    fn with_service(mut self) -> Self {
        let hosts = self.members.len();
        let ports = self.members[0].as_ref().map_or(0, |member| member.ends.len());
        for host in 0..hosts {
            let services = vec![Name::of("s0"), Name::of("s1")];
            self.members[host] =
                Some(Member::new(Setup { services, ..setup(host, ports, self.lives) }));
            self.plug((host, ports), ((host + 1) % hosts, ports + 1));
        }
        self
    }

    /// Cuts all cables between hosts of which `is_between` says so, but no path of the service network.
    fn cut_between(&mut self, is_between: impl Fn(usize, usize) -> bool) {
        let is_cable = |(host, port): (usize, usize)| {
            let member = self.members[host].as_ref();
            member.is_some_and(|member| port < member.setup.ports.len())
        };
        let ends = self.cables.iter();
        let ends = ends.filter(|(from, to)| is_cable(**from) && is_between(from.0, to.0));
        let ends: Vec<_> = ends.map(|(from, _)| *from).collect();
        self.cut.extend(ends);
    }

    fn plug(&mut self, a: (usize, usize), b: (usize, usize)) {
        self.cables.insert(a, b);
        self.cables.insert(b, a);
    }

    fn unplug(&mut self, a: (usize, usize)) -> (usize, usize) {
        let b = self.cables.remove(&a).unwrap();
        self.cables.remove(&b);
        b
    }

    fn restart(&mut self, host: usize, ports: usize) {
        self.lives += 1;
        self.members[host] = Some(Member::new(setup(host, ports, self.lives)));
        // Its clock begins with its process; times here are all the same.
        self.members[host].as_mut().unwrap().advance(self.now);
    }

    fn run(&mut self, ns: u64) {
        let end = self.now + ns;
        loop {
            let running = self.members.iter().zip(&self.frozen).filter(|(_, frozen)| !**frozen);
            let deadlines =
                running.filter_map(|(member, _)| Some(member.as_ref()?.next_deadline(&|_| true)));
            let flight = self.flights.peek().map_or(u64::MAX, |flight| flight.at.0);
            let next = deadlines.min().unwrap_or(u64::MAX).min(flight).max(self.now);
            if next >= end {
                break;
            }
            self.now = next;
            while self.flights.peek().is_some_and(|flight| flight.at.0 <= next) {
                let Flight { to: (host, port), bytes, .. } = self.flights.pop().unwrap();
                if self.frozen[host] {
                    continue;
                }
                if let Some(member) = &mut self.members[host] {
                    member.hear(port, &bytes, next);
                }
            }
            for host in 0..self.members.len() {
                if !self.frozen[host] {
                    self.step(host);
                }
            }
            // Whatever is due at once takes a while nevertheless.
            self.now += 1000;
        }
        self.now = end;
    }

    fn step(&mut self, host: usize) {
        let Some(member) = &mut self.members[host] else { return };
        if member.next_deadline(&|_| true) > self.now && !member.is_changed {
            return;
        }
        member.advance(self.now);
        if let Some(order) = member.orders.shared() {
            let name = (order.number, order.master);
            let first = self.orders.entry(name).or_insert_with(|| order.clone());
            assert!(
                self.orders_differ || first == order,
                "two orders of one number: {first:?}, {order:?}"
            );
        }
        for port in 0..member.ends.len() {
            let mut room = [0; MESSAGE_MAX];
            for message in 0.. {
                let len = member.due(port, &mut room, self.now);
                if len == 0 {
                    break;
                }
                assert!(message < 100, "n{host:02} does not stop sending");
                let is_lost = self.cut.contains(&(host, port)) || self.random.chance(self.loss);
                if let Some(&to) = self.cables.get(&(host, port)).filter(|_| !is_lost) {
                    self.sent += 1;
                    let at = std::cmp::Reverse(self.now + DELAY);
                    let bytes = room[..len].to_vec();
                    self.flights.push(Flight { at, number: self.sent, to, bytes });
                }
            }
        }
    }

    fn alive(&self) -> impl Iterator<Item = &Member> {
        self.members
            .iter()
            .zip(&self.frozen)
            .filter(|(_, frozen)| !**frozen)
            .filter_map(|(it, _)| it.as_ref())
    }

    /// The order that all follow.
    fn agreed(&self) -> Order {
        let mut orders = self.alive().map(|member| member.order().expect("an order"));
        let first = orders.next().unwrap();
        orders.for_each(|order| assert_eq!(order, first));
        first.clone()
    }

    /// Runs until all that live follow an order of which `is_it` says so; how long that took.
    fn run_until(&mut self, most: u64, is_it: impl Fn(&Order) -> bool) -> u64 {
        let begin = self.now;
        let done = |net: &Self| net.alive().all(|member| member.order().is_some_and(&is_it));
        while !done(self) {
            assert!(self.now < begin + most, "{:?}", self.members[0].as_ref().map(|it| it.order()));
            self.run(MS);
        }
        self.now - begin
    }

    /// Every cable between two that live leads where its directions say.
    fn assert_directed(&self) {
        let order = self.agreed();
        let lattice = Lattice::new(order.sizes).unwrap();
        let mut directed = 0;
        for (&(host, port), &(other, other_port)) in &self.cables {
            let (Some(a), Some(b)) = (&self.members[host], &self.members[other]) else { continue };
            let (Some(direction), Some(back)) = (a.direction(port), b.direction(other_port)) else {
                continue;
            };
            assert_eq!(direction.opposite(), back);
            assert_eq!(lattice.neighbour(a.node().unwrap(), direction), b.node().unwrap());
            directed += 1;
        }
        assert!(directed > 0);
    }
}

fn dead_nodes(order: &Order) -> usize {
    order.nodes.iter().filter(|node| node.dead >> 3 == 1).count()
}

fn dead_cables(order: &Order) -> u32 {
    order.nodes.iter().map(|node| (node.dead & 7).count_ones()).sum()
}

fn is_whole(order: &Order) -> bool {
    order.nodes.iter().all(|node| node.dead == 0)
}

#[test]
fn hosts_find_the_machine_that_they_are() {
    for (seed, lattice) in ["2", "4", "2x2", "3x2", "2x2x2", "4x4", "4x4x2"].into_iter().enumerate()
    {
        for loss in [0.0, 0.05] {
            let mut net = Net::of(lattice, seed as u64);
            net.loss = loss;
            net.run_until(4 * SETTLE, is_whole);
            let order = net.agreed();
            let lattice: Lattice = lattice.parse().unwrap();
            assert_eq!(
                (order.sizes, order.frame_bytes),
                (lattice.sizes(), 1472 - gannet_wire::neighbour::PROOF_LEN as u32),
                "{lattice}, {loss}"
            );
            net.assert_directed();
        }
    }
}

#[test]
fn nothing_is_said_but_that_one_is_there_when_all_is_told() {
    let mut net = Net::of("3x3", 1);
    net.run(3 * SETTLE);
    net.agreed();
    let before = net.sent;
    net.run(1_000_000_000);
    let per_end = (net.sent - before) as f64 / 36.0;
    assert!((39.0..41.0).contains(&per_end), "{per_end} messages a second, four in a watchdog");
}

#[test]
fn a_message_that_is_lost_is_asked_for() {
    let mut net = Net::of("3x3", 1);
    net.run(3 * SETTLE);
    let changes = |net: &Net| net.members.iter().flatten().map(Member::changes).sum::<u64>();
    let before = changes(&net);
    // Of two messages that follow each other, both are lost some seventy times.
    net.loss = 0.05;
    net.run(20 * SETTLE);
    assert_eq!(changes(&net), before, "nobody was given up");
}

#[test]
fn what_is_to_be_said_by_a_port_that_takes_nothing_wakes_nobody() {
    let mut net = Net::of("3x3", 1);
    net.run(3 * SETTLE);
    let member = net.members[0].as_ref().unwrap();
    let [all, none] = [true, false].map(|takes| member.next_deadline(&|_| takes));
    assert!(all <= net.now + WATCHDOG / 4, "it speaks");
    assert!(none > net.now + WATCHDOG / 4, "it only listens");
}

#[test]
fn what_dies_is_known_to_all_within_the_watchdog_and_what_comes_back_too() {
    // The long form is four hours by the clocks of the hosts.
    let seeds = if std::env::var_os("GANNET_LONG").is_some() { 5000 } else { 8 };
    let mut lived = 0;
    for seed in 0..seeds {
        let mut net = Net::of("4x3", seed);
        net.run_until(3 * SETTLE, is_whole);
        // So that the fault comes at any moment between two messages.
        let pause = net.random.below(50) * MS;
        net.run(pause + 7 * MS);
        let &end = net.cables.keys().nth(net.random.below(48) as usize).unwrap();
        let one_way = seed % 2 == 0;
        net.cut.push(end);
        if !one_way {
            net.cut.push(net.cables[&end]);
        }
        let aware = net.run_until(2 * WATCHDOG, |order| dead_cables(order) == 1);
        assert!(aware <= WATCHDOG * 6 / 5 + 10 * MS, "cable, one way {one_way}: {aware} ns");
        net.cut.clear();
        net.run_until(3 * WATCHDOG, is_whole);
        net.assert_directed();
        // A host, which may be the master.
        let host = net.random.below(12) as usize;
        let is_frozen = seed % 3 == 0;
        if is_frozen {
            net.frozen[host] = true;
        } else {
            net.members[host] = None;
        }
        let aware =
            net.run_until(2 * WATCHDOG, |order| dead_nodes(order) == 1 && dead_cables(order) == 0);
        assert!(aware <= WATCHDOG * 6 / 5 + 10 * MS, "host: {aware} ns");
        net.run(20 * WATCHDOG);
        net.frozen[host] = false;
        if !is_frozen {
            net.restart(host, 4);
        }
        net.run_until(20 * WATCHDOG, is_whole);
        net.assert_directed();
        lived += net.now;
    }
    println!("{} minutes, {} faults", lived / 60_000_000_000, 2 * seeds);
}

#[test]
fn a_machine_that_falls_apart_comes_together_again() {
    let mut net = Net::of("6", 3);
    net.run_until(3 * SETTLE, is_whole);
    net.cut_between(|from, to| (from < 3) != (to < 3));
    net.run(5 * WATCHDOG);
    for member in net.alive() {
        assert_eq!(dead_nodes(member.order().unwrap()), 3);
    }
    net.cut.clear();
    net.run_until(30 * WATCHDOG, is_whole);
    net.assert_directed();
}

#[test]
fn a_host_that_no_cable_reaches_is_heard_over_the_service_network() {
    let mut net = Net::of("3x3", 4).with_service();
    net.run_until(3 * SETTLE, is_whole);
    net.assert_directed();
    let lone = net.members[4].as_ref().unwrap().setup.host;
    let astray = |net: &Net, of: usize| net.members[of].as_ref().unwrap().astray();
    assert!(astray(&net, 0).is_empty());
    net.cut_between(|from, to| from == 4 || to == 4);
    net.run(3 * WATCHDOG);
    for member in net.alive().filter(|member| member.setup.host != lone) {
        assert_eq!(dead_nodes(member.order().unwrap()), 1);
        assert_eq!(member.astray(), [lone].into());
    }
    assert_eq!(astray(&net, 4).len(), 8);
    // Who is dead is heard over no network.
    let dead = net.members[7].take().unwrap().setup.host;
    net.run(3 * WATCHDOG);
    assert_eq!(astray(&net, 0), [lone].into());
    assert!(!astray(&net, 4).contains(&dead) && astray(&net, 4).len() == 7);
    net.cut.clear();
    net.run_until(30 * WATCHDOG, |order| dead_nodes(order) == 1);
    assert!(astray(&net, 0).is_empty());
}

#[test]
fn parts_that_hear_each_other_over_the_service_network_only_keep_their_orders() {
    let mut net = Net::of("6", 3).with_service();
    net.run_until(3 * SETTLE, is_whole);
    net.cut_between(|from, to| (from < 3) != (to < 3));
    net.run(5 * WATCHDOG);
    let changes = |net: &Net| net.alive().map(Member::changes).sum::<u64>();
    let before = changes(&net);
    for member in net.alive() {
        assert_eq!(dead_nodes(member.order().unwrap()), 3);
        assert_eq!(member.astray().len(), 3);
    }
    net.run(20 * WATCHDOG);
    assert_eq!(changes(&net), before, "nothing goes on changing");
    net.cut.clear();
    net.run_until(30 * WATCHDOG, is_whole);
    net.assert_directed();
}

#[test]
fn a_path_of_the_service_network_is_no_cable() {
    let mut net = Net::of("3", 6).with_service();
    net.unplug((0, 2));
    net.unplug((2, 1));
    // What is of the service network at host 0 is the end of a cable at host 2.
    net.plug((0, 2), (2, 1));
    net.run(4 * SETTLE);
    assert_eq!(dead_cables(&net.agreed()), 1);
    let member = net.members[0].as_mut().unwrap();
    let notices = member.notices();
    let told = |notice: &Notice| matches!(notice, Notice::OtherUse(2, who) if !who.is_service);
    assert!(notices.iter().any(told), "{notices:?}");
    assert_eq!(member.direction(2), None);
    assert_eq!(net.members[2].as_ref().unwrap().direction(1), None);
}

#[test]
fn a_wrong_cable_is_named_and_a_machine_is_made_when_it_is_mended() {
    let mut net = Net::of("4x4x2", 5);
    let (a, b) = ((3, 1), (22, 4));
    let (c, d) = (net.unplug(a), net.unplug(b));
    net.plug(a, d);
    net.plug(b, c);
    net.run(3 * SETTLE);
    let master = net.alive().find(|member| member.master() == member.setup.host).unwrap();
    assert!(net.alive().all(|member| member.order().is_none()));
    let found = master.found().expect("a lattice that is not whole");
    assert!(matches!(found.mends[..], [Mend::Swap { .. }]), "{:?}", found.mends);
    net.unplug(a);
    net.unplug(b);
    net.plug(a, c);
    net.plug(b, d);
    net.run_until(4 * SETTLE, is_whole);
    net.assert_directed();
}

#[test]
fn a_cable_that_is_plugged_elsewhere_while_a_machine_runs_is_out_of_use_and_named() {
    let mut net = Net::of("4x4", 6);
    net.run_until(3 * SETTLE, is_whole);
    let (a, b) = ((3, 1), (9, 2));
    let (c, d) = (net.unplug(a), net.unplug(b));
    net.plug(a, d);
    net.plug(b, c);
    net.run_until(20 * WATCHDOG, |order| dead_cables(order) == 2);
    net.run(5 * WATCHDOG);
    net.assert_directed();
    for (host, port) in [a, b, c, d] {
        assert_eq!(net.members[host].as_ref().unwrap().direction(port), None);
    }
    let (found, hosts) = net.members[0].as_ref().unwrap().survey().unwrap();
    let [Mend::Swap { from, wrong, .. }] = found.mends[..] else { panic!("{:?}", found.mends) };
    let is = |end: gannet_lattice::cabling::End, (host, port): (usize, usize)| {
        hosts[end.host] == setup(host, 4, 1).host && usize::from(end.port) == port
    };
    assert!([a, b, c, d].iter().any(|&end| is(from, end)));
    assert!([a, b, c, d].iter().any(|&end| is(wrong, end)));
}

#[test]
fn more_hosts_make_a_larger_machine_and_another_host_takes_the_place_of_a_dead_one() {
    let mut net = Net::of("4x2", 2);
    let late: Vec<_> = [4, 5, 6, 7].map(|host| net.members[host].take()).into_iter().collect();
    net.run_until(3 * SETTLE, |order| order.nodes.len() == 4);
    for (host, member) in (4..).zip(late) {
        net.members[host] = member;
    }
    net.run_until(6 * SETTLE, |order| order.nodes.len() == 8 && is_whole(order));
    net.assert_directed();
    // The place of host 2 is taken by one with another number.
    net.members[2] = None;
    net.run_until(2 * WATCHDOG, |order| dead_nodes(order) == 1);
    let other = Setup { host: HostId(77), name: Name::of("spare"), ..setup(2, 4, 1) };
    net.members[2] = Some(Member::new(other));
    let has = |order: &Order| order.nodes.iter().any(|node| node.host == HostId(77));
    net.run_until(20 * WATCHDOG, |order| has(order) && is_whole(order));
    net.assert_directed();
}

#[test]
fn a_host_that_is_plugged_in_by_mistake_moves_nobody_and_is_named() {
    let mut net = Net::of("2x2", 3);
    net.run_until(3 * SETTLE, is_whole);
    let before = net.agreed();
    net.members.push(Some(Member::new(setup(4, 1, 1))));
    net.frozen.push(false);
    let end = (1, 0);
    let right = net.unplug(end);
    net.plug(end, (4, 0));
    net.run(5 * SETTLE);
    let host = net.members[0].as_ref().unwrap();
    let order = host.order().unwrap();
    assert_eq!((order.sizes, dead_nodes(order), dead_cables(order)), (before.sizes, 0, 1));
    let id = |host: usize| setup(host, 1, 1).host;
    assert_eq!(host.astray_cables(), [[(id(1), 0), (id(4), 0)]]);
    net.members[4] = None;
    net.unplug(end);
    net.plug(end, right);
    net.run(20 * WATCHDOG);
    net.members.pop();
    let after = net.agreed();
    assert_eq!((after.sizes, after.nodes), (before.sizes, before.nodes));
}

#[test]
fn who_did_not_run_for_long_does_not_take_the_others_for_dead() {
    let mut net = Net::of("3x2", 7);
    net.run_until(3 * SETTLE, is_whole);
    for host in 0..6 {
        net.frozen[host] = true;
        let pause = 5 * WATCHDOG + net.random.below(20 * WATCHDOG);
        net.run(pause);
        net.frozen[host] = false;
        let mut number = 0;
        for _ in 0..300 {
            net.run(MS);
            let order = net.members[host].as_ref().unwrap().order().unwrap();
            assert!(order.number >= number, "n{host:02}: {number}, then {}", order.number);
            assert!(dead_nodes(order) <= 1, "n{host:02}");
            number = order.number;
        }
        assert!(is_whole(&net.agreed()));
    }
}

#[test]
fn who_does_not_know_the_key_takes_no_part() {
    let mut net = Net::of("2x2", 4);
    let other = Setup { key: Key([8; 32]), ..setup(3, 4, 1) };
    net.members[3] = Some(Member::new(other));
    net.run(3 * SETTLE);
    let stranger = setup(3, 4, 1).host;
    for (host, member) in net.members.iter_mut().enumerate() {
        let member = member.as_mut().unwrap();
        let notices = member.notices();
        let is_it = |notice: &Notice| matches!(notice, Notice::WrongKey(_, who) if (host == 3) != (who.host == stranger));
        let opens = notices.iter().any(is_it);
        // One of the two ends finds it out; neither has met the other.
        let met = |notice: &Notice| matches!(notice, Notice::Met(_, who) if (host == 3) != (who.host == stranger));
        assert!(!notices.iter().any(|notice| met(notice) && host == 3), "n{host:02}");
        let _found_out = opens;
        let knows = member.adverts().any(|advert| advert.host == stranger);
        assert_eq!(knows, host == 3);
    }
}

#[test]
fn cables_that_lead_back_and_hosts_of_one_number_are_told() {
    let mut net = Net::new(3, 3, 1);
    net.plug((0, 0), (0, 1));
    net.plug((0, 2), (1, 0));
    let twin = Setup { life: 9, name: Name::of("twin"), ..setup(0, 3, 1) };
    net.members[2] = Some(Member::new(twin));
    net.plug((1, 1), (2, 0));
    net.plug((1, 2), (2, 1));
    net.run(2 * SETTLE);
    let notices = net.members[0].as_mut().unwrap().notices();
    assert!(notices.iter().any(|it| matches!(it, Notice::Itself(0, who) if who.port == 1)));
    let mut net = Net::new(2, 2, 1);
    net.members[1] = Some(Member::new(Setup { life: 9, ..setup(0, 2, 1) }));
    net.plug((0, 0), (1, 0));
    net.run(SETTLE);
    let notices = net.members[0].as_mut().unwrap().notices();
    assert!(notices.iter().any(|it| matches!(it, Notice::SameHost(0, _))), "{notices:?}");
}

#[test]
fn what_strangers_send_changes_nothing() {
    let mut net = Net::of("2x2", 9);
    net.run_until(3 * SETTLE, is_whole);
    // What was said once is said again, and with any byte changed.
    let mut heard = Vec::new();
    let mut room = [0; MESSAGE_MAX];
    for _ in 0..3 {
        net.run(WATCHDOG / 10);
        heard.extend(net.flights.iter().map(|flight| (flight.to, flight.bytes.clone())));
    }
    let call = net.members[1].as_ref().unwrap().ends[0].neighbour.own();
    let len = gannet_wire::neighbour::Message::Call(Identity { life: 99, ..*call }).emit(&mut room);
    let call = room[..len.unwrap()].to_vec();
    let before = net.agreed();
    for round in 0..2000 {
        net.run(MS);
        let host = net.random.below(4) as usize;
        let port = net.random.below(4) as usize;
        let mut bytes = match net.random.below(3) {
            0 => call.clone(),
            1 if !heard.is_empty() => {
                heard[net.random.below(heard.len() as u64) as usize].1.clone()
            }
            _ => (0..net.random.below(200)).map(|_| net.random.below(256) as u8).collect(),
        };
        if round % 2 == 0 && !bytes.is_empty() {
            let at = net.random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << net.random.below(8);
        }
        let now = net.now;
        net.members[host].as_mut().unwrap().hear(port, &bytes, now);
    }
    net.run(WATCHDOG);
    assert_eq!(net.agreed(), before);
}

#[test]
fn a_master_that_comes_back_makes_nobody_take_the_others_for_dead() {
    for (seed, lattice) in ["3", "2x2x2", "4x4"].into_iter().enumerate() {
        let mut net = Net::of(lattice, seed as u64);
        net.run_until(4 * SETTLE, is_whole);
        let master = net.agreed().master;
        let host =
            |member: &Option<Member>| member.as_ref().is_some_and(|it| it.setup.host == master);
        let host = net.members.iter().position(host).unwrap();
        let ports = net.members[host].as_ref().unwrap().ends.len();
        for is_killed in [false, true] {
            if is_killed {
                net.members[host] = None;
            } else {
                net.frozen[host] = true;
            }
            net.run_until(2 * WATCHDOG, |order| dead_nodes(order) == 1);
            net.run(10 * WATCHDOG);
            if is_killed {
                net.restart(host, ports);
            } else {
                net.frozen[host] = false;
            }
            for _ in 0..1000 {
                net.run(MS / 5);
                let others = net.members.iter().enumerate().filter(|(at, _)| *at != host);
                for (at, member) in others {
                    let order = member.as_ref().unwrap().order().unwrap();
                    assert!(
                        dead_nodes(order) <= 1 && dead_cables(order) == 0,
                        "n{at:02} of {lattice}, {is_killed}: {order:?}"
                    );
                }
            }
            assert!(is_whole(&net.agreed()));
            assert_eq!(net.agreed().master, master);
        }
    }
}

#[test]
fn all_agree_however_often_a_master_comes_and_goes() {
    let mut net = Net::of("2x2x2", 4);
    net.run_until(4 * SETTLE, is_whole);
    let master = net.agreed().master;
    let is_master = |it: &Option<Member>| it.as_ref().is_some_and(|it| it.setup.host == master);
    let host = net.members.iter().position(is_master).unwrap();
    for _ in 0..60 {
        net.frozen[host] = true;
        let pause = net.random.below(3 * WATCHDOG);
        net.run(pause);
        net.frozen[host] = false;
        // Some of its cables come back before others do.
        net.loss = 0.3;
        let pause = net.random.below(WATCHDOG);
        net.run(pause);
        net.loss = 0.0;
        net.run_until(10 * WATCHDOG, is_whole);
        net.run(WATCHDOG);
        assert!(is_whole(&net.agreed()));
    }
}

#[test]
fn who_does_not_run_for_about_as_long_as_others_wait_is_no_longer_alone_afterwards() {
    let mut net = Net::of("3x2", 6);
    net.run_until(4 * SETTLE, is_whole);
    for _ in 0..200 {
        let host = net.random.below(net.members.len() as u64) as usize;
        net.frozen[host] = true;
        let pause = WATCHDOG / 5 * 2 + net.random.below(WATCHDOG / 2);
        net.run(pause);
        net.frozen[host] = false;
        net.run_until(4 * WATCHDOG, is_whole);
        net.run(WATCHDOG);
        assert!(is_whole(&net.agreed()));
    }
}

#[test]
fn cables_of_a_host_that_change_places_are_found_again() {
    for (seed, lattice) in ["3", "3x3", "2x2x2", "4x3"].into_iter().enumerate() {
        let mut net = Net::of(lattice, seed as u64);
        net.run_until(4 * SETTLE, is_whole);
        for is_restarted in [false, true] {
            for host in 0..net.members.len() {
                let ports = net.members[host].as_ref().unwrap().ends.len();
                if is_restarted {
                    net.members[host] = None;
                    net.run(2 * WATCHDOG);
                }
                // Each cable into the next port.
                let others: Vec<_> = (0..ports).map(|port| net.unplug((host, port))).collect();
                for (port, other) in others.into_iter().enumerate() {
                    net.plug((host, (port + 1) % ports), other);
                }
                if is_restarted {
                    net.restart(host, ports);
                }
                net.run(3 * WATCHDOG);
                net.run_until(10 * WATCHDOG, is_whole);
                net.assert_directed();
            }
        }
    }
}

#[test]
fn who_is_alone_keeps_what_it_believes_to_itself() {
    let mut net = Net::of("2", 3);
    net.run_until(4 * SETTLE, is_whole);
    let cables: Vec<_> = net.cables.keys().copied().filter(|(host, _)| *host == 0).collect();
    let others: Vec<_> = cables.iter().map(|&end| net.unplug(end)).collect();
    // Each of two takes the other one for dead, and both are right.
    net.run_until(2 * WATCHDOG, |order| dead_nodes(order) == 1);
    cables.iter().zip(&others).for_each(|(a, b)| net.plug(*a, *b));
    net.run_until(2 * WATCHDOG, is_whole);
    net.assert_directed();
}

#[test]
fn a_master_that_was_alone_between_two_parts_gives_no_number_twice() {
    let mut net = Net::of("5", 5);
    net.run_until(4 * SETTLE, is_whole);
    let master = net.agreed().master;
    let first = net.members.iter().flatten().position(|it| it.setup.host == master).unwrap();
    let host = |place: usize| (first + place) % 5;
    let cut = |net: &mut Net, a: usize, b: usize| {
        let between = |(from, to): (&(usize, usize), &(usize, usize))| {
            (from.0 == host(a) && to.0 == host(b)).then_some(*from)
        };
        let end = net.cables.iter().find_map(between).unwrap();
        let other = net.unplug(end);
        net.run(4 * WATCHDOG);
        (end, other)
    };
    // Two parts, of which that of the master loses a host more, so that its orders have greater numbers.
    cut(&mut net, 2, 3);
    let (near, far) = cut(&mut net, 4, 0);
    net.frozen[host(2)] = true;
    net.run(4 * WATCHDOG);
    cut(&mut net, 0, 1);
    net.plug(near, far);
    net.run(4 * WATCHDOG);
    let order = net.members[host(3)].as_ref().unwrap().order().unwrap();
    assert_eq!((order.master, dead_nodes(order)), (master, 2));
}

#[test]
fn somebody_else_who_calls_on_a_wire_of_two_is_told_and_changes_nothing() {
    let mut net = Net::of("2", 1);
    net.run_until(3 * SETTLE, is_whole);
    let before = net.agreed();
    let third =
        Identity { host: HostId(5), ..*net.members[1].as_ref().unwrap().ends[0].neighbour.own() };
    let mut room = [0; MESSAGE_MAX];
    let len = gannet_wire::neighbour::Message::Call(third).emit(&mut room).unwrap();
    let sent = net.sent;
    for _ in 0..100 {
        let now = net.now;
        let member = net.members[0].as_mut().unwrap();
        member.notices();
        assert!(!member.hear(0, &room[..len], now));
        assert_eq!(member.notices(), [Notice::Third(0, third)]);
        net.run(MS);
    }
    assert!(net.sent - sent <= 20, "a stranger is answered");
    net.run(WATCHDOG);
    assert_eq!(net.agreed(), before);
}
