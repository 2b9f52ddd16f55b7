//! Several engines joined by a path that loses, doubles, delays and damages packets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gannet_measure::random::Random;
use gannet_rdma::Engine;
use gannet_wire::rdma::HEADER_LEN;

/// What the path does to a packet. Probabilities are per packet, or per bit where it says so.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub loss: f64,
    pub duplication: f64,
    pub bit_errors: f64,
    pub delay_ns: u64,
    /// Added to the delay: uniform up to this, so that packets overtake each other.
    pub jitter_ns: u64,
}

impl Faults {
    pub const NONE: Self =
        Self { loss: 0.0, duplication: 0.0, bit_errors: 0.0, delay_ns: 1000, jitter_ns: 0 };
}

pub type Memory = Vec<u8>;

/// When a packet arrives, its number among all, where, and its bytes.
type UnderWay = (u64, u64, usize, Vec<u8>);

/// Engines, and the packets between them.
pub struct Path {
    pub engines: Vec<Engine<Memory>>,
    pub now: u64,
    pub faults: Faults,
    /// Nodes that nothing reaches.
    pub silent: Vec<usize>,
    random: Random,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    packets: u64,
    pub lost: u64,
    pub damaged: u64,
}

impl Path {
    pub fn new(engines: Vec<Engine<Memory>>, faults: Faults, seed: u64) -> Self {
        Self {
            engines,
            now: 0,
            faults,
            silent: Vec::new(),
            random: Random::stream(seed, 77),
            under_way: BinaryHeap::new(),
            packets: 0,
            lost: 0,
            damaged: 0,
        }
    }

    /// Takes all packets that wait, and goes on to the next time at which something happens;
    /// `false` if nothing will happen any more.
    pub fn step(&mut self) -> bool {
        for node in 0..self.engines.len() {
            self.take_packets(node);
        }
        let arrival = self.under_way.peek().map(|Reverse(packet)| packet.0);
        let deadlines = self.engines.iter().filter_map(Engine::next_deadline);
        let Some(next) = deadlines.chain(arrival).min() else { return false };
        self.now = self.now.max(next);
        self.engines.iter_mut().for_each(|engine| engine.advance(self.now));
        while self.under_way.peek().is_some_and(|Reverse(packet)| packet.0 <= self.now) {
            let Some(Reverse((_, _, to, packet))) = self.under_way.pop() else { break };
            if !self.silent.contains(&to) {
                self.engines[to].packet_in(self.now, &packet);
            }
        }
        true
    }

    /// Loses what is under way to a node.
    pub fn forget(&mut self, node: usize) {
        self.under_way.retain(|Reverse(packet)| packet.2 != node);
    }

    fn take_packets(&mut self, from: usize) {
        let mut packet = [0; HEADER_LEN + 4 * 4096];
        while let Some(outgoing) = self.engines[from].next_packet(self.now, &mut packet) {
            if self.silent.contains(&from) || self.random.chance(self.faults.loss) {
                self.lost += 1;
                continue;
            }
            let copies = 1 + u32::from(self.random.chance(self.faults.duplication));
            for _ in 0..copies {
                let bytes = self.damage(&packet[..outgoing.length]);
                let delay = self.faults.delay_ns + self.random.below(self.faults.jitter_ns + 1);
                self.packets += 1;
                let to = outgoing.destination.index();
                self.under_way.push(Reverse((self.now + delay, self.packets, to, bytes)));
            }
        }
    }

    fn damage(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let bits = 8 * bytes.len() as u64;
        if self.faults.bit_errors > 0.0 {
            // Gaps between errors are exponential, so only the bits that flip are drawn.
            let mut at = self.random.exponential(1.0 / self.faults.bit_errors) as u64;
            self.damaged += u64::from(at < bits);
            while at < bits {
                bytes[(at / 8) as usize] ^= 1 << (at % 8);
                at += 1 + self.random.exponential(1.0 / self.faults.bit_errors) as u64;
            }
        }
        bytes
    }
}
