//! A host: a member of a machine, and the node that it is there.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use gannet_lattice::{Cable, DIMENSIONS, Faults, Lattice, Node};
use gannet_memory::Registration;
use gannet_rdma::{Completion, Put, Request};
use gannet_torus::Routes;
use gannet_torus::link::{FrameError, Frames, Link, Most};
use gannet_torus::node::TorusNode;
use gannet_torus::router::Arbitration;
use gannet_wire::neighbour::{HostId, Order, PROOF_LEN, is_message};
use gannet_wire::torus_user::Place;

use crate::drill::Traffic;
use crate::driver::Speaker;
use crate::member::{Member, Notice};
use crate::patience::{Patience, burst_bytes};
use crate::stranger::Strangers;
use crate::users::memory::{NodeMemory, PAGE};
use crate::users::{Seat, Users};

/// Where in the memory of every host the page lies to which others send their probes.
const PROBE_ADDRESS: u64 = 1 << 40;
/// Most notices that wait to be taken; older ones are forgotten.
const NOTICES_MAX: usize = 256;
/// Bytes of a probe.
const PROBE_LEN: usize = 64;
/// Part of the watchdog in which an order reaches all hosts, unless a message of it is lost.
const TURNS_IN: u64 = 20;
/// From one probe to the next, in watchdogs.
const PROBE_WATCHDOGS: u64 = 5;

/// What makes another node necessary when it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    lattice: Lattice,
    node: Node,
    frame_bytes: usize,
}

/// Packets to another node and back, as they were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Time from the post to the acknowledgement of the last that came back, ns; none before the first.
    pub round_trip_ns: Option<u64>,
    /// How many came back.
    pub answered: u64,
    /// How many did not.
    pub failed: u64,
}

/// A host.
///
/// While it has a node, it sends each other node a few bytes in turn, so that it is known whether the torus carries
/// them there, and how long it takes.
#[derive(Debug)]
pub struct Host {
    member: Member,
    patience: Patience,
    /// Bytes that may be under way on each cable.
    window_bytes: usize,
    arbitration: Arbitration,
    node: Option<TorusNode<NodeMemory>>,
    /// The memory of the node while there is none.
    memory: NodeMemory,
    users: Option<Users>,
    shape: Option<Shape>,
    /// Number of the order whose routes it follows.
    followed: u64,
    /// Its routes have changed, and when packets are sent again that were on their way.
    has_turned: bool,
    resend_at: Option<u64>,
    /// Why there is no node, or no other routes, where the order wants one.
    trouble: Option<String>,
    probes: BTreeMap<HostId, Probe>,
    /// To whom a probe is under way, and since when.
    probing: Option<(Request, HostId, u64)>,
    probed: Node,
    probe_at: u64,
    strangers: Strangers,
    notices: Vec<Notice>,
    /// Host and life of each node, as the engine knows them, and after how many changes of the machine they were looked at.
    peers: BTreeMap<Node, (HostId, u64)>,
    looked_at: Option<u64>,
    /// What it sends in a drill.
    traffic: Option<Traffic>,
}

impl Host {
    /// A host that has heard nobody yet, on each of whose cables `window_bytes` may be under way.
    pub fn new(member: Member, patience: Patience, window_bytes: usize) -> Self {
        let strangers = Strangers::new(member.setup().port_names().count());
        Self {
            member,
            patience,
            window_bytes,
            arbitration: Arbitration::default(),
            node: None,
            memory: NodeMemory::default(),
            users: None,
            shape: None,
            followed: 0,
            has_turned: false,
            resend_at: None,
            trouble: None,
            probes: BTreeMap::new(),
            probing: None,
            probed: Node(0),
            probe_at: 0,
            strangers,
            notices: Vec::new(),
            peers: BTreeMap::new(),
            looked_at: None,
            traffic: None,
        }
    }

    /// The host with processes that use its node.
    pub fn with_users(self, users: Users) -> Self {
        Self { users: Some(users), ..self }
    }

    /// The host whose node lets packets go first by `arbitration`.
    pub fn with_arbitration(self, arbitration: Arbitration) -> Self {
        Self { arbitration, ..self }
    }

    /// The processes that use its node.
    pub fn users(&self) -> Option<&Users> {
        self.users.as_ref()
    }

    /// The same, which sends to all others in a drill.
    pub(crate) fn with_traffic(self, traffic: Traffic) -> Self {
        let memory = NodeMemory::with_more(traffic.memory_bytes());
        Self { traffic: Some(traffic), memory, ..self }
    }

    /// What the host knows of the machine.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// What has happened since the last call.
    pub fn notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// The node that it is, once there is a machine.
    pub fn node(&self) -> Option<&TorusNode<NodeMemory>> {
        self.node.as_ref()
    }

    /// Why there is no node, or no other routes, where there should be.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// What a port has met that is no neighbour, in words; none once it has met one.
    pub fn stranger(&self, port: usize, now: u64) -> Option<&str> {
        self.strangers.words(port, now)
    }

    /// How long packets take to another host and back.
    pub fn probe(&self, host: HostId) -> Probe {
        self.probes.get(&host).copied().unwrap_or_default()
    }

    /// Looks whether there is another order.
    fn follow(&mut self, now: u64) {
        let notices = self.member.notices();
        if notices.contains(&Notice::Ordered)
            && let Some(order) = self.member.order().cloned()
        {
            self.trouble = self.obey(&order).err();
        }
        for notice in &notices {
            self.strangers.note(notice, self.member.setup(), now);
        }
        self.notices.extend(notices);
        let forgotten = self.notices.len().saturating_sub(NOTICES_MAX);
        self.notices.drain(..forgotten);
        self.meet_again();
    }

    /// Tells the engine of nodes that have begun anew.
    fn meet_again(&mut self) {
        let Some((node, order)) = self.node.as_mut().zip(self.member.order()) else { return };
        let changes = Some(self.member.changes());
        if std::mem::replace(&mut self.looked_at, changes) == changes {
            return;
        }
        for (at, it) in order.nodes.iter().enumerate() {
            let peer = Node(at as u32);
            let Some(advert) = self.member.adverts().find(|advert| advert.host == it.host) else {
                continue;
            };
            let now = (advert.host, advert.life);
            if self.peers.insert(peer, now).is_some_and(|before| before != now) {
                node.engine_mut().renewed(peer, first_epoch(advert.life));
            }
        }
    }

    fn obey(&mut self, order: &Order) -> Result<(), String> {
        let lattice = Lattice::new(order.sizes).map_err(|error| error.to_string())?;
        let Some(node) = self.member.node() else {
            self.replace(None);
            return Err("this host has no place in the machine".into());
        };
        let shape = Shape { lattice, node, frame_bytes: order.frame_bytes as usize };
        let epoch = order.number as u8;
        // Routes of a number that wraps to the same are not told apart by packets.
        let is_same_epoch = self.node.as_ref().is_some_and(|node| node.epoch() == epoch);
        let is_other = self.shape != Some(shape) || is_same_epoch && self.followed != order.number;
        let session = (self.member.setup().life as u32).wrapping_add(order.number as u32).max(1);
        let mut configuration =
            self.patience.configure(lattice, node, shape.frame_bytes, self.window_bytes, session);
        configuration.arbitration = self.arbitration;
        configuration.link.tail = PROOF_LEN;
        configuration.engine.epoch = first_epoch(self.member.setup().life);
        let channels = configuration.link.virtual_channels as u8;
        let (routes, ..) = Routes::around(&faults(order, lattice), channels)
            .map_err(|refused| refused.to_string())?;
        let routes = Arc::new(routes);
        match &mut self.node {
            Some(node) if !is_other => {
                if !is_same_epoch {
                    node.set_routes(routes, epoch).map_err(|unfit| unfit.to_string())?;
                    self.has_turned = true;
                }
            }
            _ => {
                // The memory follows when it is known that the node can be made.
                let mut node = TorusNode::new(configuration, NodeMemory::default(), routes, epoch)
                    .map_err(|error| error.to_string())?;
                let page = Registration {
                    process: 0,
                    start: PROBE_ADDRESS,
                    length: PAGE as u64,
                    writable: true,
                    pages: &[PAGE as u64],
                };
                node.engine_mut().register(&page).map_err(|error| error.to_string())?;
                self.replace(Some((node, shape)));
                if let Some((traffic, node)) = self.traffic.as_mut().zip(self.node.as_mut()) {
                    let begun = traffic.begin(node.engine_mut(), NodeMemory::MORE_FROM);
                    begun.map_err(|error| error.to_string())?;
                }
                (self.peers, self.looked_at) = (BTreeMap::new(), None);
            }
        }
        self.followed = order.number;
        Ok(())
    }

    /// Goes on with another node, or with none; memory of processes and what they have registered go along.
    fn replace(&mut self, next: Option<(TorusNode<NodeMemory>, Shape)>) {
        if let Some(node) = self.node.take() {
            self.memory = node.into_memory();
        }
        (self.node, self.shape) = next.unzip();
        self.probing = None;
        // Nothing of the node before is under way any more.
        (self.has_turned, self.resend_at) = (false, None);
        if let Some(node) = &mut self.node {
            std::mem::swap(node.engine_mut().memory_mut(), &mut self.memory);
        }
        if let Some(users) = &mut self.users {
            users.begin(seat(&mut self.node, &mut self.memory));
        }
    }

    /// Takes what has become of the last probe and of what processes have posted.
    pub(crate) fn take_completions(&mut self, now: u64) {
        let Some(node) = &mut self.node else { return };
        while let Some(completion) = node.engine_mut().poll_completion() {
            if let Some(traffic) = &mut self.traffic {
                traffic.take(&completion, node.engine().memory());
            }
            let own = match &mut self.users {
                Some(users) => users.take(completion, node.engine().memory()),
                None => Some(completion),
            };
            if let Some(Completion::TxDone { request, outcome, .. }) = own
                && let Some((_, host, since)) = self.probing.take_if(|(it, ..)| *it == request)
            {
                let probe = self.probes.entry(host).or_default();
                match outcome {
                    Ok(_) => {
                        probe.answered += 1;
                        probe.round_trip_ns = Some(now.saturating_sub(since));
                    }
                    Err(_) => probe.failed += 1,
                }
            }
        }
    }

    /// Sends the next probe when it is due.
    fn probe_others(&mut self, now: u64) {
        let Some(node) = &mut self.node else { return };
        if now < self.probe_at || self.probing.is_some() {
            return;
        }
        self.probe_at = now + PROBE_WATCHDOGS * self.patience.watchdog_ns;
        let Some(order) = self.member.order() else { return };
        let next =
            (1..=order.nodes.len()).map(|step| (self.probed.index() + step) % order.nodes.len());
        let is_other = |at: &usize| {
            let it = &order.nodes[*at];
            it.dead >> DIMENSIONS == 0 && Node(*at as u32) != node.node()
        };
        let Some(at) = next.into_iter().find(is_other) else { return };
        self.probed = Node(at as u32);
        let put = Put {
            source: 0,
            destination: self.probed,
            process: 0,
            address: PROBE_ADDRESS,
            length: PROBE_LEN as u32,
            tag: 0,
        };
        if let Ok(request) = node.engine_mut().post_put(now, &put) {
            self.probing = Some((request, order.nodes[at].host, now));
        }
    }
}

impl Speaker for Host {
    fn accept(&mut self, port: usize, frame: &[u8], now: u64) -> Result<bool, FrameError> {
        if is_message(frame) {
            let is_of_use = self.member.hear(port, frame, now);
            self.follow(now);
            return Ok(is_of_use);
        }
        let Some(frame) = self.member.proved(port, frame, now) else { return Ok(false) };
        let direction = self.member.direction(port);
        let Some((direction, node)) = direction.zip(self.node.as_mut()) else { return Ok(true) };
        node.accept(direction, frame, now)?;
        let lacks_ns = node.link(direction).map_or(0, Link::lacks_for);
        self.member.hear_frame(port, now);
        if lacks_ns >= self.patience.watchdog_ns {
            self.member.lacks_frames(port, now);
        }
        Ok(true)
    }

    fn has_proof(&mut self, port: usize) -> bool {
        self.member.has_proof(port)
    }

    fn say(&mut self, port: usize, room: &mut [u8], now: u64) -> usize {
        self.member.due(port, room, now)
    }

    fn take_frames(&mut self, port: usize, most: Most, now: u64) -> Option<Frames<'_>> {
        let direction = self.member.direction(port);
        let (direction, node) = direction.zip(self.node.as_mut())?;
        let frames = node.take_frames(direction, most, now)?;
        self.member.frame_sent(port, now);
        self.member.prove(port, frames.bytes, frames.frame).then_some(frames)
    }

    fn return_frames(&mut self, port: usize, count: usize) {
        self.member.reclaim_numbers(port, count);
        if let Some((direction, node)) = self.member.direction(port).zip(self.node.as_mut()) {
            node.return_frames(direction);
        }
    }

    fn advance(&mut self, now: u64) {
        self.member.advance(now);
        self.follow(now);
        // What is posted because of frames that have come goes with their acknowledgements.
        self.take_completions(now);
        if let Some(traffic) = &mut self.traffic
            && let Some((node, order)) = self.node.as_mut().zip(self.member.order())
        {
            traffic.post(node.engine_mut(), order, now);
        }
        if let Some(users) = &mut self.users {
            let order = self.member.order().zip(self.shape);
            let place = order.map(|(order, Shape { node, frame_bytes, .. })| Place {
                node: node.0,
                sizes: order.sizes,
                burst_bytes: burst_bytes(frame_bytes) as u32,
            });
            users.tell_place(place, now);
            users.serve(seat(&mut self.node, &mut self.memory), now);
        }
        self.probe_others(now);
        let Some(node) = &mut self.node else { return };
        if std::mem::take(&mut self.has_turned) {
            // Until then the others have turned, too; who has not takes no packets of these routes.
            self.resend_at = Some(now + self.patience.watchdog_ns / TURNS_IN);
        }
        if self.resend_at.take_if(|at| now >= *at).is_some() {
            node.engine_mut().resend();
        }
        node.advance_in_part(now);
        // What happens to links and packets is counted, and told by the member.
        while node.next_event().is_some() {}
    }

    fn next_deadline(&self, takes: &dyn Fn(usize) -> bool) -> Option<u64> {
        let resend = self.resend_at;
        let probe = self.node.is_some().then_some(self.probe_at).filter(|_| self.probing.is_none());
        // A link whose cable is not there is heard by nobody.
        let has_cable = |direction| self.member.port(direction).is_some_and(takes);
        let node = self.node.as_ref().and_then(|node| node.next_deadline_of(has_cable));
        let users = self.users.as_ref().and_then(Users::next_deadline);
        let traffic = self.traffic.as_ref().filter(|_| self.node.is_some()).map(Traffic::next_at);
        [Some(self.member.next_deadline(takes)), node, probe, users, traffic, resend]
            .into_iter()
            .flatten()
            .min()
    }

    fn descriptors(&self) -> [Option<BorrowedFd<'_>>; 2] {
        let users = self.users.as_ref();
        [users.map(Users::descriptor), users.and_then(Users::device)]
    }

    fn may_sleep(&mut self) -> bool {
        let has_completion = self.node.as_ref().is_some_and(|node| node.engine().has_completion());
        !has_completion && self.users.as_mut().is_none_or(Users::may_sleep)
    }

    fn woken(&mut self, [by_process, by_device]: [bool; 2]) {
        let Some(users) = &mut self.users else { return };
        if by_process {
            users.woken();
        }
        if by_device {
            users.woken_by_device();
        }
    }
}

/// What processes are served with.
fn seat<'a>(node: &'a mut Option<TorusNode<NodeMemory>>, memory: &'a mut NodeMemory) -> Seat<'a> {
    match node {
        Some(node) => Seat::Node(node.engine_mut()),
        None => Seat::Idle(memory),
    }
}

/// The epoch from which on a host numbers its packets in this life: most likely another one than in the life before, so that nobody
/// takes its packets for those.
fn first_epoch(life: u64) -> u8 {
    ((life.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 255) as u8 + 1
}

/// What of a machine is dead.
pub(crate) fn faults(order: &Order, lattice: Lattice) -> Faults {
    let mut faults = Faults::none(lattice);
    for (node, it) in lattice.all().zip(&order.nodes) {
        if it.dead >> DIMENSIONS & 1 == 1 {
            faults.kill_node(node);
        }
        for dimension in lattice.dimensions().filter(|dimension| it.dead >> dimension & 1 == 1) {
            faults.kill_cable(Cable { from: node, dimension });
        }
    }
    faults
}
