//! Random PUTs and GETs between all nodes of a network, and what memory must then hold.
//!
//! As soon as a message is told to be complete, its memory is compared and overwritten, so that
//! data written later, or twice, are seen at the end.

use std::collections::VecDeque;
use std::sync::Arc;

use super::network::Network;
use crate::line::Noise;
use gannet_lattice::{Lattice, Node};
use gannet_measure::random::Random;
use gannet_memory::Registration;
use gannet_rdma::{Completion, Get, PostError, Put};
use gannet_torus::Routes;
use gannet_torus::node::{Configuration, TorusNode};
use gannet_wire::apelink::{ESCAPED_START, MAGIC, START};

pub type Memory = Vec<u8>;

/// Duration of a word: 2 GB/s.
pub const WORD_NS: u64 = 8;
/// Bytes that each node offers to be read; they do not change.
const SOURCE_BYTES: usize = 32 << 10;
const SOURCE_AT: u64 = 0x7000_0000_0000;
/// Place that a message is written to, with room behind it.
const SLOT_BYTES: usize = 16 << 10;
const MESSAGE_BYTES_MAX: u64 = 12 << 10;
const SLOTS_AT: u64 = 0x1000_0000;
const PAGE: u64 = 4096;
const UNTOUCHED: u8 = 0xee;
const TAKEN: u8 = 0xdd;
/// Word times after which a network stands still.
const STEPS_MAX: u64 = 3_000_000;

#[derive(Clone, Copy, Debug)]
struct Message {
    is_get: bool,
    /// Node whose source is read.
    from: usize,
    /// Node whose slot is written.
    to: usize,
    offset: u64,
    length: u64,
    slot: usize,
}

/// What a trial is made from.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub lattice: &'static str,
    pub messages: usize,
    pub noise: Noise,
    /// Sources hold control words of the link and nothing else.
    pub control_words: bool,
    pub seed: u64,
}

pub struct Traffic {
    pub network: Network<Memory>,
    messages: Vec<Message>,
    sources: Vec<Vec<u8>>,
    to_post: Vec<VecDeque<u32>>,
    /// By tag: whether the node that posted it was told, and for a PUT the one that was written.
    done: Vec<bool>,
    arrived: Vec<bool>,
}

impl Traffic {
    pub fn new(
        plan: &Plan,
        routes: Option<Routes>,
        configure: impl Fn(&mut Configuration),
        finish: impl Fn(TorusNode<Memory>) -> TorusNode<Memory>,
    ) -> Self {
        let lattice: Lattice = plan.lattice.parse().unwrap();
        let nodes = lattice.nodes();
        let mut random = Random::new(plan.seed);
        let (mut slots, mut to_post) = (vec![0; nodes], vec![VecDeque::new(); nodes]);
        let messages: Vec<Message> = (0..plan.messages)
            .map(|tag| {
                let message = draw(&mut random, nodes, plan.control_words, &mut slots);
                to_post[if message.is_get { message.to } else { message.from }]
                    .push_back(tag as u32);
                message
            })
            .collect();
        let sources: Vec<Vec<u8>> =
            (0..nodes).map(|_| source(&mut random, plan.control_words)).collect();
        let routes = Arc::new(routes.unwrap_or_else(|| Routes::dimension_order(lattice)));
        let node = |node: Node| {
            let mut configuration = Configuration::new(lattice, node, WORD_NS);
            configuration.link.session = 1 + node.0;
            configure(&mut configuration);
            let slot_bytes = slots[node.index()] * SLOT_BYTES;
            configuration.engine.limits.pages = (SOURCE_BYTES + slot_bytes) / PAGE as usize;
            let mut memory = sources[node.index()].clone();
            memory.resize(SOURCE_BYTES + slot_bytes, UNTOUCHED);
            let node = TorusNode::new(configuration, memory, Arc::clone(&routes), 1)?;
            Ok(finish(register(node, slot_bytes)))
        };
        let line = (4, plan.noise, plan.seed);
        let network = Network::new(lattice, node, WORD_NS, line).unwrap();
        let (done, arrived) = (vec![false; plan.messages], vec![false; plan.messages]);
        Self { network, messages, sources, to_post, done, arrived }
    }

    /// Runs until every message is complete and the network is quiet; `each` may act before each
    /// step.
    pub fn run(&mut self, mut each: impl FnMut(&mut Network<Memory>)) {
        let mut steps = 0;
        while !self.is_done() {
            self.exchange();
            each(&mut self.network);
            self.network.step();
            steps += 1;
            assert!(steps < STEPS_MAX, "the network stands still:\n{}", self.state());
        }
        for _ in 0..20_000 {
            self.network.step();
        }
        self.exchange();
        self.check_memory();
    }

    fn is_done(&self) -> bool {
        !self.done.contains(&false) && !self.arrived.contains(&false)
    }

    fn state(&self) -> String {
        let left = self.done.iter().chain(&self.arrived).filter(|done| !**done).count();
        let nodes = self.network.nodes().iter();
        let counters =
            nodes.map(|node| format!("{:?} {:?}\n", node.counters(), node.engine().counters()));
        format!("{left} left\n{}", counters.collect::<String>())
    }

    /// Sum over all nodes.
    pub fn sum(&self, of: impl Fn(&TorusNode<Memory>) -> u64) -> u64 {
        self.network.nodes().iter().map(of).sum()
    }

    /// Posts what finds room, and takes completions.
    fn exchange(&mut self) {
        for node in 0..self.to_post.len() {
            while let Some(&tag) = self.to_post[node].front() {
                match self.post(node, tag) {
                    Ok(()) => self.to_post[node].pop_front(),
                    Err(PostError::Full) => break,
                    Err(error) => panic!("{error}"),
                };
            }
            let engine = |network: &mut Network<Memory>| {
                network.node_mut(Node(node as u32)).engine_mut().poll_completion()
            };
            while let Some(completion) = engine(&mut self.network) {
                self.take(node, completion);
            }
        }
    }

    fn post(&mut self, node: usize, tag: u32) -> Result<(), PostError> {
        let Message { is_get, from, to, offset, length, slot } = self.messages[tag as usize];
        let (now, length) = (self.network.now(), length as u32);
        let address = SLOTS_AT + (slot * SLOT_BYTES) as u64;
        let engine = self.network.node_mut(Node(node as u32)).engine_mut();
        if is_get {
            let (source, local_address) = (Node(from as u32), address);
            let address = SOURCE_AT + offset;
            let get =
                Get { source, process: 1, address, local_process: 0, local_address, length, tag };
            engine.post_get(now, &get)?;
        } else {
            let destination = Node(to as u32);
            engine.post_put(
                now,
                &Put { source: offset, destination, process: 0, address, length, tag },
            )?;
        }
        Ok(())
    }

    fn take(&mut self, node: usize, completion: Completion) {
        match completion {
            Completion::TxDone { destination, tag, outcome, .. } => {
                let message = self.messages[tag as usize];
                assert_eq!((message.from, message.to), (node, destination.index()));
                assert_eq!(outcome, Ok(()), "{message:?}\n{}", self.state());
                assert!(!std::mem::replace(&mut self.done[tag as usize], true), "told twice");
            }
            Completion::RxDone { source, length, tag, .. } => {
                let message = self.messages[tag as usize];
                assert_eq!((message.from, message.to), (source.index(), node));
                assert_eq!(u64::from(length), message.length);
                assert!(!std::mem::replace(&mut self.arrived[tag as usize], true), "came twice");
                self.compare_and_fill(message);
            }
            Completion::GetDone { source, tag, outcome, .. } => {
                let message = self.messages[tag as usize];
                assert_eq!((message.from, message.to), (source.index(), node));
                assert_eq!(outcome, Ok(()), "{message:?}\n{}", self.state());
                assert!(!std::mem::replace(&mut self.done[tag as usize], true), "told twice");
                self.arrived[tag as usize] = true;
                self.compare_and_fill(message);
            }
        }
    }

    fn compare_and_fill(&mut self, message: Message) {
        let expected = &self.sources[message.from][message.offset as usize..];
        let at = SOURCE_BYTES + message.slot * SLOT_BYTES;
        let length = message.length as usize;
        let memory = self.network.node_mut(Node(message.to as u32)).engine_mut().memory_mut();
        let place = &mut memory[at..at + length];
        assert!(*place == expected[..length], "{message:?} is damaged");
        place.fill(TAKEN);
    }

    /// Nothing outside the messages was written, and nothing in them after they were complete.
    fn check_memory(&self) {
        for (at, node) in self.network.nodes().iter().enumerate() {
            let mut expected = self.sources[at].clone();
            expected.resize(node.engine().memory().len(), UNTOUCHED);
            for message in self.messages.iter().filter(|message| message.to == at) {
                let first = SOURCE_BYTES + message.slot * SLOT_BYTES;
                expected[first..first + message.length as usize].fill(TAKEN);
            }
            assert!(*node.engine().memory() == expected, "node {at} was written where or when not");
        }
    }
}

fn draw(random: &mut Random, nodes: usize, whole_words: bool, slots: &mut [usize]) -> Message {
    let from = random.below(nodes as u64) as usize;
    let to = random.below(nodes as u64) as usize;
    let length = match random.below(5) {
        0 => random.below(3),
        1 => 4047 + random.below(3),
        2 => random.below(MESSAGE_BYTES_MAX),
        _ => random.below(600),
    };
    let offset = random.below(SOURCE_BYTES as u64 - length);
    slots[to] += 1;
    Message {
        is_get: random.below(4) == 0,
        from,
        to,
        offset: if whole_words { offset / 16 * 16 } else { offset },
        length,
        slot: slots[to] - 1,
    }
}

fn source(random: &mut Random, control_words: bool) -> Vec<u8> {
    if !control_words {
        return std::iter::repeat_with(|| random.bits() as u8).take(SOURCE_BYTES).collect();
    }
    let words = std::iter::repeat_with(|| match random.below(6) {
        0 => START,
        1 => ESCAPED_START,
        _ => MAGIC,
    });
    words.take(SOURCE_BYTES / 16).flat_map(u128::to_le_bytes).collect()
}

/// Lets other nodes read the source and write the slots.
fn register(mut node: TorusNode<Memory>, slot_bytes: usize) -> TorusNode<Memory> {
    let pages: Vec<u64> = (0..(SOURCE_BYTES + slot_bytes) as u64).step_by(PAGE as usize).collect();
    let (source, slots) = pages.split_at(SOURCE_BYTES / PAGE as usize);
    let buffers =
        [(1, SOURCE_AT, SOURCE_BYTES, false, source), (0, SLOTS_AT, slot_bytes, true, slots)];
    for (process, start, length, writable, pages) in buffers {
        let length = length as u64;
        if length > 0 {
            let buffer = Registration { process, start, length, writable, pages };
            node.engine_mut().register(&buffer).unwrap();
        }
    }
    node
}
