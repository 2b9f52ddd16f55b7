//! What a simulation counts.

use gannet_lattice::LINKS;
use gannet_measure::histogram::Histogram;

/// Counts of one part of the nodes; all of them add up over parts, whatever the order.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Packets made, and refused since their destination cannot be reached.
    pub made: u64,
    pub refused: u64,
    /// Packets and flits that arrived, over the whole simulation.
    pub delivered: u64,
    pub delivered_flits: u64,
    /// Cycle at which the last packet arrived.
    pub last_arrival: u32,
    /// Packets lost to faults, by whatever means, and sent again.
    pub lost: u64,
    pub replayed: u64,
    /// Flits that passed a switch.
    pub visits: u64,
    /// Packets made within the window, and those of them that arrived or were lost.
    pub marked: u64,
    pub marked_done: u64,
    /// Cycles from the making of a marked packet to the arrival of its last flit.
    pub latency: Histogram,
    /// Flits that arrived within the window, and those of them whose packet was thrown away.
    pub window_flits: u64,
    pub window_thrown_flits: u64,
    /// Flits of packets that were lost and sent again within the window, and of packets made in it
    /// that were refused.
    pub window_lost_flits: u64,
    pub window_replayed_flits: u64,
    pub window_refused_flits: u64,
    /// By node of the part: flits sent into the network within the window.
    pub sent: Vec<u32>,
    /// By node of the part and link: flits sent within the window.
    pub links: Vec<[u32; LINKS]>,
}

impl Tally {
    /// Bytes of the counters by node.
    pub const BYTES_PER_NODE: usize = size_of::<u32>() + size_of::<[u32; LINKS]>();

    pub fn new(nodes: usize) -> Self {
        Self { sent: vec![0; nodes], links: vec![[0; LINKS]; nodes], ..Self::default() }
    }

    /// Flits of whole packets that arrived within the window.
    pub fn accepted_flits(&self) -> u64 {
        self.window_flits.saturating_sub(self.window_thrown_flits)
    }

    /// Flits that were lost within the window and not sent again in it.
    pub fn window_missing_flits(&self) -> u64 {
        self.window_lost_flits.saturating_sub(self.window_replayed_flits)
    }

    /// Forgets what was counted of marked packets and within the window.
    pub fn forget(&mut self) {
        let kept = Self {
            made: self.made,
            refused: self.refused,
            delivered: self.delivered,
            delivered_flits: self.delivered_flits,
            last_arrival: self.last_arrival,
            lost: self.lost,
            replayed: self.replayed,
            visits: self.visits,
            ..Self::new(self.sent.len())
        };
        *self = kept;
    }

    /// Adds the counts of the next part.
    pub fn append(&mut self, part: &Tally) {
        self.made += part.made;
        self.refused += part.refused;
        self.delivered += part.delivered;
        self.delivered_flits += part.delivered_flits;
        self.last_arrival = self.last_arrival.max(part.last_arrival);
        self.lost += part.lost;
        self.replayed += part.replayed;
        self.visits += part.visits;
        self.marked += part.marked;
        self.marked_done += part.marked_done;
        self.latency.absorb(&part.latency);
        self.window_flits += part.window_flits;
        self.window_thrown_flits += part.window_thrown_flits;
        self.window_lost_flits += part.window_lost_flits;
        self.window_replayed_flits += part.window_replayed_flits;
        self.window_refused_flits += part.window_refused_flits;
        self.sent.extend_from_slice(&part.sent);
        self.links.extend_from_slice(&part.links);
    }
}
