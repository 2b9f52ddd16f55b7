//! RDMA engines over paths that lose, double, delay and damage packets: everything arrives once
//! and intact, or the host is told why not.

mod busy;
mod limits;
mod path;
mod refusals;
mod traffic;
mod turns;

use std::ops::Range;

use gannet_memory::{PageSize, Replacement};
use gannet_rdma::{Configuration, Replay, Timing, TranslationCache, WINDOW_MAX};

use path::Faults;
use traffic::{Culprit, Traffic};

/// Seeds of a test: as given, ten times as many with `GANNET_LONG=1`, or only `GANNET_SEED`.
fn seeds(given: Range<u64>) -> Range<u64> {
    let variable = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    match variable("GANNET_SEED") {
        Some(seed) => seed..seed + 1,
        None if variable("GANNET_LONG") == Some(1) => {
            given.start..given.start + 10 * (given.end - given.start)
        }
        None => given,
    }
}

/// Runs one trial; a failure prints the command that repeats it.
fn trial(
    test: &'static str,
    nodes: usize,
    count: usize,
    faults: Faults,
    seed: u64,
    configure: impl Fn(&mut Configuration),
) -> Traffic {
    let _culprit = Culprit { test, seed };
    let mut traffic = Traffic::new(nodes, count, faults, seed, configure);
    traffic.run();
    traffic
}

/// Costs of hardware, so that packets queue, and the TLB is small.
fn hardware(configuration: &mut Configuration) {
    configuration.timing = Timing {
        read_engines: 2,
        read_latency_ns: 800,
        prefetch: false,
        read_bytes_per_s: 4_000_000_000,
        write_engines: 2,
        write_setup_ns: 100,
        write_bytes_per_s: 4_000_000_000,
        tlb_ns: 124,
        walk_ns: 1900,
    };
    configuration.translation = TranslationCache {
        entries: 16,
        page_size: PageSize::KiB4,
        replacement: Replacement::Random { seed: 3 },
    };
}

#[test]
fn a_perfect_path_needs_no_packet_twice() {
    let traffic = trial("a_perfect_path", 4, 600, Faults::NONE, 1, |_| ());
    for engine in &traffic.path.engines {
        let counters = engine.counters();
        assert_eq!((counters.timeouts, counters.overtaken, counters.duplicates), (0, 0, 0));
        assert_eq!((counters.corrupt, counters.stale, counters.overruns), (0, 0, 0));
    }
}

#[test]
fn five_percent_loss_and_bit_errors_lose_nothing() {
    let faults = Faults { loss: 0.05, bit_errors: 1e-6, jitter_ns: 2000, ..Faults::NONE };
    let (mut lost, mut damaged) = (0, 0);
    for seed in seeds(0..8) {
        let traffic = trial("five_percent", 2 + seed as usize % 7, 600, faults, seed, |_| ());
        lost += traffic.path.lost;
        damaged += traffic.path.damaged;
        let corrupt: u64 = traffic.path.engines.iter().map(|it| it.counters().corrupt).sum();
        assert_eq!(corrupt, traffic.path.damaged);
    }
    let is_one = std::env::var_os("GANNET_SEED").is_some();
    assert!(
        is_one || lost > 500 && damaged > 20,
        "{lost} lost and {damaged} damaged packets prove little"
    );
}

#[test]
fn any_mixture_of_faults_loses_nothing() {
    for seed in seeds(100..130) {
        let mut random = gannet_measure::random::Random::new(seed);
        let faults = Faults {
            loss: 0.3 * random.unit(),
            duplication: 0.2 * random.unit(),
            bit_errors: 1e-5 * random.unit(),
            delay_ns: random.below(20_000),
            jitter_ns: random.below(300_000),
        };
        let nodes = 2 + random.below(7) as usize;
        let immediate = random.below(2) == 0;
        trial("any_mixture", nodes, 150, faults, seed, |configuration| {
            configuration.replay.attempts = 60;
            if !immediate {
                hardware(configuration);
            }
        });
    }
}

/// As hosts without such hardware configure it: long packets, and many of them under way.
fn software(configuration: &mut Configuration) {
    configuration.limits.window = WINDOW_MAX;
    configuration.limits.data_bytes = 4 * 4096;
    configuration.translation.entries = 0;
}

#[test]
fn long_packets_and_more_of_them_than_one_answer_tells_of_lose_nothing() {
    let any = Faults { loss: 0.03, duplication: 0.02, delay_ns: 300_000, ..Faults::NONE };
    for seed in seeds(130..136) {
        let jitter_ns = if seed % 2 == 0 { 500 } else { 50_000 };
        let faults = Faults { jitter_ns, ..any };
        trial("long_packets", 2 + seed as usize % 3, 300, faults, seed, software);
    }
}

#[test]
fn tiny_queues_slow_down_and_lose_nothing() {
    // Copies outlive the refusal of the first one, and come in any order.
    let late = Faults { loss: 0.02, duplication: 0.2, jitter_ns: 250_000, ..Faults::NONE };
    for seed in seeds(200..220) {
        let faults = Faults { jitter_ns: if seed % 2 == 0 { 500 } else { 250_000 }, ..late };
        trial("tiny_queues", 3, 200, faults, seed, |configuration| {
            hardware(configuration);
            let limits = &mut configuration.limits;
            (limits.posts, limits.completions) = (2, 3);
            (limits.replies, limits.receive_queue, limits.transmit_queue) = (1, 2, 1);
            limits.data_bytes = 1000;
            configuration.replay.attempts = 200;
        });
    }
}

#[test]
fn nodes_given_up_too_early_get_nothing_twice() {
    let mut failures = 0;
    for seed in seeds(300..316) {
        let test = "nodes_given_up_too_early";
        let _culprit = Culprit { test, seed };
        // Packets and acknowledgements outlive the epoch they belong to.
        let faults = Faults {
            loss: 0.25,
            duplication: 0.2,
            bit_errors: 1e-6,
            delay_ns: 1000,
            jitter_ns: 300_000,
        };
        let mut traffic = Traffic::new(3, 300, faults, seed, |configuration| {
            let replay = &mut configuration.replay;
            (replay.timeout_ns, replay.timeout_max_ns, replay.attempts) = (60_000, 70_000, 4);
            replay.get_timeout_ns = 400_000;
            (configuration.limits.posts, configuration.limits.completions) = (4, 16);
        });
        traffic.may_fail = true;
        traffic.run();
        failures += traffic.failures();
        let stale: u64 = traffic.path.engines.iter().map(|it| it.counters().stale).sum();
        assert!(stale > 0 && traffic.failures() < 300, "{stale} {}", traffic.failures());
    }
    assert!(failures > 0);
}

#[test]
fn nodes_that_start_anew_get_and_give_nothing_twice() {
    let mut failures = 0;
    for seed in seeds(400..424) {
        let _culprit = Culprit { test: "nodes_that_start_anew", seed };
        let faults = Faults {
            loss: 0.05,
            duplication: 0.2,
            bit_errors: 1e-6,
            delay_ns: 1000,
            jitter_ns: 50_000,
        };
        let mut traffic = Traffic::new(3, 300, faults, seed, |configuration| {
            let replay = &mut configuration.replay;
            (replay.timeout_ns, replay.timeout_max_ns, replay.attempts) = (60_000, 90_000, 6);
            replay.get_timeout_ns = 600_000;
            let limits = &mut configuration.limits;
            (limits.posts, limits.completions, limits.replies) = (4, 6, 2);
        });
        traffic.may_fail = true;
        traffic.restarts = (1..7).rev().map(|n| (n * 400_000, n as usize % 3)).collect();
        traffic.run();
        failures += traffic.failures();
        assert!(traffic.restarts.is_empty() && traffic.failures() < 150, "{}", traffic.failures());
    }
    assert!(failures > 0);
}

#[test]
fn a_long_path_is_learned_and_then_needs_no_packet_twice() {
    // Each round trip takes ten times as long as the first one is waited for.
    let faults = Faults { delay_ns: 1_000_000, jitter_ns: 20_000, ..Faults::NONE };
    let traffic = trial("a_long_path", 2, 1000, faults, 1, |configuration| {
        configuration.replay.reorder = 32;
    });
    for engine in &traffic.path.engines {
        let counters = engine.counters();
        // The first window, four times: after 200, 400, 800 and 1600 us.
        assert!(counters.sent > 500 && counters.timeouts <= 8 * 32, "{counters:?}");
    }
}

#[test]
fn a_loss_on_a_short_path_is_mended_in_its_round_trips() {
    let mut path = refusals::pair(Faults::NONE, |_| ());
    let mut took = |loss, tag| {
        let begin = path.now;
        path.engines[0].post_put(begin, &refusals::put(refusals::BUFFER_AT, 4, tag)).unwrap();
        path.faults.loss = loss;
        path.step();
        path.faults.loss = 0.0;
        while path.engines[0].poll_completion().is_none() {
            assert!(path.step(), "stuck");
        }
        path.now - begin
    };
    let trip = (0..20).map(|tag| took(0.0, tag)).max().unwrap();
    assert_eq!(took(1.0, 20), Replay::DEFAULT.timeout_min_ns + trip);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let faults = Faults { loss: 0.1, duplication: 0.1, jitter_ns: 5000, ..Faults::NONE };
    let run = || {
        let traffic = trial("the_same_seed", 4, 200, faults, 9, hardware);
        let counters: Vec<_> = traffic.path.engines.iter().map(|it| *it.counters()).collect();
        (traffic.path.now, counters)
    };
    assert_eq!(run(), run());
}
