//! What is simulated.

use gannet_lattice::Lattice;
use serde::Serialize;
use thiserror::Error;

use super::pattern::Pattern;
use super::rules::Delays;
use super::slab::Slab;

/// When a packet may take a virtual channel of its next link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowControl {
    /// As soon as the channel is free; a packet that is blocked may lie across many routers.
    #[default]
    Wormhole,
    /// When there is room for the whole packet; a packet that is blocked lies in at most two.
    VirtualCutThrough,
    /// As virtual cut-through, and a packet enters a ring only where room for one more packet is
    /// left behind it. Rings then need no dateline, and all channels serve all packets.
    Bubble,
}

/// Who goes first where packets compete for a channel or for the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arbitration {
    /// The packet of the source that has sent less, where sources are far apart; else turns.
    #[default]
    EqualShares,
    /// Each input in its turn. In overload, sources that meet few others then take the share of
    /// those that meet many, down to nothing.
    Turns,
}

/// A machine, and how it is simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setup {
    /// The shape of the machine.
    pub lattice: Lattice,
    /// Flits of a packet.
    pub packet_flits: u16,
    /// Virtual channels of a link, 1 to 8.
    pub vcs: u8,
    /// Flits that a virtual channel can hold.
    pub vc_depth: u16,
    /// Cycles of a hop over a link of one cycle, that cycle included.
    pub router_delay: u32,
    /// Cycles on a link.
    pub link_delay: u32,
    /// When packets move on.
    pub flow_control: FlowControl,
    /// Who goes first where packets compete.
    pub arbitration: Arbitration,
    /// Cycles after which a source sends a lost packet again, at least 1, twice as many each time up
    /// to 64 times as many; `None` leaves it lost.
    pub replay_after: Option<u32>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Threads; the result does not depend on them.
    pub threads: usize,
}

/// What is wrong with a setup.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SetupError {
    /// A value is outside its range.
    #[error("{name} is {value}: it must be {range}")]
    Range {
        /// The value.
        name: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        range: String,
    },
    /// The machine would need more memory than is sensible.
    #[error(
        "{nodes} nodes of {bytes_per_node} bytes need more than {gib} GiB: make the lattice, its \
         queues or its delays smaller", gib = BYTES_MAX >> 30
    )]
    Memory {
        /// Nodes of the lattice.
        nodes: usize,
        /// Memory that each would need.
        bytes_per_node: usize,
    },
}

/// Most flits of a packet.
pub const PACKET_FLITS_MAX: u16 = 4096;

/// Most memory that a simulation allocates for its nodes.
const BYTES_MAX: usize = 64 << 30;

/// Most virtual channels of a link.
pub(super) const MAX_VCS: u8 = 8;

impl Setup {
    /// A lattice with the defaults of everything else: packets of one flit, 4 channels of 16
    /// flits, hops of 4 cycles.
    pub fn new(lattice: Lattice) -> Self {
        Self {
            lattice,
            packet_flits: 1,
            vcs: 4,
            vc_depth: 16,
            router_delay: 4,
            link_delay: 1,
            flow_control: FlowControl::default(),
            arbitration: Arbitration::default(),
            replay_after: None,
            seed: 1,
            threads: 1,
        }
    }

    /// Checks the values against each other, for traffic of this pattern.
    ///
    /// # Errors
    ///
    /// [`SetupError`], naming the value, what it is and what it may be.
    pub fn check(&self, pattern: &Pattern, load: f64) -> Result<(), SetupError> {
        let longest = match pattern {
            Pattern::Trace(trace) => trace.longest(),
            _ => self.packet_flits,
        };
        let least_vcs = if self.flow_control == FlowControl::Bubble { 1 } else { 2 };
        let least_depth = match self.flow_control {
            FlowControl::Wormhole => 1,
            FlowControl::VirtualCutThrough => longest,
            FlowControl::Bubble => longest.saturating_mul(2),
        };
        between("the number of flits of a packet", self.packet_flits, 1, PACKET_FLITS_MAX)?;
        between("the number of virtual channels", self.vcs, least_vcs, MAX_VCS)?;
        between(
            "the depth of a virtual channel in flits",
            self.vc_depth,
            least_depth.max(1),
            4096,
        )?;
        between("the delay of a router in cycles", self.router_delay, 3, 200)?;
        between("the delay of a link in cycles", self.link_delay, 1, 1000)?;
        if let Some(wait) = self.replay_after {
            between("the wait in cycles before a lost packet is sent again", wait, 1, u32::MAX)?;
        }
        between("the number of threads", self.threads, 1, self.lattice.nodes().min(256))?;
        if !(0.0..=1.0).contains(&load) {
            let range = "0 to 1 flit per node and cycle".to_owned();
            return Err(SetupError::Range { name: "the load", value: load.to_string(), range });
        }
        self.check_memory(pattern)
    }

    fn check_memory(&self, pattern: &Pattern) -> Result<(), SetupError> {
        let (nodes, bytes_per_node) = (self.lattice.nodes(), self.bytes_per_node(pattern));
        if nodes * bytes_per_node > BYTES_MAX {
            return Err(SetupError::Memory { nodes, bytes_per_node });
        }
        Ok(())
    }

    /// Bytes of memory that each node takes under traffic of this pattern, but for lost packets
    /// that wait to be sent again.
    fn bytes_per_node(&self, pattern: &Pattern) -> usize {
        let (places, delays) = (self.places(pattern), Delays::new(self));
        match self.vcs.next_power_of_two() {
            1 => Slab::<1>::bytes_per_node(places, &delays),
            2 => Slab::<2>::bytes_per_node(places, &delays),
            4 => Slab::<4>::bytes_per_node(places, &delays),
            _ => Slab::<8>::bytes_per_node(places, &delays),
        }
    }

    /// Packets that a virtual channel holds at most behind the first two, those that are only partly
    /// in it included.
    pub(super) fn places(&self, pattern: &Pattern) -> u16 {
        match pattern {
            Pattern::Trace(_) => (self.vc_depth - 1).max(1),
            _ => (self.vc_depth - 1).div_ceil(self.packet_flits).max(2) - 1,
        }
    }
}

fn between<T: PartialOrd + ToString + Copy>(
    name: &'static str,
    value: T,
    least: T,
    most: T,
) -> Result<(), SetupError> {
    if value >= least && value <= most {
        return Ok(());
    }
    let range = format!("{} to {}", least.to_string(), most.to_string());
    Err(SetupError::Range { name, value: value.to_string(), range })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::Simulation;

    #[test]
    fn memory_is_what_the_check_counts() {
        for (vcs, vc_depth, packet_flits, link_delay, threads) in
            [(1, 16, 1, 1, 1), (2, 5, 2, 90, 1), (4, 16, 1, 1, 2), (7, 300, 18, 1000, 3)]
        {
            let flow_control = FlowControl::Bubble;
            let base = Setup {
                vcs,
                vc_depth,
                packet_flits,
                link_delay,
                ..Setup::new("4x3".parse().unwrap())
            };
            let setup = Setup { threads, flow_control, ..base };
            let simulation = Simulation::new(&setup, Pattern::Uniform, 0.1).unwrap();
            assert_eq!(setup.bytes_per_node(&Pattern::Uniform), simulation.bytes_per_node());
        }
    }
}
