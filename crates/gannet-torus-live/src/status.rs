//! What a host knows of the machine, for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::net::Ipv6Addr;

use gannet_lattice::{Direction, Lattice, Node};
use gannet_torus::link::State;
use gannet_wire::neighbour::{HostId, Order, OrderNode, PortState};
use serde::{Deserialize, Serialize};

use crate::driver::{Driver, PortCounters};
use crate::host::Host;
use crate::kernel::namespace;
use crate::neighbour::Neighbour;
pub use crate::packets::Packets;
use crate::users::Counters;

/// What a host knows of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Name of the host, and its number in hexadecimal digits.
    pub host: String,
    /// See `host`.
    pub id: String,
    /// Time since the host was started, s.
    pub up_s: f64,
    /// Number of the network namespace of its node, as the kernel has it.
    #[serde(default)]
    pub namespace: Option<u64>,
    /// The lattice; none while there is no machine.
    pub lattice: Option<String>,
    /// Sizes of the lattice in x, y and z.
    pub sizes: Option<[u16; 3]>,
    /// Place of this host in it.
    pub place: Option<[u16; 3]>,
    /// Name of the master of this host.
    pub master: String,
    /// Number of the order that it follows.
    pub order: Option<u64>,
    /// Longest frame of the cables of the machine, bytes.
    pub frame_bytes: Option<u32>,
    /// Why there is no machine, or no node of this host in it.
    pub waits: Option<String>,
    /// Ports of this host.
    pub ports: Vec<Port>,
    /// Nodes of the machine, x running fastest.
    pub nodes: Vec<Member>,
    /// What has become of the packets of its node, since that was made.
    #[serde(default)]
    pub packets: Packets,
    /// Processes that use the node of this host.
    #[serde(default)]
    pub processes: Processes,
    /// What is wrong, in words.
    pub faults: Vec<Fault>,
}

/// What processes do, since the host was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    /// Those that use the node now.
    pub count: usize,
    /// PUTs and GETs that they have posted.
    pub posts: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// PUTs of others that have arrived for them.
    pub arrived: u64,
}

/// A port of the host that tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Whether it is a port to the service network, and no end of a cable.
    #[serde(default)]
    pub service: bool,
    /// `X+` to `Z-`; none where it leads to no neighbour of the lattice.
    pub direction: Option<String>,
    /// `silent`, `one-way`, `up` or `lossy`.
    pub state: String,
    /// Host and port that were last met there.
    pub other: Option<String>,
    /// Interface of this host that the cable is plugged into; none where it is one between addresses.
    #[serde(default)]
    pub interface: Option<String>,
    /// Address of the other end on that link, once it was met.
    #[serde(default)]
    pub other_address: Option<Ipv6Addr>,
    /// Whether packets can cross its link.
    pub link_up: bool,
    /// Datagrams sent.
    pub sent: u64,
    /// Those of the other end that were taken.
    pub taken: u64,
    /// Those that came from elsewhere.
    pub strangers: u64,
    /// Those that the link refused.
    pub refused: u64,
    /// Those that could not be read.
    pub malformed: u64,
    /// Those that did not prove to come from a host that knows the key.
    pub forged: u64,
    /// Those that had been heard before, or came too late.
    pub stale: u64,
    /// What the system said the last time that the cable was not there.
    pub failure: Option<String>,
}

impl Port {
    /// What came and was not taken, in words; nothing where that is nothing.
    fn turned_away(&self) -> String {
        let kinds = [
            (self.strangers, "from elsewhere"),
            (self.refused, "refused by the link"),
            (self.malformed, "that cannot be read"),
            (self.forged, "without proof of the key"),
            (self.stale, "heard before or too late"),
        ];
        let words = kinds.into_iter().filter(|(count, _)| *count > 0);
        words.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
    }
}

/// A node of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Name of its host; none where none is known.
    pub host: Option<String>,
    /// Its place.
    pub place: [u16; 3],
    /// Whether its host can be reached.
    pub alive: bool,
    /// Whether its host lives, but is heard over the service network only.
    #[serde(default)]
    pub astray: bool,
    /// The cables that lead from it in the directions X+, Y+ and Z+ and are dead.
    pub dead_cables: Vec<String>,
    /// Time of the last few bytes sent there and acknowledged, µs.
    pub round_trip_us: Option<f64>,
    /// How often they came there, and did not.
    pub answered: u64,
    /// See `answered`.
    pub failed: u64,
}

/// Something that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// What it is, and what to do.
    pub text: String,
    /// For how long it has been so, s.
    pub for_s: f64,
}

/// What is remembered from one status to the next.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Since when each fault has been told, by its text, ns.
    since: BTreeMap<String, u64>,
    /// What is wrong with the cables, after how many changes of them that was found, and whether they had settled.
    wrong_cables: Option<((u64, bool), Vec<String>)>,
}

impl Status {
    /// What the host of a driver knows now.
    pub fn of(driver: &Driver<Host>, memory: &mut Memory) -> Self {
        let (host, now) = (driver.node(), driver.now());
        let member = host.member();
        let setup = member.setup();
        let names = Names::of(host);
        let order = member.order();
        let lattice = order.and_then(|order| Lattice::new(order.sizes).ok());
        let mut faults = told(host, &names, now);
        if member.has_twin(now) {
            let id = setup.host;
            faults.push(format!(
                "another host has the number of this one, {id}: give one of them another name"
            ));
        }
        faults.extend(member.namesakes().into_iter().map(|(name, hosts)| {
            format!(
                "{} hosts have the name {name}: give each a name of its own (--name)",
                hosts.len()
            )
        }));
        if let Some((order, lattice)) = order.zip(lattice) {
            faults.extend(dead(host, order, lattice, &names));
        }
        faults.extend(lossy(host, &names));
        faults.extend(memory.wrong_cables(host, &names));
        memory.since.retain(|text, _| faults.contains(text));
        let fault = |text: String| {
            let begin = *memory.since.entry(text.clone()).or_insert(now);
            Fault { text, for_s: seconds(now.saturating_sub(begin)) }
        };
        Self {
            host: setup.name.to_string(),
            id: setup.host.to_string(),
            up_s: seconds(now),
            namespace: namespace(),
            lattice: lattice.map(|lattice| lattice.to_string()),
            sizes: lattice.map(|lattice| lattice.sizes()),
            place: lattice.zip(member.node()).map(|(lattice, node)| lattice.coordinates(node)),
            master: names.host(member.master()),
            order: order.map(|order| order.number),
            frame_bytes: order.map(|order| order.frame_bytes),
            waits: waits(host),
            ports: (0..setup.port_names().count()).map(|port| Port::of(driver, port)).collect(),
            nodes: order
                .zip(lattice)
                .map(|(order, lattice)| members(host, order, lattice, &names))
                .unwrap_or_default(),
            packets: host.node().map(Packets::of).unwrap_or_default(),
            processes: host.users().map_or_else(Processes::default, |users| {
                let Counters { processes: count, posts, failed, arrived } = users.counters();
                Processes { count, posts, failed, arrived }
            }),
            faults: faults.into_iter().map(fault).collect(),
        }
    }
}

/// So many ns in s, to the millisecond.
fn seconds(ns: u64) -> f64 {
    (ns / 1_000_000) as f64 / 1e3
}

/// Names of hosts and their ports, as they say themselves.
struct Names(BTreeMap<HostId, (String, Vec<String>)>);

impl Names {
    fn of(host: &Host) -> Self {
        let names = host.member().adverts().map(|advert| {
            let ports = advert.ports.iter().map(|port| port.name.to_string()).collect();
            (advert.host, (advert.name.to_string(), ports))
        });
        Self(names.collect())
    }

    fn host(&self, host: HostId) -> String {
        self.0.get(&host).map_or_else(|| format!("host {host}"), |(name, _)| name.clone())
    }

    fn port(&self, host: HostId, port: u16) -> String {
        let name = self.0.get(&host).and_then(|(_, ports)| ports.get(usize::from(port)));
        let port = name.cloned().unwrap_or_else(|| port.to_string());
        format!("{} port {port}", self.host(host))
    }
}

fn waits(host: &Host) -> Option<String> {
    let member = host.member();
    let heard = member.adverts().count();
    if let Some(trouble) = host.trouble() {
        return Some(trouble.to_owned());
    }
    match (member.order(), member.found()) {
        (Some(_), _) => None,
        (None, Some(_)) => Some("the cables make no lattice; see what is wrong".into()),
        (None, None) if heard < 2 => Some("no other host is heard".into()),
        (None, None) => {
            Some(format!("{heard} hosts are heard; a machine is made when no more come"))
        }
    }
}

/// What ports have met that is no neighbour.
fn told(host: &Host, names: &Names, now: u64) -> Vec<String> {
    let member = host.member();
    let own = |port: usize| names.port(member.setup().host, port as u16);
    let ports = 0..member.setup().port_names().count();
    let ports = ports.filter_map(|port| Some((port, host.stranger(port, now)?)));
    ports.map(|(port, what)| format!("{}: {what}", own(port))).collect()
}

/// Ends of cables at which much of what the other end sends is lost, and those other ends.
fn lossy_ends(host: &Host) -> impl Iterator<Item = [(HostId, u16); 2]> {
    host.member().adverts().flat_map(|advert| {
        let ports = advert.ports.iter().filter(|port| port.state == PortState::Lossy);
        ports.filter_map(|port| Some([(advert.host, port.port), port.other?]))
    })
}

/// Cables that lose too much.
fn lossy(host: &Host, names: &Names) -> Vec<String> {
    let words = |[here, there]: [(HostId, u16); 2]| {
        let (here, there) = (names.port(here.0, here.1), names.port(there.0, there.1));
        format!(
            "the cable from {there} to {here} loses frames on that way, or brings them too late; packets avoid it where they \
             can; look after its plugs, or use another one"
        )
    };
    lossy_ends(host).map(words).collect()
}

/// What of the machine is dead, but for what is only avoided.
fn dead(host: &Host, order: &Order, lattice: Lattice, names: &Names) -> Vec<String> {
    let mut faults = Vec::new();
    let lossy: BTreeSet<(HostId, u16)> = lossy_ends(host).flatten().collect();
    let is_lossy = |node: Node, direction: Direction| {
        let OrderNode { host, ports, .. } = order.nodes[node.index()];
        ports[direction.index()].is_some_and(|port| lossy.contains(&(host, port.into())))
    };
    let end = |node: Node, direction: Direction| {
        let OrderNode { host, ports, .. } = order.nodes[node.index()];
        match ports[direction.index()] {
            Some(port) => names.port(host, port.into()),
            None => format!("{} ({direction})", names.host(host)),
        }
    };
    let astray = host.member().astray();
    for node in lattice.all() {
        let it = &order.nodes[node.index()];
        if it.dead >> 3 & 1 == 1 {
            let [x, y, z] = lattice.coordinates(node);
            faults.push(match it.host {
                HostId(0) => format!("no host is at {x},{y},{z}"),
                host if astray.contains(&host) => format!(
                    "{} at {x},{y},{z} lives, as the service network tells, but no cable reaches it",
                    names.host(host)
                ),
                host => format!("{} at {x},{y},{z} cannot be reached", names.host(host)),
            });
        }
        for dimension in lattice.dimensions().filter(|dimension| it.dead >> dimension & 1 == 1) {
            let direction = Direction::of(dimension, true);
            let other = lattice.neighbour(node, direction);
            if is_lossy(node, direction) && is_lossy(other, direction.opposite()) {
                continue;
            }
            let (from, to) = (end(node, direction), end(other, direction.opposite()));
            faults.push(format!("the cable from {from} to {to} carries nothing"));
        }
    }
    faults
}

impl Memory {
    /// Cables that are not where they should be; looked for only when something has changed.
    fn wrong_cables(&mut self, host: &Host, names: &Names) -> Vec<String> {
        let now = (host.member().changes(), host.member().is_settled());
        if self.wrong_cables.as_ref().is_none_or(|(after, _)| *after != now) {
            self.wrong_cables = Some((now, wrong_cables(host, names)));
        }
        self.wrong_cables.as_ref().map(|(_, wrong)| wrong.clone()).unwrap_or_default()
    }
}

/// Cables that are not where they should be.
fn wrong_cables(host: &Host, names: &Names) -> Vec<String> {
    // While hosts still come, what is not there yet is not wrong.
    let member = host.member();
    if !member.is_settled() {
        return Vec::new();
    }
    let Some((found, hosts)) = member.survey() else { return without_place(host, names) };
    let name = |host: usize, port: Option<u8>| match port {
        Some(port) => names.port(hosts[host], port.into()),
        None => names.host(hosts[host]),
    };
    // A cable that only carries nothing has been told; whether it is plugged in nobody knows.
    let is_told = host.member().order().is_some();
    let is_lacking = |mend: &gannet_lattice::cabling::Mend| {
        use gannet_lattice::cabling::Mend;
        matches!(mend, Mend::Plug(_) | Mend::NoPort(_))
    };
    let mends = found.mends.iter().filter(|mend| !(is_told && is_lacking(mend)));
    mends.map(|mend| mend.words(found.lattice, name).to_string()).collect()
}

/// Cables to hosts that have no place in the machine.
fn without_place(host: &Host, names: &Names) -> Vec<String> {
    let member = host.member();
    let Some(lattice) = member.order().and_then(|order| Lattice::new(order.sizes).ok()) else {
        return Vec::new();
    };
    let words = |[(here, port), (there, other)]: [(HostId, u16); 2]| {
        let (end, host) = (names.port(there, other), names.host(there));
        format!("{} goes to {end}, and {host} has no place in {lattice}", names.port(here, port))
    };
    member.astray_cables().into_iter().map(words).collect()
}

impl Port {
    fn of(driver: &Driver<Host>, port: usize) -> Self {
        let host = driver.node();
        let member = host.member();
        let counters = driver.counters(port).unwrap_or_default();
        let PortCounters { sent, taken, strangers, refused, failure, .. } = counters;
        let direction = member.direction(port);
        let link = direction.and_then(|direction| host.node()?.link(direction));
        let neighbour = member.neighbour(port);
        let state = neighbour.map(Neighbour::state).unwrap_or_default();
        let turned_away = neighbour.map(|neighbour| neighbour.refused()).unwrap_or_default();
        let (interface, other_address) = driver.interface(port).unzip();
        Self {
            name: member.setup().port_name(port).to_string(),
            service: neighbour.is_some_and(|neighbour| neighbour.own().is_service),
            direction: direction.map(|direction| direction.to_string()),
            state: match state {
                PortState::Silent => "silent",
                PortState::OneWay => "one-way",
                PortState::Up => "up",
                PortState::Lossy => "lossy",
            }
            .into(),
            other: neighbour.and_then(|it| it.other()).map(|other| other.place().to_string()),
            interface: interface.map(Into::into),
            other_address: other_address.flatten(),
            link_up: link.is_some_and(|link| link.state() == State::Up),
            sent,
            taken,
            strangers,
            refused,
            malformed: turned_away.malformed,
            forged: turned_away.forged,
            stale: turned_away.stale,
            failure,
        }
    }
}

fn members(host: &Host, order: &Order, lattice: Lattice, names: &Names) -> Vec<Member> {
    let astray = host.member().astray();
    let member = |(node, it): (Node, &OrderNode)| {
        let probe = host.probe(it.host);
        let dead = lattice.dimensions().filter(|dimension| it.dead >> dimension & 1 == 1);
        Member {
            host: (it.host != HostId(0)).then(|| names.host(it.host)),
            place: lattice.coordinates(node),
            alive: it.dead >> 3 & 1 == 0,
            astray: it.dead >> 3 & 1 == 1 && astray.contains(&it.host),
            dead_cables: dead.map(|it| Direction::of(it, true).to_string()).collect(),
            round_trip_us: probe.round_trip_ns.map(|ns| ns as f64 * 1e-3),
            answered: probe.answered,
            failed: probe.failed,
        }
    };
    lattice.all().zip(&order.nodes).map(member).collect()
}

/// The machine as people look at it: in words, with its lattice as planes.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.lattice, self.place, self.order) {
            (Some(lattice), Some([x, y, z]), Some(order)) => writeln!(
                f,
                "{} is node {x},{y},{z} of {lattice}; the master is {}, whose order {order} it follows",
                self.host, self.master
            )?,
            _ => writeln!(f, "{} ({}) is part of no machine yet", self.host, self.id)?,
        }
        if let Some(waits) = &self.waits {
            writeln!(f, "{waits}")?;
        }
        writeln!(f, "\n  {:<16} {:<4} {:<8} {:<5} other end", "port", "way", "state", "link")?;
        for port in &self.ports {
            writeln!(
                f,
                "  {:<16} {:<4} {:<8} {:<5} {}",
                port.name,
                port.direction.as_deref().unwrap_or("-"),
                port.state,
                match (port.service, port.link_up) {
                    (true, _) => "none",
                    (false, true) => "up",
                    (false, false) => "down",
                },
                port.other.as_deref().unwrap_or("-"),
            )?;
        }
        for port in &self.ports {
            let turned_away = port.turned_away();
            if !turned_away.is_empty() {
                writeln!(f, "  {:<16} turned away: {turned_away}", port.name)?;
            }
        }
        if let Some(sizes) = self.sizes {
            self.planes(sizes, f)?;
        }
        if !self.nodes.is_empty() {
            writeln!(f, "\n  {:<16} {:<10} round trip", "host", "place")?;
            for node in &self.nodes {
                let [x, y, z] = node.place;
                let trip = match (node.alive, node.round_trip_us) {
                    (false, _) if node.astray => "heard over the service network".to_owned(),
                    (false, _) => "cannot be reached".to_owned(),
                    (true, Some(us)) => format!("{us:.0} us"),
                    (true, None) => "-".to_owned(),
                };
                let host = node.host.as_deref().unwrap_or("-");
                writeln!(f, "  {host:<16} {:<10} {trip}", format!("{x},{y},{z}"))?;
            }
        }
        if self.packets != Packets::default() {
            writeln!(f, "\n{}", self.packets)?;
        }
        let Processes { count, posts, failed, arrived } = self.processes;
        if count > 0 || posts > 0 || arrived > 0 {
            writeln!(
                f,
                "\nprocesses that use this node: {count}; {posts} posts, {failed} of them failed; {arrived} PUTs have arrived for them"
            )?;
        }
        match self.faults.len() {
            0 if self.lattice.is_some() => writeln!(f, "\nnothing is wrong"),
            0 => Ok(()),
            _ => {
                writeln!(f, "\nwhat is wrong, and for how long:")?;
                self.faults
                    .iter()
                    .try_for_each(|it| writeln!(f, "  {:>8.1} s  {}", it.for_s, it.text))
            }
        }
    }
}

impl Status {
    /// The planes of the lattice, as the whole text has them; nothing while there is none.
    pub fn picture(&self) -> impl fmt::Display {
        fmt::from_fn(|f| self.sizes.map_or(Ok(()), |sizes| self.planes(sizes, f)))
    }

    /// Each plane of the lattice: hosts by name, `--` and `|` for cables, spaces for dead ones, `x` before dead hosts.
    fn planes(&self, [x, y, z]: [u16; 3], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |place: [u16; 3]| self.nodes.iter().find(|node| node.place == place);
        let name = |node: Option<&Member>| {
            let name = node.and_then(|node| node.host.as_deref()).unwrap_or("-");
            let mark = if node.is_some_and(|node| node.alive) { "" } else { "x" };
            format!("{mark}{name}")
        };
        let width = self.nodes.iter().map(|node| name(Some(node)).len()).max().unwrap_or(0);
        let is_alive = |place: [u16; 3]| at(place).is_some_and(|node| node.alive);
        let works = |place: [u16; 3], way: &str| {
            let [column, row, plane] = place;
            let next = match way {
                "X+" => [(column + 1) % x, row, plane],
                _ => [column, (row + 1) % y, plane],
            };
            let is_dead = |node: &Member| node.dead_cables.iter().any(|it| it == way);
            is_alive(place) && is_alive(next) && !at(place).is_some_and(is_dead)
        };
        for plane in 0..z {
            writeln!(f, "{}", if z > 1 { format!("\n  z = {plane}") } else { String::new() })?;
            for row in 0..y {
                let mut line = String::new();
                for column in 0..x {
                    let place = [column, row, plane];
                    let cable = if x > 1 && works(place, "X+") { "--" } else { "  " };
                    write!(line, "{:^width$}{cable}", name(at(place)))?;
                }
                writeln!(f, "    {}", line.trim_end())?;
                if y > 1 {
                    let cable = |column| if works([column, row, plane], "Y+") { "|" } else { " " };
                    let line: String =
                        (0..x).map(|column| format!("{:^width$}  ", cable(column))).collect();
                    writeln!(f, "    {}", line.trim_end())?;
                }
            }
        }
        Ok(())
    }
}
