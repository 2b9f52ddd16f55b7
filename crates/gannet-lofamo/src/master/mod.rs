//! The master: the picture of the whole.

mod doubt;
mod search;

use gannet_lattice::{Direction, LINKS, Lattice, Node};
use gannet_wire::lofamo::{FaultDescriptorRepr, Status};

use self::doubt::Doubt;
use self::search::Search;
use super::report::{Author, Change, Receipt, Report};
use super::timing::Timing;

/// How the newest about a node came to the master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heard {
    /// Nothing came.
    #[default]
    Never,
    /// From its own host.
    Own,
    /// From the host of a neighbour.
    Neighbour(Node),
    /// From the host of this node, to which it was passed on over the torus.
    Relay(Node),
    /// Not at all: no link leads there any more, and its host does not answer.
    Inferred,
}

/// What the master knows of one node: unknown until something was heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// The host.
    pub host: Status,
    /// The NIC.
    pub nic: Status,
    /// The links as their end at this node sees them, in the order X+, X-, Y+, Y-, Z+, Z-.
    pub links: [Status; LINKS],
    /// Since when the statuses are what they are, by the master's clock.
    pub since_ns: u64,
    /// The node's own number of the change.
    pub epoch: u8,
    /// How it was heard.
    pub heard: Heard,
}

impl Picture {
    /// Whether the statuses are those of `descriptor`.
    pub fn says(&self, descriptor: &FaultDescriptorRepr) -> bool {
        self.host == descriptor.host
            && self.nic == descriptor.nic
            && self.links == descriptor.links()
    }
}

/// What the master asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasterAction {
    /// Tell the host of this node that what it reported has come.
    Acknowledge(Node, Receipt),
    /// Ask the host of this node whether it is there; its answer must bear the number. A probe that
    /// is not answered is sent again with the number that it had.
    Probe(Node, u32),
    /// The picture of this node has changed.
    Changed(Node),
}

/// Knows the state of the whole from the reports of hosts.
///
/// A NIC that is dead says nothing. So whenever a cable or a NIC is newly failed, the master looks
/// whether other ways lead from the nodes at its ends to the node whose host has just reported. If
/// none does, it probes the hosts of all nodes that are on their side. Those from which no way leads
/// to a host that answered are gone: their NICs are failed, and their hosts unknown. While a NIC is
/// failed nobody but the master can watch its host; it does so by probes.
#[derive(Clone, Debug)]
pub struct Master {
    lattice: Lattice,
    timing: Timing,
    pictures: Vec<Picture>,
    doubts: Vec<Doubt>,
    /// Changes of the picture so far.
    epoch: u64,
    /// Node whose host reported last, with news from a NIC that works.
    anchor: Node,
    /// Nodes with a probe under way.
    pending: Vec<Node>,
    /// Nodes whose NICs are failed.
    watched: Vec<Node>,
    search: Search,
}

impl Master {
    /// A master that has heard nothing.
    pub fn new(lattice: Lattice, timing: Timing) -> Self {
        let nodes = lattice.nodes();
        Self {
            lattice,
            timing,
            pictures: vec![Picture::default(); nodes],
            doubts: vec![Doubt::default(); nodes],
            epoch: 0,
            anchor: Node(0),
            pending: Vec::with_capacity(nodes),
            watched: Vec::with_capacity(nodes),
            search: Search::new(nodes),
        }
    }

    /// Number of changes of the picture so far: of two pictures, the later has the greater epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What is known of a node.
    #[inline]
    pub fn picture(&self, node: Node) -> &Picture {
        &self.pictures[node.index()]
    }

    /// What is known of all nodes, in the order of their numbers.
    pub fn pictures(&self) -> &[Picture] {
        &self.pictures
    }

    /// What is known of a link: the worse of what its two ends say.
    #[inline]
    pub fn link(&self, node: Node, direction: Direction) -> Status {
        let far = self.lattice.neighbour(node, direction);
        let near = self.pictures[node.index()].links[direction.index()];
        near.max(self.pictures[far.index()].links[direction.opposite().index()])
    }

    /// Takes a report; one about a node outside the lattice is ignored.
    pub fn report(&mut self, now_ns: u64, report: &Report, out: &mut impl FnMut(MasterAction)) {
        let nodes = self.pictures.len();
        let origin = Node(report.descriptor.origin);
        if origin.index() >= nodes || report.from.index() >= nodes {
            return;
        }
        let heard = match report {
            Report { from, .. } if *from == origin => Heard::Own,
            Report { relayed: true, from, .. } => Heard::Relay(*from),
            Report { from, .. } => Heard::Neighbour(*from),
        };
        let (epoch, author) = (report.descriptor.epoch, report.author);
        out(MasterAction::Acknowledge(report.from, Receipt { origin, epoch, author }));
        match author {
            Author::Nic => {
                self.anchor = report.from;
                self.hear(now_ns, &report.descriptor, heard, out);
            }
            Author::Host => self.hear_host(now_ns, &report.descriptor, out),
        }
    }

    /// Takes what a NIC says of its node, unless it is old.
    fn hear(
        &mut self,
        now_ns: u64,
        descriptor: &FaultDescriptorRepr,
        heard: Heard,
        out: &mut impl FnMut(MasterAction),
    ) {
        let node = Node(descriptor.origin);
        let known = &self.pictures[node.index()];
        let change = Change::of(now_ns, descriptor);
        let known_change = Change { epoch: known.epoch, at_ns: known.since_ns };
        let is_news = known.heard == Heard::Never || change.is_after(known_change);
        if !is_news && !self.is_back(node, change) {
            return;
        }
        if self.is_after_verdict(node, change) {
            self.adopt(now_ns, descriptor, heard, out);
        } else {
            // Perhaps its last words, perhaps it is back: its host knows.
            self.probe(now_ns, node, out);
        }
    }

    /// Makes what a NIC says the picture of its node.
    fn adopt(
        &mut self,
        now_ns: u64,
        descriptor: &FaultDescriptorRepr,
        heard: Heard,
        out: &mut impl FnMut(MasterAction),
    ) {
        let node = Node(descriptor.origin);
        let newly_failed = Direction::ALL.map(|direction| {
            descriptor.links()[direction.index()] == Status::Failed
                && self.lattice.has(direction)
                && self.link(node, direction) != Status::Failed
        });
        let picture = Picture {
            host: descriptor.host,
            nic: descriptor.nic,
            links: descriptor.links(),
            since_ns: Change::of(now_ns, descriptor).at_ns,
            epoch: descriptor.epoch,
            heard,
        };
        self.replace(now_ns, node, picture, out);
        for direction in Direction::ALL.into_iter().filter(|it| newly_failed[it.index()]) {
            self.doubt_ends(now_ns, node, direction, out);
        }
    }

    fn replace(
        &mut self,
        now_ns: u64,
        node: Node,
        picture: Picture,
        out: &mut impl FnMut(MasterAction),
    ) {
        let known = &mut self.pictures[node.index()];
        let changed =
            (known.host, known.nic, known.links) != (picture.host, picture.nic, picture.links);
        *known = picture;
        if picture.nic == Status::Failed {
            self.watch(now_ns, node);
        }
        if changed {
            self.epoch += 1;
            out(MasterAction::Changed(node));
        }
    }
}
