//! The master: the picture of the whole.

use gannet_wire::lofamo::{FaultDescriptorRepr, Status};

use super::host::host_status;
use super::is_after;
use super::picture::{Heard, Picture};
use super::report::{Answer, Author, Report};
use super::timing::Timing;
use crate::lattice::{Direction, Lattice, Node};

const MS_NS: u64 = 1_000_000;
/// A change that is younger by this than the one known is believed whatever its epoch: the node has
/// started anew.
const RESTART_NS: u64 = 1000 * MS_NS;
/// Ages are whole milliseconds; a change counts as later than a verdict when it is so by more.
const AGE_ERROR_NS: u64 = 4 * MS_NS;

/// What the master asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasterAction {
    /// Tell the host of `to` that the news of `origin` have come.
    Acknowledge {
        /// Host that reported.
        to: Node,
        /// Node the news are of.
        origin: Node,
        /// Their epoch.
        epoch: u8,
    },
    /// Ask the host of this node whether it is there; its answer must bear the number.
    Probe(Node, u32),
    /// The picture of this node has changed.
    Changed(Node),
}

/// What the master remembers of a node beside its picture.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    /// Number of the last probe.
    number: u32,
    /// When the last probe was sent.
    asked_ns: u64,
    /// When it and all that can be reached from it were last cut off.
    cut_off_ns: u64,
    /// While it is under way: when it is given up.
    deadline_ns: Option<u64>,
    /// When the host last answered a probe, and showed a NIC that works.
    answered_ns: Option<u64>,
    /// When the host last answered a probe, whatever of its NIC.
    replied_ns: Option<u64>,
    /// While the NIC is failed: when the host is to be probed next, as nobody else can watch it.
    watch_ns: Option<u64>,
    /// Since when the node is believed gone because nothing leads to it and nobody answers.
    verdict_ns: Option<u64>,
}

/// Knows the state of the whole from the reports of hosts.
///
/// A NIC that is dead says nothing. So whenever a cable or a NIC is newly failed, the master looks
/// whether other ways lead from the nodes at its ends to the node whose host has just reported. If
/// none does, it probes the hosts of all nodes that are on their side. Those from which no way leads to a host that
/// answered are gone: their NICs are failed, and their hosts unknown. While a NIC is failed nobody
/// but the master can watch its host; it does so by probes.
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
        match report.author {
            Author::Nic => {
                let epoch = report.descriptor.epoch;
                out(MasterAction::Acknowledge { to: report.from, origin, epoch });
                self.anchor = report.from;
                self.hear(now_ns, &report.descriptor, heard, out);
            }
            Author::Host => self.host_says(now_ns, &report.descriptor, out),
        }
    }

    /// Takes the answer to a probe: what answers is there. An answer to an earlier probe than the
    /// last may be older than the reason for the last, and is ignored.
    pub fn answer(&mut self, now_ns: u64, answer: &Answer, out: &mut impl FnMut(MasterAction)) {
        let node = answer.from;
        let last = self.doubts.get(node.index()).map(|doubt| doubt.number);
        if last != Some(answer.number) {
            return;
        }
        let told = answer.descriptor.filter(|descriptor| {
            descriptor.origin == node.0 && !self.is_contradicted(node, descriptor)
        });
        let doubt = &mut self.doubts[node.index()];
        doubt.replied_ns = Some(now_ns);
        doubt.answered_ns = told.map(|_| now_ns);
        let was_gone = doubt.verdict_ns.take().is_some();
        match told {
            Some(descriptor) if was_gone => self.adopt(now_ns, &descriptor, Heard::Own, out),
            Some(descriptor) => self.hear(now_ns, &descriptor, Heard::Own, out),
            None => {
                let nic = Status::Failed;
                let descriptor = FaultDescriptorRepr {
                    host: host_status(&answer.host),
                    nic,
                    origin: node.0,
                    ..FaultDescriptorRepr::default()
                };
                self.host_says(now_ns, &descriptor, out);
            }
        }
    }

    /// Whether a host under doubt shows a register of its NIC by which links work that, by their
    /// other ends, do not: the register of a NIC that is dead, which the host has not noticed yet.
    /// A NIC that lives sees a link that is cut as soon as the other end does.
    fn is_contradicted(&self, node: Node, descriptor: &FaultDescriptorRepr) -> bool {
        let is_doubted = self.doubts[node.index()].deadline_ns.is_some();
        let links = descriptor.links();
        is_doubted
            && Direction::ALL.into_iter().filter(|&d| self.lattice.has(d)).any(|direction| {
                let far = self.picture(self.lattice.neighbour(node, direction));
                far.links[direction.opposite().index()] == Status::Failed
                    && matches!(links[direction.index()], Status::Normal | Status::Sick)
            })
    }

    /// Time at which [`poll`](Self::poll) has something to do.
    pub fn deadline_ns(&self) -> Option<u64> {
        let doubt = |node: &Node| &self.doubts[node.index()];
        let probes = self.pending.iter().filter_map(|node| doubt(node).deadline_ns);
        probes.chain(self.watched.iter().filter_map(|node| doubt(node).watch_ns)).min()
    }

    /// Decides on nodes whose probes have had their time.
    pub fn poll(&mut self, now_ns: u64, out: &mut impl FnMut(MasterAction)) {
        let mut at = 0;
        while at < self.pending.len() {
            let node = self.pending[at];
            let deadline_ns = self.doubts[node.index()].deadline_ns.unwrap_or(now_ns);
            if deadline_ns > now_ns {
                at += 1;
                continue;
            }
            let vouched = self.is_vouched_for(node);
            if !vouched && let Some(later_ns) = self.may_be_vouched_for(now_ns, node) {
                self.doubts[node.index()].deadline_ns = Some(later_ns);
                continue;
            }
            self.pending.swap_remove(at);
            self.doubts[node.index()].deadline_ns = None;
            if !vouched {
                self.give_up(now_ns, node, out);
            }
        }
        self.probe_watched(now_ns, out);
    }

    /// Probes the hosts whose NICs are failed, each once in a while.
    fn probe_watched(&mut self, now_ns: u64, out: &mut impl FnMut(MasterAction)) {
        let mut at = 0;
        while at < self.watched.len() {
            let node = self.watched[at];
            if self.picture(node).nic != Status::Failed {
                self.doubts[node.index()].watch_ns = None;
                self.watched.swap_remove(at);
                continue;
            }
            if self.doubts[node.index()].watch_ns.is_some_and(|due| due <= now_ns) {
                self.doubts[node.index()].watch_ns = Some(now_ns + self.timing.tick_ns);
                self.probe(now_ns, node, out);
            }
            at += 1;
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
        let changed_ns = changed_ns(now_ns, descriptor);
        let is_younger = changed_ns > known.since_ns + RESTART_NS;
        let is_new = known.heard == Heard::Never
            || is_after(descriptor.epoch, known.epoch)
            || descriptor.epoch != known.epoch && is_younger;
        if !is_new {
            return;
        }
        match self.doubts[node.index()].verdict_ns {
            Some(verdict_ns) if changed_ns <= verdict_ns + AGE_ERROR_NS => {
                // Perhaps its last words, perhaps it is back: its host knows.
                self.probe(now_ns, node, out);
            }
            _ => {
                self.doubts[node.index()].verdict_ns = None;
                self.adopt(now_ns, descriptor, heard, out);
            }
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
        let mut newly_failed = [false; 6];
        for direction in Direction::ALL {
            let says = descriptor.links()[direction.index()];
            let known = self.lattice.has(direction) && self.link(node, direction) == Status::Failed;
            newly_failed[direction.index()] =
                says == Status::Failed && !known && self.lattice.has(direction);
        }
        let picture = Picture {
            host: descriptor.host,
            nic: descriptor.nic,
            links: descriptor.links(),
            since_ns: changed_ns(now_ns, descriptor),
            epoch: descriptor.epoch,
            heard,
        };
        self.replace(now_ns, node, picture, out);
        for direction in Direction::ALL {
            if newly_failed[direction.index()] {
                // What a node said of its cable may have been its last words.
                for end in [node, self.lattice.neighbour(node, direction)] {
                    if self.doubts[end.index()].deadline_ns.is_some() {
                        // An answer under way may not know of this yet.
                        self.probe(now_ns, end, out);
                    }
                    self.doubt(now_ns, end, out);
                }
            }
        }
    }

    /// A host speaks for its dead NIC.
    fn host_says(
        &mut self,
        now_ns: u64,
        descriptor: &FaultDescriptorRepr,
        out: &mut impl FnMut(MasterAction),
    ) {
        let node = Node(descriptor.origin);
        let known = *self.picture(node);
        let (host, nic) = (descriptor.host, descriptor.nic);
        let links = [Status::Unknown; 6];
        let picture = Picture { host, nic, links, since_ns: now_ns, heard: Heard::Own, ..known };
        self.doubts[node.index()].verdict_ns = Some(now_ns);
        self.replace(now_ns, node, picture, out);
        if known.nic != Status::Failed {
            // It can no longer vouch for its neighbours.
            for direction in Direction::ALL {
                self.doubt(now_ns, self.lattice.neighbour(node, direction), out);
            }
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
        let doubt = &mut self.doubts[node.index()];
        if picture.nic == Status::Failed && doubt.watch_ns.is_none() {
            doubt.watch_ns = Some(now_ns + self.timing.tick_ns);
            self.watched.push(node);
        }
        if changed {
            self.epoch += 1;
            out(MasterAction::Changed(node));
        }
    }

    /// A cable or neighbour of `node` is lost: probes it, and all that can be reached from it, if no
    /// way leads from there to the anchor.
    fn doubt(&mut self, now_ns: u64, node: Node, out: &mut impl FnMut(MasterAction)) {
        let anchor = self.anchor;
        if self.picture(node).nic == Status::Failed || self.reaches(node, |it| it == anchor) {
            return;
        }
        for index in 0..self.search.found.len() {
            let node = self.search.found[index];
            self.doubts[node.index()].cut_off_ns = now_ns;
            self.probe(now_ns, node, out);
        }
    }

    /// Probes a host, also while an earlier probe is under way, unless it was sent just now.
    fn probe(&mut self, now_ns: u64, node: Node, out: &mut impl FnMut(MasterAction)) {
        let doubt = &mut self.doubts[node.index()];
        if doubt.deadline_ns.is_some() && doubt.asked_ns == now_ns {
            return;
        }
        if doubt.deadline_ns.is_none() {
            self.pending.push(node);
        }
        doubt.asked_ns = now_ns;
        doubt.deadline_ns = Some(now_ns + self.timing.probe_ns);
        doubt.number = doubt.number.wrapping_add(1);
        out(MasterAction::Probe(node, doubt.number));
    }

    /// Whether `node` has answered its last probe, or a way leads from it to one that has, since
    /// both were cut off.
    fn is_vouched_for(&mut self, node: Node) -> bool {
        let since_ns = self.doubts[node.index()].cut_off_ns;
        self.finds(node, |doubt| {
            doubt.answered_ns.is_some_and(|at| at >= doubt.asked_ns.max(since_ns))
        })
    }

    /// Whether a way leads from `node` to one whose probe is still under way, and until when.
    fn may_be_vouched_for(&mut self, now_ns: u64, node: Node) -> Option<u64> {
        let is_open = |doubt: &Doubt| doubt.deadline_ns.is_some_and(|at| at > now_ns);
        let found = self.finds(node, is_open);
        let last = self.search.last.filter(|_| found)?;
        self.doubts[last.index()].deadline_ns
    }

    /// Whether a way leads from `node` to one of which `is_goal` holds.
    fn finds(&mut self, node: Node, is_goal: impl Fn(&Doubt) -> bool) -> bool {
        let doubts = std::mem::take(&mut self.doubts);
        let found = self.reaches(node, |other| is_goal(&doubts[other.index()]));
        self.doubts = doubts;
        found
    }

    /// Whether a node that `is_goal` can be reached from `start`; if not, `search.found` holds all
    /// that can.
    fn reaches(&mut self, start: Node, is_goal: impl Fn(Node) -> bool) -> bool {
        let mut search = std::mem::take(&mut self.search);
        let found = search.run(start, is_goal, |node, direction| {
            let far = self.lattice.neighbour(node, direction);
            let open = self.lattice.has(direction)
                && self.link(node, direction) != Status::Failed
                && self.picture(far).nic != Status::Failed;
            open.then_some(far)
        });
        self.search = search;
        found
    }

    /// Nothing leads to `node`, and nobody vouches for its NIC.
    fn give_up(&mut self, now_ns: u64, node: Node, out: &mut impl FnMut(MasterAction)) {
        let doubt = &self.doubts[node.index()];
        let replied = doubt.replied_ns.is_some_and(|at| at >= doubt.asked_ns);
        let known = *self.picture(node);
        if replied || known.nic == Status::Failed && known.host == Status::Unknown {
            return;
        }
        self.doubts[node.index()].verdict_ns = Some(now_ns);
        let picture = Picture {
            host: Status::Unknown,
            nic: Status::Failed,
            links: [Status::Unknown; 6],
            since_ns: now_ns,
            heard: Heard::Inferred,
            ..known
        };
        self.replace(now_ns, node, picture, out);
    }
}

/// When the origin of a descriptor changed, by our clock.
fn changed_ns(now_ns: u64, descriptor: &FaultDescriptorRepr) -> u64 {
    now_ns.saturating_sub(u64::from(descriptor.age_ms) * MS_NS)
}

/// A breadth-first search over nodes whose memory is kept.
#[derive(Clone, Debug, Default)]
struct Search {
    /// Number of the last search that saw a node.
    seen: Vec<u32>,
    number: u32,
    found: Vec<Node>,
    /// The goal that was found last.
    last: Option<Node>,
}

impl Search {
    fn new(nodes: usize) -> Self {
        Self { seen: vec![0; nodes], found: Vec::with_capacity(nodes), ..Self::default() }
    }

    fn run(
        &mut self,
        start: Node,
        is_goal: impl Fn(Node) -> bool,
        step: impl Fn(Node, Direction) -> Option<Node>,
    ) -> bool {
        if self.number == u32::MAX {
            (self.number, _) = (0, self.seen.fill(0));
        }
        self.number += 1;
        self.found.clear();
        self.visit(start);
        let mut next = 0;
        while next < self.found.len() {
            let node = self.found[next];
            next += 1;
            if is_goal(node) {
                self.last = Some(node);
                return true;
            }
            for other in Direction::ALL.into_iter().filter_map(|direction| step(node, direction)) {
                self.visit(other);
            }
        }
        false
    }

    fn visit(&mut self, node: Node) {
        let seen = &mut self.seen[node.index()];
        if *seen != self.number {
            *seen = self.number;
            self.found.push(node);
        }
    }
}
