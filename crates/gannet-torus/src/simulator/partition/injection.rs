//! Packets on their way from the sources of a partition into its routers.

use gannet_lattice::Node;

use super::Partition;
use crate::routes::LOCAL;
use crate::simulator::packet::Packet;
use crate::simulator::rules::INJECTION_DELAY;

impl<const V: usize> Partition<V> {
    /// Lets the source of a node send a flit.
    pub(super) fn feed(&mut self, node: usize, now: u32) {
        let id = Node(self.nodes.start + node as u32);
        if !self.sources[node].is_sending() {
            if self.paused || !self.sources[node].choose_channel() {
                return;
            }
            let Some(packet) = self.next_packet(node, id, now) else { return };
            self.sources[node].start(packet.flits);
            let channel = self.sources[node].send_flit().expect("the channel has room");
            self.inject(node, now, channel, Some(packet));
        } else if let Some(channel) = self.sources[node].send_flit() {
            self.inject(node, now, channel, None);
        }
    }

    #[inline]
    fn inject(&mut self, node: usize, now: u32, vc: u8, packet: Option<Packet>) {
        let channel = LOCAL * V as u8 + vc;
        self.receive(node, now + INJECTION_DELAY, channel, packet, false);
        if self.window.contains(&now) {
            self.tally.sent[node] += 1;
        }
    }

    /// The packet that a node departures next: a lost one again, or a new one.
    fn next_packet(&mut self, node: usize, id: Node, now: u32) -> Option<Packet> {
        if self.sources[node].has_lost(now) {
            let (_, packet) = self.sources[node].again.pop_front()?;
            let to = self.traffic.lattice.node(self.rules.packing.unpack(packet.destination));
            let packet = self.routed(id, to, packet)?;
            self.tally.replayed += 1;
            if self.window.contains(&now) {
                self.tally.window_replayed_flits += u64::from(packet.flits);
            }
            return Some(packet);
        }
        let source = &mut self.sources[node];
        if source.generator.next_at() > now {
            return None;
        }
        let made = source.generator.make(id, &self.traffic);
        self.tally.made += 1;
        if self.window.contains(&made.born) {
            self.tally.marked += 1;
        }
        let packet = Packet { born: made.born, flits: made.flits, ..Packet::default() };
        self.routed(id, made.destination, packet)
    }

    /// Gives a packet its way, unless its destination cannot be reached.
    fn routed(&mut self, from: Node, to: Node, packet: Packet) -> Option<Packet> {
        let Some(via) = self.rules.routes.way(from, to) else {
            self.tally.refused += 1;
            if self.window.contains(&packet.born) {
                self.tally.marked_done += 1;
                // Those that were sent before are counted as lost.
                let is_first = packet.replays == 0;
                self.tally.window_refused_flits += u64::from(packet.flits) * u64::from(is_first);
            }
            return None;
        };
        let (lattice, packing) = (self.traffic.lattice, self.rules.packing);
        let place = |node| packing.pack(lattice.coordinates(node));
        Some(Packet { source: place(from), destination: place(to), via: place(via), ..packet })
    }
}
