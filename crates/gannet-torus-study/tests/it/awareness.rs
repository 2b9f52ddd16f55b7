//! Every fault that can become known does, soon, and nothing else is said.
//!
//! With `GANNET_LONG=1`, 10^5 trials on each lattice in each mode, and 24 hours without faults.

use gannet_lofamo::Mode;
use gannet_torus_study::awareness::{
    Campaign, CampaignReport, FaultKind, Hardship, Jitter, Quiet, Watched,
};
use gannet_torus_study::trials::{Trace, Trials, run_all, tell};

const MS_NS: u64 = 1_000_000;

fn is_long() -> bool {
    std::env::var_os("GANNET_LONG").is_some()
}

fn campaign(lattice: &str, mode: Mode, period_ns: u64, trials: u64) -> Campaign {
    let machine = Watched::new(lattice.parse().unwrap(), mode, period_ns);
    Campaign::new(machine, trials, 6)
}

/// Runs a campaign and wants it sound and in time.
fn judge(campaign: &Campaign) {
    let report = run_all(campaign);
    let what = format!("{}, {:?}, T = {} s", report.lattice, report.mode, report.period_s);
    assert!(report.is_sound() && report.late == 0, "{what}: {:?}", report.failures);
    assert!(report.known >= campaign.trials / 2, "{what}: {} known", report.known);
    if campaign.trials >= 100 {
        for kind in &report.kinds {
            let (mean_s, max_s) = (kind.awareness.mean_s.unwrap(), kind.awareness.max_s.unwrap());
            let name = kind.kind.name();
            assert!(max_s <= report.limits.worst_s, "{what}: {name} worst {max_s} s");
            assert!(mean_s <= report.limits.mean_s, "{what}: {name} mean {mean_s} s");
        }
        assert_eq!((report.within_limits, report.is_in_time()), (Some(true), true), "{what}");
    }
}

#[test]
fn no_fault_is_missed_or_late_and_none_is_invented() {
    for (lattice, trials) in [("4x4x1", 400), ("4x4x4", 150), ("8x8x8", 5)] {
        let trials = if is_long() { 100_000 } else { trials };
        for mode in Mode::ALL {
            judge(&campaign(lattice, mode, 500 * MS_NS, trials));
        }
    }
}

/// Reports and probes are sent again until they come through.
#[test]
fn what_the_service_network_loses_delays_and_never_misleads() {
    for service_loss in [0.01, 0.05, 0.2] {
        for (lattice, trials) in [("2", 300), ("4x4x1", 300), ("4x4x4", 100)] {
            for mode in Mode::ALL {
                let trials = if is_long() { 30_000 } else { trials };
                let mut campaign = campaign(lattice, mode, 100 * MS_NS, trials);
                campaign.machine.surroundings.service_loss = service_loss;
                let report = run_all(&campaign);
                let what = format!("{lattice}, {mode:?}, loss {service_loss}");
                assert!(report.is_sound(), "{what}: {:?}", report.failures);
                assert!(report.known >= trials / 2, "{what}: {} known", report.known);
            }
        }
    }
}

#[test]
fn the_limits_hold_for_every_period_from_a_millisecond_to_a_second() {
    for period_ns in [1, 2, 5, 10, 30, 100, 300, 1000].map(|ms| ms * MS_NS) {
        for mode in Mode::ALL {
            judge(&campaign("4x4x1", mode, period_ns, if is_long() { 20_000 } else { 150 }));
        }
    }
}

#[test]
fn odd_and_flat_lattices_are_no_exception() {
    for lattice in ["2", "2x3x1", "5x3x2", "1x1x7"] {
        for mode in Mode::ALL {
            let campaign =
                campaign(lattice, mode, 10 * MS_NS, if is_long() { 30_000 } else { 300 });
            let report = run_all(&campaign);
            assert!(report.is_sound(), "{lattice}: {:?}", report.failures);
        }
    }
}

#[test]
fn a_campaign_is_the_same_on_any_number_of_threads() {
    let one = campaign("4x4x1", Mode::Push, 20 * MS_NS, 101);
    let report = run_all(&one);
    assert_eq!(report.trials, 101);
    let with = |machine| run_all(&Campaign { machine, ..one });
    for threads in [2, 3] {
        assert_eq!(with(Watched { threads, ..one.machine }), report);
    }
    let other = with(Watched { seed: 2, ..one.machine });
    assert_ne!(other.awareness, report.awareness);
}

#[test]
fn a_part_of_a_campaign_has_a_report() {
    let campaign = campaign("4x4x1", Mode::Push, 20 * MS_NS, 50);
    let mut sums = campaign.none();
    (0..20).rev().for_each(|index| campaign.add(&mut sums, index, tell(&campaign, index).0));
    let part = campaign.report(sums);
    assert!(part.trials == 20 && part.known > 0);
    assert_eq!(part, run_all(&Campaign { trials: 20, ..campaign }));
}

#[test]
fn a_node_without_neighbours_keeps_no_limits() {
    let report = run_all(&campaign("1", Mode::Poll, 20 * MS_NS, 300));
    assert!(report.known > 0 && report.is_sound(), "{:?}", report.failures);
    assert_eq!((report.within_limits, report.late, report.is_in_time()), (None, 0, true));
}

#[test]
fn what_is_known_too_late_is_not_in_time() {
    let mut campaign = campaign("4x4x1", Mode::Push, 20 * MS_NS, 400);
    campaign.machine.surroundings.wake_ns = 20 * MS_NS;
    let report = run_all(&campaign);
    assert_eq!((report.within_limits, report.is_in_time()), (Some(false), false));
}

#[test]
fn a_trial_is_replayed_by_its_number() {
    let campaign = campaign("4x4x1", Mode::Poll, 20 * MS_NS, 1);
    for index in [0, 7, 77] {
        let (told, lines) = tell(&campaign, index);
        assert_eq!(told, campaign.run(index, &mut campaign.bench(), &mut Trace::default()));
        let time_s = |line: &String| line.trim_start().split(' ').next().unwrap().parse::<f64>();
        assert!(lines.is_sorted_by_key(|line| time_s(line).unwrap()));
        let count = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
        let known = told.known.len() as u64 + told.known_beyond_rule;
        assert_eq!(count("KNOWN") as u64, known);
        assert!(count("FAULT") > 0);
    }
}

/// Each has a host that falls sick after its NIC died: nobody but the host can tell.
#[test]
fn a_host_without_a_nic_tells_that_it_is_sick() {
    let campaign = campaign("4x4x1", Mode::Push, 100 * MS_NS, 1);
    for index in [114, 146, 161, 168, 391] {
        let (told, lines) = tell(&campaign, index);
        assert_eq!((told.undetected.len(), told.late.len()), (0, 0), "{index}: {told:?}");
        let ill = lines.iter().filter(|line| line.contains("FAULT: host sick"));
        let known = lines.iter().filter(|line| line.contains("s: host sick"));
        assert_eq!(ill.count(), known.count(), "{index}: {lines:#?}");
    }
}

fn quiet(mode: Mode, hours: f64) -> Quiet {
    let machine = Watched::new("4x4x1".parse().unwrap(), mode, 500 * MS_NS);
    Quiet { machine: Watched { seed: 3, ..machine }, hours }
}

#[test]
fn a_machine_without_faults_reports_none() {
    for mode in Mode::ALL {
        let report = run_all(&quiet(mode, if is_long() { 24.0 } else { 1.25 }));
        assert_eq!(report.false_reports, 0, "{:?}", report.claims);
        let beats = 16.0 * report.hours * 3600.0 / report.period_s;
        assert!(report.events as f64 > 2.0 * beats, "{} events", report.events);
        let mut two = quiet(mode, report.hours);
        two.machine.threads = 2;
        assert!(is_long() || run_all(&two) == report);
    }
}

/// The run without faults would find a watch that is too tight.
#[test]
fn hosts_later_than_the_watch_allows_are_reported() {
    for mode in Mode::ALL {
        let mut late = quiet(mode, 1.0);
        late.machine.surroundings.jitter =
            Jitter { late_chance: 0.01, late_max: 0.8, ..Jitter::default() };
        assert!(run_all(&late).false_reports > 0, "{mode:?}");
    }
}

/// A campaign of harder trials, which must be sound and in time.
fn hard(lattice: &str, mode: Mode, trials: u64, hardship: Hardship) -> CampaignReport {
    let report = run_all(&Campaign { hardship, ..campaign(lattice, mode, 500 * MS_NS, trials) });
    assert!(report.is_sound() && report.is_in_time(), "{mode:?}: {:?}", report.failures);
    report
}

#[test]
fn flaky_cables_are_known_from_the_eleventh_error_on_and_not_before() {
    let hardship = Hardship { random_errors: 1.0, ..Hardship::default() };
    for mode in Mode::ALL {
        let usual = hard("4x4x1", mode, 300, Hardship::default());
        let report = hard("4x4x1", mode, 300, hardship);
        let flaky = |report: &CampaignReport| {
            let mut kinds = report.kinds.iter();
            kinds.find(|it| it.kind == FaultKind::CableFlaky).map_or(0, |it| it.awareness.count)
        };
        // Each of two ends has more than ten errors in 14 of 24 cases.
        assert!((2 * flaky(&report)..10 * flaky(&report)).contains(&(4 * flaky(&usual))));
        assert!(report.unreachable > usual.unreachable);
    }
}

#[test]
fn the_next_master_knows_what_the_one_before_knew() {
    let hardship = Hardship { mortal_master: true, ..Hardship::default() };
    for mode in Mode::ALL {
        let report = hard("4x4x1", mode, if is_long() { 30_000 } else { 400 }, hardship);
        assert!(report.takeovers > 20, "{}", report.takeovers);
        assert!(report.awareness_of_next.count > 50, "{:?}", report.awareness_of_next);
    }
}

/// But for parts that are cut off, by some cables one way only: this seed has none in so few trials.
#[test]
fn cables_that_are_cut_one_way_are_known() {
    let hardship = Hardship { half_cut: 1.0, ..Hardship::default() };
    for (lattice, mode) in [("4x4x1", Mode::Poll), ("4x4x1", Mode::Push), ("4x4x4", Mode::Push)] {
        let report = hard(lattice, mode, 60, hardship);
        assert!(report.kinds.iter().any(|it| it.kind == FaultKind::CableHalfCut));
        assert!(report.kinds.iter().all(|it| it.kind != FaultKind::CableCut));
    }
}

#[test]
fn what_has_healed_is_forgotten() {
    let hardship = Hardship { heal: 0.5, ..Hardship::default() };
    for mode in Mode::ALL {
        let report = hard("4x4x4", mode, 200, hardship);
        assert!(report.healed > 10 && report.known > 600, "{} healed", report.healed);
    }
}

/// Some words are lost on any link; ten in a row are not, unless it is a bad one.
#[test]
fn credits_that_are_lost_or_late_give_false_alarms_where_they_are_many() {
    let reports = |credit_loss, credit_late| {
        let mut quiet = quiet(Mode::Push, 0.02);
        let surroundings = &mut quiet.machine.surroundings;
        (surroundings.credit_loss, surroundings.credit_late) = (credit_loss, credit_late);
        run_all(&quiet).false_reports
    };
    assert_eq!(reports(0.05, 0.0), 0);
    assert!(reports(0.3, 0.0) > 100 && reports(0.0, 1e-6) > 100);
}
