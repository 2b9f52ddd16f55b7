//! A host as a member of a machine: what all hosts say of themselves, and the order by which they make one torus.
//!
//! Each host tells its neighbours who is at the other ends of its cables, and they pass it on (an [`Advert`]), so that every
//! host knows all cables. A cable counts when both of its ends say that they hear each other. The reachable host with the
//! least number is the master: when the cables have not changed for a while it finds the lattice that they make
//! ([`gannet_lattice::cabling`]), and gives out an [`Order`]: which host is which node, by which port it speaks in which
//! direction, and what is dead. Later it gives out another whenever that has changed. A host that is cut off from the
//! master follows the next one.
//!
//! Hosts may speak over a service network, too, by ports that are no cables: it carries what they say of themselves, so that a
//! host which no cable reaches is told from one that is dead. Orders go by cables only: the parts of a machine that no cable joins each
//! follow one of their own.
//!
//! This is a state machine without clock, input and output.

mod flood;
mod master;
#[cfg(test)]
mod tests;
mod twins;

use std::collections::BTreeMap;

use gannet_lattice::cabling::Recognised;
use gannet_lattice::{Direction, LINKS, Lattice, Node};
use gannet_wire::neighbour::{
    Advert, AdvertPort, HOST_NAME_MAX, HostId, Identity, Item, Name, Order, PORT_NAME_MAX,
    PROOF_LEN,
};

use crate::identity::Key;
use crate::neighbour::{Neighbour, News};
use crate::patience::silence_ns;
use flood::Flood;
use twins::{Contest, Doubted};

/// What a host says of itself, and what is wanted of the machine.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The host, by a number that outlives its restarts; not 0.
    pub host: HostId,
    /// Which life of the host: greater after each start.
    pub life: u64,
    /// What people call it.
    pub name: Name<HOST_NAME_MAX>,
    /// What people call its ports, and the longest frame of each, bytes.
    pub ports: Vec<(Name<PORT_NAME_MAX>, usize)>,
    /// What people call its ports to the service network, whose numbers follow those of the cables.
    pub services: Vec<Name<PORT_NAME_MAX>>,
    /// Key of the machine.
    pub key: Key,
    /// Whether frames carry a proof that their sender knows the key; they do, too, where the other end of a cable wants it.
    pub protects: bool,
    /// Within it every host knows of a fault, ns.
    pub watchdog_ns: u64,
    /// The lattice that the cables are to make; any when absent.
    pub lattice: Option<Lattice>,
    /// For how long the cables must not have changed before a machine is made of them, ns. A wanted lattice that is
    /// whole is not waited for.
    pub settle_ns: u64,
}

impl Setup {
    /// Names of all ports by their numbers.
    pub fn port_names(&self) -> impl Iterator<Item = Name<PORT_NAME_MAX>> {
        self.ports.iter().map(|(name, _)| *name).chain(self.services.iter().copied())
    }

    /// What people call a port.
    pub fn port_name(&self, port: usize) -> Name<PORT_NAME_MAX> {
        self.port_names().nth(port).unwrap_or_default()
    }
}

/// Something that has happened, of which people want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The other end of this port has been met, or has begun anew.
    Met(usize, Identity),
    /// The other end of this port is heard again, or not any more.
    Heard(usize, bool),
    /// Somebody at the other end of this port does not know the key.
    WrongKey(usize, Identity),
    /// Somebody at the other end of this port calls, but no handshake comes through.
    NoHandshake(usize, Identity),
    /// The cable at this port leads back to this host.
    Itself(usize, Identity),
    /// Another host, at this port, has the number of this one.
    SameHost(usize, Identity),
    /// Somebody else than the other end calls at this port.
    Third(usize, Identity),
    /// Who is at the other end of this port is of another machine, which has a host with the number of one of this machine, too: that of
    /// this name.
    OtherMachine(usize, Identity, Name<HOST_NAME_MAX>),
    /// The other end of this port carries only shorter, or carries longer frames.
    OtherFrames(usize, Identity),
    /// One end at this port is said to be of the service network, and the other to be that of a cable.
    OtherUse(usize, Identity),
    /// An order has come, or was given by this host.
    Ordered,
}

/// One cable of the host.
#[derive(Debug)]
struct End {
    neighbour: Neighbour,
    flood: Flood,
    /// Host and port that were last met there.
    other: Option<Identity>,
    /// Its direction, where the host there is the neighbour that the order names.
    direction: Option<Direction>,
    doubted: Option<Doubted>,
}

impl End {
    /// The direction that an order gives it, as the port of this number of `host`.
    fn directed(&self, port: usize, host: HostId, order: &Order) -> Option<Direction> {
        let (node, lattice) = (node_of(order, host)?, Lattice::new(order.sizes).ok()?);
        let ports = &order.nodes[node.index()].ports;
        let at = ports.iter().position(|&it| it == u8::try_from(port).ok())?;
        let direction = Direction::ALL[at];
        let there = &order.nodes[lattice.neighbour(node, direction).index()];
        let expected = there.ports[direction.opposite().index()]?;
        let other = self.other?;
        let is_there = (other.host, other.port) == (there.host, u16::from(expected));
        is_there.then_some(direction)
    }

    /// Whether one of both ends is of the service network.
    fn is_service(&self) -> bool {
        self.neighbour.own().is_service || self.other.is_some_and(|other| other.is_service)
    }
}

/// The orders of a host.
#[derive(Debug, Default)]
struct Orders {
    followed: Option<Order>,
    /// The one that it followed before it reached no other host. While there is one, that which it follows is its own, and
    /// told to nobody.
    before_alone: Option<Order>,
}

impl Orders {
    /// The one that others are told, and give way to where theirs is older.
    fn shared(&self) -> Option<&Order> {
        self.before_alone.as_ref().or(self.followed.as_ref())
    }

    /// The number of the next one that is told to others: none is given twice.
    fn next(&self) -> u64 {
        self.shared().map_or(0, |order| order.number) + 1
    }
}

/// A host.
#[derive(Debug)]
pub struct Member {
    setup: Setup,
    ends: Vec<End>,
    /// What each host has said of itself, this one included.
    adverts: BTreeMap<HostId, Advert>,
    orders: Orders,
    /// When the cables changed for the last time, and whether the master is to look at them now.
    changed_at: u64,
    /// How often the cables, or the order, have changed.
    changes: u64,
    is_changed: bool,
    /// The master has not looked at them since they have settled.
    is_unsettled: bool,
    /// What the cables make, as the master has found, where no order came of it.
    found: Option<Recognised>,
    notices: Vec<Notice>,
    contest: Contest,
    /// Since when another host that can be reached has the name of this one, and the greater right to it.
    namesake_since: Option<u64>,
    /// When time passed last, and when it did after a pause so long that others have given up this host.
    advanced_at: u64,
    resumed_at: u64,
}

impl Member {
    /// A host that has heard nobody yet.
    pub fn new(setup: Setup) -> Self {
        let end = |(port, port_name): (usize, Name<PORT_NAME_MAX>)| {
            let cable = setup.ports.get(port);
            let own = Identity {
                host: setup.host,
                life: setup.life,
                port: port as u16,
                frame_bytes: cable.map_or(0, |(_, bytes)| *bytes as u32),
                protects: setup.protects,
                is_service: cable.is_none(),
                host_name: setup.name,
                port_name,
            };
            let neighbour = Neighbour::new(own, setup.key.clone(), setup.watchdog_ns);
            let flood = Flood::default();
            End { neighbour, flood, other: None, direction: None, doubted: None }
        };
        let ends = setup.port_names().enumerate().map(end).collect();
        let mut member = Self {
            setup,
            ends,
            adverts: BTreeMap::new(),
            orders: Orders::default(),
            changed_at: 0,
            changes: 0,
            is_changed: true,
            is_unsettled: true,
            found: None,
            notices: Vec::new(),
            contest: Contest::default(),
            namesake_since: None,
            advanced_at: 0,
            resumed_at: 0,
        };
        member.advertise(0);
        member
    }

    /// What it was made from.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// What has happened since the last call.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Whether there is a machine, or the cables have not changed for long enough to make one.
    pub fn is_settled(&self) -> bool {
        self.orders.followed.is_some() || !self.is_unsettled
    }

    /// How often the cables, or the order, have changed so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// What is known at an end of a cable of this host.
    pub fn neighbour(&self, port: usize) -> Option<&Neighbour> {
        self.ends.get(port).map(|end| &end.neighbour)
    }

    /// What all hosts have said of themselves.
    pub fn adverts(&self) -> impl Iterator<Item = &Advert> {
        self.adverts.values()
    }

    /// What the machine is, once there is one.
    pub fn order(&self) -> Option<&Order> {
        self.orders.followed.as_ref()
    }

    /// What the cables make, where the master has not made a machine of it.
    pub fn found(&self) -> Option<&Recognised> {
        self.found.as_ref()
    }

    /// Whether a host is a part of the machine.
    fn has_place(&self, host: HostId) -> bool {
        self.orders.followed.as_ref().is_some_and(|order| node_of(order, host).is_some())
    }

    /// The node that this host is.
    pub fn node(&self) -> Option<Node> {
        self.orders.followed.as_ref().and_then(|order| node_of(order, self.setup.host))
    }

    /// The direction of a port whose cable leads where the order says.
    pub fn direction(&self, port: usize) -> Option<Direction> {
        self.ends.get(port)?.direction
    }

    /// The port in a direction, if its cable leads where the order says.
    pub fn port(&self, direction: Direction) -> Option<usize> {
        self.ends.iter().position(|end| end.direction == Some(direction))
    }

    /// Writes number and proof behind frames that go by a port: see [`Neighbour::prove`].
    pub fn prove(&mut self, port: usize, frames: &mut [u8], frame: usize) -> bool {
        self.ends.get_mut(port).is_some_and(|end| end.neighbour.prove(frames, frame))
    }

    /// Reclaims the numbers of the last `count` frames by a port, none of which has left this host.
    pub fn reclaim_numbers(&mut self, port: usize, count: usize) {
        if let Some(end) = self.ends.get_mut(port) {
            end.neighbour.reclaim_numbers(count);
        }
    }

    /// The frame that has come by a port, if it is one of its other end.
    pub fn proved<'a>(&mut self, port: usize, bytes: &'a [u8], now: u64) -> Option<&'a [u8]> {
        let mut frame = None;
        self.with(port, now, |neighbour, news| frame = neighbour.proved(bytes, now, news));
        frame
    }

    /// Whether the other end of a port has proved to know the key since the last call.
    pub fn has_proof(&mut self, port: usize) -> bool {
        self.ends.get_mut(port).is_some_and(|end| end.neighbour.has_proof())
    }

    /// A frame of the link has come by a port: its other end is there.
    pub fn hear_frame(&mut self, port: usize, now: u64) {
        self.with(port, now, |neighbour, news| neighbour.hear_frame(now, news));
    }

    /// For a whole watchdog frames of the link have come by a port, and one that has to come before them has not.
    pub fn lacks_frames(&mut self, port: usize, now: u64) {
        self.with(port, now, |neighbour, news| neighbour.lacks_frames(now, news));
    }

    /// A frame of the link goes by a port.
    pub fn frame_sent(&mut self, port: usize, now: u64) {
        if let Some(end) = self.ends.get_mut(port) {
            end.neighbour.frame_sent(now);
        }
    }

    /// Takes a message that has come by a port; gives whether it was of use.
    pub fn hear(&mut self, port: usize, datagram: &[u8], now: u64) -> bool {
        let mut is_of_use = false;
        self.with(port, now, |neighbour, news| {
            let before = neighbour.refused().total();
            neighbour.hear(datagram, now, news);
            is_of_use = neighbour.refused().total() == before;
        });
        is_of_use
    }

    fn with(
        &mut self,
        port: usize,
        now: u64,
        what: impl FnOnce(&mut Neighbour, &mut dyn FnMut(News)),
    ) {
        let Some(end) = self.ends.get_mut(port) else { return };
        let mut news = Vec::new();
        what(&mut end.neighbour, &mut |one| news.push(one));
        for one in news {
            self.learn(port, one, now);
        }
    }

    fn learn(&mut self, port: usize, news: News, now: u64) {
        match news {
            News::Met(who) => {
                let end = &mut self.ends[port];
                end.other = Some(who);
                // It may know nothing yet.
                (end.flood, end.doubted) = (Flood::default(), None);
                let (own, is_service) = (*end.neighbour.own(), end.is_service());
                for advert in self.adverts.values() {
                    self.ends[port].flood.owe(&Item::Advert(advert.clone()), now);
                }
                if let Some(order) = self.orders.shared().filter(|_| !is_service) {
                    self.ends[port].flood.owe(&Item::Order(order.clone()), now);
                }
                self.notices.push(Notice::Met(port, who));
                if who.is_service != own.is_service {
                    self.notices.push(Notice::OtherUse(port, who));
                } else if who.frame_bytes != own.frame_bytes {
                    self.notices.push(Notice::OtherFrames(port, who));
                }
                self.advertise(now);
            }
            News::Heard(is_heard) => {
                self.notices.push(Notice::Heard(port, is_heard));
                self.advertise(now);
            }
            News::Hears(_) | News::Lossy => self.advertise(now),
            News::Said(item) => self.take(port, item, now),
            News::WrongKey(who) => self.notices.push(Notice::WrongKey(port, who)),
            News::NoHandshake(who) => self.notices.push(Notice::NoHandshake(port, who)),
            News::Itself(who) => self.notices.push(Notice::Itself(port, who)),
            News::SameHost(who) => self.notices.push(Notice::SameHost(port, who)),
            News::Third(who) => self.notices.push(Notice::Third(port, who)),
        }
    }

    /// Tells all others of itself.
    fn advertise(&mut self, now: u64) {
        let port = |(port, end): (usize, &End)| AdvertPort {
            port: port as u16,
            state: end.neighbour.state(),
            is_service: end.is_service(),
            other: end.other.map(|other| (other.host, other.port)),
            name: self.setup.port_name(port),
        };
        let ports = self.ends.iter().enumerate().map(port).collect();
        let last = self.adverts.get(&self.setup.host);
        if last.is_some_and(|last| last.ports == ports) {
            return;
        }
        let life = self.setup.life.max(last.map_or(0, |last| last.life));
        let number = last.map_or(0, |last| last.number).saturating_add(1);
        // The same whether frames are proved or not, so that all hosts of a machine may have the same.
        let frame_bytes = self.setup.ports.iter().map(|(_, bytes)| *bytes).min().unwrap_or(0);
        let frame_bytes = frame_bytes.saturating_sub(PROOF_LEN);
        let advert = Advert {
            host: self.setup.host,
            life,
            number,
            frame_bytes: frame_bytes as u32,
            name: self.setup.name,
            ports,
        };
        self.keep(advert, None, now);
    }

    /// Keeps an advert that is newer, and passes it on to all but where it came from.
    fn keep(&mut self, advert: Advert, from: Option<usize>, now: u64) {
        let item = Item::Advert(advert.clone());
        self.pass_on(&item, from, now);
        let old = self.adverts.insert(advert.host, advert.clone());
        let is_same = old.is_some_and(|old| (old.life, &old.ports) == (advert.life, &advert.ports));
        if !is_same {
            self.changed_at = now;
            self.changes += 1;
            (self.is_changed, self.is_unsettled) = (true, true);
        }
    }

    fn pass_on(&mut self, item: &Item, from: Option<usize>, now: u64) {
        let is_order = matches!(item, Item::Order(_));
        let others = self.ends.iter_mut().enumerate().filter(|(port, _)| Some(*port) != from);
        let others = others.filter(|(_, end)| !(is_order && end.is_service()));
        others.for_each(|(_, end)| end.flood.owe(item, now));
    }

    fn take(&mut self, port: usize, item: Item, now: u64) {
        if let Item::Advert(advert) = &item
            && self.is_of_other_machine(port, advert)
        {
            // It does not count as taken: should it be true, the other end says it until it is believed.
            return self.doubt(port, advert, now);
        }
        if let Some(taken) = flood::taken(&item) {
            self.ends[port].neighbour.say(Item::Taken(taken));
        }
        match item {
            Item::Advert(advert) if advert.host == self.setup.host => {
                self.hear_of_self(&advert, now)
            }
            Item::Advert(advert) => {
                let age = |advert: &Advert| (advert.life, advert.number);
                match self.adverts.get(&advert.host) {
                    Some(known) if age(known) > age(&advert) => {
                        let known = Item::Advert(known.clone());
                        self.ends[port].flood.owe(&known, now);
                    }
                    // Two hosts speak for one: the one at this port is to hear of the other. Anybody else would answer in kind, without end.
                    Some(known)
                        if age(known) == age(&advert)
                            && known.ports != advert.ports
                            && self.ends[port].other.is_some_and(|it| it.host == advert.host) =>
                    {
                        let known = Item::Advert(known.clone());
                        self.ends[port].flood.owe(&known, now);
                    }
                    Some(known) if age(known) == age(&advert) => {}
                    Some(_) => self.keep(advert, Some(port), now),
                    // So many are never known of one machine.
                    None if self.adverts.len() < 2 * gannet_wire::neighbour::HOSTS_MAX => {
                        self.keep(advert, Some(port), now);
                    }
                    None => {}
                }
            }
            // The other end may be a cable for whoever is there.
            Item::Order(_) if self.ends[port].is_service() => {}
            Item::Order(order) => self.take_order(port, order, now),
            Item::Taken(taken) => self.ends[port].flood.taken(&taken),
            Item::Alive(_) | Item::Ask => {}
        }
    }

    fn take_order(&mut self, port: usize, order: Order, now: u64) {
        let age = |order: &Order| (order.number, std::cmp::Reverse(order.master));
        let fits = [self.orders.followed.as_ref(), Some(&order)]
            .map(|order| order.is_some_and(|order| self.fits(order)));
        match self.orders.shared() {
            // It was that of another machine.
            _ if fits == [false, true] => {}
            Some(known) if age(known) == age(&order) => return,
            Some(known) if age(known) > age(&order) => {
                let known = Item::Order(known.clone());
                return self.ends[port].flood.owe(&known, now);
            }
            _ => {}
        }
        // A machine of which this host is a part is not left for another one, and that has perhaps hosts of the same numbers.
        let directed = self.ends[port].directed(port, self.setup.host, &order);
        let is_of_other = node_of(&order, self.setup.host).is_none()
            || fits == [true, false]
            || directed.is_none() && !self.is_of_machine(port);
        if self.has_place(self.setup.host) && is_of_other {
            return;
        }
        self.orders.before_alone = None;
        self.follow(order, Some(port), now);
    }

    fn follow(&mut self, order: Order, from: Option<usize>, now: u64) {
        if self.orders.before_alone.is_none() {
            self.pass_on(&Item::Order(order.clone()), from, now);
        }
        self.orders.followed = Some(order);
        self.changes += 1;
        self.found = None;
        self.is_changed = true;
        self.direct();
        self.notices.push(Notice::Ordered);
    }

    /// Finds the direction of each port by the order, and by who is at the other end.
    fn direct(&mut self) {
        let Some(order) = &self.orders.followed else { return };
        for (port, end) in self.ends.iter_mut().enumerate() {
            end.direction = end.directed(port, self.setup.host, order);
        }
    }

    /// Lets happen what is due.
    pub fn advance(&mut self, now: u64) {
        let is_heard = |end: &End| end.neighbour.is_heard();
        if now - self.advanced_at >= silence_ns(self.setup.watchdog_ns)
            && self.ends.iter().any(is_heard)
        {
            self.resumed_at = now;
        }
        self.advanced_at = now;
        for port in 0..self.ends.len() {
            self.with(port, now, |neighbour, news| neighbour.advance(now, news));
        }
        self.contend(now);
        if self.is_changed {
            self.direct();
            self.look_for_namesakes(now);
        }
        self.govern(now);
    }

    /// When there is something to do if nothing comes before. `takes` tells of each port whether it takes anything; what is to be said by one that does
    /// not can wait.
    pub fn next_deadline(&self, takes: &dyn Fn(usize) -> bool) -> u64 {
        let of_end = |(port, end): (usize, &End)| {
            let owed = if end.neighbour.is_up() { end.flood.next() } else { u64::MAX };
            let says = if takes(port) { end.neighbour.says_at().min(owed) } else { u64::MAX };
            end.neighbour.silent_at().min(says)
        };
        let own = self.adverts.get(&self.setup.host).map(|own| (own.life, own.number));
        let is_contested = own.is_some_and(|own| self.contest.greatest >= own);
        let contends = if is_contested { self.contest.again_at } else { u64::MAX };
        let ends = self.ends.iter().enumerate().map(of_end).min().unwrap_or(u64::MAX);
        ends.min(self.governs_at()).min(contends)
    }

    /// Writes the message that is due by a port to the front of `room`, and gives its length; 0 if none is. More may be due.
    pub fn due(&mut self, port: usize, room: &mut [u8], now: u64) -> usize {
        let Some(end) = self.ends.get_mut(port) else { return 0 };
        if end.neighbour.is_up() {
            let again = (self.setup.watchdog_ns / 10).max(1);
            end.flood.due(now, again, |key| {
                let item = match key {
                    flood::Of::Advert(host) => Item::Advert(self.adverts.get(&host)?.clone()),
                    flood::Of::Order => Item::Order(self.orders.shared()?.clone()),
                };
                end.neighbour.say(item);
                Some(())
            });
        }
        end.neighbour.due(room, now)
    }
}

/// The node that `host` is.
pub fn node_of(order: &Order, host: HostId) -> Option<Node> {
    let at = order.nodes.iter().position(|node| node.host == host && host != HostId(0))?;
    Some(Node(at as u32))
}

const _: () = assert!(LINKS == 6, "an order names six ports");
