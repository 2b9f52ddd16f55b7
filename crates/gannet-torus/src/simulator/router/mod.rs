//! One router: input queue per virtual channel, and allocators for channels and switch.
//!
//! The pipeline is the textbook one of an input-queued router with look-ahead routing: a head flit
//! is given a virtual channel of its next link in one cycle, each flit passes the switch in
//! another, and the rest of the delay is wire. Both allocators make one iteration of iSLIP
//! (McKeown, "The iSLIP scheduling algorithm for input-queued switches", 1999): outputs grant,
//! inputs accept, and a turn moves on only when it was used.

mod allocation;
mod failure;

use std::iter::repeat_n;

use gannet_lattice::{Coordinates, LINKS};
use gannet_memory::{prefetch, vec_on_huge_pages};

use crate::router::{Shares, Turn, class_of, next_hop, take_lowest};
use crate::routes::{Hop, Journey, LOCAL, MAX_CLASSES, PORTS, Position};
use crate::simulator::FlowControl;
use crate::simulator::packet::Packet;
use crate::simulator::rules::{Rules, goes_straight};

/// Stands for the output of a packet that has nowhere to go: its flits are thrown away.
const NOWHERE: u8 = u8::MAX;

/// A virtual channel at the receiving end of a link: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Input {
    /// The packet in front, while there are any.
    front: Packet,
    /// The packet behind it, while there are two.
    second: Packet,
    /// Flits that have arrived and not been sent on.
    flits: u16,
    /// Flits of the packet in front that have not been sent on, here or on the way here.
    left: u16,
    /// Place in the queue of the third packet.
    head: u16,
    /// Packets, on their way here or here, the first two included.
    packets: u16,
    /// Flits that the next channel must have room for.
    room: u16,
    /// The output port and class that the packet in front needs: `port * MAX_CLASSES + class`.
    want: u8,
    /// The output channel it holds, or [`NOWHERE`].
    output: u8,
    /// Whose turn it is among output channels that offer themselves.
    turn: Turn,
    /// Whether the packet in front must keep its channel number.
    keeps_channel: bool,
}

/// What is known here of a virtual channel at the far end of a link.
#[derive(Clone, Copy, Debug, Default)]
struct Output {
    /// Free places for flits.
    credits: u16,
    /// Whose turn it is among input channels that ask for it.
    turn: Turn,
}

/// A router whose channels are numbered `port * V + vc`.
#[derive(Clone, Debug)]
pub(in crate::simulator) struct Router<const V: usize> {
    /// Input channels with a flit to send.
    visible: u64,
    /// Input channels whose packet in front waits for an output channel.
    waiting: u64,
    /// Input channels whose packet in front holds an output channel.
    active: u64,
    /// Output channels that no packet holds.
    free: u64,
    /// Input channels whose packet in front is thrown away.
    doomed: u64,
    /// Links that do not work, bit by direction.
    dead_links: u8,
    place: Coordinates,
    /// Turn of each output port among input ports.
    grant: [Turn; PORTS],
    /// Turn of each input port among output ports.
    accept: [Turn; PORTS],
    /// Turn of each input port among its virtual channels.
    lane: [Turn; PORTS],
    inputs: [[Input; V]; PORTS],
    outputs: [[Output; V]; PORTS],
    /// What sources have sent over each link.
    shares: [Shares; LINKS],
}

/// A flit that passes the switch.
#[derive(Clone, Copy, Debug)]
pub(in crate::simulator) struct Departure {
    /// The router, by its place in the partition.
    pub router: u32,
    /// The input channel it came from.
    pub input: u8,
    /// The output channel it goes to; [`None`] when it is thrown away.
    pub output: Option<u8>,
    /// Whether it is the first of its packet.
    pub head: bool,
    /// Whether it is the last of its packet.
    pub tail: bool,
    /// Its packet.
    pub packet: Packet,
}

impl<const V: usize> Router<V> {
    /// Number of input channels, which is the number of output channels.
    pub const CHANNELS: usize = PORTS * V;

    /// A router at `place` with nothing in it.
    pub fn new(place: Coordinates, rules: &Rules) -> Self {
        let output = Output { credits: rules.depth, turn: Turn::default() };
        let vcs = (1u64 << rules.vcs) - 1;
        Self {
            visible: 0,
            waiting: 0,
            active: 0,
            free: (0..PORTS).fold(0, |free, port| free | vcs << (port * V)),
            doomed: 0,
            dead_links: 0,
            place,
            grant: Default::default(),
            accept: Default::default(),
            lane: Default::default(),
            inputs: [[Input::default(); V]; PORTS],
            outputs: [[output; V]; PORTS],
            shares: Default::default(),
        }
    }

    /// Asks for the memory that every cycle needs.
    #[inline]
    pub fn prefetch_core(&self) {
        prefetch(&self.visible);
        prefetch(&self.outputs);
        prefetch(&self.lane);
    }

    /// Asks for the memory of the channels that have flits, and of those where `flits` will arrive.
    #[inline]
    pub fn prefetch_inputs(&self, flits: u64) {
        let mut channels = self.visible | flits;
        while channels != 0 {
            self.prefetch_input(take_lowest(&mut channels));
        }
    }

    /// Asks for the memory of one channel.
    #[inline]
    pub fn prefetch_input(&self, channel: u8) {
        prefetch(&self.inputs[usize::from(channel) / V][usize::from(channel) % V]);
    }

    /// Whether a step would do anything.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.waiting != 0 || self.active & self.visible != 0
    }

    /// Whether no packet is here or on its way here.
    pub fn is_empty(&self) -> bool {
        self.inputs.as_flattened().iter().all(|input| input.packets == 0)
    }

    #[inline]
    fn input(&mut self, channel: u8) -> &mut Input {
        &mut self.inputs[usize::from(channel) / V][usize::from(channel) % V]
    }

    #[inline]
    fn output(&mut self, channel: u8) -> &mut Output {
        &mut self.outputs[usize::from(channel) / V][usize::from(channel) % V]
    }

    /// Queues a packet whose head has been sent to `channel`; its flits arrive one by one.
    #[inline]
    pub fn expect(&mut self, channel: u8, packet: Packet, queue: &mut Queue) {
        let input = self.input(channel);
        input.packets += 1;
        match input.packets {
            1 => input.front = packet,
            2 => input.second = packet,
            packets => *queue.at(channel, queue.behind(input.head, packets - 3)) = packet,
        }
    }

    /// Marks the packet last expected on `channel` as damaged.
    pub fn damage_last(&mut self, channel: u8, queue: &mut Queue) {
        let input = self.input(channel);
        let packets = input.packets;
        if packets > 0 {
            self.nth(channel, packets - 1, queue).damaged = true;
        }
    }

    /// Takes in the flits that arrive in this cycle, by input channel.
    #[inline]
    pub fn arrive(&mut self, mut channels: u64, rules: &Rules) {
        let begins = channels & !(self.waiting | self.active);
        self.visible |= channels;
        while channels != 0 {
            let channel = take_lowest(&mut channels);
            self.input(channel).flits += 1;
            if begins >> channel & 1 == 1 {
                self.begin(channel, rules);
            }
        }
    }

    /// Takes in the credits that arrive in this cycle, by output channel.
    #[inline]
    pub fn credit(&mut self, mut channels: u64) {
        while channels != 0 {
            let channel = take_lowest(&mut channels);
            self.output(channel).credits += 1;
        }
    }

    /// Looks where the packet that has come to the front of `channel` goes.
    #[inline]
    fn begin(&mut self, channel: u8, rules: &Rules) {
        let (port, vc) = (channel / V as u8, channel % V as u8);
        let place = self.place;
        let dead_links = self.dead_links;
        let input = self.input(channel);
        let packet = input.front;
        let journey = Journey {
            source: rules.packing.unpack(packet.source),
            destination: rules.packing.unpack(packet.destination),
            via: rules.packing.unpack(packet.via),
        };
        let class = class_of(vc, rules.vcs, rules.routes.classes());
        let position = Position { at: place, port, class };
        input.left = packet.flits;
        let bit = 1 << channel;
        match next_hop(&rules.routes, dead_links, position, &journey) {
            Err(_) => {
                input.output = NOWHERE;
                self.active |= bit;
                self.doomed |= bit;
            }
            Ok(hop) => {
                input.want = hop.port * MAX_CLASSES + hop.class;
                (input.room, input.keeps_channel) = reserve(rules, port, hop, packet.flits);
                self.waiting |= bit;
            }
        }
    }

    /// One cycle of both allocators. Flits that pass the switch are added to `departures`.
    #[inline]
    pub fn step(&mut self, rules: &Rules, queue: &mut Queue, departures: &mut Vec<Departure>) {
        let (granted, taken) =
            if self.waiting != 0 { self.allocate_channels(rules) } else { (0, 0) };
        let ready = self.active & self.visible;
        if ready != 0 {
            let doomed = self.doomed;
            self.discard(ready & doomed, rules, queue, departures);
            self.allocate_switch(ready & !doomed, rules, queue, departures);
        }
        self.waiting &= !granted;
        self.active |= granted;
        self.free &= !taken;
    }

    /// Throws away one flit of each packet that has nowhere to go.
    fn discard(
        &mut self,
        mut doomed: u64,
        rules: &Rules,
        queue: &mut Queue,
        departures: &mut Vec<Departure>,
    ) {
        while doomed != 0 {
            let channel = take_lowest(&mut doomed);
            self.pass(channel, rules, queue, departures);
        }
    }

    /// Sends the flit in front of an input channel on, or throws it away.
    #[inline]
    fn pass(
        &mut self,
        channel: u8,
        rules: &Rules,
        queue: &mut Queue,
        departures: &mut Vec<Departure>,
    ) {
        let bit = 1 << channel;
        let input = self.input(channel);
        let packet = input.front;
        let head = input.left == packet.flits;
        input.flits -= 1;
        input.left -= 1;
        let (tail, is_dry, output) = (input.left == 0, input.flits == 0, input.output);
        if tail {
            input.packets -= 1;
            input.front = input.second;
            if input.packets > 1 {
                input.second = *queue.at(channel, input.head);
                input.head = if input.packets == 2 { 0 } else { queue.behind(input.head, 1) };
            }
            self.active &= !bit;
        }
        if is_dry {
            self.visible &= !bit;
        }
        let output = (output != NOWHERE).then_some(output);
        if let Some(output) = output {
            self.output(output).credits -= 1;
            self.free |= u64::from(tail) << output;
        }
        if tail {
            self.doomed &= !bit;
            if !is_dry {
                self.begin(channel, rules);
            }
        }
        let router = queue.router as u32;
        departures.push(Departure { router, input: channel, output, head, tail, packet });
    }
}

/// Flits of room that a packet must find before it takes a channel of its next hop, and whether it
/// must keep its channel number.
#[inline]
fn reserve(rules: &Rules, port: u8, hop: Hop, flits: u16) -> (u16, bool) {
    if hop.port == LOCAL {
        return (0, false);
    }
    match rules.flow_control {
        FlowControl::Wormhole => (0, false),
        FlowControl::VirtualCutThrough => (flits, false),
        FlowControl::Bubble if goes_straight(port, hop.port) => (flits, true),
        FlowControl::Bubble => (2 * flits, false),
    }
}

/// The packets behind the first two: for each input channel of each router a ring of places.
///
/// The first places of all channels of all routers lie together, then the second places, and so on.
/// A ring that runs empty starts again at its first place, so that under low load a simulation
/// keeps to a small part of this memory.
#[derive(Debug)]
pub(in crate::simulator) struct Queues {
    packets: Vec<Packet>,
    places: u16,
    /// Input channels of a router, and of all routers.
    channels: usize,
    round: usize,
}

impl Queues {
    pub fn new(routers: usize, channels: usize, places: u16) -> Self {
        let round = routers * channels;
        let len = round * usize::from(places);
        Self { packets: filled(len, repeat_n(Packet::default(), len)), places, channels, round }
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.packets)
    }

    /// The queues of one router.
    #[inline]
    pub fn of(&mut self, router: usize) -> Queue<'_> {
        Queue { first: router * self.channels, router, all: self }
    }
}

/// The packets that wait at one router.
pub(in crate::simulator) struct Queue<'a> {
    all: &'a mut Queues,
    router: usize,
    first: usize,
}

impl Queue<'_> {
    #[inline]
    fn at(&mut self, channel: u8, place: u16) -> &mut Packet {
        let index = usize::from(place) * self.all.round + self.first + usize::from(channel);
        &mut self.all.packets[index]
    }

    /// The place `ahead` places behind `place`, round the ring.
    #[inline]
    fn behind(&self, place: u16, ahead: u16) -> u16 {
        let sum = place + ahead;
        if sum >= self.all.places { sum - self.all.places } else { sum }
    }
}

/// A table of `len` values that is read here and there.
pub(in crate::simulator) fn filled<T>(len: usize, values: impl Iterator<Item = T>) -> Vec<T> {
    let mut table = vec_on_huge_pages(len);
    table.extend(values);
    table
}
