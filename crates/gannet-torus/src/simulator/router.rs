//! One router: input queue per virtual channel, and allocators for channels and switch.
//!
//! The pipeline is the textbook one of an input-queued router with look-ahead routing: a head flit
//! is given a virtual channel of its next link in one cycle, each flit passes the switch in
//! another, and the rest of the delay is wire. Both allocators make one iteration of iSLIP
//! (McKeown, "The iSLIP scheduling algorithm for input-queued switches", 1999): outputs grant,
//! inputs accept, and a turn moves on only when it was used.

use gannet_memory::prefetch;

use super::FlowControl;
use super::arbiter::{next_from, take_lowest};
use super::packet::Packet;
use super::rules::{Rules, class_of, goes_straight};
use crate::lattice::{Coordinates, LINKS};
use crate::routes::{Hop, Journey, LOCAL, MAX_CLASSES, PORTS, Position};

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
    turn: u8,
    /// Whether the packet in front must keep its channel number.
    keeps_channel: bool,
}

/// What is known here of a virtual channel at the far end of a link.
#[derive(Clone, Copy, Debug, Default)]
struct Output {
    /// Free places for flits.
    credits: u16,
    /// Whose turn it is among input channels that ask for it.
    turn: u8,
}

/// A router whose channels are numbered `port * V + vc`.
#[derive(Clone, Debug)]
pub(super) struct Router<const V: usize> {
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
    grant: [u8; PORTS],
    /// Turn of each input port among output ports.
    accept: [u8; PORTS],
    /// Turn of each input port among its virtual channels.
    lane: [u8; PORTS],
    inputs: [[Input; V]; PORTS],
    outputs: [[Output; V]; PORTS],
}

/// A flit that passes the switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Send {
    /// The router, by its place in the slab.
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

/// The packets behind the first two: for each input channel of each router a ring of places.
///
/// The first places of all channels of all routers lie together, then the second places, and so on.
/// A ring that runs empty starts again at its first place, so that under low load a simulation
/// keeps to a small part of this memory.
#[derive(Debug)]
pub(super) struct Queues {
    packets: Vec<Packet>,
    places: u16,
    /// Input channels of a router, and of all routers.
    channels: usize,
    round: usize,
}

impl Queues {
    pub fn new(routers: usize, channels: usize, places: u16) -> Self {
        let round = routers * channels;
        Self {
            packets: vec![Packet::default(); round * usize::from(places)],
            places,
            channels,
            round,
        }
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
pub(super) struct Queue<'a> {
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

impl<const V: usize> Router<V> {
    /// Number of input channels, which is the number of output channels.
    pub const CHANNELS: usize = PORTS * V;

    /// A router at `place` with nothing in it.
    pub fn new(place: Coordinates, rules: &Rules) -> Self {
        let output = Output { credits: rules.depth, turn: 0 };
        let vcs = (1u64 << rules.vcs) - 1;
        Self {
            visible: 0,
            waiting: 0,
            active: 0,
            free: (0..PORTS).fold(0, |free, port| free | vcs << (port * V)),
            doomed: 0,
            dead_links: 0,
            place,
            grant: [0; PORTS],
            accept: [0; PORTS],
            lane: [0; PORTS],
            inputs: [[Input::default(); V]; PORTS],
            outputs: [[output; V]; PORTS],
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

    /// Lets the link at `port` fail at its sending end: packets that need it are thrown away.
    pub fn fail_output(&mut self, port: u8) {
        self.dead_links |= 1 << port;
        for channel in 0..Self::CHANNELS as u8 {
            let bit = 1 << channel;
            let Input { want, output, .. } = *self.input(channel);
            let holds = self.active & !self.doomed & bit != 0
                && usize::from(output) / V == usize::from(port);
            let waits = self.waiting & bit != 0 && want / MAX_CLASSES == port;
            if holds {
                self.free |= 1 << output;
            }
            if holds || waits {
                self.input(channel).output = NOWHERE;
                self.waiting &= !bit;
                self.active |= bit;
                self.doomed |= bit;
            }
        }
    }

    /// Lets the link at `port` fail at its receiving end, where nothing will arrive any more. A packet
    /// of which a part has arrived is completed and marked as damaged; packets of which nothing has
    /// arrived are handed to `lose`.
    pub fn fail_input(&mut self, port: u8, queue: &mut Queue, mut lose: impl FnMut(Packet)) {
        for vc in 0..V as u8 {
            let channel = port * V as u8 + vc;
            let begun = (self.waiting | self.active) >> channel & 1 == 1;
            let mut missing = self.awaited(channel, begun, queue);
            while missing > 0 {
                let input = self.input(channel);
                let last = input.packets - 1;
                let packet = *self.nth(channel, last, queue);
                if last == 0 && begun || missing < packet.flits {
                    self.nth(channel, last, queue).damaged = true;
                    self.input(channel).flits += missing;
                    self.visible |= 1 << channel;
                    break;
                }
                missing -= packet.flits;
                self.input(channel).packets -= 1;
                lose(packet);
            }
        }
    }

    /// Flits of the packets of a channel that have not arrived.
    fn awaited(&mut self, channel: u8, begun: bool, queue: &mut Queue) -> u16 {
        let Input { packets, left, flits, .. } = *self.input(channel);
        let mut expected = 0;
        for packet in 0..packets {
            let is_begun = packet == 0 && begun;
            expected += if is_begun { left } else { self.nth(channel, packet, queue).flits };
        }
        expected - flits
    }

    /// A packet of a channel, counted from the one in front.
    fn nth<'a>(&'a mut self, channel: u8, n: u16, queue: &'a mut Queue) -> &'a mut Packet {
        let input = self.input(channel);
        match n {
            0 => &mut input.front,
            1 => &mut input.second,
            n => {
                let place = queue.behind(input.head, n - 2);
                queue.at(channel, place)
            }
        }
    }

    /// Forgets everything, as a router that has lost its power; packets whose head was here are
    /// handed to `lose`.
    pub fn fail(&mut self, rules: &Rules, queue: &mut Queue, mut lose: impl FnMut(Packet)) {
        for channel in 0..Self::CHANNELS as u8 {
            let begun = (self.waiting | self.active) >> channel & 1 == 1;
            let Input { packets, left, front, output, .. } = *self.input(channel);
            // A head that has gone to the node itself is not in any other router.
            let stays = usize::from(output) / V == usize::from(LOCAL);
            let head_is_gone = begun && left != front.flits && !stays;
            for packet in u16::from(head_is_gone)..packets {
                lose(*self.nth(channel, packet, queue));
            }
        }
        *self = Self { dead_links: (1 << LINKS) - 1, ..Self::new(self.place, rules) };
    }

    /// Flits that the channels of `port` hold.
    pub fn occupancy(&self, port: u8) -> [u16; V] {
        self.inputs[usize::from(port)].map(|input| input.flits)
    }

    /// Takes the link at `port` back into service, when its far end holds these flits.
    pub fn mend_output(&mut self, port: u8, occupancy: [u16; V], rules: &Rules) {
        self.dead_links &= !(1 << port);
        for (output, held) in self.outputs[usize::from(port)].iter_mut().zip(occupancy) {
            output.credits = rules.depth.saturating_sub(held);
        }
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
        let hop = rules.routes.hop(Position { at: place, port, class }, &journey);
        input.left = packet.flits;
        let bit = 1 << channel;
        match hop.filter(|hop| dead_links >> hop.port & 1 == 0) {
            None => {
                input.output = NOWHERE;
                self.active |= bit;
                self.doomed |= bit;
            }
            Some(hop) => {
                input.want = hop.port * MAX_CLASSES + hop.class;
                (input.room, input.keeps_channel) = reserve(rules, port, hop, packet.flits);
                self.waiting |= bit;
            }
        }
    }

    /// One cycle of both allocators. Flits that pass the switch are handed to `send`.
    #[inline]
    pub fn step(&mut self, now: u32, rules: &Rules, queue: &mut Queue, sends: &mut Vec<Send>) {
        let (granted, taken) =
            if self.waiting != 0 { self.allocate_channels(now, rules) } else { (0, 0) };
        let ready = self.active & self.visible;
        if ready != 0 {
            let doomed = self.doomed;
            self.discard(ready & doomed, rules, queue, sends);
            self.allocate_switch(now, ready & !doomed, rules, queue, sends);
        }
        self.waiting &= !granted;
        self.active |= granted;
        self.free &= !taken;
    }

    /// Matches packets that wait with output channels that are free. Input and output channels of
    /// the match are returned as masks, and take effect after the switch was allocated.
    #[inline]
    fn allocate_channels(&mut self, now: u32, rules: &Rules) -> (u64, u64) {
        let mut requests = [0u64; PORTS * MAX_CLASSES as usize];
        let mut wants = 0u64;
        let mut waiting = self.waiting;
        while waiting != 0 {
            let channel = take_lowest(&mut waiting);
            let want = self.input(channel).want;
            requests[usize::from(want)] |= 1 << channel;
            wants |= 1 << want;
        }
        let mut offers = [0u64; 64];
        let mut offered = 0u64;
        while wants != 0 {
            let want = take_lowest(&mut wants);
            let mut outputs = self.free & rules.channels(want);
            while outputs != 0 {
                let output = take_lowest(&mut outputs);
                let fit = self.fitting(requests[usize::from(want)], output, rules);
                if fit != 0 {
                    let turn = self.output(output).turn;
                    let input = self.first_input(fit, turn, now, rules);
                    offers[usize::from(input)] |= 1 << output;
                    offered |= 1 << input;
                }
            }
        }
        let (granted, mut taken) = (offered, 0);
        while offered != 0 {
            let channel = take_lowest(&mut offered);
            let input = self.input(channel);
            let output = next_from(offers[usize::from(channel)], input.turn);
            input.turn = following(output, Self::CHANNELS);
            input.output = output;
            taken |= 1 << output;
            self.output(output).turn = following(channel, Self::CHANNELS);
        }
        (granted, taken)
    }

    /// Those of the input channels whose packet may take the output channel.
    #[inline]
    fn fitting(&mut self, requests: u64, output: u8, rules: &Rules) -> u64 {
        if rules.flow_control == FlowControl::Wormhole {
            return requests;
        }
        let credits = self.output(output).credits;
        let mut fit = requests;
        let mut left = requests;
        while left != 0 {
            let channel = take_lowest(&mut left);
            let input = self.input(channel);
            let other_channel = !usize::from(channel ^ output).is_multiple_of(V);
            if input.room > credits || input.keeps_channel && other_channel {
                fit &= !(1 << channel);
            }
        }
        fit
    }

    /// The input channel that goes first: the oldest packet, if one has lost patience, else the one
    /// whose turn it is.
    #[inline]
    fn first_input(&mut self, channels: u64, turn: u8, now: u32, rules: &Rules) -> u8 {
        if channels & (channels - 1) == 0 {
            return channels.trailing_zeros() as u8;
        }
        let mut left = channels;
        let mut oldest = None;
        while left != 0 {
            let channel = take_lowest(&mut left);
            let born = self.input(channel).front.born;
            if now.saturating_sub(born) > rules.patience && oldest.is_none_or(|(b, _)| born < b) {
                oldest = Some((born, channel));
            }
        }
        oldest.map_or_else(|| next_from(channels, turn), |(_, channel)| channel)
    }

    /// Throws away one flit of each packet that has nowhere to go.
    fn discard(
        &mut self,
        mut doomed: u64,
        rules: &Rules,
        queue: &mut Queue,
        sends: &mut Vec<Send>,
    ) {
        while doomed != 0 {
            let channel = take_lowest(&mut doomed);
            self.pass(channel, rules, queue, sends);
        }
    }

    /// Matches input ports with output ports, one flit each.
    #[inline]
    fn allocate_switch(
        &mut self,
        now: u32,
        mut ready: u64,
        rules: &Rules,
        queue: &mut Queue,
        sends: &mut Vec<Send>,
    ) {
        // For each output port the input ports that ask for it, and with which channel.
        let mut requests = [0u64; PORTS];
        let mut chosen = [[0u8; PORTS]; PORTS];
        let mut outputs = 0u64;
        while ready != 0 {
            let channel = take_lowest(&mut ready);
            let (input, vc) = (usize::from(channel) / V, channel % V as u8);
            let asked = self.inputs[input][usize::from(vc)].output;
            let output = usize::from(asked) / V;
            if self.outputs[output][usize::from(asked) % V].credits == 0 {
                continue;
            }
            let first = requests[output] >> input & 1 == 0;
            if first || self.supersedes(input, vc, chosen[input][output], now, rules) {
                chosen[input][output] = vc;
            }
            requests[output] |= 1 << input;
            outputs |= 1 << output;
        }
        let mut offers = [0u64; PORTS];
        let mut offered = 0u64;
        while outputs != 0 {
            let output = take_lowest(&mut outputs);
            let asking = requests[usize::from(output)];
            let input = self.first_port(asking, output, &chosen, now, rules);
            offers[usize::from(input)] |= 1 << output;
            offered |= 1 << input;
        }
        while offered != 0 {
            let input = take_lowest(&mut offered);
            let port = usize::from(input);
            let output = next_from(offers[port], self.accept[port]);
            let vc = chosen[port][usize::from(output)];
            self.accept[port] = following(output, PORTS);
            self.grant[usize::from(output)] = following(input, PORTS);
            self.lane[port] = if vc + 1 == rules.vcs { 0 } else { vc + 1 };
            self.pass(input * V as u8 + vc, rules, queue, sends);
        }
    }

    /// Whether `vc` goes before `other` of the same input port.
    #[inline]
    fn supersedes(&self, port: usize, vc: u8, other: u8, now: u32, rules: &Rules) -> bool {
        let lane = &self.inputs[port];
        let (mine, theirs) =
            (lane[usize::from(vc)].front.born, lane[usize::from(other)].front.born);
        let overdue = |born: u32| now.saturating_sub(born) > rules.patience;
        if overdue(mine.min(theirs)) {
            return mine < theirs;
        }
        let turn = self.lane[port];
        (vc >= turn, other) > (other >= turn, vc)
    }

    /// The input port that an output port grants itself to.
    #[inline]
    fn first_port(
        &self,
        ports: u64,
        output: u8,
        chosen: &[[u8; PORTS]; PORTS],
        now: u32,
        rules: &Rules,
    ) -> u8 {
        let turn = next_from(ports, self.grant[usize::from(output)]);
        if ports & (ports - 1) == 0 {
            return turn;
        }
        let born = |port: u8| {
            let vc = chosen[usize::from(port)][usize::from(output)];
            self.inputs[usize::from(port)][usize::from(vc)].front.born
        };
        let mut left = ports;
        let mut oldest = (u32::MAX, turn);
        while left != 0 {
            let port = take_lowest(&mut left);
            oldest = oldest.min((born(port), port));
        }
        if now.saturating_sub(oldest.0) > rules.patience { oldest.1 } else { turn }
    }

    /// Sends the flit in front of an input channel on, or throws it away.
    #[inline]
    fn pass(&mut self, channel: u8, rules: &Rules, queue: &mut Queue, sends: &mut Vec<Send>) {
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
        sends.push(Send { router, input: channel, output, head, tail, packet });
    }
}

/// The turn after `last`.
#[inline]
fn following(last: u8, all: usize) -> u8 {
    if usize::from(last) + 1 == all { 0 } else { last + 1 }
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
