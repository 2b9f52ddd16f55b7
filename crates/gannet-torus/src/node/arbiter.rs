//! Who goes first at each link: the rules of the [`router`](crate::router), packet by packet.

use gannet_lattice::{Coordinates, LINKS};
use gannet_wire::apelink::VIRTUAL_CHANNELS;

use crate::router::{Arbitration, Shares, Turn, take_lowest};
use crate::routes::{LOCAL, PORTS};

/// The input of the packets of this node's own engine; those before it are links and their virtual
/// channels.
pub(super) const INJECTION: usize = LINKS * VIRTUAL_CHANNELS;
/// The output to this node's own engine; those before it are links and their virtual channels.
pub(super) const EJECTION: usize = LINKS * VIRTUAL_CHANNELS;
pub(super) const INPUTS: usize = INJECTION + 1;
pub(super) const OUTPUTS: usize = EJECTION + 1;

/// Number of a virtual channel of a link, as input or output.
pub(super) fn channel(port: usize, vc: u8) -> usize {
    port * VIRTUAL_CHANNELS + usize::from(vc)
}

/// Link and virtual channel of an input or output that is neither injection nor ejection.
pub(super) fn port_of(channel: usize) -> (usize, u8) {
    (channel / VIRTUAL_CHANNELS, (channel % VIRTUAL_CHANNELS) as u8)
}

/// Which packet goes next over a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub input: usize,
    pub output: usize,
    /// Where its source is.
    source: Coordinates,
}

/// Who wants which output, and who had it last.
///
/// As in the simulator, each virtual channel of a link chooses an input, and the link then chooses
/// among the ports of these. An input that was chosen keeps its turn until it is served, however little
/// room its packet needs or however much: no input waits for more than one packet of each other one.
#[derive(Clone, Debug)]
pub(super) struct Arbiter {
    arbitration: Arbitration,
    /// One bit an input, by output.
    wants: [u64; OUTPUTS],
    /// The same as one bit an output, by input.
    wanted: [u32; INPUTS],
    /// Inputs that want any, one bit each.
    waiting: u64,
    /// Where the packet in front of each input was sent from.
    sources: [Coordinates; INPUTS],
    /// Turn of each output among inputs.
    outputs: [Turn; OUTPUTS],
    /// Turn of each port among the ports that packets come from.
    ports: [Turn; PORTS],
    /// Turn of the packets that come from a port among the channels that they go to.
    lanes: [Turn; PORTS],
    shares: [Shares; LINKS],
}

impl Arbiter {
    /// An arbiter of a node at `place`.
    pub fn new(arbitration: Arbitration, place: Coordinates) -> Self {
        Self {
            arbitration,
            wants: [0; OUTPUTS],
            wanted: [0; INPUTS],
            waiting: 0,
            sources: [place; INPUTS],
            outputs: [Turn::default(); OUTPUTS],
            ports: Default::default(),
            lanes: Default::default(),
            shares: Default::default(),
        }
    }

    /// Lets the packet in front of `input`, which comes from `source`, want exactly the outputs of
    /// `outputs`, one bit each.
    pub fn want(&mut self, input: usize, outputs: u32, source: Coordinates) {
        self.sources[input] = source;
        self.want_on(input, outputs);
    }

    /// The same for packets of this node.
    pub fn inject(&mut self, outputs: u32) {
        self.want_on(INJECTION, outputs);
    }

    fn want_on(&mut self, input: usize, outputs: u32) {
        let before = std::mem::replace(&mut self.wanted[input], outputs);
        self.waiting = self.waiting & !(1 << input) | u64::from(outputs != 0) << input;
        let mut changed = u64::from(before ^ outputs);
        while changed != 0 {
            self.wants[usize::from(take_lowest(&mut changed))] ^= 1 << input;
        }
    }

    /// Whether any packet waits.
    #[inline]
    pub fn has_waiting(&self) -> bool {
        self.waiting != 0
    }

    /// Whose turn it is at `port`, but for packets to those outputs that are `full`, one bit each.
    pub fn turn(&self, port: usize, full: u32) -> Option<Grant> {
        let first = channel(port, 0);
        if self.is_idle(first) {
            return None;
        }
        let mut chosen = [0; VIRTUAL_CHANNELS];
        let (mut ports, mut lanes) = (0u64, [0u64; PORTS]);
        for (vc, output) in (first..(first + VIRTUAL_CHANNELS).min(OUTPUTS)).enumerate() {
            let wants = self.wants[output];
            if wants == 0 || full >> output & 1 == 1 {
                continue;
            }
            let input = self.outputs[output].first(self.going_first(port, wants, usize::from));
            chosen[vc] = usize::from(input);
            lanes[usize::from(input) / VIRTUAL_CHANNELS] |= 1 << vc;
            ports |= 1 << (usize::from(input) / VIRTUAL_CHANNELS);
        }
        if ports == 0 {
            return None;
        }
        let lane = |from: u8| self.lanes[usize::from(from)].first(lanes[usize::from(from)]);
        let input_of = |from: u8| chosen[usize::from(lane(from))];
        let from = self.ports[port].first(self.going_first(port, ports, input_of));
        let input = input_of(from);
        let output = channel(port, lane(from));
        Some(Grant { input, output, source: self.sources[input] })
    }

    /// The grant of an output to the packet that has just come by `input` from `source`, unless others want to go by the port of the output.
    pub fn grant_alone(&self, input: usize, output: usize, source: Coordinates) -> Option<Grant> {
        let first = output - output % VIRTUAL_CHANNELS;
        self.is_idle(first).then_some(Grant { input, output, source })
    }

    /// Whether nobody wants to go by the port whose first output this is.
    #[inline]
    fn is_idle(&self, first: usize) -> bool {
        let of_port = &self.wants[first..(first + VIRTUAL_CHANNELS).min(OUTPUTS)];
        of_port.iter().fold(0, |all, wants| all | wants) == 0
    }

    /// Those of `wants`, whose inputs `input_of` tells, of whom the turn decides.
    fn going_first(&self, port: usize, wants: u64, input_of: impl Fn(u8) -> usize) -> u64 {
        if self.arbitration == Arbitration::Turns || port == usize::from(LOCAL) {
            return wants;
        }
        self.shares[port].least(wants, |one| self.sources[input_of(one)][port / 2])
    }

    /// A packet has gone.
    pub fn served(&mut self, grant: Grant) {
        let Grant { input, output, source } = grant;
        let (port, vc) = port_of(output);
        let from = input / VIRTUAL_CHANNELS;
        self.outputs[output].served(input as u8);
        self.ports[port].served(from as u8);
        self.lanes[from].served(vc);
        if self.arbitration == Arbitration::EqualShares
            && let Some(shares) = self.shares.get_mut(port)
        {
            shares.count(source[port / 2]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Coordinates = [4, 0, 0];

    /// The inputs that go over port 1, which always want what they are given.
    fn served(arbiter: &mut Arbiter, packets: usize) -> Vec<usize> {
        let grants = (0..packets).map(|_| {
            let grant = arbiter.turn(1, 0).unwrap();
            arbiter.served(grant);
            grant.input
        });
        grants.collect()
    }

    #[test]
    fn inputs_that_always_want_an_output_get_it_in_turn() {
        let mut arbiter = Arbiter::new(Arbitration::Turns, HERE);
        arbiter.want(3, 1 << 5, HERE);
        arbiter.want(13, 1 << 5, HERE);
        arbiter.inject(1 << 5);
        assert_eq!(served(&mut arbiter, 6), [3, 13, INJECTION, 3, 13, INJECTION]);
        assert_eq!(arbiter.turn(0, 0), None);
    }

    #[test]
    fn channels_share_a_link_by_the_ports_that_packets_come_from() {
        let mut arbiter = Arbiter::new(Arbitration::Turns, HERE);
        // Two channels of one port against the engine.
        arbiter.want(0, 1 << 4, HERE);
        arbiter.want(1, 1 << 5, HERE);
        arbiter.inject(1 << 6);
        let served = served(&mut arbiter, 8);
        let of = |input| served.iter().filter(|&&other| other == input).count();
        assert_eq!([0, 1, INJECTION].map(of), [2, 2, 4]);
    }

    #[test]
    fn a_channel_without_room_holds_up_no_other() {
        let mut arbiter = Arbiter::new(Arbitration::Turns, HERE);
        arbiter.want(0, 1 << 4, HERE);
        arbiter.inject(1 << 4 | 1 << 6);
        let next = |full| arbiter.turn(1, full).map(|grant| (grant.input, grant.output));
        assert_eq!([next(0), next(1 << 4)], [Some((0, 4)), Some((INJECTION, 6))]);
        assert_eq!(next(1 << 4 | 1 << 6), None);
    }

    #[test]
    fn a_port_is_granted_at_once_only_where_nobody_waits_for_it() {
        let mut arbiter = Arbiter::new(Arbitration::Turns, HERE);
        arbiter.want(3, 1 << 5, HERE);
        let outputs = [0, 4, 5, 7, 8, EJECTION];
        let granted = outputs.map(|output| arbiter.grant_alone(9, output, HERE).is_some());
        assert_eq!(granted, [true, false, false, false, true, true]);
        let grant = arbiter.grant_alone(9, 8, HERE).unwrap();
        arbiter.served(grant);
        arbiter.want(9, 1 << 8, HERE);
        arbiter.want(3, 1 << 8, HERE);
        assert_eq!(arbiter.turn(2, 0).map(|grant| grant.input), Some(3), "it had its turn");
    }

    #[test]
    fn with_equal_shares_each_node_of_a_ring_gets_the_same() {
        let mut arbiter = Arbiter::new(Arbitration::EqualShares, HERE);
        // Packets of two nodes come by one input, those of this node by another.
        let mut sent = [0; 3];
        let mut front = 2;
        arbiter.inject(1 << 4);
        for _ in 0..30 {
            arbiter.want(0, 1 << 4, [front, 7, 7]);
            let grant = arbiter.turn(1, 0).unwrap();
            arbiter.served(grant);
            if grant.input == INJECTION {
                sent[2] += 1;
            } else {
                sent[usize::from(front) - 2] += 1;
                front = 5 - front;
            }
        }
        assert_eq!(sent, [10, 10, 10]);
    }

    #[test]
    fn an_input_wants_only_what_it_said_last() {
        let mut arbiter = Arbiter::new(Arbitration::Turns, HERE);
        arbiter.want(0, 1 << 2 | 1 << EJECTION, HERE);
        arbiter.want(0, 1 << 7, HERE);
        let turns = [0, 1, usize::from(LOCAL)].map(|port| arbiter.turn(port, 0));
        assert_eq!(turns.map(|turn| turn.map(|grant| grant.output)), [None, Some(7), None]);
    }
}
