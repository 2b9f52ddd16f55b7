//! What passes between partitions.

use std::sync::Mutex;

use super::Partition;
use crate::simulator::packet::Packet;

/// Something for a node of another partition.
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

impl<const V: usize> Partition<V> {
    /// Keeps something for a node of another partition.
    pub(super) fn post(&mut self, node: u32, at: u32, what: What) {
        let partition = self.borders.partition_point(|&first| first <= node) - 1;
        self.outgoing[partition].push(Message { node, at, what });
    }

    /// Messages for another partition since they were last taken; `into` is emptied first.
    fn take_outgoing(&mut self, partition: usize, into: &mut Vec<Message>) {
        into.clear();
        std::mem::swap(&mut self.outgoing[partition], into);
    }

    /// Takes in the messages of another partition.
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

/// Exchanges what passes between partitions while no cycle is simulated.
pub(in crate::simulator) fn exchange<const V: usize>(partitions: &mut [Partition<V>]) {
    let mut messages = Vec::new();
    for from in 0..partitions.len() {
        for to in (0..partitions.len()).filter(|&to| to != from) {
            partitions[from].take_outgoing(to, &mut messages);
            partitions[to].accept(&messages);
        }
    }
}

/// Mailboxes between partitions, in two sets: one is read while the other is filled.
pub(in crate::simulator) struct Mail {
    /// By set, then sender, then receiver.
    boxes: [Vec<Mutex<Vec<Message>>>; 2],
    count: usize,
}

impl Mail {
    /// Empty boxes for so many partitions.
    pub fn new(count: usize) -> Self {
        let set = || (0..count * count).map(|_| Mutex::default()).collect();
        Self { boxes: [set(), set()], count }
    }

    /// Puts what a partition has for others into the boxes of a set.
    pub fn send<const V: usize>(&self, partition: &mut Partition<V>, from: usize, set: usize) {
        for to in (0..self.count).filter(|&to| to != from) {
            let mut messages =
                self.boxes[set][from * self.count + to].lock().expect("no thread failed");
            partition.take_outgoing(to, &mut messages);
        }
    }

    /// Hands a partition what others have put into the boxes of a set.
    pub fn receive<const V: usize>(&self, partition: &mut Partition<V>, to: usize, set: usize) {
        for from in (0..self.count).filter(|&from| from != to) {
            let messages =
                self.boxes[set][from * self.count + to].lock().expect("no thread failed");
            partition.accept(&messages);
        }
    }
}
