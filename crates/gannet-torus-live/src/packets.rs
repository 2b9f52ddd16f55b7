//! What has become of packets at a node.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use gannet_rdma::PhysicalMemory;
use gannet_torus::node::{self, TorusNode};
use serde::{Deserialize, Serialize};

/// What has become of packets at nodes: `injected + taken = delivered + forwarded + waiting`, and those that were dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packets {
    /// Those of the own engine.
    pub injected: u64,
    /// Those of links.
    pub taken: u64,
    /// Those that were given to the engine.
    pub delivered: u64,
    /// Those that were given to links.
    pub forwarded: u64,
    /// Those of the engine that wait for a link.
    pub waiting: u64,
    /// Those that were dropped, by reason. What the engine of another node has sent it sends again.
    pub dropped: BTreeMap<String, u64>,
}

impl Packets {
    /// Those of a node.
    pub fn of<M: PhysicalMemory>(node: &TorusNode<M>) -> Self {
        let counters = node.counters();
        let &node::Counters { injected, taken, delivered, forwarded, .. } = counters;
        let dropped = node::Reason::ALL.into_iter().filter_map(|reason| {
            let count = Some(counters.dropped(reason)).filter(|&count| count > 0)?;
            let name = match reason {
                node::Reason::NoSuchNode => "no such node",
                node::Reason::NoRoute => "no route",
                node::Reason::OtherRoutes => "other routes",
                node::Reason::HopLimit => "too many hops",
                node::Reason::LinkDown => "link down",
                node::Reason::LinkRefuses => "link refuses",
            };
            Some((name.to_owned(), count))
        });
        let (waiting, dropped) = (node.waiting() as u64, dropped.collect());
        Self { injected, taken, delivered, forwarded, waiting, dropped }
    }

    /// Whether each is accounted for.
    pub fn is_balanced(&self) -> bool {
        let Self { injected, taken, delivered, forwarded, waiting, dropped } = self;
        injected + taken == delivered + forwarded + waiting + dropped.values().sum::<u64>()
    }
}

impl AddAssign for Packets {
    fn add_assign(&mut self, more: Self) {
        let Self { injected, taken, delivered, forwarded, waiting, dropped } = more;
        self.injected += injected;
        self.taken += taken;
        self.delivered += delivered;
        self.forwarded += forwarded;
        self.waiting += waiting;
        for (reason, count) in dropped {
            *self.dropped.entry(reason).or_default() += count;
        }
    }
}

impl fmt::Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { injected, taken, delivered, forwarded, waiting, dropped } = self;
        write!(
            f,
            "packets: {injected} sent from here and {taken} taken from cables; {delivered} delivered and {forwarded} passed on"
        )?;
        if *waiting > 0 {
            write!(f, ", {waiting} wait")?;
        }
        dropped.iter().try_for_each(|(reason, count)| write!(f, ", {count} dropped: {reason}"))?;
        write!(f, "{}", if self.is_balanced() { "" } else { "; these sums do not agree" })
    }
}
