//! Packets of the engine that wait for a link.

use std::collections::VecDeque;

use gannet_rdma::Outgoing;

/// A packet that waits, and the output it waits for.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub outgoing: Outgoing,
    pub output: usize,
    pub bytes: Box<[u8]>,
}

/// Bounded place for packets, in the order of their coming. Those for one output leave in that
/// order; those for another pass them.
#[derive(Clone, Debug)]
pub(super) struct Injection {
    waiting: VecDeque<Waiting>,
    /// What was freed last is taken first, since caches still have it.
    free: Vec<Box<[u8]>>,
    packets_max: usize,
}

impl Injection {
    /// Place for `packets`, each of at most `bytes`; all memory is allocated here.
    pub fn new(packets: usize, bytes: usize) -> Self {
        let buffer = || vec![0; bytes].into_boxed_slice();
        Self {
            waiting: VecDeque::with_capacity(packets),
            free: std::iter::repeat_with(buffer).take(packets).collect(),
            packets_max: packets,
        }
    }

    /// How many find place.
    pub fn packets_max(&self) -> usize {
        self.packets_max
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Memory for a packet, if there is room.
    pub fn buffer(&mut self) -> Option<Box<[u8]>> {
        self.free.pop()
    }

    /// Takes back memory whose packet does not wait.
    pub fn free(&mut self, bytes: Box<[u8]>) {
        self.free.push(bytes);
    }

    /// Takes a packet.
    pub fn push(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// The oldest packet for `output`.
    pub fn first(&self, output: usize) -> Option<&Waiting> {
        self.waiting.iter().find(|waiting| waiting.output == output)
    }

    /// Takes the oldest packet for `output` out once `send` has read it.
    pub fn pop(&mut self, output: usize, send: impl FnOnce(&Waiting)) {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.output == output) else {
            return;
        };
        if let Some(waiting) = self.waiting.remove(at) {
            send(&waiting);
            self.free.push(waiting.bytes);
        }
    }

    /// Outputs that are waited for, one bit each.
    pub fn outputs(&self) -> u32 {
        self.waiting.iter().fold(0, |bits, waiting| bits | 1 << waiting.output)
    }

    /// Finds an output anew for every packet; those for which there is none leave.
    pub fn redirect(&mut self, mut output: impl FnMut(&Outgoing) -> Option<usize>) {
        for _ in 0..self.waiting.len() {
            let Some(mut waiting) = self.waiting.pop_front() else { return };
            match output(&waiting.outgoing) {
                Some(output) => {
                    waiting.output = output;
                    self.waiting.push_back(waiting);
                }
                None => self.free.push(waiting.bytes),
            }
        }
    }
}
