//! What passes between slabs.

use std::sync::Mutex;

use super::Slab;
use crate::simulator::packet::Packet;

/// Something for a node of another slab.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    node: u32,
    /// Cycle at which it arrives.
    at: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Flit {
        channel: u8,
        packet: Option<Packet>,
        /// The flit is the last of a packet that was damaged after its head had gone on.
        damages: bool,
    },
    Credit {
        channel: u8,
    },
    Lost(Packet),
}

impl<const V: usize> Slab<V> {
    /// Keeps something for a node of another slab.
    pub(super) fn post(&mut self, node: u32, at: u32, what: What) {
        let slab = self.borders.partition_point(|&first| first <= node) - 1;
        self.outgoing[slab].push(Message { node, at, what });
    }

    /// Messages for another slab since they were last taken; `into` is emptied first.
    fn take_outgoing(&mut self, slab: usize, into: &mut Vec<Message>) {
        into.clear();
        std::mem::swap(&mut self.outgoing[slab], into);
    }

    /// Takes in the messages of another slab.
    fn accept(&mut self, messages: &[Message]) {
        for message in messages {
            let node = (message.node - self.nodes.start) as usize;
            match message.what {
                What::Flit { channel, packet, damages } => {
                    self.receive(node, message.at, channel, packet, damages);
                }
                What::Credit { channel } => self.due(node, message.at).credits |= 1 << channel,
                What::Lost(packet) => self.sources[node].send_again(message.at, packet),
            }
        }
    }
}

/// Exchanges what passes between slabs while no cycle is simulated.
pub(in crate::simulator) fn exchange<const V: usize>(slabs: &mut [Slab<V>]) {
    let mut letters = Vec::new();
    for from in 0..slabs.len() {
        for to in (0..slabs.len()).filter(|&to| to != from) {
            slabs[from].take_outgoing(to, &mut letters);
            slabs[to].accept(&letters);
        }
    }
}

/// Letter boxes between slabs, in two sets: one is read while the other is filled.
pub(in crate::simulator) struct Mail {
    /// By set, then sender, then receiver.
    boxes: [Vec<Mutex<Vec<Message>>>; 2],
    count: usize,
}

impl Mail {
    /// Empty boxes for so many slabs.
    pub fn new(count: usize) -> Self {
        let set = || (0..count * count).map(|_| Mutex::default()).collect();
        Self { boxes: [set(), set()], count }
    }

    /// Puts what a slab has for others into the boxes of a set.
    pub fn send<const V: usize>(&self, slab: &mut Slab<V>, from: usize, set: usize) {
        for to in (0..self.count).filter(|&to| to != from) {
            let mut letters =
                self.boxes[set][from * self.count + to].lock().expect("no thread failed");
            slab.take_outgoing(to, &mut letters);
        }
    }

    /// Hands a slab what others have put into the boxes of a set.
    pub fn receive<const V: usize>(&self, slab: &mut Slab<V>, to: usize, set: usize) {
        for from in (0..self.count).filter(|&from| from != to) {
            let letters = self.boxes[set][from * self.count + to].lock().expect("no thread failed");
            slab.accept(&letters);
        }
    }
}
