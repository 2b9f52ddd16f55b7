//! Packets from input to output.

use gannet_checksum::copy;
use gannet_lattice::{Coordinates, LINKS};
use gannet_rdma::{Outgoing, PhysicalMemory, Unwritten};
use gannet_wire::apelink::{Destination, Header, TIME_BITS};

use super::arbiter::{EJECTION, INJECTION, channel, port_of};
use super::event::{Event, Reason};
use super::guide::Came;
use super::injection::Waiting;
use super::torus_node::TorusNode;
use crate::link::{Arrival, Origin, Refused};
use crate::routes::PORTS;

/// Times in footers count up to this and begin anew.
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// What came of an attempt to move a packet.
enum Move {
    /// It has left its input.
    Done,
    /// It has to wait for room in its channel.
    Waits,
    /// It has to wait for the link, and all others with it.
    LinkWaits,
}

impl<M: PhysicalMemory> TorusNode<M> {
    /// A packet is whole in the FIFO of a link.
    pub(super) fn arrived(&mut self, port: usize, vc: u8) {
        self.is_stirred = true;
        self.look(port, vc);
    }

    /// Finds the output of the oldest packet of a FIFO; those that have none are dropped.
    fn look(&mut self, port: usize, vc: u8) {
        let input = channel(port, vc);
        while let Some(arrival) = self.front(port, vc) {
            let came = Came { source: arrival.origin.source, port: port as u8, vc };
            match self.guide.output(&arrival.header, came) {
                Ok(output) => {
                    let source = self.guide.place(came.source);
                    return self.arbiter.want(input, 1 << output, source);
                }
                Err(reason) => self.drop_first(port, vc, reason),
            }
        }
        self.arbiter.want(input, 0, Coordinates::default());
    }

    fn front(&self, port: usize, vc: u8) -> Option<Arrival> {
        self.ports[port].as_ref()?.link.front(vc)
    }

    /// Drops the oldest packet of a FIFO.
    fn drop_first(&mut self, port: usize, vc: u8, reason: Reason) {
        let arrival = self.ports[port].as_mut().and_then(|port| port.link.pop(vc));
        if let Some(Arrival { header, origin, .. }) = arrival {
            self.counters.taken += 1;
            self.counters.drop_one(reason);
            self.tell(Event::Dropped { reason, source: origin.source, header });
        }
    }

    /// Finds all outputs anew: routes or links have changed.
    pub(super) fn look_at_all(&mut self) {
        for port in 0..LINKS {
            let channels =
                self.ports[port].as_ref().map_or(0, |p| p.link.config().virtual_channels);
            (0..channels as u8).for_each(|vc| self.look(port, vc));
        }
        let Self { guide, injection, counters, .. } = self;
        injection.redirect(|outgoing| match guide.first_output(outgoing.destination) {
            Ok(output) => Some(output),
            Err(reason) => {
                counters.drop_one(reason);
                None
            }
        });
        self.look_at_injection();
        self.is_stirred = true;
    }

    /// Enters which outputs packets of the engine wait for.
    pub(super) fn look_at_injection(&mut self) {
        let allowed = if self.is_paused { 1 << EJECTION } else { u32::MAX };
        self.arbiter.inject(self.injection.outputs() & allowed);
    }

    /// Moves packets while any of them has room where it goes; of those of the engine, as many as find place at
    /// once.
    pub(super) fn move_packets(&mut self, now: u64) {
        (self.is_stirred, self.waits_for_engine) = (false, false);
        self.take_from_engine(now);
        let mut moved = true;
        while moved && self.arbiter.has_waiting() {
            moved = false;
            for port in 0..PORTS {
                let mut full = 0;
                while let Some(grant) = self.arbiter.turn(port, full) {
                    match self.move_one(grant.input, grant.output, now) {
                        Move::Done => {
                            self.arbiter.served(grant);
                            moved = true;
                        }
                        Move::Waits => full |= 1 << grant.output,
                        // What goes first keeps its turn: another may fit into less room, again and again.
                        Move::LinkWaits => break,
                    }
                }
            }
        }
    }

    /// Takes as many packets of the engine as may wait, and sends each on at once if nobody waits before it.
    fn take_from_engine(&mut self, now: u64) {
        for _ in 0..self.injection.packets_max() {
            if !self.engine.has_packet() {
                break;
            }
            let Some(mut bytes) = self.injection.buffer() else { break };
            let Some(packet) = self.engine.next_unwritten(now) else {
                return self.injection.free(bytes);
            };
            self.counters.injected += 1;
            match self.guide.first_output(packet.outgoing.destination) {
                Ok(output) if self.inject_at_once(&packet, output, now) => {
                    self.injection.free(bytes);
                }
                Ok(output) => {
                    let outgoing = packet.outgoing;
                    self.engine.write_packet(&packet, &mut bytes[..outgoing.length]);
                    self.injection.push(Waiting { outgoing, output, bytes });
                    self.look_at_injection();
                }
                Err(reason) => {
                    self.counters.drop_one(reason);
                    self.injection.free(bytes);
                }
            }
        }
        self.look_at_injection();
    }

    /// Gives a packet of the engine to a link before it waits; not where others do who want to go the same way.
    fn inject_at_once(&mut self, packet: &Unwritten, output: usize, now: u64) -> bool {
        if output == EJECTION || self.is_paused {
            return false;
        }
        let place = self.guide.place(self.guide.node.0);
        let Some(grant) = self.arbiter.grant_alone(INJECTION, output, place) else { return false };
        let (out, vc) = port_of(output);
        let Some(port) = self.ports[out].as_mut() else { return false };
        let header = first_header(&packet.outgoing, vc, self.guide.epoch);
        let origin = Origin { source: self.guide.node.0, time: now & TIME_MASK };
        let write = |place: &mut [u8]| self.engine.write_packet(packet, place);
        if port.send_written(header, origin, packet.outgoing.length, write).is_err() {
            return false;
        }
        self.counters.forwarded += 1;
        self.arbiter.served(grant);
        true
    }

    /// Moves a packet on that the link of a port has just brought, from where it lies in the frame; not where it has to wait, or others
    /// do who want to go the same way, or it is to be dropped.
    pub(super) fn pass_on(
        &mut self,
        port: usize,
        arrival: &Arrival,
        payload: &[u8],
        now: u64,
    ) -> bool {
        let vc = arrival.header.virtual_channel;
        let came = Came { source: arrival.origin.source, port: port as u8, vc };
        let Ok(output) = self.guide.output(&arrival.header, came) else { return false };
        let source = self.guide.place(came.source);
        let Some(grant) = self.arbiter.grant_alone(channel(port, vc), output, source) else {
            return false;
        };
        if output == EJECTION {
            if !self.engine.can_receive() {
                return false;
            }
            self.engine.packet_in_summed(now, payload, arrival.sum);
            self.count_delivered(arrival, now);
        } else {
            let (out, header) = onward(arrival, output);
            let Some(to) = &mut self.ports[out] else { return false };
            if to.forward(header, arrival, payload).is_err() {
                return false;
            }
            self.counters.taken += 1;
            self.counters.forwarded += 1;
        }
        self.arbiter.served(grant);
        true
    }

    fn move_one(&mut self, input: usize, output: usize, now: u64) -> Move {
        if input == INJECTION {
            return if output == EJECTION { self.loop_back(now) } else { self.inject(output, now) };
        }
        let (port, vc) = port_of(input);
        let Some(arrival) = self.front(port, vc) else {
            self.arbiter.want(input, 0, Coordinates::default());
            return Move::Waits;
        };
        let moved = if output == EJECTION {
            self.deliver(port, vc, now)
        } else {
            self.forward(port, vc, arrival, output)
        };
        if let Move::Done = moved {
            self.look(port, vc);
        }
        moved
    }

    /// Gives the oldest packet of a FIFO to the engine.
    fn deliver(&mut self, port: usize, vc: u8, now: u64) -> Move {
        // A packet that finds the engine busy stays in the FIFO.
        if !self.engine.can_receive() {
            return self.wait_for_engine();
        }
        let Self { ports, engine, .. } = self;
        let Some(link) = ports[port].as_mut().map(|port| &mut port.link) else {
            return Move::Waits;
        };
        let Some(sum) = link.front(vc).map(|arrival| arrival.sum) else { return Move::Waits };
        engine.packet_in_summed(now, link.payload(vc), sum);
        let Some(arrival) = link.pop(vc) else { return Move::Waits };
        self.count_delivered(&arrival, now);
        Move::Done
    }

    fn count_delivered(&mut self, arrival: &Arrival, now: u64) {
        let latency = (now & TIME_MASK).wrapping_sub(arrival.origin.time) & TIME_MASK;
        let counters = &mut self.counters;
        counters.taken += 1;
        counters.delivered += 1;
        counters.delivered_hops += u64::from(arrival.header.hops);
        counters.latency_ns = counters.latency_ns.saturating_add(latency);
        counters.latency_max_ns = counters.latency_max_ns.max(latency);
    }

    /// Tries again when the engine has room, which comes by its own deadline.
    fn wait_for_engine(&mut self) -> Move {
        self.waits_for_engine = true;
        Move::Waits
    }

    /// Gives the oldest packet of a FIFO to another link, or drops it if that never takes it.
    fn forward(&mut self, port: usize, from_vc: u8, arrival: Arrival, output: usize) -> Move {
        let (out, header) = onward(&arrival, output);
        let Ok([Some(from), Some(to)]) = self.ports.get_disjoint_mut([port, out]) else {
            self.drop_first(port, from_vc, Reason::LinkRefuses);
            return Move::Done;
        };
        match to.forward(header, &arrival, from.link.payload(from_vc)) {
            Ok(()) => {
                from.link.pop(from_vc);
                self.counters.taken += 1;
                self.counters.forwarded += 1;
                Move::Done
            }
            Err(Refused::NoCredit(_)) => Move::Waits,
            Err(Refused::NotUp | Refused::WindowFull) => Move::LinkWaits,
            Err(_) => {
                self.drop_first(port, from_vc, Reason::LinkRefuses);
                Move::Done
            }
        }
    }

    /// Gives a packet of the engine to a link.
    fn inject(&mut self, output: usize, now: u64) -> Move {
        let (out, vc) = port_of(output);
        let (Some(waiting), Some(port)) = (self.injection.first(output), self.ports[out].as_mut())
        else {
            return Move::Waits;
        };
        let header = first_header(&waiting.outgoing, vc, self.guide.epoch);
        let origin = Origin { source: self.guide.node.0, time: now & TIME_MASK };
        let payload = &waiting.bytes[..waiting.outgoing.length];
        match port.send_written(header, origin, payload.len(), |place| copy(payload, place)) {
            Ok(()) => self.counters.forwarded += 1,
            Err(Refused::NoCredit(_)) => return Move::Waits,
            Err(Refused::NotUp | Refused::WindowFull) => return Move::LinkWaits,
            Err(_) => self.counters.drop_one(Reason::LinkRefuses),
        }
        self.injection.pop(output, |_| ());
        self.look_at_injection();
        Move::Done
    }

    /// Gives a packet of the engine for its own node back to it.
    fn loop_back(&mut self, now: u64) -> Move {
        if !self.engine.can_receive() {
            return self.wait_for_engine();
        }
        let Self { injection, engine, counters, .. } = self;
        injection.pop(EJECTION, |waiting| {
            engine.packet_in(now, &waiting.bytes[..waiting.outgoing.length]);
            counters.delivered += 1;
        });
        self.look_at_injection();
        Move::Done
    }
}

/// The header of a packet of the engine on its first link.
fn first_header(outgoing: &Outgoing, vc: u8, epoch: u8) -> Header {
    let Outgoing { destination, address, length } = *outgoing;
    Header {
        virtual_channel: vc,
        process: epoch.into(),
        destination: Destination::Node(destination.0),
        size: length as u16,
        address,
        hops: 1,
        ..Header::default()
    }
}

/// The port that an output leads to, and the header of a packet that goes there.
fn onward(arrival: &Arrival, output: usize) -> (usize, Header) {
    let (out, vc) = port_of(output);
    let hops = arrival.header.hops + 1;
    (out, Header { virtual_channel: vc, hops, ..arrival.header })
}
