//! The same in virtual time, over a path that is described.

use gannet_fabric::sim::{Faults, Hop, Network, Path, Sim};
use gannet_fabric::{
    Completion, Endpoint, Facts, Get, Key, OpenError, Opening, Peer, PostError, Put, RegionId,
    Request,
};
use gannet_measure::clock::Clock;
use gannet_memory::SharedRegion;
use gannet_wire::rdma::SELECTIVE;

use super::backend::limits;
use super::driver::{Driver, span};
use super::partner::Answering;
use super::place::{Place, SimulatedPath};
use super::{Error, FabricPlan, FabricReport, FabricRow, Operation, Sample, row};

/// Time that passes where nothing is to happen any more, ns.
const NOTHING_NS: u64 = 1_000_000_000;

/// A path to simulate.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The path. PUTs are limited by what each hop carries of them, and so are GETs.
    pub path: gannet_topology::Path,
    /// Bytes of data in a packet.
    pub packet_bytes: usize,
    /// Share of packets that is lost, in each direction.
    pub loss: f64,
    /// What chance follows from; each repeat has the next one.
    pub seed: u64,
}

impl Simulation {
    /// The ways there and back.
    fn ways(&self) -> Result<[Path; 2], Error> {
        type Limits<'a> = Box<dyn Iterator<Item = gannet_topology::Limit> + 'a>;
        let hop = |hop: &gannet_topology::Hop, limits: Limits<'_>| {
            let rates = limits.map(|limit| limit.gbyte_per_s);
            let rate = rates.min_by(f64::total_cmp);
            let rate = rate.ok_or_else(|| Error::UnknownHop(hop.name.clone()))?;
            Ok(Hop {
                bytes_per_s: (rate * 1e9).max(1.0) as u64,
                latency_ns: hop.latency.ns(),
                queue_bytes: hop.queue.bytes(),
            })
        };
        let hops = &self.path.hops;
        let there = hops.iter().map(|it| hop(it, Box::new(it.put_limits())));
        let back = hops.iter().rev().map(|it| hop(it, Box::new(it.get_limits())));
        let way = |hops| Path {
            packet_bytes: self.packet_bytes,
            faults: Faults { loss: self.loss, ..Faults::default() },
            ..Path::new(hops)
        };
        Ok([there.collect::<Result<_, Error>>()?, back.collect::<Result<_, Error>>()?].map(way))
    }
}

/// Measures over a simulated path.
pub(super) fn measure(
    plan: &FabricPlan<'_>,
    simulation: &Simulation,
    mut told: impl FnMut(usize),
) -> Result<FabricReport, Error> {
    let (points, longest) = plan.points();
    let ways = simulation.ways()?;
    let bounds = Bounds(&ways);
    let mut samples = vec![Vec::new(); points.len()];
    let mut path = SimulatedPath {
        name: simulation.path.name.clone(),
        hops: ways[0].hops.len(),
        gbyte_per_s: bounds.bytes_per_s().map(|rate| rate * 1e-9),
        latency_ns: ways[0].latency_ns(),
        sent: 0,
        dropped: 0,
        lost: 0,
    };
    for repeat in 0..plan.repeats {
        told(repeat);
        let network = Network::new(simulation.seed + repeat as u64);
        let (world, peer) = World::new(&network, &ways, span(longest, plan.streaming))?;
        let mut driver = Driver::new((world, peer), network, longest, plan.streaming)?;
        let half_trip_s = driver.round_trips(8, plan.time)?[0] * 1e-9;
        for (&(operation, bytes), samples) in points.iter().zip(&mut samples) {
            let sample = driver.measure(operation, bytes, plan.time, half_trip_s)?;
            let (limit, limit_is) = bounds.limit(operation, bytes);
            samples.push(Sample { limit, limit_is, ..sample });
        }
        driver.endpoint().count(&mut path);
    }
    let rows = points.iter().zip(&samples).map(|(&of, samples)| FabricRow {
        path: Some(path.name.clone()),
        packet_bytes: Some(simulation.packet_bytes),
        ..row(of, plan, samples)
    });
    Ok(FabricReport { rows: rows.collect(), place: Place::Path(path) })
}

/// What bounds operations over the ways there and back, without the engine's own bytes.
struct Bounds<'a>(&'a [Path; 2]);

impl Bounds<'_> {
    /// Rate of the slowest hop of each way, bytes a second.
    fn bytes_per_s(&self) -> [f64; 2] {
        self.0.each_ref().map(|way| {
            let rates = way.hops.iter().map(|hop| hop.bytes_per_s as f64);
            rates.fold(f64::INFINITY, f64::min)
        })
    }

    /// The limit of an operation, ns of half a round trip or operations a second, and what it is.
    fn limit(&self, operation: Operation, bytes: u64) -> (f64, &'static str) {
        let rates = self.bytes_per_s();
        let (out, back, rate) = match operation {
            Operation::RoundTrip => {
                let ways = self.0.iter().zip(rates);
                let times =
                    ways.map(|(way, rate)| way.latency_ns() as f64 + bytes as f64 / rate * 1e9);
                return (times.sum::<f64>() / 2.0, "the latency of the path, and its slowest hop");
            }
            Operation::OneWay | Operation::Flush => (&self.0[0], &self.0[1], rates[0]),
            Operation::Get => (&self.0[1], &self.0[0], rates[1]),
        };
        let packet_bytes = out.packet_bytes as u64;
        let round_trip_ns = out.packet_ns(bytes.min(packet_bytes)) + back.packet_ns(0);
        let packets = bytes.div_ceil(packet_bytes) as f64;
        let window = f64::from(SELECTIVE) / (round_trip_ns * 1e-9) / packets;
        match window < rate / bytes as f64 {
            true => (window, "32 packets for each round trip"),
            false => (rate / bytes as f64, "the slowest hop"),
        }
    }
}

/// Both processes, and the time between them: whoever waits at the near end goes on to when something happens.
struct World {
    near: Sim,
    far: Answering<Sim>,
    peer: Peer,
    network: Network,
}

impl World {
    fn new(network: &Network, ways: &[Path; 2], bytes: u64) -> Result<(Self, Peer), Error> {
        let [there, back] = ways.clone();
        let [here, there] = network.cable(there, back);
        let [mut near, mut far] = [(), ()].map(|()| network.endpoint(limits()));
        let (peer, near_peer) = (near.join(here)?, far.join(there)?);
        let far = Answering::new((far, near_peer), SharedRegion::new(bytes as usize)?, bytes);
        Ok((Self { near, far, peer, network: network.clone() }, peer))
    }

    /// Adds what became of the packets.
    fn count(&mut self, path: &mut SimulatedPath) {
        let (far, near_peer) = self.far.endpoint();
        for fates in [self.near.fates(self.peer), far.fates(near_peer)].into_iter().flatten() {
            path.sent += fates.sent;
            path.dropped += fates.dropped;
            path.lost += fates.lost;
        }
    }
}

impl Endpoint for World {
    fn facts(&self) -> Facts {
        self.near.facts()
    }

    fn add_region(&mut self, region: SharedRegion) -> Result<RegionId, SharedRegion> {
        self.near.add_region(region)
    }

    fn region(&self, region: RegionId) -> &SharedRegion {
        self.near.region(region)
    }

    fn open_window(&mut self, opening: &Opening) -> Result<Key, OpenError> {
        self.near.open_window(opening)
    }

    fn close_window(&mut self, key: Key) -> bool {
        self.near.close_window(key)
    }

    fn put(&mut self, put: &Put) -> Result<Request, PostError> {
        self.near.put(put)
    }

    fn put_notify(&mut self, put: &Put, immediate: u32) -> Result<Request, PostError> {
        self.near.put_notify(put, immediate)
    }

    fn get(&mut self, get: &Get) -> Result<Request, PostError> {
        self.near.get(get)
    }

    fn flush(&mut self, peer: Peer) -> Result<Request, PostError> {
        self.near.flush(peer)
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        let before = completions.len();
        self.near.poll(completions);
        self.far.progress(self.network.now_ns());
        // What ends it ends the near one as well, which is told of it.
        let _ = self.far.take();
        if completions.len() == before {
            let due = self.network.due_ns().unwrap_or(self.network.now_ns() + NOTHING_NS);
            self.near.progress(due);
        }
    }

    fn progress(&mut self, now_ns: u64) -> Option<u64> {
        self.near.progress(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gannet_fabric::Trust;
    use gannet_measure::quantity::{Bytes, Span};
    use gannet_topology::{Hop, HopKind, rate::Wire};

    use super::*;
    use crate::fabric::{Backend, Partner};

    /// A path of two wires of 100 Gbit/s.
    fn simulation(latency: Span, loss: f64) -> Simulation {
        let wire = |name: &str| Hop {
            latency,
            queue: Bytes(64 << 10),
            ..Hop::new(name, HopKind::Wire(Wire::Other { gbit_per_s: 100.0 }))
        };
        let hops = vec![wire("to the switch"), wire("from the switch")];
        let path = gannet_topology::Path { name: "a".to_owned(), hops, visit: None };
        Simulation { path, packet_bytes: 4000, loss, seed: 1 }
    }

    fn measured(simulation: &Simulation) -> FabricReport {
        let plan = FabricPlan {
            backend: Backend::Sim,
            provider: None,
            operations: Operation::ALL.to_vec(),
            sizes: vec![8, 1 << 20],
            streaming: false,
            memory: None,
            repeats: 1,
            time: Duration::from_millis(1),
            partner: Partner::Simulated(simulation),
            trust: Trust::SameUser,
        };
        crate::fabric::measure(&plan, |_| ()).unwrap()
    }

    #[test]
    fn what_a_path_gives_is_near_its_limit() {
        for (latency, long_is) in
            [(Span(500), "the slowest hop"), (Span(50_000), "32 packets for each round trip")]
        {
            let report = measured(&simulation(latency, 0.0));
            for row in &report.rows {
                let expected = match (row.operation, row.bytes) {
                    (Operation::RoundTrip, _) => "the latency of the path, and its slowest hop",
                    (_, 8) => "32 packets for each round trip",
                    _ => long_is,
                };
                assert_eq!(row.limit_is, expected, "{row:?}");
                let speed = match row.operation {
                    Operation::RoundTrip => 1.0 / row.ratio,
                    _ => row.ratio,
                };
                // A GET needs a packet that asks for it, out of those that may be under way.
                let least = if row.operation == Operation::Get { 0.4 } else { 0.85 };
                let is_far = row.operation == Operation::RoundTrip && latency > Span(500);
                // The first packets of a measurement wait for none.
                assert!(speed > if is_far { 0.1 } else { least } && speed < 1.01, "{row:?}");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_figures_and_loss_costs_some() {
        let figures = |simulation: &Simulation| {
            let report = measured(simulation);
            let Place::Path(path) = report.place else { panic!("a path was simulated") };
            let rates: Vec<f64> = report.rows.iter().map(|row| row.per_s).collect();
            (rates, path.sent, path.lost)
        };
        let lossy = simulation(Span(500), 0.01);
        let first = figures(&lossy);
        assert!(first == figures(&lossy));
        let (rates, sent, lost) = first;
        let share = lost as f64 / sent as f64;
        assert!((0.008..0.012).contains(&share), "{share}");
        let (without, _, none) = figures(&simulation(Span(500), 0.0));
        assert_eq!(none, 0);
        // Half of the short round trips lose nothing.
        let is_slower = |(rate, without): (&f64, &f64)| rate <= without;
        assert!(rates.iter().zip(&without).all(is_slower), "{rates:?} {without:?}");
        assert!(rates[1] < 0.9 * without[1], "{rates:?} {without:?}");
    }

    #[test]
    fn a_hop_of_unknown_rate_cannot_be_simulated() {
        let mut simulation = simulation(Span(500), 0.0);
        simulation.path.hops.push(Hop::new("the dark", HopKind::Unknown));
        let error = simulation.ways().unwrap_err().to_string();
        assert!(error.contains("the dark"), "{error}");
    }
}
