//! What a hop of the torus costs in software: both ends of a link on one core, in memory.
//!
//! A packet is given to one end, which copies it to the frame in which it is sent and takes its check sum in the same pass, and is copied by
//! the other end out of the frame to a FIFO, with the check sum again. Beside it stands what hops with check sums
//! commonly take: a copy and then a check sum at each end, of the same bytes, measured in turn with it on the same core.
//! Around a link stands a node: its engine reads a PUT from memory, in packets with an end-to-end header, of which it takes a check
//! sum, and the far engine writes it from the frame.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gannet_checksum::{Crc32c, copy};
use gannet_lattice::{Direction, Lattice, Node};
use gannet_memory::Registration;
use gannet_rdma::{Completion, Put};
use gannet_torus::Routes;
use gannet_torus::link::{Config, ConfigError, Form, Frames, Link, Most, Origin, State};
use gannet_torus::node::{Configuration, ConfigurationError, TorusNode};
use gannet_wire::apelink::{Header, WORD_LEN, Word};
use serde::{Deserialize, Serialize};

pub use gannet_torus::link::FRAME_BYTES_MAX;
pub use gannet_wire::apelink::PAYLOAD_LEN_MAX;

use crate::cores::Cores;

/// Passes of each, in turn.
const PASSES: usize = 7;
/// Packets, or messages, between two looks at the clock.
const BATCH: usize = 256;
/// From one look at the clock of the links to the next; only a link that stands still sees its deadlines.
const STEP_NS: u64 = 1000;
/// Bytes of a PUT.
const MESSAGE_BYTES: u32 = 1 << 16;
const PAGE_BYTES: u64 = 4096;
/// Words of payload that may be under way.
const WINDOW_WORDS: usize = 1 << 12;
/// Where the far node has registered the place of a PUT.
const ADDRESS: u64 = 1 << 40;

/// What carries the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hop {
    /// Two ends of a link, word by word as lines in hardware carry them.
    Words,
    /// Two ends of a link that exchange frames.
    Frames,
    /// Two nodes that exchange frames: PUTs of 64 KiB, of which each packet carries so much.
    Put,
}

impl Hop {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Words, Self::Frames, Self::Put];
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct HopPlan {
    /// Bytes of payload of a packet, each at most [`PAYLOAD_LEN_MAX`].
    pub bytes: Vec<usize>,
    /// Bytes of a frame.
    pub frame_bytes: usize,
    /// Length of a pass.
    pub time: Duration,
}

/// A hop of packets of one size.
#[derive(Clone, Debug, Serialize)]
pub struct HopRow {
    /// What carried them.
    pub hop: Hop,
    /// Bytes of payload of a packet; of a PUT without the end-to-end header, beside which fewer may fit.
    pub bytes: usize,
    /// So many bytes, in ns: the median of the passes.
    pub ns: f64,
    /// Payload in Gbit/s.
    pub gbit_per_s: f64,
    /// Copying the payload and then taking its check sum, twice each, in ns.
    pub limit_ns: f64,
    /// The limit by the packet; where sums are taken while bytes are copied, more than 1 is possible.
    pub ratio: f64,
    /// What is left of a packet without the copies and check sums that this hop makes, where they go through as much memory as in the hop, in ns.
    pub beside_ns: f64,
}

/// Why the experiment cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No link can be made so.
    #[error(transparent)]
    Link(#[from] ConfigError),
    /// No node can be made so.
    #[error(transparent)]
    Node(#[from] ConfigurationError),
}

/// Measures on one core, all hops in turn.
///
/// # Errors
/// When frames or packets are too long or too short.
///
/// # Panics
/// When a link loses what a line in memory cannot lose.
pub fn measure(plan: &HopPlan) -> Result<Vec<HopRow>, Error> {
    Cores::usable().pin(0);
    let mut rows = Vec::new();
    for &bytes in &plan.bytes {
        let mut hops = Hop::ALL.map(|_| Vec::new());
        let mut passes = Hop::ALL.map(|_| Vec::new());
        let (mut copies, mut sums) = (Vec::new(), Vec::new());
        for _ in 0..PASSES {
            copies.push(copy_ns(bytes, plan.time));
            sums.push(sum_ns(bytes, plan.time));
            for ((hop, times), passes) in Hop::ALL.into_iter().zip(&mut hops).zip(&mut passes) {
                passes.push(Places::new(hop, bytes).passes_ns(plan.time));
                times.push(match hop {
                    Hop::Words => link_ns(Form::Words, bytes, plan.time)?,
                    Hop::Frames => {
                        link_ns(Form::Frames { bytes: plan.frame_bytes }, bytes, plan.time)?
                    }
                    Hop::Put => put_ns(plan.frame_bytes, bytes, plan.time)?,
                });
            }
        }
        let limit_ns = 2.0 * (median(&mut copies) + median(&mut sums));
        for ((hop, mut times), mut passes) in Hop::ALL.into_iter().zip(hops).zip(passes) {
            let (ns, passes_ns) = (median(&mut times), median(&mut passes));
            rows.push(HopRow {
                hop,
                bytes,
                ns,
                gbit_per_s: 8.0 * bytes as f64 / ns,
                limit_ns,
                ratio: limit_ns / ns,
                beside_ns: ns - passes_ns,
            });
        }
    }
    Ok(rows)
}

/// Nanoseconds to copy a payload.
fn copy_ns(bytes: usize, time: Duration) -> f64 {
    let (from, mut to) = (vec![1; bytes], vec![0; bytes]);
    batch_ns(time, BATCH, || {
        for _ in 0..BATCH {
            copy(black_box(&from), black_box(&mut to));
        }
    })
}

/// Nanoseconds to take the check sum of a payload.
fn sum_ns(bytes: usize, time: Duration) -> f64 {
    let payload = vec![1; bytes];
    batch_ns(time, BATCH, || {
        for _ in 0..BATCH {
            black_box(Crc32c::of(black_box(&payload)));
        }
    })
}

/// Where a hop copies payloads from and to: as many as are under way at once, since what they go through is in no cache of the first level.
struct Places {
    hop: Hop,
    /// Bytes of a payload.
    bytes: usize,
    packets: usize,
    /// The payload, or for PUTs the message.
    source: Vec<u8>,
    /// Packets in frames.
    frames: Vec<u8>,
    /// What the far end has taken: packets in a FIFO, or for PUTs the message.
    taken: Vec<u8>,
}

impl Places {
    fn new(hop: Hop, bytes: usize) -> Self {
        let window = match hop {
            Hop::Words => Config::default().fifo_words,
            Hop::Frames | Hop::Put => WINDOW_WORDS,
        };
        let packets = (window / bytes.div_ceil(WORD_LEN)).clamp(1, BATCH);
        let all = packets * Self::stride(bytes);
        let source = if hop == Hop::Put { all } else { bytes };
        Self {
            hop,
            bytes,
            packets,
            source: vec![7; source],
            frames: vec![0; all],
            taken: vec![0; all],
        }
    }

    /// Bytes of a packet: padded payload, header and footer.
    fn stride(bytes: usize) -> usize {
        bytes.next_multiple_of(WORD_LEN) + 2 * WORD_LEN
    }

    /// Nanoseconds of the copies and check sums of a packet.
    fn passes_ns(&mut self, time: Duration) -> f64 {
        batch_ns(time, self.packets, || self.pass())
    }

    /// What is done to the bytes of all packets, first by the near end and then by the far one.
    fn pass(&mut self) {
        let Self { hop, bytes, packets, source, frames, taken } = self;
        let places = (0..*packets).map(|packet| packet * Self::stride(*bytes));
        let sum = Crc32c::default();
        for at in places.clone() {
            let from = if *hop == Hop::Put { at } else { 0 };
            let from = black_box(&source[from..from + *bytes]);
            black_box(sum.and_copied(from, &mut frames[at..at + *bytes]));
        }
        for at in places {
            let from = black_box(&frames[at..at + *bytes]);
            let to = &mut taken[at..at + *bytes];
            if *hop == Hop::Put {
                // The link takes the sum, and the engine copies what it has let through.
                black_box(sum.and(from));
                copy(from, to);
            } else {
                black_box(sum.and_copied(from, to));
            }
        }
    }
}

/// Two ends of a link, and the time that passes for them.
struct Pair {
    ends: [Link; 2],
    words: Vec<Word>,
    now: u64,
}

impl Pair {
    fn new(form: Form) -> Result<Self, ConfigError> {
        let end = |session| {
            let config = Config { form, session, ..patient(Config::default()) };
            Link::new(match form {
                Form::Words => config,
                Form::Frames { .. } => wide(config),
            })
        };
        let mut pair = Self { ends: [end(1)?, end(2)?], words: Vec::new(), now: 0 };
        while pair.ends.iter().any(|end| end.state() != State::Up) {
            (0..2).for_each(|from| pair.carry(from));
        }
        Ok(pair)
    }

    /// Carries all that an end has to say to the other one.
    fn carry(&mut self, from: usize) {
        let Self { ends: [a, b], words, now } = self;
        let (from, to) = if from == 0 { (a, b) } else { (b, a) };
        *now += STEP_NS;
        match from.config().form {
            Form::Words => {
                words.clear();
                words.extend(std::iter::from_fn(|| from.transmit_due(*now)).map(|sent| sent.word));
                words.iter().for_each(|&word| _ = to.receive(word, *now));
            }
            Form::Frames { .. } => {
                while let Some(Frames { bytes, .. }) = from.take_frames(Most::ONE, *now) {
                    to.accept(bytes, *now, |_| ()).expect("both ends are alike");
                }
            }
        }
    }

    /// Sends a batch of packets with `payload`, and takes them.
    fn batch(&mut self, payload: &[u8]) {
        let mut left = BATCH;
        while left > 0 {
            while left > 0
                && self.ends[0].send(Header::default(), Origin::default(), payload).is_ok()
            {
                left -= 1;
            }
            self.carry(0);
            while !black_box(self.ends[1].payload(0)).is_empty() {
                self.ends[1].pop(0);
            }
            self.carry(1);
        }
    }
}

/// With deadlines that a busy core does not meet by chance.
fn patient(config: Config) -> Config {
    let forever = 1 << 60;
    Config { timeout: forever, credit_period: forever, dead_after: 2 * forever, ..config }
}

/// With windows of 64 KiB, which stay in the cache of a core.
fn wide(config: Config) -> Config {
    let packets = 1 << 10;
    Config {
        fifo_words: WINDOW_WORDS,
        fifo_headers: packets,
        window_words: WINDOW_WORDS,
        window_packets: packets,
        ..config
    }
}

/// Nanoseconds of a packet over a link.
fn link_ns(form: Form, bytes: usize, time: Duration) -> Result<f64, Error> {
    let mut pair = Pair::new(form)?;
    let payload = vec![7; bytes];
    let ns = batch_ns(time, BATCH, || pair.batch(&payload));
    let counters = pair.ends[0].counters();
    assert!(counters.tx_rewinds == 0 && counters.downs == 0, "{counters:?}");
    Ok(ns)
}

/// Nanoseconds of `bytes` of a PUT from a node to its neighbour, in packets with as many as fit one; the last of them is
/// shorter.
fn put_ns(frame_bytes: usize, bytes: usize, time: Duration) -> Result<f64, Error> {
    let lattice: Lattice = "2".parse().expect("a ring of two");
    let routes = Arc::new(Routes::dimension_order(lattice));
    let node = |number: u32| -> Result<_, ConfigurationError> {
        let mut configuration = Configuration::new(lattice, Node(number), 1);
        let form = Form::Frames { bytes: frame_bytes };
        configuration.link =
            Config { form, session: 1 + number, ..patient(wide(configuration.link)) };
        let limits = &mut configuration.engine.limits;
        limits.data_bytes = bytes.min(limits.data_bytes);
        let replay = &mut configuration.engine.replay;
        let forever = 1 << 50;
        (replay.timeout_ns, replay.timeout_min_ns, replay.timeout_max_ns) =
            (forever, forever, forever);
        TorusNode::new(configuration, vec![0; MESSAGE_BYTES as usize], Arc::clone(&routes), 1)
    };
    let mut nodes = [node(0)?, node(1)?];
    let pages: Vec<u64> = (0..u64::from(MESSAGE_BYTES)).step_by(PAGE_BYTES as usize).collect();
    let place = Registration {
        process: 0,
        start: ADDRESS,
        length: MESSAGE_BYTES.into(),
        writable: true,
        pages: &pages,
    };
    nodes[1].engine_mut().register(&place).expect("the memory has these pages");
    let mut now = 0;
    let mut message = || {
        let put = Put {
            source: 0,
            destination: Node(1),
            process: 0,
            address: ADDRESS,
            length: MESSAGE_BYTES,
            tag: 0,
        };
        nodes[0].engine_mut().post_put(now, &put).expect("one is under way at most");
        let mut is_done = false;
        while !is_done {
            now += STEP_NS;
            for from in 0..2 {
                nodes[from].advance(now);
                for direction in [Direction::ALL[0], Direction::ALL[1]] {
                    let [near, far] = &mut nodes;
                    let (from, to) = if from == 0 { (near, far) } else { (far, near) };
                    while let Some(Frames { bytes, .. }) =
                        from.take_frames(direction, Most::ONE, now)
                    {
                        let taken = to.accept(direction.opposite(), bytes, now);
                        taken.expect("both ends are alike");
                    }
                }
            }
            while let Some(completion) = nodes[0].engine_mut().poll_completion() {
                is_done |= matches!(completion, Completion::TxDone { outcome: Ok(()), .. });
            }
            while nodes[1].engine_mut().poll_completion().is_some() {}
        }
    };
    // Links come up by the first.
    message();
    Ok(batch_ns(time, 1, message) * bytes as f64 / f64::from(MESSAGE_BYTES))
}

/// Nanoseconds of one of the `count` of a batch.
fn batch_ns(time: Duration, count: usize, mut batch: impl FnMut()) -> f64 {
    let (begin, mut batches) = (Instant::now(), 0u64);
    loop {
        batch();
        batches += 1;
        let elapsed = begin.elapsed();
        if elapsed >= time {
            return elapsed.as_nanos() as f64 / (batches as usize * count) as f64;
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hop_is_measured_beside_its_limit() {
        let plan =
            HopPlan { bytes: vec![64, PAYLOAD_LEN_MAX], frame_bytes: 8500, time: Duration::ZERO };
        let rows = measure(&plan).unwrap();
        assert_eq!(rows.len(), 2 * Hop::ALL.len());
        for row in &rows {
            assert!(row.ns > 0.0 && row.limit_ns > 0.0, "{row:?}");
            assert_eq!(row.ratio, row.limit_ns / row.ns);
        }
    }

    #[test]
    fn frames_that_hold_no_packet_are_refused() {
        let plan = HopPlan { bytes: vec![64], frame_bytes: 64, time: Duration::ZERO };
        assert!(matches!(measure(&plan), Err(Error::Link(_))));
    }
}
