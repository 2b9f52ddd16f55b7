//! A machine that is broken and mended while its traffic is checked.

use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use gannet_torus_live::drill::{Drill, Event, Setup, Summary};

/// Goes through a drill with at least so many faults, and gives what it has shown.
fn go_through(lattice: &str, faults: usize) -> Summary {
    let setup = Setup {
        lattice: lattice.parse().unwrap(),
        watchdog_ns: 400_000_000,
        every: Duration::from_millis(200),
        rate: NonZeroU64::new(3000).unwrap(),
        seed: 7,
    };
    let mut drill = Drill::start(setup).unwrap();
    let (begin, mut survived) = (Instant::now(), 0);
    loop {
        match drill.step().unwrap() {
            Some(Event::Over(summary)) => return summary,
            Some(event) => {
                println!("{:>6} ms  {event}", begin.elapsed().as_millis());
                survived += usize::from(matches!(event, Event::Survived(..)));
                if survived >= faults {
                    drill.end();
                }
            }
            None => thread::sleep(Duration::from_millis(2)),
        }
    }
}

#[test]
fn cables_and_hosts_break_in_all_ways_and_nothing_is_lost() {
    let summary = go_through("2x2", 5);
    println!("{summary}");
    let totals = summary.puts;
    assert!(totals.is_clean() && summary.packets.is_balanced(), "{summary}");
    assert!(summary.packets.delivered > totals.arrived, "{summary}");
    assert!(totals.arrived > 50 && summary.faults.len() == 5, "{summary}");
    assert!(totals.bytes >= 12_000 * totals.arrived, "{summary}");
}
