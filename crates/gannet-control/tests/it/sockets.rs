//! Several sockets for one address: what a datagram holds says by which of them it comes.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gannet_control::config::{self, Plan};
use gannet_control::emulation::{Emulation, FlowControl, Target};
use gannet_control::run::Run;
use gannet_control::snapshot::Snapshot;

/// 64 streams of eight boards, as fast as the receiver takes them.
const CONFIG: &str = r#"
[[source]]
streams = { count = 64 }
depth = "1 ms"
udp = { listen = ["127.0.0.1:0"], sockets = SOCKETS }

[recorder]
enabled = false

[emulate]
streams = { count = 64 }
pace = { unpaced = true }
"#;

fn start(sockets: usize) -> (Plan, Run) {
    let text = CONFIG.replace("SOCKETS", &sockets.to_string());
    let plan = config::parse("test.toml", &text, Path::new(".")).unwrap();
    let run = Run::configure(&plan).unwrap();
    run.start().unwrap();
    (plan, run)
}

/// Sends by one socket of its own, no faster than the kernel has room.
fn emulate(plan: &Plan, run: &Run, frames: Option<u64>) -> Emulation {
    let config = &plan.config.emulate;
    let FlowControl { taken, in_flight_max } = run.flow_control();
    let before = taken();
    let flow_control = FlowControl { taken: Arc::new(move || taken() - before), in_flight_max };
    let addresses = vec![run.addresses()[0]; config.streams.count];
    let target = Target { addresses, frames, flow_control: Some(flow_control) };
    Emulation::start(config, &plan.channel_map, &target, None).unwrap()
}

fn dropped(snapshot: &Snapshot, reason: &str) -> u64 {
    let drops = snapshot.ledger.iter().flat_map(|statement| &statement.dropped);
    drops.filter(|drop| drop.reason == reason).map(|drop| drop.count).sum()
}

/// As any user, and although the second sender has another port.
#[test]
fn one_sender_is_spread_evenly_and_may_begin_anew() {
    let frames = 90;
    for sockets in [2, 4] {
        let (plan, run) = start(sockets);
        let mut taken = 0;
        for _ in 0..2 {
            let report = emulate(&plan, &run, Some(frames)).join().unwrap();
            taken += report.datagrams_taken();
        }
        let snapshot = run.drain();
        assert_eq!(taken, 2 * 64 * frames);
        assert_eq!(snapshot.sources.len(), sockets);
        for source in &snapshot.sources {
            assert_eq!(source.frames, taken / sockets as u64, "{}", source.name);
        }
        assert!(snapshot.streams.iter().all(|stream| stream.frames == 2 * frames));
        assert!(snapshot.ledger.iter().all(|statement| statement.closes()));
        for reason in ["kernel_queue", "other_socket", "unknown_stream", "bad_header"] {
            assert_eq!(dropped(&snapshot, reason), 0, "{reason}: {:#?}", snapshot.ledger);
        }
    }
}

/// Sockets stop one after another; what comes in between belongs to no run.
#[test]
fn a_stop_under_traffic_is_no_loss() {
    for _ in 0..10 {
        let (plan, run) = start(4);
        let emulation = emulate(&plan, &run, None);
        thread::sleep(Duration::from_millis(30));
        let snapshot = run.drain();
        emulation.stop();
        emulation.join().unwrap();
        assert!(snapshot.frames() > 0);
        assert_eq!(dropped(&snapshot, "other_socket"), 0, "{:#?}", snapshot.ledger);
        assert!(snapshot.ledger.iter().all(|statement| statement.closes()));
        assert!(!snapshot.degraded, "{:#?}", snapshot.ledger);
    }
}
