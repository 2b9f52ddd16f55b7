//! What a machine is to be.

use gannet_lattice::{Lattice, MAX_NODES};
use gannet_torus::link;
use gannet_torus::link::efficiency::{LineCode, LinkModel};
use gannet_wire::apelink::{PAYLOAD_LEN_MAX, WORD_LEN, payload_words};
use serde::{Serialize, Serializer};

use crate::Error;

/// What a machine is to be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Nodes.
    pub nodes: usize,
    /// Ports of each: 2, 4 or 6.
    pub ports: usize,
    /// Rate of a link in one direction.
    pub rate_bit_per_s: f64,
    /// Payload of what a node sends at once: a packet, or beyond 4096 bytes several of them.
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
    /// Switch and cables, if both prices are known and it fits.
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

    /// Nanoseconds of the payload over so many links, if the time of a hop is known: packets are
    /// sent on as soon as their heads have arrived.
    pub(super) fn latency_ns(&self, hops: f64) -> Option<f64> {
        let packet = f64::from(self.packet_bytes) / self.payload_share() * 8e9;
        self.hop_ns.map(|hop| hops * hop + packet / self.rate_bit_per_s)
    }

    /// Packets that the payload takes.
    pub fn packets(&self) -> usize {
        (self.packet_bytes as usize).div_ceil(PAYLOAD_LEN_MAX)
    }

    /// Words of packets between two credits.
    pub fn credit_interval(&self) -> u32 {
        link::Config::default().credit_interval
    }

    /// Part of the words on a link that is payload: the others fill up last words, frame packets,
    /// and are credits.
    pub(super) fn payload_share(&self) -> f64 {
        let bytes = self.packet_bytes as usize;
        // Full packets are whole words, so only the last one is filled up.
        let words = payload_words(bytes) as f64;
        let model = LinkModel {
            raw_rate: self.rate_bit_per_s,
            code: LineCode::Plain,
            payload_words: words / self.packets() as f64,
            credit_interval: f64::from(self.credit_interval()),
            fifo_words: f64::INFINITY,
            round_trip: 0.0,
            answer_interval: 2.0,
        };
        bytes as f64 / (words * WORD_LEN as f64) * model.efficiency()
    }

    pub(super) fn switch(&self) -> Switch {
        let Prices { cable, switch } = self.prices;
        let cables = self.nodes;
        let fits = self.switch_ports.is_none_or(|ports| ports >= self.nodes);
        let prices = cable.zip(switch).filter(|_| fits);
        Switch {
            fits,
            cables,
            hops: 2,
            node_bit_per_s: self.rate_bit_per_s,
            bisection_bit_per_s: self.rate_bit_per_s * self.nodes as f64,
            cost: prices.map(|(cable, switch)| cable * cables as f64 + switch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_is_hops_and_the_packet_on_the_wire() {
        let demand = Demand { hop_ns: Some(500.0), ..Demand::new(64, 6, 100e9) };
        // 256 words of payload and 4 around them, 128 bits each; two words of credit for each 128.
        let expected = 3.0 * 500.0 + 260.0 * 128.0 / 100.0 * 130.0 / 128.0;
        assert!((demand.latency_ns(3.0).unwrap() - expected).abs() < 1e-9);
    }

    #[test]
    fn what_a_packet_does_not_hold_takes_more_of_them() {
        let share = |packet_bytes| Demand { packet_bytes, ..Demand::new(64, 6, 1e9) };
        assert_eq!((share(4096).packets(), share(4097).packets()), (1, 2));
        // 313 words in two packets.
        let expected = 5000.0 / 16.0 / (313.0 + 8.0) * 128.0 / 130.0;
        assert!((share(5000).payload_share() - expected).abs() < 1e-12);
        assert!((share(8192).payload_share() - share(4096).payload_share()).abs() < 1e-12);
    }

    #[test]
    fn a_switch_costs_what_is_known() {
        let mut demand = Demand::new(40, 6, 1e9);
        assert_eq!((demand.switch().fits, demand.switch().cost), (true, None));
        demand.prices = Prices { cable: Some(10.0), switch: Some(1000.0) };
        assert_eq!((demand.switch().fits, demand.switch().cost), (true, Some(1400.0)));
        demand.switch_ports = Some(32);
        assert_eq!((demand.switch().fits, demand.switch().cost), (false, None), "too small");
    }
}
