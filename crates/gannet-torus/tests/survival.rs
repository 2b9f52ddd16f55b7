//! Random faults against the planner of routes and the simulator.
//!
//! With `GANNET_LONG=1`, 10^5 sets of faults on 4x4x4 and 10^4 on each unequal lattice.

use gannet_torus::simulator::{FlowControl, Setup};
use gannet_torus::survival::{
    Error, FaultCounts, RoutingCampaign, RoutingReport, run_routing, run_routing_trial,
    tell_routing_trial,
};

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
    let report = run_routing(campaign, &mut |_| ()).unwrap();
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
    let sum = |rows: &[gannet_torus::survival::Row]| -> (u64, u64) {
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
    let mut done = 0;
    let report = run_routing(&one, &mut |trials| done = trials).unwrap();
    assert_eq!(done, 31);
    for threads in [2, 3] {
        let mut more = one.clone();
        more.setup.threads = threads;
        assert_eq!(run_routing(&more, &mut |_| ()).unwrap(), report);
    }
    let mut other = one;
    other.setup.seed = 2;
    assert_ne!(run_routing(&other, &mut |_| ()).unwrap().total, report.total);
}

#[test]
fn a_trial_is_told_by_its_number() {
    let campaign = routing("4x4x4", 4, 1);
    for index in [0, 7, 99_999] {
        let (told, story) = tell_routing_trial(&campaign, index);
        assert_eq!(told, run_routing_trial(&campaign, index));
        for word in ["dead nodes", "planned", "proven", "overload", "drained"] {
            assert!(story.iter().any(|line| line.contains(word)), "{word}: {story:?}");
        }
    }
}

#[test]
fn campaigns_that_cannot_be_are_named() {
    let refused = |change: &dyn Fn(&mut RoutingCampaign)| {
        let mut campaign = routing("4x4", 4, 1);
        change(&mut campaign);
        run_routing(&campaign, &mut |_| ()).unwrap_err()
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
