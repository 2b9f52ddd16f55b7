//! Hosts of one number, or of one name: what two machines that are joined keep apart, and who has to go.
//!
//! A host is told by its number, which follows from its name and from the machine that it runs on: two that were made from one image, or
//! run on one machine, may have the same. People tell hosts by their names, so a machine has no two of one name either.

use std::collections::BTreeMap;

use gannet_wire::neighbour::{Advert, HOST_NAME_MAX, HostId, Identity, Item, Name, Order};

use super::{End, Member, Notice};

/// How often in a row somebody else speaks for this host before that is another host with its number, and not what was kept of
/// an earlier life.
const CONTESTS: u32 = 4;
/// What the other end of a port says that is not believed is told after so many watchdogs: until then it may be news that has not come by
/// other ways.
const DOUBT_WATCHDOGS: u64 = 2;

/// What others say in the name of this host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contest {
    /// The newest of it: life and number.
    pub(super) greatest: (u64, u64),
    /// Until then it is not answered again.
    pub(super) again_at: u64,
    /// How often it was answered, one soon after the other.
    count: u32,
    /// Whether most cables of this host led where the machine has it when it was answered.
    is_resident: bool,
}

/// What is said at a port and not believed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubted {
    /// Since when, and when last.
    since: u64,
    last: u64,
    /// Of which host it was said first.
    name: Name<HOST_NAME_MAX>,
}

impl Member {
    /// Whether the other end of a port is of the machine that this host follows: the order gives the port its direction, or names a host
    /// that can be reached without this port and says that its cable leads here.
    pub(super) fn is_of_machine(&self, port: usize) -> bool {
        let End { direction, other, .. } = &self.ends[port];
        let leads_here = |other: &Identity| {
            let advert = self.adverts.get(&other.host);
            let mut ports = advert.into_iter().flat_map(|advert| &advert.ports);
            let leads = ports.find(|it| it.port == other.port).and_then(|it| it.other);
            leads == Some((self.setup.host, port as u16)) && self.reaches_without(port, other.host)
        };
        direction.is_some() || other.as_ref().is_some_and(leads_here)
    }

    /// Whether an advert is of a host of another machine that has the number of one of this machine: the other end of the port has no
    /// place here, and the host of which it tells something new can be reached without it. Who has no cable that leads where the machine has
    /// it may be that other host itself, and believes it.
    pub(super) fn is_of_other_machine(&self, port: usize, advert: &Advert) -> bool {
        let is_new = |known: &Advert| (known.life, &known.ports) != (advert.life, &advert.ports);
        self.adverts.get(&advert.host).is_some_and(is_new)
            && self.ends.iter().any(|end| end.direction.is_some())
            && !self.is_of_machine(port)
            && self.reaches_without(port, advert.host)
    }

    /// Whether an order gives a direction to any port by which another host is heard.
    pub(super) fn fits(&self, order: &Order) -> bool {
        let mut ends = self.ends.iter().enumerate();
        ends.any(|(port, end)| {
            end.neighbour.is_heard() && end.directed(port, self.setup.host, order).is_some()
        })
    }

    /// Takes note of an advert that is not believed, and answers who speaks for itself: its number is that of another host.
    pub(super) fn doubt(&mut self, port: usize, advert: &Advert, now: u64) {
        let Some(known) = self.adverts.get(&advert.host) else { return };
        let end = &mut self.ends[port];
        let before = end.doubted.filter(|it| now <= it.last + self.setup.watchdog_ns);
        let first = before.unwrap_or(Doubted { since: now, last: now, name: advert.name });
        end.doubted = Some(Doubted { last: now, ..first });
        let Some(other) = end.other else { return };
        if now >= first.since + DOUBT_WATCHDOGS * self.setup.watchdog_ns {
            self.notices.push(Notice::OtherMachine(port, other, first.name));
        }
        if other.host == advert.host {
            let (life, number) = (advert.life, advert.number.saturating_add(1));
            end.neighbour.say(Item::Advert(Advert { life, number, ..known.clone() }));
        }
    }

    /// Somebody has kept what this host said of itself in an earlier life, or another host has its number.
    pub(super) fn hear_of_self(&mut self, advert: &Advert, now: u64) {
        let age = |advert: &Advert| (advert.life, advert.number);
        let Some(own) = self.adverts.get(&self.setup.host) else { return };
        // Both may have come to the same number.
        let is_other = age(advert) == age(own) && advert.ports != own.ports;
        let is_news = age(advert) > age(own) || is_other;
        if is_news && age(advert) > self.contest.greatest {
            self.contest.greatest = age(advert);
            self.contend(now);
        }
    }

    /// Says again what this host is, as the newest; not at once where that was just done, since another host with its number
    /// answers in kind.
    pub(super) fn contend(&mut self, now: u64) {
        // Another host may have been plugged in where one of these cables was.
        let directed = self.ends.iter().filter(|end| end.direction.is_some()).count();
        let placed = self.node().zip(self.orders.followed.as_ref());
        let ports = placed.map(|(node, order)| order.nodes[node.index()].ports.iter().flatten());
        let leads_home = ports.is_some_and(|ports| directed > 0 && 2 * directed >= ports.count());
        let Some(own) = self.adverts.get_mut(&self.setup.host) else { return };
        let Contest { greatest: (life, number), again_at, count, is_resident } = &mut self.contest;
        if (*life, *number) < (own.life, own.number) || now < *again_at {
            return;
        }
        let is_long_ago = now > again_at.saturating_add(10 * self.setup.watchdog_ns);
        if is_long_ago || *count == 0 {
            (*is_resident, *count) = (false, 0);
        }
        *is_resident |= leads_home;
        *count += 1;
        *again_at = now + self.setup.watchdog_ns;
        (own.life, own.number) = (*life, number.saturating_add(1));
        let item = Item::Advert(own.clone());
        self.pass_on(&item, None, now);
    }

    /// Whether another host that can be reached has the number of this one.
    pub fn has_twin(&self, now: u64) -> bool {
        let Contest { again_at, count, .. } = self.contest;
        count >= CONTESTS && now <= again_at.saturating_add(10 * self.setup.watchdog_ns)
    }

    /// Whether the machine has another host with the number, or with the name, of this one, which was there before: this one has to go.
    pub fn is_turned_away(&self, now: u64) -> bool {
        let long = u64::from(CONTESTS) * self.setup.watchdog_ns;
        let has_namesake = self.namesake_since.is_some_and(|since| now >= since + long);
        self.has_twin(now) && !self.contest.is_resident || has_namesake
    }

    /// Hosts that this one can reach and that have the same name, by their names.
    pub fn namesakes(&self) -> BTreeMap<Name<HOST_NAME_MAX>, Vec<HostId>> {
        let mut hosts = BTreeMap::<_, Vec<_>>::new();
        for host in self.reach_by(|_, _| true).hosts {
            if let Some(advert) = self.adverts.get(&host) {
                hosts.entry(advert.name).or_default().push(host);
            }
        }
        hosts.retain(|_, hosts| hosts.len() > 1);
        hosts
    }

    /// Looks whether another host has the name of this one and the greater right to it: it has a place in the machine, or the lesser
    /// number where neither has one.
    pub(super) fn look_for_namesakes(&mut self, now: u64) {
        let own = self.setup.host;
        let others = self.namesakes().remove(&self.setup.name).unwrap_or_default();
        let goes_first = |other: &HostId| self.has_place(*other) || *other < own;
        let yields = !self.has_place(own) && others.iter().any(goes_first);
        self.namesake_since = yields.then(|| self.namesake_since.unwrap_or(now));
    }
}
