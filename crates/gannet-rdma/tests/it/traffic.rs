//! Random PUTs and GETs between all nodes, and what memory and completions must then be.
//!
//! The model is the plainest there is: a map from tag to what was asked. As soon as a message is
//! told to be complete, its memory is compared and overwritten, so that data written later, or
//! twice, are seen at the end. Where nodes may be given up, a PUT that failed may have arrived in
//! part or whole, but not twice, and a GET that failed writes nothing any more.

mod restart;

use std::collections::{HashMap, VecDeque};

use gannet_lattice::Node;
use gannet_measure::random::Random;
use gannet_memory::Registration;
use gannet_rdma::{Completion, Configuration, Engine, Failure, Get, PostError, Put};

use crate::path::{Faults, Memory, Path};

/// Bytes that each node offers to be read; they do not change.
const SOURCE_BYTES: usize = 64 << 10;
/// Virtual address of these.
const SOURCE_AT: u64 = 0x7000_0000_0000;
/// Place that a message is written to, with room between messages.
const SLOT_BYTES: u64 = 24 << 10;
const MESSAGE_BYTES_MAX: u64 = 20 << 10;
/// Virtual address of the first slot: not at the start of a page.
const SLOTS_AT: u64 = 0x1234_5a10;
const PAGE: u64 = 4096;
/// What memory holds before a message and after it was compared.
const UNTOUCHED: u8 = 0xee;
const TAKEN: u8 = 0xdd;
/// What the memory of a GET holds after it has failed.
const FAILED: u8 = 0xcc;

#[derive(Clone, Copy, Debug)]
struct Message {
    is_get: bool,
    /// Node whose source is read.
    from: usize,
    /// Node whose slot is written.
    to: usize,
    offset: u64,
    length: u64,
    slot: u64,
}

pub struct Traffic {
    pub path: Path,
    messages: Vec<Message>,
    to_post: Vec<VecDeque<u32>>,
    configurations: Vec<Configuration>,
    /// Physical page of each page of the slots, by node.
    pages: Vec<Vec<u64>>,
    /// Tags of PUTs by source and destination that are to come, in order.
    expected: HashMap<(usize, usize), VecDeque<u32>>,
    /// By tag: what the node that posted it was told.
    outcomes: Vec<Option<Result<(), Failure>>>,
    /// By tag: whether the node that was written was told.
    arrived: Vec<bool>,
    /// By tag: whether it may arrive again, at a node that has started anew.
    again: Vec<bool>,
    /// Whether nodes may be given up.
    pub may_fail: bool,
    /// When which node starts anew, the last one first.
    pub restarts: Vec<(u64, usize)>,
}

/// Prints how to repeat a trial that fails.
pub struct Culprit {
    pub test: &'static str,
    pub seed: u64,
}

impl Drop for Culprit {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { test, seed } = self;
            eprintln!("GANNET_SEED={seed} cargo test -p gannet-rdma --test it {test}");
        }
    }
}

fn source(node: usize) -> Vec<u8> {
    let mut random = Random::stream(1, node as u64);
    std::iter::repeat_with(|| random.bits() as u8).take(SOURCE_BYTES).collect()
}

impl Traffic {
    /// `count` messages among `nodes` nodes, drawn by `seed`.
    pub fn new(
        nodes: usize,
        count: usize,
        faults: Faults,
        seed: u64,
        configure: impl Fn(&mut Configuration),
    ) -> Self {
        let mut random = Random::new(seed);
        let (mut messages, mut slots) = (Vec::new(), vec![0; nodes]);
        let mut to_post = vec![VecDeque::new(); nodes];
        let mut expected: HashMap<_, VecDeque<u32>> = HashMap::new();
        for tag in 0..count as u32 {
            let message = draw_message(&mut random, nodes, &mut slots);
            let poster = if message.is_get { message.to } else { message.from };
            to_post[poster].push_back(tag);
            if !message.is_get {
                expected.entry((message.from, message.to)).or_default().push_back(tag);
            }
            messages.push(message);
        }
        let mut pages = Vec::new();
        let mut configurations = Vec::new();
        let engines = (0..nodes).map(|node| {
            let frames = frames(slots[node], &mut random);
            let mut configuration = Configuration::new(Node(node as u32));
            configuration.epoch = random.bits() as u8;
            configuration.limits.pages = frames.len() + SOURCE_BYTES / PAGE as usize;
            configure(&mut configuration);
            let mut memory = source(node);
            memory.resize(SOURCE_BYTES + frames.len() * PAGE as usize, UNTOUCHED);
            let engine = engine(configuration.clone(), memory, &frames);
            configurations.push(configuration);
            pages.push(frames);
            engine
        });
        Self {
            path: Path::new(engines.collect(), faults, seed),
            messages,
            to_post,
            configurations,
            pages,
            expected,
            outcomes: vec![None; count],
            arrived: vec![false; count],
            again: vec![false; count],
            may_fail: false,
            restarts: Vec::new(),
        }
    }

    /// Messages that failed.
    pub fn failures(&self) -> usize {
        self.outcomes.iter().filter(|outcome| matches!(outcome, Some(Err(_)))).count()
    }

    /// Runs until every message is complete, and on until the path is quiet.
    pub fn run(&mut self) {
        let mut steps = 0u64;
        while self.outcomes.contains(&None) {
            self.restart_nodes();
            self.post();
            self.poll();
            let goes_on = self.path.step() || self.to_post.iter().any(|left| !left.is_empty());
            assert!(goes_on || !self.outcomes.contains(&None), "stuck");
            steps += 1;
            assert!(steps < 20_000_000, "no end");
        }
        while self.path.step() {
            self.poll();
        }
        self.poll();
        for (tag, message) in self.messages.iter().enumerate() {
            let is_ok = self.outcomes[tag] == Some(Ok(()));
            assert!(is_ok || self.may_fail, "{message:?} failed");
            assert!(!is_ok || message.is_get || self.arrived[tag], "{message:?} did not arrive");
        }
        self.check_memory();
    }

    fn post(&mut self) {
        for node in 0..self.to_post.len() {
            while let Some(&tag) = self.to_post[node].front() {
                match self.post_one(node, tag) {
                    Ok(()) => self.to_post[node].pop_front(),
                    Err(PostError::Full) => break,
                    Err(error) => panic!("{error}"),
                };
            }
        }
    }

    fn post_one(&mut self, node: usize, tag: u32) -> Result<(), PostError> {
        let Message { is_get, from, to, offset, length, slot } = self.messages[tag as usize];
        let (now, length) = (self.path.now, length as u32);
        let place = SLOTS_AT + slot * SLOT_BYTES;
        let engine = &mut self.path.engines[node];
        if is_get {
            let get = Get {
                source: Node(from as u32),
                process: 1,
                address: SOURCE_AT + offset,
                local_process: 0,
                local_address: place,
                length,
                tag,
            };
            engine.post_get(now, &get)?;
        } else {
            let destination = Node(to as u32);
            let put = Put { source: offset, destination, process: 0, address: place, length, tag };
            engine.post_put(now, &put)?;
        }
        Ok(())
    }

    pub fn poll(&mut self) {
        for node in 0..self.path.engines.len() {
            while let Some(completion) = self.path.engines[node].poll_completion() {
                self.take(node, completion);
            }
        }
    }

    fn take(&mut self, node: usize, completion: Completion) {
        match completion {
            Completion::TxDone { destination, tag, outcome, .. } => {
                let message = self.messages[tag as usize];
                assert_eq!((message.from, message.to), (node, destination.index()));
                assert_eq!(self.outcomes[tag as usize].replace(outcome), None);
            }
            Completion::RxDone { source, process, address, length, tag } => {
                let message = self.messages[tag as usize];
                assert_eq!((message.from, message.to, process), (source.index(), node, 0));
                assert_eq!(address, SLOTS_AT + message.slot * SLOT_BYTES);
                assert_eq!(u64::from(length), message.length);
                self.take_its_turn(tag);
                self.arrived[tag as usize] = true;
                self.compare(tag);
                self.fill(tag, TAKEN);
            }
            Completion::GetDone { source, tag, outcome, .. } => {
                let message = self.messages[tag as usize];
                assert_eq!((message.from, message.to), (source.index(), node));
                assert_eq!(self.outcomes[tag as usize].replace(outcome), None);
                if outcome.is_ok() {
                    self.compare(tag);
                }
                self.fill(tag, if outcome.is_ok() { TAKEN } else { FAILED });
            }
        }
    }

    /// PUTs arrive in the order in which they were posted; those that failed may be missing.
    fn take_its_turn(&mut self, tag: u32) {
        let message = self.messages[tag as usize];
        let expected = self.expected.get_mut(&(message.from, message.to)).unwrap();
        while expected.pop_front().expect("out of order, or twice") != tag {
            assert!(self.may_fail, "one before {tag} is missing");
        }
    }

    fn compare(&self, tag: u32) {
        let message = self.messages[tag as usize];
        let source = source(message.from);
        for index in 0..message.length {
            let physical = self.physical(message.to, message.slot * SLOT_BYTES + index);
            let byte = self.path.engines[message.to].memory()[physical];
            assert_eq!(byte, source[(message.offset + index) as usize], "{message:?} at {index}");
        }
    }

    fn fill(&mut self, tag: u32, value: u8) {
        let message = self.messages[tag as usize];
        for index in 0..message.length {
            let physical = self.physical(message.to, message.slot * SLOT_BYTES + index);
            self.path.engines[message.to].memory_mut()[physical] = value;
        }
    }

    /// Nothing outside the messages was written, and nothing in them after they were complete.
    fn check_memory(&self) {
        for (node, engine) in self.path.engines.iter().enumerate() {
            assert_eq!(engine.memory()[..SOURCE_BYTES], source(node));
            let mut expected = engine.memory().clone();
            expected[SOURCE_BYTES..].fill(UNTOUCHED);
            for (tag, message) in self.messages.iter().enumerate() {
                if message.to == node {
                    self.expect(tag, engine.memory(), &mut expected);
                }
            }
            assert!(
                *engine.memory() == expected,
                "node {node} was written where or when it may not"
            );
        }
    }

    /// Enters what the memory of a message must hold.
    fn expect(&self, tag: usize, memory: &Memory, expected: &mut Memory) {
        let message = self.messages[tag];
        let source = source(message.from);
        for index in 0..message.length {
            let physical = self.physical(message.to, message.slot * SLOT_BYTES + index);
            let sent = source[(message.offset + index) as usize];
            expected[physical] = match self.outcomes[tag] {
                _ if self.again[tag] && memory[physical] == sent => sent,
                _ if self.arrived[tag] => TAKEN,
                Some(Err(_)) if message.is_get => FAILED,
                Some(Ok(())) => TAKEN,
                _ if memory[physical] == sent => sent,
                _ => UNTOUCHED,
            };
        }
    }

    /// Index in the memory of `node` of byte `at` of its slots.
    fn physical(&self, node: usize, at: u64) -> usize {
        let at = at + SLOTS_AT % PAGE;
        (self.pages[node][(at / PAGE) as usize] + at % PAGE) as usize
    }
}

fn draw_message(random: &mut Random, nodes: usize, slots: &mut [u64]) -> Message {
    let from = random.below(nodes as u64) as usize;
    let to = random.below(nodes as u64) as usize;
    let length = match random.below(6) {
        0 => random.below(3),
        1 => 4047 + random.below(3),
        2 => random.below(MESSAGE_BYTES_MAX),
        _ => random.below(600),
    };
    slots[to] += 1;
    Message {
        is_get: random.below(4) == 0,
        from,
        to,
        offset: random.below(SOURCE_BYTES as u64 - length),
        length,
        slot: slots[to] - 1,
    }
}

/// Physical pages of so many slots after the source, in no order.
fn frames(slots: u64, random: &mut Random) -> Vec<u64> {
    let count = (SLOTS_AT % PAGE + slots.max(1) * SLOT_BYTES).div_ceil(PAGE);
    let mut frames: Vec<u64> = (0..count).map(|page| SOURCE_BYTES as u64 + page * PAGE).collect();
    for last in (1..frames.len()).rev() {
        frames.swap(last, random.below(last as u64 + 1) as usize);
    }
    frames
}

/// An engine with its source at the start of memory, and slots on `frames`.
fn engine(configuration: Configuration, memory: Memory, frames: &[u64]) -> Engine<Memory> {
    let mut engine = Engine::new(configuration, memory);
    let identity: Vec<u64> = (0..SOURCE_BYTES as u64).step_by(PAGE as usize).collect();
    let length = SOURCE_BYTES as u64;
    let readable =
        Registration { process: 1, start: SOURCE_AT, length, writable: false, pages: &identity };
    engine.register(&readable).unwrap();
    let length = frames.len() as u64 * PAGE - SLOTS_AT % PAGE;
    let writable =
        Registration { process: 0, start: SLOTS_AT, length, writable: true, pages: frames };
    engine.register(&writable).unwrap();
    engine
}
