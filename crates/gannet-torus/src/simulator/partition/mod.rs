//! A part of the nodes, simulated cycle by cycle.

mod failure;
mod injection;
mod mail;

use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::ops::Range;
use std::sync::Arc;

use gannet_lattice::{Direction, LINKS, Lattice, Node};
use gannet_memory::prefetch;

use crate::routes::{LOCAL, PORTS};
use crate::simulator::packet::Packet;
use crate::simulator::router::{Departure, Queues, Router, filled};
use crate::simulator::rules::{Delays, INJECTION_DELAY, Rules};
use crate::simulator::source::Source;
use crate::simulator::tally::Tally;
use crate::simulator::traffic::Traffic;

pub(in crate::simulator) use mail::{Mail, exchange};
use mail::{Message, What};

/// Nodes that memory is asked for ahead of its use, where the routers exceed a cache.
const PREFETCH_AHEAD: usize = 4;

/// Bytes of routers above which they are taken not to stay in a cache.
const CACHE: usize = 1 << 20;

/// Times that the wait before a packet is sent again doubles.
const MAX_DOUBLINGS: u8 = 6;

/// What reaches a router in one cycle.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    /// Flits, by input channel.
    flits: u64,
    /// Credits, by output channel; above those, by channel of the source.
    credits: u64,
}

/// A run of nodes with all their state.
#[derive(Debug)]
pub(in crate::simulator) struct Partition<const V: usize> {
    rules: Arc<Rules>,
    traffic: Arc<Traffic>,
    nodes: Range<u32>,
    /// First node of each partition, and the end of the last.
    borders: Arc<[u32]>,
    routers: Vec<Router<V>>,
    sources: Vec<Source<V>>,
    neighbours: Vec<[u32; LINKS]>,
    queues: Queues,
    /// What arrives, by cycle modulo its length, then node.
    wheel: Vec<Vec<Due>>,
    /// Flits that have passed a switch and have not been moved on, of the last nodes and of those
    /// before.
    departures: [Vec<Departure>; 2],
    prefetches: bool,
    /// Messages made in the current stretch of cycles, by partition.
    outgoing: Vec<Vec<Message>>,
    /// Packets made in these cycles are marked.
    window: Range<u32>,
    /// Sources that are stopped start no packets.
    paused: bool,
    replay_after: Option<u32>,
    /// Links that damage packets, by node of the partition and port, and which part of them.
    flaky: BTreeMap<(usize, usize), f64>,
    seed: u64,
    pub tally: Tally,
}

/// What a partition is made from.
pub(in crate::simulator) struct PartitionSetup {
    pub rules: Arc<Rules>,
    pub traffic: Arc<Traffic>,
    pub borders: Arc<[u32]>,
    /// Packets that an input channel holds at most behind the first two.
    pub places: u16,
    pub seed: u64,
    pub replay_after: Option<u32>,
}

impl<const V: usize> Partition<V> {
    const CHANNELS: usize = PORTS * V;

    pub fn new(index: usize, plan: &PartitionSetup) -> Self {
        let lattice = plan.traffic.lattice;
        let nodes = plan.borders[index]..plan.borders[index + 1];
        let count = nodes.len();
        let wheel_len = wheel_len(&plan.rules.delays);
        let router = |node| Router::new(lattice.coordinates(Node(node)), &plan.rules);
        let source = |node| Source::new(plan.traffic.generator(Node(node), plan.seed), &plan.rules);
        Self {
            routers: filled(count, nodes.clone().map(router)),
            sources: nodes.clone().map(source).collect(),
            neighbours: nodes.clone().map(|node| neighbours(lattice, Node(node))).collect(),
            queues: Queues::new(count, Self::CHANNELS, plan.places),
            wheel: (0..wheel_len).map(|_| filled(count, repeat_n(Due::default(), count))).collect(),
            departures: Default::default(),
            prefetches: count * size_of::<Router<V>>() > CACHE,
            outgoing: vec![Vec::new(); plan.borders.len() - 1],
            window: 0..0,
            paused: false,
            replay_after: plan.replay_after,
            flaky: BTreeMap::new(),
            seed: plan.seed,
            tally: Tally::new(count),
            rules: plan.rules.clone(),
            traffic: plan.traffic.clone(),
            borders: plan.borders.clone(),
            nodes,
        }
    }

    /// Bytes of memory that each node takes, counters included, but for lost packets.
    pub fn bytes_per_node(places: u16, delays: &Delays) -> usize {
        size_of::<Router<V>>()
            + size_of::<Source<V>>()
            + size_of::<[u32; LINKS]>()
            + Self::CHANNELS * usize::from(places) * size_of::<Packet>()
            + wheel_len(delays) * size_of::<Due>()
            + Tally::BYTES_PER_NODE
    }

    /// Bytes of memory that the partition holds, counters included.
    pub fn bytes(&self) -> usize {
        let again: usize = self.sources.iter().map(|source| source.again.capacity()).sum();
        size_of_val(&*self.routers)
            + size_of_val(&*self.sources)
            + again * size_of::<(u32, Packet)>()
            + size_of_val(&*self.neighbours)
            + self.queues.bytes()
            + self.wheel.iter().map(|turn| size_of_val(&**turn)).sum::<usize>()
            + self.nodes.len() * Tally::BYTES_PER_NODE
    }

    /// Marks packets made in `window`, and counts what moves in it.
    pub fn set_window(&mut self, window: Range<u32>) {
        self.window = window;
    }

    /// Stops or restarts the making of packets.
    pub fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Replaces the rules, when no packet is under way.
    pub fn set_rules(&mut self, rules: Arc<Rules>) {
        self.rules = rules;
    }

    /// Whether no packet is in any router, on any link, or half sent by its source.
    pub fn is_empty(&self) -> bool {
        self.routers.iter().all(Router::is_empty) && !self.sources.iter().any(Source::is_sending)
    }

    /// Whether a packet made before `cycle` still waits at its source.
    pub fn has_backlog(&self, cycle: u32) -> bool {
        self.sources
            .iter()
            .any(|source| source.generator.next_at() < cycle || !source.again.is_empty())
    }

    /// Simulates the cycles of `cycles`.
    ///
    /// Nodes of one cycle do not see each other, so the flits that leave them are moved on a few
    /// nodes later, when the memory they go to has arrived.
    pub fn advance(&mut self, cycles: Range<u32>) {
        for now in cycles {
            for node in 0..self.routers.len() {
                if self.prefetches {
                    self.prefetch(node, now);
                }
                self.visit(node, now);
                if node % PREFETCH_AHEAD == 0 {
                    self.forward(now);
                }
            }
            self.forward(now);
            self.forward(now);
        }
    }

    /// Asks for the memory of the nodes that will be visited soon after `node`.
    #[inline]
    fn prefetch(&self, node: usize, now: u32) {
        if let Some(router) = self.routers.get(node + 2 * PREFETCH_AHEAD) {
            router.prefetch_core();
        }
        if let Some(router) = self.routers.get(node + PREFETCH_AHEAD) {
            let turn = now as usize & (self.wheel.len() - 1);
            router.prefetch_inputs(self.wheel[turn][node + PREFETCH_AHEAD].flits);
            prefetch(&self.sources[node + PREFETCH_AHEAD]);
        }
    }

    /// One cycle of one node.
    #[inline]
    fn visit(&mut self, node: usize, now: u32) {
        let due = std::mem::take(self.due(node, now));
        let router = &mut self.routers[node];
        let source = &mut self.sources[node];
        let mut queue = self.queues.of(node);
        if due.flits != 0 {
            router.arrive(due.flits, &self.rules);
        }
        if due.credits != 0 {
            router.credit(due.credits & ((1 << Self::CHANNELS) - 1));
            source.credit(due.credits >> Self::CHANNELS);
        }
        if router.is_busy() {
            let before = self.departures[0].len();
            router.step(&self.rules, &mut queue, &mut self.departures[0]);
            if self.prefetches {
                self.prefetch_downstream(node, before);
            }
        }
        if self.sources[node].is_busy(now) {
            self.feed(node, now);
        }
    }

    /// The cell of the wheel for `node` at cycle `at`.
    #[inline]
    fn due(&mut self, node: usize, at: u32) -> &mut Due {
        let turn = at as usize & (self.wheel.len() - 1);
        &mut self.wheel[turn][node]
    }

    /// Asks for the memory that the last flits of a node go to.
    #[inline]
    fn prefetch_downstream(&self, node: usize, first: usize) {
        for output in self.departures[0][first..].iter().filter_map(|departure| departure.output) {
            let link = self.neighbours[node].get(usize::from(output) / V);
            if let Some(downstream) = link.and_then(|&node| self.local(node)) {
                self.routers[downstream].prefetch_input(opposite::<V>(output));
            }
        }
    }

    /// Moves on the flits of some nodes before the last.
    fn forward(&mut self, now: u32) {
        let mut departures = std::mem::take(&mut self.departures[1]);
        for departure in departures.drain(..) {
            let node = departure.router as usize;
            self.return_credit(node, now, departure.input);
            self.tally.visits += 1;
            match departure.output {
                None if departure.head => self.lose(departure.packet, now),
                None => {}
                Some(output) if usize::from(output) / V == usize::from(LOCAL) => {
                    self.deliver(node, now, output, &departure);
                }
                Some(output) => self.transmit(node, now, output, &departure),
            }
        }
        self.departures[1] = std::mem::replace(&mut self.departures[0], departures);
    }

    #[inline]
    fn return_credit(&mut self, node: usize, now: u32, input: u8) {
        let port = usize::from(input) / V;
        if port == usize::from(LOCAL) {
            let channel = usize::from(input) % V;
            self.due(node, now + INJECTION_DELAY).credits |= 1 << (Self::CHANNELS + channel);
            return;
        }
        let (upstream, channel) = (self.neighbours[node][port], opposite::<V>(input));
        let at = now + self.rules.delays.credit;
        match self.local(upstream) {
            Some(upstream) => self.due(upstream, at).credits |= 1 << channel,
            None => self.post(upstream, at, What::Credit { channel }),
        }
    }

    /// Sends a flit over a link.
    #[inline]
    fn transmit(&mut self, node: usize, now: u32, output: u8, departure: &Departure) {
        let port = usize::from(output) / V;
        if self.window.contains(&now) {
            self.tally.links[node][port] += 1;
        }
        let (downstream, channel) = (self.neighbours[node][port], opposite::<V>(output));
        let at = now + self.rules.delays.flit;
        let mut packet = departure.head.then_some(departure.packet);
        if !self.flaky.is_empty() && self.is_damaged(node, port, now) {
            packet.iter_mut().for_each(|packet| packet.damaged = true);
        }
        let damages = departure.tail && !departure.head && departure.packet.damaged;
        match self.local(downstream) {
            Some(downstream) => self.receive(downstream, at, channel, packet, damages),
            None => self.post(downstream, at, What::Flit { channel, packet, damages }),
        }
    }

    /// Lets a flit arrive at a node of this partition.
    #[inline]
    fn receive(
        &mut self,
        node: usize,
        at: u32,
        channel: u8,
        packet: Option<Packet>,
        damages: bool,
    ) {
        self.due(node, at).flits |= 1 << channel;
        if packet.is_some() || damages {
            let mut queue = self.queues.of(node);
            match packet {
                Some(packet) => self.routers[node].expect(channel, packet, &mut queue),
                None => self.routers[node].damage_last(channel, &mut queue),
            }
        }
    }

    /// Hands a flit to the node.
    #[inline]
    fn deliver(&mut self, node: usize, now: u32, output: u8, departure: &Departure) {
        let at = now + self.rules.delays.ejection;
        let credit_at = now + self.rules.delays.ejection_loop();
        self.due(node, credit_at).credits |= 1 << output;
        self.tally.delivered_flits += 1;
        if self.window.contains(&at) {
            self.tally.window_flits += 1;
        }
        if !departure.tail {
            return;
        }
        if departure.packet.damaged {
            if self.window.contains(&at) {
                self.tally.window_thrown_flits += u64::from(departure.packet.flits);
            }
            self.lose(departure.packet, now);
            return;
        }
        self.tally.delivered += 1;
        self.tally.last_arrival = at;
        if self.window.contains(&departure.packet.born) {
            self.tally.marked_done += 1;
            self.tally.latency.record(u64::from(at - departure.packet.born));
        }
    }

    /// Counts a lost packet, and tells its source.
    fn lose(&mut self, packet: Packet, now: u32) {
        self.tally.lost += 1;
        if self.window.contains(&now) {
            self.tally.window_lost_flits += u64::from(packet.flits);
        }
        let Some(wait) = self.replay_after else {
            self.tally.marked_done += u64::from(self.window.contains(&packet.born));
            return;
        };
        let wait = wait.saturating_mul(1 << packet.replays.min(MAX_DOUBLINGS));
        let packet = Packet { damaged: false, replays: packet.replays.saturating_add(1), ..packet };
        let source = self.traffic.lattice.node(self.rules.packing.unpack(packet.source)).0;
        match self.local(source) {
            Some(source) => self.sources[source].send_again(now.saturating_add(wait), packet),
            None => self.post(source, now.saturating_add(wait), What::Lost(packet)),
        }
    }

    /// The place of a node in this partition, if it is here.
    #[inline]
    fn local(&self, node: u32) -> Option<usize> {
        self.nodes.contains(&node).then(|| (node - self.nodes.start) as usize)
    }
}

/// Cycles that the wheel holds.
fn wheel_len(delays: &Delays) -> usize {
    (delays.horizon() as usize + 1).next_power_of_two()
}

/// The same virtual channel at the other end of its link.
#[inline]
fn opposite<const V: usize>(channel: u8) -> u8 {
    channel ^ V as u8
}

fn neighbours(lattice: Lattice, node: Node) -> [u32; LINKS] {
    std::array::from_fn(|link| lattice.neighbour(node, Direction::ALL[link]).0)
}
