//! Random faults against the planner of routes and the simulator.
//!
//! With `GANNET_LONG=1`, 10^5 sets of faults on 4x4x4 and 10^4 on each unequal lattice.

use gannet_lofamo::Mode;
use gannet_torus::simulator::{FlowControl, Setup};
use gannet_torus_study::survival::{
    Error, FaultCounts, RerouteCampaign, RerouteReport, RoutingCampaign, RoutingReport, Warning,
};
use gannet_torus_study::trials::{run_all, tell};

fn is_long() -> bool {
    std::env::var_os("GANNET_LONG").is_some()
}

fn routing(lattice: &str, vcs: u8, trials: u64) -> RoutingCampaign {
    let mut campaign = RoutingCampaign::new(lattice.parse().unwrap());
    campaign.setup.vcs = vcs;
    campaign.trials = trials;
    campaign
}

/// Runs a campaign and wants every set of faults routed or refused, and drained.
fn judge(campaign: &RoutingCampaign) -> RoutingReport {
    let report = run_all(campaign);
    let what = format!("{}, {} channels", report.lattice, report.vcs);
    assert_eq!(report.failed, 0, "{what}: {:?}", report.failures);
    let total = &report.total;
    assert_eq!(total.trials, campaign.trials, "{what}");
    assert_eq!(total.drained + total.refused, campaign.trials, "{what}");
    assert_eq!(total.long_way + total.early_turn + total.tree, total.drained, "{what}");
    assert!(total.hops_mean >= total.shortest_mean, "{what}");
    assert!(total.shortest_mean >= total.distance_mean, "{what}");
    report
}

#[test]
fn every_set_of_faults_is_routed_and_drains() {
    for (lattice, vcs, trials, long) in [
        ("4x4x4", 4, 40, 100_000),
        ("4x4x4", 2, 20, 10_000),
        ("4x4x4", 3, 10, 10_000),
        ("4x4x4", 8, 10, 10_000),
        ("5x3x2", 4, 60, 10_000),
        ("8x3", 4, 60, 10_000),
        ("2x3x5", 4, 60, 10_000),
        ("6x4x3", 4, 20, 10_000),
        ("7", 4, 60, 10_000),
    ] {
        let report = judge(&routing(lattice, vcs, if is_long() { long } else { trials }));
        if vcs < 4 {
            assert_eq!(report.total.early_turn, 0, "early turns need four classes");
        }
        let overloaded = report.total.overloaded as f64 / report.total.trials as f64;
        assert!(lattice == "7" || overloaded > 0.9, "{lattice}, {vcs}: {overloaded}");
    }
}

#[test]
fn rows_tell_the_means_by_number_of_faults() {
    let mut campaign = routing("4x4x4", 4, 60);
    campaign.counts = FaultCounts { nodes: (0, 2), cables: (0, 2) };
    let report = judge(&campaign);
    let sum = |rows: &[gannet_torus_study::survival::Row]| -> (u64, u64) {
        let tree = rows.iter().map(|row| row.figures.tree).sum();
        (rows.iter().map(|row| row.figures.trials).sum(), tree)
    };
    assert_eq!(sum(&report.by_faults), (60, report.total.tree));
    assert_eq!(sum(&report.by_dead_nodes), (60, report.total.tree));
    let whole = &report.by_faults[0];
    assert_eq!((whole.faults, whole.figures.long_way), (0, whole.figures.trials));
    assert!((whole.figures.hops_mean - 3.0 * 64.0 / 63.0).abs() < 1e-9);
    // One dead node breaks the dimension order of some pair in each of its planes.
    assert_eq!(report.by_dead_nodes[1].figures.long_way, 0);
    assert!(report.by_dead_nodes[1].figures.early_turn > 0);
}

#[test]
fn a_lattice_in_pieces_still_carries_what_it_can() {
    let mut campaign = routing("5x3x2", 4, 40);
    campaign.counts = FaultCounts { nodes: (4, 12), cables: (20, 40) };
    let report = judge(&campaign);
    assert!(report.total.divided > 10, "{}", report.total.divided);
}

#[test]
fn a_campaign_is_the_same_on_any_number_of_threads() {
    let one = routing("4x3x2", 4, 31);
    let report = run_all(&one);
    assert_eq!(report.total.trials, 31);
    for threads in [2, 3] {
        let mut more = one.clone();
        more.setup.threads = threads;
        assert_eq!(run_all(&more), report);
    }
    let mut other = one;
    other.setup.seed = 2;
    assert_ne!(run_all(&other).total, report.total);
}

#[test]
fn a_trial_is_told_by_its_number() {
    let trials = routing("4x4x4", 4, 1);
    for index in [0, 7, 99_999] {
        let (told, lines) = tell(&trials, index);
        assert_eq!(told, tell(&trials, index).0);
        for word in ["dead nodes", "planned", "proven", "overload", "drained"] {
            assert!(lines.iter().any(|line| line.contains(word)), "{word}: {lines:?}");
        }
    }
}

#[test]
fn campaigns_that_cannot_be_are_named() {
    let refused = |change: &dyn Fn(&mut RoutingCampaign)| {
        let mut campaign = routing("4x4", 4, 1);
        change(&mut campaign);
        campaign.check().unwrap_err()
    };
    assert_eq!(refused(&|it| it.trials = 0), Error::Trials(0));
    assert_eq!(refused(&|it| it.setup.flow_control = FlowControl::Bubble), Error::Bubble);
    let large = |it: &mut RoutingCampaign| it.setup = Setup::new("17x16x16".parse().unwrap());
    assert!(matches!(refused(&large), Error::TooLarge(_)));
    assert!(matches!(refused(&|it| it.setup.vcs = 1), Error::Setup(_)));
    let counts = FaultCounts { nodes: (3, 2), cables: (0, 0) };
    assert!(refused(&|it| it.counts = counts).to_string().contains("3 dead nodes at the least"));
    assert!(refused(&|it| it.cycles = 0).to_string().contains("the overload takes 0 cycles"));
}

fn reroute(lattice: &str, nodes: (u32, u32), cables: (u32, u32), trials: u64) -> RerouteCampaign {
    let mut campaign = RerouteCampaign::new(lattice.parse().unwrap());
    campaign.counts = FaultCounts { nodes, cables };
    campaign.warning = Warning::After { cycles: 500 };
    campaign.trials = trials;
    campaign
}

/// Runs a campaign and wants every packet accounted for.
fn survive(campaign: &RerouteCampaign) -> RerouteReport {
    let (report, planning_ns) = run_all(&campaign.clone().trials().unwrap());
    assert_eq!(report.failed, 0, "{}: {:?}", report.lattice, report.failures);
    assert_eq!(planning_ns.count, campaign.trials);
    let routed = report.long_way + report.early_turn + report.tree;
    assert_eq!(routed + report.refused, campaign.trials);
    report
}

#[test]
fn a_cut_cable_costs_no_packet() {
    let report = survive(&reroute("4x4x4", (0, 0), (1, 1), if is_long() { 2000 } else { 12 }));
    assert_eq!((report.gone, report.packets.refused), (0, 0));
    assert_eq!(report.packets.made, report.packets.delivered);
    assert!(report.packets.lost > 0 && report.packets.replayed >= report.packets.lost);
    assert_eq!((report.long_way, report.aware_cycles.mean), (report.trials, 500.0));
    assert!(report.drain_cycles.max < 500 && report.drain_cycles.p50 > 0);
    // Nothing is sent again before its time, and then soon.
    assert!(report.replay_cycles.max >= 500 && report.replay_cycles.mean < 1500.0);
    let [before, after] = [report.latency_before, report.latency_after];
    assert!(before.mean < 25.0 && after.mean > before.mean && after.max > 1000);
}

#[test]
fn throughput_falls_with_the_fault_and_comes_back() {
    let report = survive(&reroute("4x4", (0, 0), (2, 2), if is_long() { 2000 } else { 40 }));
    let mean = |from: i64, to: i64, value: fn(&gannet_torus_study::survival::Instant) -> f64| {
        let within: Vec<f64> = report
            .series
            .points
            .iter()
            .filter(|point| (from..to).contains(&point.cycle))
            .map(value)
            .collect();
        within.iter().sum::<f64>() / within.len() as f64
    };
    let accepted = |from, to| mean(from, to, |point| point.accepted);
    assert!((accepted(-1000, 0) - 0.3).abs() < 0.02);
    assert!(accepted(0, 500) < 0.28, "{}", accepted(0, 500));
    assert!((accepted(2200, 3200) - 0.3).abs() < 0.02);
    assert_eq!(mean(-1000, 0, |point| point.lost), 0.0);
    assert!(mean(100, 500, |point| point.lost) > 10.0);
    assert_eq!(mean(1000, 3200, |point| point.lost), 0.0);
    assert!(mean(1000, 2200, |point| point.replayed) > 0.0);
}

#[test]
fn every_packet_is_accounted_for_whatever_is_lost() {
    for (lattice, nodes, cables, trials) in [
        ("4x4x4", (0, 3), (1, 6), 6),
        ("5x3x2", (1, 6), (0, 10), 20),
        ("8x3", (1, 1), (0, 0), 12),
        ("2x3x5", (0, 2), (6, 12), 20),
    ] {
        let mut campaign = reroute(lattice, nodes, cables, if is_long() { 1000 } else { trials });
        campaign.setup.packet_flits = 3;
        let report = survive(&campaign);
        assert!(report.packets.refused + report.gone > 0, "{lattice}");
        campaign.setup.replay_after = None;
        let report = survive(&campaign);
        assert_eq!(report.packets.replayed, 0, "{lattice}");
        assert!(report.gone > 0, "{lattice}");
    }
}

#[test]
fn a_fault_is_known_as_soon_as_the_watch_finds_it() {
    let mut campaign = reroute("3x3", (0, 0), (1, 1), 6);
    campaign.warning = Warning::Watched { mode: Mode::Push, period_ns: 1_000_000, cycle_ns: 20.0 };
    let report = survive(&campaign);
    // A cable is silent for 10 us before it is failed, and a master knows within another 100.
    assert!((500.0..6000.0).contains(&report.aware_cycles.mean), "{:?}", report.aware_cycles);
}

#[test]
fn reroutes_are_the_same_on_any_number_of_threads_and_told_by_number() {
    let one = reroute("4x3x2", (0, 1), (1, 2), 9);
    let report = survive(&one);
    for threads in [2, 3] {
        let mut more = one.clone();
        more.setup.threads = threads;
        assert_eq!(survive(&more), report);
    }
    let trials = one.trials().unwrap();
    for index in [0, 5] {
        let (told, lines) = tell(&trials, index);
        assert_eq!(told.result, tell(&trials, index).0.result);
        for word in ["FAULT", "the master knows", "new routes", "latency after", "drained"] {
            assert!(lines.iter().any(|line| line.contains(word)), "{word}: {lines:?}");
        }
    }
}

#[test]
fn reroutes_that_cannot_be_are_named() {
    let refused = |change: &dyn Fn(&mut RerouteCampaign)| {
        let mut campaign = reroute("4x4", (0, 0), (1, 1), 1);
        change(&mut campaign);
        campaign.trials().unwrap_err()
    };
    let none = FaultCounts { nodes: (0, 1), cables: (0, 1) };
    assert_eq!(refused(&|it| it.counts = none), Error::NoFault);
    let never = Warning::After { cycles: 1 << 40 };
    assert!(matches!(refused(&|it| it.warning = never), Error::Cycles { .. }));
    assert!(matches!(refused(&|it| it.setup.replay_after = Some(0)), Error::Setup(_)));
    let late = |it: &mut RerouteCampaign| it.setup.replay_after = Some(2_000_000);
    assert!(matches!(refused(&late), Error::Cycles { .. }));
    assert!(matches!(refused(&|it| it.load = 2.0), Error::Setup(_)));
}
