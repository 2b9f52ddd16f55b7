//! What a machine is to be.

use gannet_torus::Lattice;
use gannet_torus::lattice::MAX_NODES;
use gannet_wire::apelink::{FRAMING_WORDS, WORD_LEN};
use serde::{Serialize, Serializer};

use crate::torus::Error;

/// What a machine is to be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Nodes.
    pub nodes: usize,
    /// Ports of each: 2, 4 or 6.
    pub ports: usize,
    /// Rate of a link in one direction.
    pub rate_bit_per_s: f64,
    /// Payload of a packet.
    pub packet_bytes: u32,
    /// Nanoseconds that a packet takes for a hop, if known.
    pub hop_ns: Option<f64>,
    /// The lattice, if it is not to be chosen.
    #[serde(serialize_with = "as_text")]
    pub lattice: Option<Lattice>,
    /// Failures of cables, and of nodes, up to which survival is looked at.
    pub fail: usize,
    /// Random machines for each number of failures; `None` is as many as take a few seconds.
    pub trials: Option<usize>,
    /// Seed of the failures.
    pub seed: u64,
    /// Whether the saturation of each pattern is measured, too.
    pub simulate: bool,
    /// Ports of the switch to compare with; `None` is one that has enough.
    pub switch_ports: Option<usize>,
    /// What is known of prices.
    pub prices: Prices,
}

/// Prices, in any currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Prices {
    /// Of a cable.
    pub cable: Option<f64>,
    /// Of the switch.
    pub switch: Option<f64>,
}

/// The same nodes, each with one port on one switch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Switch {
    /// Whether it has ports for all nodes.
    pub fits: bool,
    /// Cables: one for each node.
    pub cables: usize,
    /// Links of every packet.
    pub hops: u32,
    /// Rate of a node to any others.
    pub node_bit_per_s: f64,
    /// Rate between the halves, both ways counted, of a switch that never blocks.
    pub bisection_bit_per_s: f64,
    /// Switch and cables, if both prices are known.
    pub cost: Option<f64>,
}

fn as_text<S: Serializer>(lattice: &Option<Lattice>, serializer: S) -> Result<S::Ok, S::Error> {
    match lattice {
        Some(lattice) => serializer.collect_str(lattice),
        None => serializer.serialize_none(),
    }
}

impl Demand {
    /// Nodes with so many ports of a rate in bit/s, and the defaults of everything else.
    pub fn new(nodes: usize, ports: usize, rate_bit_per_s: f64) -> Self {
        Self {
            nodes,
            ports,
            rate_bit_per_s,
            packet_bytes: 4096,
            hop_ns: None,
            lattice: None,
            fail: 10,
            trials: None,
            seed: 1,
            simulate: false,
            switch_ports: None,
            prices: Prices::default(),
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let Self { nodes, ports, .. } = *self;
        if !matches!(ports, 2 | 4 | 6) {
            return Err(Error::Ports { ports });
        }
        if !(2..=MAX_NODES).contains(&nodes) {
            return Err(Error::Nodes { nodes });
        }
        let Some(lattice) = self.lattice else { return Ok(()) };
        if lattice.nodes() < nodes {
            return Err(Error::TooSmall { lattice, nodes });
        }
        let needed = 2 * lattice.dimensions().count();
        if needed > ports {
            return Err(Error::TooFewPorts { lattice, needed, ports });
        }
        Ok(())
    }

    /// Nanoseconds of a packet over so many links, if the time of a hop is known: it is sent on as
    /// soon as its head has arrived.
    pub(super) fn latency_ns(&self, hops: f64) -> Option<f64> {
        let packet = f64::from(self.packet_bytes) / self.payload_share() * 8e9;
        self.hop_ns.map(|hop| hops * hop + packet / self.rate_bit_per_s)
    }

    /// Part of the words of a packet that is payload.
    pub(super) fn payload_share(&self) -> f64 {
        let words = f64::from(self.packet_bytes) / WORD_LEN as f64;
        words / (words.ceil() + FRAMING_WORDS as f64)
    }

    pub(super) fn switch(&self) -> Switch {
        let Prices { cable, switch } = self.prices;
        let cables = self.nodes;
        Switch {
            fits: self.switch_ports.is_none_or(|ports| ports >= self.nodes),
            cables,
            hops: 2,
            node_bit_per_s: self.rate_bit_per_s,
            bisection_bit_per_s: self.rate_bit_per_s * self.nodes as f64,
            cost: cable.zip(switch).map(|(cable, switch)| cable * cables as f64 + switch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_is_hops_and_the_packet_on_the_wire() {
        let demand = Demand { hop_ns: Some(500.0), ..Demand::new(64, 6, 100e9) };
        // 256 words of payload and 4 around them, 128 bits each.
        let expected = 3.0 * 500.0 + 260.0 * 128.0 / 100.0;
        assert!((demand.latency_ns(3.0).unwrap() - expected).abs() < 1e-9);
    }

    #[test]
    fn a_switch_costs_what_is_known() {
        let mut demand = Demand::new(40, 6, 1e9);
        assert_eq!((demand.switch().fits, demand.switch().cost), (true, None));
        demand.switch_ports = Some(32);
        demand.prices = Prices { cable: Some(10.0), switch: Some(1000.0) };
        assert_eq!((demand.switch().fits, demand.switch().cost), (false, Some(1400.0)));
    }
}
