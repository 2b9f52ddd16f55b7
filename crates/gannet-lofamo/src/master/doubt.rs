//! Who is gone: nodes of which nobody can tell but their own hosts.

use gannet_lattice::{Direction, LINKS, Node};
use gannet_wire::lofamo::{FaultDescriptorRepr, Status};

use super::{Heard, Master, MasterAction, Picture};
use crate::host::host_status;
use crate::report::{Answer, Change, MS_NS};
use crate::timing::Timing;

/// Ages are whole milliseconds; a change counts as later than a verdict when it is so by more.
const AGE_ERROR_NS: u64 = 4 * MS_NS;

/// What the master remembers of a node beside its picture.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubt {
    /// Number of the last probe.
    number: u32,
    /// When the last probe was first sent.
    asked_ns: u64,
    /// How often it was sent.
    tries: u8,
    /// Whether it was answered, whatever the answer says of the NIC.
    replied: bool,
    /// When it and all that can be reached from it were last cut off.
    cut_off_ns: u64,
    /// While it is under way: when it is sent again or given up.
    deadline_ns: Option<u64>,
    /// When the host answered it, and showed a NIC that works.
    answered_ns: Option<u64>,
    /// The last change of which the host told by itself.
    host_told: Option<Change>,
    /// While the NIC is failed: when the host is to be probed next, as nobody else can watch it.
    watch_ns: Option<u64>,
    /// Since when the node is believed gone because nothing leads to it and nobody answers.
    verdict_ns: Option<u64>,
}

impl Doubt {
    /// Sends the last probe once more.
    fn ask(&mut self, now_ns: u64, timing: &Timing) -> u32 {
        self.tries += 1;
        let is_last = self.tries >= timing.probe_tries;
        let wait_ns = if is_last { timing.probe_ns } else { timing.probe_again_ns };
        self.deadline_ns = Some(now_ns + wait_ns);
        self.number
    }

    /// Whether a probe is under way and has had its time.
    fn is_due(&self, now_ns: u64) -> bool {
        self.deadline_ns.is_some_and(|at| at <= now_ns)
    }
}

impl Master {
    /// Takes the answer to a probe: what answers is there. An answer to an earlier probe than the
    /// last may be older than the reason for the last, and is ignored, as is a second answer.
    pub fn answer(&mut self, now_ns: u64, answer: &Answer, out: &mut impl FnMut(MasterAction)) {
        let node = answer.from;
        let doubt = self.doubts.get(node.index());
        if doubt.is_none_or(|doubt| doubt.number != answer.number || doubt.replied) {
            return;
        }
        let told = answer.descriptor.filter(|descriptor| {
            descriptor.origin == node.0 && !self.is_contradicted(now_ns, node, descriptor)
        });
        let doubt = &mut self.doubts[node.index()];
        doubt.replied = true;
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

    /// Takes what a host tells by itself, unless it is old or told again.
    pub(super) fn hear_host(
        &mut self,
        now_ns: u64,
        descriptor: &FaultDescriptorRepr,
        out: &mut impl FnMut(MasterAction),
    ) {
        let change = Change::of(now_ns, descriptor);
        let told = &mut self.doubts[Node(descriptor.origin).index()].host_told;
        if told.is_none_or(|told| change.is_after(told)) {
            *told = Some(change);
            self.host_says(now_ns, descriptor, out);
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
        let links = [Status::Unknown; LINKS];
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

    /// Whether a node is believed gone that has changed since: it is back, whatever its count.
    pub(super) fn is_back(&self, node: Node, change: Change) -> bool {
        let verdict_ns = self.doubts[node.index()].verdict_ns;
        verdict_ns.is_some_and(|at| change.at_ns > at + AGE_ERROR_NS)
    }

    /// Whether a change is later than the verdict that its node is gone; if so, this is void.
    pub(super) fn is_after_verdict(&mut self, node: Node, change: Change) -> bool {
        let verdict_ns = &mut self.doubts[node.index()].verdict_ns;
        let is_after = verdict_ns.is_none_or(|at| change.at_ns > at + AGE_ERROR_NS);
        *verdict_ns = verdict_ns.filter(|_| !is_after);
        is_after
    }

    /// Whether a host under doubt shows a register of its NIC by which links work that, by their
    /// other ends, do not: the register of a NIC that is dead, which the host has not noticed yet.
    /// A NIC that lives sees a link that is cut as soon as the other end does, unless it is cut one
    /// way only. So a host that stands by its NIC for longer than it needs to notice is right.
    fn is_contradicted(&self, now_ns: u64, node: Node, descriptor: &FaultDescriptorRepr) -> bool {
        let is_doubted = self.doubts[node.index()].deadline_ns.is_some();
        let links = descriptor.links();
        is_doubted
            && Direction::ALL.into_iter().filter(|&d| self.lattice.has(d)).any(|direction| {
                let far = self.picture(self.lattice.neighbour(node, direction));
                far.links[direction.opposite().index()] == Status::Failed
                    && now_ns < far.since_ns + self.timing.nic_silence_ns()
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
        self.search.begin();
        for at in 0..self.pending.len() {
            let node = self.pending[at];
            if self.doubts[node.index()].is_due(now_ns) && !self.search.has_seen(node) {
                self.reaches(node, |_| false);
                self.decide(now_ns, out);
            }
        }
        let doubts = &self.doubts;
        self.pending.retain(|node| doubts[node.index()].deadline_ns.is_some());
        self.probe_watched(now_ns, out);
    }

    /// Decides on those nodes of a part whose probes have had their time. The part was just found:
    /// ways lead between all its nodes, and to no others.
    fn decide(&mut self, now_ns: u64, out: &mut impl FnMut(MasterAction)) {
        let answered_ns = self.part().filter_map(|doubt| doubt.answered_ns).max();
        for &node in self.search.found() {
            let doubt = &mut self.doubts[node.index()];
            if !doubt.is_due(now_ns) {
                continue;
            }
            if answered_ns.is_some_and(|at| at >= doubt.cut_off_ns) {
                doubt.deadline_ns = None;
            } else if !doubt.replied && doubt.tries < self.timing.probe_tries {
                out(MasterAction::Probe(node, doubt.ask(now_ns, &self.timing)));
            }
        }
        let open = self.part().filter_map(|doubt| doubt.deadline_ns).filter(|&at| at > now_ns);
        let open_ns = open.max();
        for index in 0..self.search.found().len() {
            let node = self.search.found()[index];
            let doubt = &mut self.doubts[node.index()];
            if doubt.is_due(now_ns) {
                doubt.deadline_ns = open_ns;
                if open_ns.is_none() {
                    self.give_up(now_ns, node, out);
                }
            }
        }
    }

    /// What is remembered of the nodes of the part that was just found.
    fn part(&self) -> impl Iterator<Item = &Doubt> {
        self.search.found().iter().map(|node| &self.doubts[node.index()])
    }

    /// The NIC of `node` is failed: its host is to be probed from now on.
    pub(super) fn watch(&mut self, now_ns: u64, node: Node) {
        let watch_ns = &mut self.doubts[node.index()].watch_ns;
        if watch_ns.is_none() {
            *watch_ns = Some(now_ns + self.timing.tick_ns);
            self.watched.push(node);
        }
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

    /// A cable has newly failed: what a node said of it may have been its last words.
    pub(super) fn doubt_ends(
        &mut self,
        now_ns: u64,
        node: Node,
        direction: Direction,
        out: &mut impl FnMut(MasterAction),
    ) {
        for end in [node, self.lattice.neighbour(node, direction)] {
            if self.doubts[end.index()].deadline_ns.is_some() {
                // An answer under way may not know of this yet.
                self.probe(now_ns, end, out);
            }
            self.doubt(now_ns, end, out);
        }
    }

    /// A cable or neighbour of `node` is lost: probes it, and all that can be reached from it, if no
    /// way leads from there to the anchor.
    fn doubt(&mut self, now_ns: u64, node: Node, out: &mut impl FnMut(MasterAction)) {
        let anchor = self.anchor;
        self.search.begin();
        if self.picture(node).nic == Status::Failed || self.reaches(node, |it| it == anchor) {
            return;
        }
        for index in 0..self.search.found().len() {
            let node = self.search.found()[index];
            self.doubts[node.index()].cut_off_ns = now_ns;
            self.probe(now_ns, node, out);
        }
    }

    /// Probes a host, also while an earlier probe is under way, unless it was sent just now.
    pub(super) fn probe(&mut self, now_ns: u64, node: Node, out: &mut impl FnMut(MasterAction)) {
        let doubt = &mut self.doubts[node.index()];
        if doubt.deadline_ns.is_some() && doubt.asked_ns == now_ns {
            return;
        }
        if doubt.deadline_ns.is_none() {
            self.pending.push(node);
        }
        (doubt.asked_ns, doubt.tries) = (now_ns, 0);
        (doubt.replied, doubt.answered_ns) = (false, None);
        doubt.number = doubt.number.wrapping_add(1);
        out(MasterAction::Probe(node, doubt.ask(now_ns, &self.timing)));
    }

    /// Whether a node that `is_goal` can be reached from `start`; if not, the search has found all
    /// that can. Nothing leads through a NIC that is failed.
    fn reaches(&mut self, start: Node, is_goal: impl Fn(Node) -> bool) -> bool {
        let mut search = std::mem::take(&mut self.search);
        let works = |node: Node| self.picture(node).nic != Status::Failed;
        let found = search.run(start, is_goal, |node, direction| {
            let far = self.lattice.neighbour(node, direction);
            let open = self.lattice.has(direction)
                && self.link(node, direction) != Status::Failed
                && works(node)
                && works(far);
            open.then_some(far)
        });
        self.search = search;
        found
    }

    /// Nothing leads to `node`, and nobody vouches for its NIC.
    fn give_up(&mut self, now_ns: u64, node: Node, out: &mut impl FnMut(MasterAction)) {
        let doubt = &self.doubts[node.index()];
        let known = *self.picture(node);
        if doubt.replied || known.nic == Status::Failed && known.host == Status::Unknown {
            return;
        }
        self.doubts[node.index()].verdict_ns = Some(now_ns);
        let picture = Picture {
            host: Status::Unknown,
            nic: Status::Failed,
            links: [Status::Unknown; LINKS],
            since_ns: now_ns,
            heard: Heard::Inferred,
            ..known
        };
        self.replace(now_ns, node, picture, out);
    }
}
