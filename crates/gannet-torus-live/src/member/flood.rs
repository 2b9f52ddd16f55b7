//! What one neighbour is still to be told, until it says that it has it.

use std::collections::BTreeMap;

use gannet_wire::neighbour::{HostId, Item, Kind, Taken};

/// What is told: the newest of each kind and host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    Order,
    Advert(HostId),
}

/// What one neighbour is to be told, when next, and which of it.
#[derive(Debug, Default)]
pub(super) struct Flood(BTreeMap<Of, (u64, Taken)>);

impl Flood {
    /// It is to be told of `item` from `now` on.
    pub fn owe(&mut self, item: &Item, now: u64) {
        let Some(taken) = taken(item) else { return };
        self.0.insert(of(&taken), (now, taken));
    }

    /// It has that, or a newer one.
    pub fn taken(&mut self, taken: &Taken) {
        let age = |of: &Taken| (of.life, of.number);
        if self.0.get(&of(taken)).is_some_and(|(_, owed)| age(owed) <= age(taken)) {
            self.0.remove(&of(taken));
        }
    }

    /// When it is to be told something.
    pub fn next(&self) -> u64 {
        self.0.values().map(|(at, _)| *at).min().unwrap_or(u64::MAX)
    }

    /// Tells what is due, and will again after `again` ns.
    pub fn due(&mut self, now: u64, again: u64, mut tell: impl FnMut(Of) -> Option<()>) {
        for (of, (at, _)) in self.0.iter_mut().filter(|(_, (at, _))| *at <= now) {
            *at = now + again;
            let _told = tell(*of);
        }
    }
}

/// What says that `item` has come; nothing where nobody waits for that.
pub(super) fn taken(item: &Item) -> Option<Taken> {
    match item {
        Item::Advert(advert) => Some(Taken {
            kind: Kind::Advert,
            host: advert.host,
            life: advert.life,
            number: advert.number,
        }),
        Item::Order(order) => {
            Some(Taken { kind: Kind::Order, host: order.master, life: 0, number: order.number })
        }
        Item::Alive(_) | Item::Taken(_) | Item::Ask => None,
    }
}

fn of(taken: &Taken) -> Of {
    match taken.kind {
        Kind::Order => Of::Order,
        Kind::Advert => Of::Advert(taken.host),
    }
}
