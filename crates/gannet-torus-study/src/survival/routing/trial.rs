//! One set of faults: routes round it, their proof, and an overload that has to drain.

use gannet_lattice::Faults;
use gannet_measure::random::Random;
use gannet_torus::routes::check::Proven;
use gannet_torus::routes::{Means, Routes};
use gannet_torus::simulator::{Event, Pattern, Setup, Simulation};

use super::RoutingCampaign;
use crate::survival::Told;
use crate::survival::proof::{Proof, prove};
use crate::trials::Trace;

/// Cycles after which a network that has not drained is taken to be stuck. It holds some hundred
/// flits a node, and one that is not stuck moves one of them in every few cycles.
const DRAIN_MAX: u32 = 100_000;
/// Cycles between two looks whether it has drained.
const DRAIN_STRIDE: u32 = 16;

/// What came of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct RoutingResult {
    /// Dead nodes.
    pub dead_nodes: u32,
    /// Dead cables.
    pub dead_cables: u32,
    /// The routes, or why there are none.
    pub routes: Result<Routed, String>,
    /// What went wrong, if anything: a refusal with its reason is nothing wrong.
    pub failure: Option<String>,
}

/// Routes round a set of faults, and traffic on them.
#[derive(Clone, Debug, PartialEq)]
pub struct Routed {
    /// How they get round the faults.
    pub means: Means,
    /// What was found of them.
    pub proof: Proof,
    /// Flits that arrived in the second half of the overload.
    pub flits: u64,
    /// Cycles until the last packet had arrived, after sources had stopped.
    pub drain_cycles: u32,
}

/// Runs trial `index` of a campaign.
pub(super) fn run(campaign: &RoutingCampaign, index: u64, trace: &mut Trace) -> RoutingResult {
    let random = &mut Random::stream(campaign.setup.seed, index);
    let faults = campaign.counts.draw(campaign.setup.lattice, random);
    trace.tell(|| Told(&faults));
    let mut result = RoutingResult {
        dead_nodes: faults.dead_node_count() as u32,
        dead_cables: faults.dead_cable_count() as u32,
        routes: Err(String::new()),
        failure: None,
    };
    let setup = Setup { seed: random.bits(), threads: 1, ..campaign.setup.clone() };
    match Routes::around(&faults, setup.vcs) {
        Err(refused) => {
            trace.tell(|| format!("refused: {refused}"));
            result.routes = Err(refused.to_string());
        }
        Ok((routes, means, proven)) => {
            trace.tell(|| format!("planned: {means:?}, {} classes of channels", routes.classes()));
            match try_out(campaign, &setup, &faults, routes, means, &proven, trace) {
                Ok(routed) => result.routes = Ok(routed),
                Err(what) => {
                    trace.tell(|| format!("FAILED: {what}"));
                    result.failure = Some(what);
                }
            }
        }
    }
    result
}

/// Proves routes and lets an overload drain on them.
fn try_out(
    campaign: &RoutingCampaign,
    setup: &Setup,
    faults: &Faults,
    routes: Routes,
    means: Means,
    proven: &Proven,
    trace: &mut Trace,
) -> Result<Routed, String> {
    if routes.classes() > setup.vcs {
        return Err(format!("{} classes need more than {} channels", routes.classes(), setup.vcs));
    }
    let proof = prove(&routes, faults)?;
    trace.tell(|| {
        let Proof { parts, pairs, channels, longest, .. } = proof;
        let links = proof.hops as f64 / pairs.max(1) as f64;
        format!(
            "proven: {pairs} pairs in {parts} part(s) over {links:.2} links, at most {longest}; no \
             cycle among {channels} channels"
        )
    });
    if (proven.pairs, proven.hops, proven.longest) != (proof.pairs, proof.hops, proof.longest) {
        return Err(format!("the planner found {proven:?}, this proof {proof:?}"));
    }
    let mut simulation = broken(setup, faults, routes, campaign.load)?;
    let flits = overload(&mut simulation, campaign, &proof, trace);
    let drain_cycles = drain(&mut simulation, &proof, trace)?;
    Ok(Routed { means, proof, flits, drain_cycles })
}

/// A machine on these routes, whose dead cables carry nothing: packets sent over one are lost.
fn broken(setup: &Setup, faults: &Faults, routes: Routes, load: f64) -> Result<Simulation, String> {
    let simulation = Simulation::with_routes(setup, routes, Pattern::Uniform, load);
    let mut simulation = simulation.map_err(|error| error.to_string())?;
    Event::all_of(faults).for_each(|event| simulation.apply(event));
    Ok(simulation)
}

/// Lets sources send: the flits that arrive in the second half.
fn overload(
    simulation: &mut Simulation,
    campaign: &RoutingCampaign,
    proof: &Proof,
    trace: &mut Trace,
) -> u64 {
    let half = campaign.cycles / 2;
    simulation.advance(half);
    let before = simulation.totals().delivered;
    simulation.advance(campaign.cycles - half);
    let packets = simulation.totals().delivered - before;
    let flits = packets * u64::from(campaign.setup.packet_flits);
    trace.tell(|| {
        let accepted = campaign.accepted(flits as f64);
        let offered = campaign.offered(proof.reachable as f64);
        format!(
            "overload: after {half} cycles {accepted:.3} flits per node and cycle arrive, of \
             {offered:.3} that are offered and can arrive"
        )
    });
    flits
}

/// Lets the network drain, and looks what became of all packets: the cycles it took.
fn drain(simulation: &mut Simulation, proof: &Proof, trace: &mut Trace) -> Result<u32, String> {
    let advance = |simulation: &mut Simulation, cycles| simulation.advance(cycles);
    let cycles = super::super::drain(simulation, DRAIN_MAX, DRAIN_STRIDE, advance)?;
    let totals = simulation.totals();
    trace.tell(|| format!("drained: after {cycles} cycles, {totals:?}"));
    let nodes = simulation.setup().lattice.nodes() as u64;
    let all_connected = proof.reachable == nodes * nodes;
    match () {
        () if totals.lost > 0 => Err(format!("packets were lost: {totals:?}")),
        () if totals.made != totals.delivered + totals.refused => {
            Err(format!("packets are not accounted for: {totals:?}"))
        }
        () if all_connected && totals.refused > 0 => {
            Err(format!("packets were refused though all nodes are connected: {totals:?}"))
        }
        () => Ok(cycles),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn campaign(lattice: &str) -> RoutingCampaign {
        RoutingCampaign::new(lattice.parse().unwrap())
    }

    fn stuck(campaign: &RoutingCampaign, routes: Routes, seed: u64) -> Option<String> {
        let faults = Faults::none(campaign.setup.lattice);
        let setup = Setup { seed, ..campaign.setup.clone() };
        let proof = Proof { reachable: 1, ..Proof::default() };
        let mut simulation = broken(&setup, &faults, routes, 1.0).unwrap();
        overload(&mut simulation, campaign, &proof, &mut Trace::default());
        drain(&mut simulation, &proof, &mut Trace::default()).err()
    }

    /// Were there a cycle, this traffic would find it.
    #[test]
    fn an_overload_on_routes_with_a_cycle_gets_stuck() {
        for (lattice, vcs, least) in
            [("4x4x4", 4, 8), ("4x4x4", 2, 8), ("5x3x2", 4, 5), ("8x3", 8, 10)]
        {
            let mut campaign = campaign(lattice);
            campaign.setup.vcs = vcs;
            let is_stuck = |seed| {
                let what = stuck(&campaign, Routes::bubble(campaign.setup.lattice), seed);
                what.is_some_and(|what| what.contains("stuck"))
            };
            let count = (0..10).filter(|&seed| is_stuck(seed)).count();
            assert!(count >= least, "{lattice}, {vcs} channels: {count} of 10");
            let fit = Routes::dimension_order(campaign.setup.lattice);
            assert_eq!(stuck(&campaign, fit, 1), None);
        }
    }

    #[test]
    fn packets_on_routes_over_dead_cables_are_missed() {
        let campaign = campaign("4x4");
        let lattice = campaign.setup.lattice;
        let mut faults = Faults::none(lattice);
        faults.kill_cable(lattice.cables().next().unwrap());
        let routes = Routes::dimension_order(lattice);
        let mut simulation = broken(&campaign.setup, &faults, routes, 1.0).unwrap();
        let proof = Proof::default();
        overload(&mut simulation, &campaign, &proof, &mut Trace::default());
        let what = drain(&mut simulation, &proof, &mut Trace::default()).unwrap_err();
        assert!(what.contains("packets were lost"), "{what}");
    }
}
