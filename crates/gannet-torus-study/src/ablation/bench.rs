//! Two engines on a link in virtual time.

use std::collections::VecDeque;

use gannet_lattice::Node;
use gannet_memory::Registration;
use gannet_rdma::{
    Completion, Configuration, Engine, PhysicalMemory, Put, Replay, Timing, TranslationCache,
};
use gannet_wire::rdma::HEADER_LEN;

use super::PACKET_BYTES;

/// Virtual address of the buffer that is written.
const BUFFER_AT: u64 = 1 << 32;
/// Bytes of that buffer: the largest message.
const BUFFER_BYTES: u64 = 4 << 20;
/// Bytes on the link beside the data: MAGIC, START, header and footer.
const FRAMING_BYTES: usize = 64;

/// Memory of any size that holds nothing: only times are asked for.
struct Nothing;

impl PhysicalMemory for Nothing {
    fn contains(&self, _: u64, _: u64) -> bool {
        true
    }
    fn read(&self, _: u64, _: &mut [u8]) {}
    fn write(&mut self, _: u64, _: &[u8]) {}
}

/// One direction of a link.
struct Wire {
    ns_per_byte: f64,
    hop_ns: u64,
    free_at: u64,
    under_way: VecDeque<(u64, Vec<u8>)>,
}

impl Wire {
    /// Takes what the engine has ready, if the wire is free.
    fn take(&mut self, now: u64, from: &mut Engine<Nothing>) {
        let mut packet = [0; HEADER_LEN + PACKET_BYTES as usize];
        while self.free_at <= now {
            let Some(outgoing) = from.next_packet(now, &mut packet) else { return };
            // The published machine has no end-to-end header: it is not counted.
            let bytes = outgoing.length - HEADER_LEN + FRAMING_BYTES;
            self.free_at = now + (bytes as f64 * self.ns_per_byte).round() as u64;
            let arrives = self.free_at + self.hop_ns;
            self.under_way.push_back((arrives, packet[..outgoing.length].to_vec()));
        }
    }

    fn give(&mut self, now: u64, to: &mut Engine<Nothing>) {
        while self.under_way.front().is_some_and(|packet| packet.0 <= now) {
            if let Some((_, packet)) = self.under_way.pop_front() {
                to.packet_in(now, &packet);
            }
        }
    }

    fn next(&self, from: &Engine<Nothing>) -> Option<u64> {
        let arrival = self.under_way.front().map(|packet| packet.0);
        let free = from.has_packet().then_some(self.free_at);
        arrival.into_iter().chain(free).min()
    }
}

/// What one run took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    pub bytes: u64,
    /// From the first post to the last TX_DONE, ns.
    pub tx_ns: u64,
    /// From the first post to the last RX_DONE, ns.
    pub rx_ns: u64,
    /// Part of the translations that the TLB had.
    pub tlb_hits: f64,
}

impl Measured {
    /// Bytes per second to the last completion.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 / self.tx_ns.max(self.rx_ns) as f64 * 1e9
    }
}

/// A node that sends and one that receives.
pub struct Bench {
    engines: [Engine<Nothing>; 2],
    wires: [Wire; 2],
    now: u64,
}

impl Bench {
    /// Boards of these costs; the link carries `link_bytes_per_s` of payload in full packets.
    pub fn new(
        near: Timing,
        far: Timing,
        cache: TranslationCache,
        link_bytes_per_s: f64,
        hop_ns: u64,
    ) -> Self {
        let wire = || Wire {
            ns_per_byte: 1e9 / link_bytes_per_s * PACKET_BYTES as f64
                / (PACKET_BYTES + FRAMING_BYTES as u64) as f64,
            hop_ns,
            free_at: 0,
            under_way: VecDeque::new(),
        };
        let mut engines = [engine(0, near, cache), engine(1, far, cache)];
        let pages: Vec<u64> = (0..BUFFER_BYTES).step_by(cache.page_size.bytes() as usize).collect();
        let (start, length) = (BUFFER_AT, BUFFER_BYTES);
        let buffer = Registration { process: 0, start, length, writable: true, pages: &pages };
        engines[1].register(&buffer).expect("the buffer fits the table");
        Self { engines, wires: [wire(), wire()], now: 0 }
    }

    /// Posts PUTs to one buffer, all at once, and waits for all completions.
    pub fn run(&mut self, messages: u64, bytes: u64) -> Measured {
        let start = self.now;
        let before = (self.engines[1].tlb().hits(), self.engines[1].tlb().misses());
        for tag in 0..messages as u32 {
            let (address, length) = (BUFFER_AT, bytes as u32);
            let put = Put { source: 0, destination: Node(1), process: 0, address, length, tag };
            self.engines[0].post_put(self.now, &put).expect("the queue holds all messages");
        }
        let mut measured = Measured { bytes: messages * bytes, ..Measured::default() };
        let (mut tx_left, mut rx_left) = (messages, messages);
        while tx_left + rx_left > 0 {
            self.step();
            while let Some(completion) = self.engines[0].poll_completion() {
                assert!(matches!(completion, Completion::TxDone { outcome: Ok(()), .. }));
                (tx_left, measured.tx_ns) = (tx_left - 1, self.now - start);
            }
            while self.engines[1].poll_completion().is_some() {
                (rx_left, measured.rx_ns) = (rx_left - 1, self.now - start);
            }
        }
        let hits = self.engines[1].tlb().hits() - before.0;
        let misses = self.engines[1].tlb().misses() - before.1;
        measured.tlb_hits = hits as f64 / (hits + misses).max(1) as f64;
        measured
    }

    /// Lets everything happen that happens now, and goes on to the next time.
    fn step(&mut self) {
        let Self { engines, wires, now } = self;
        let [near, far] = engines;
        let [out, back] = wires;
        out.take(*now, near);
        back.take(*now, far);
        let times = [out.next(near), back.next(far), near.next_deadline(), far.next_deadline()];
        *now = times.into_iter().flatten().min().expect("messages are under way").max(*now);
        near.advance(*now);
        far.advance(*now);
        out.give(*now, far);
        back.give(*now, near);
    }
}

fn engine(node: u32, timing: Timing, cache: TranslationCache) -> Engine<Nothing> {
    let mut configuration = Configuration::new(Node(node));
    (configuration.timing, configuration.translation) = (timing, cache);
    configuration.limits.data_bytes = PACKET_BYTES as usize;
    // No packet is lost, so none may be sent again, however long it has to wait.
    let patience = 1_000_000_000;
    configuration.replay = Replay {
        timeout_ns: patience,
        timeout_min_ns: patience,
        timeout_max_ns: patience,
        ..Replay::DEFAULT
    };
    Engine::new(configuration, Nothing)
}
