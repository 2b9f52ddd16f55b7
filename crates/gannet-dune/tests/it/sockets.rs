//! Several sockets for one address: what a datagram holds says by which of them it comes.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gannet_control::config::{self, Plan, Problem};
use gannet_control::emulation::{Emulation, FlowControl, Target};
use gannet_control::run::Run;
use gannet_control::snapshot::Snapshot;
use gannet_dune::detector::DUNE_TPC;

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

fn plan(sockets: usize, receive_cpus: &str) -> Result<Plan, Problem> {
    let text = CONFIG.replace("SOCKETS", &sockets.to_string());
    let text = format!("[run]\nreceive_cpus = {receive_cpus}\n{text}");
    config::parse("test.toml", &text, Path::new("."), &[&DUNE_TPC])
}

fn start(sockets: usize) -> (Plan, Run) {
    let plan = plan(sockets, "\"any\"").unwrap();
    let run = Run::configure(&plan).unwrap();
    run.start().unwrap();
    (plan, run)
}

/// Sends by one socket of its own, no faster than the kernel has room.
fn emulate(plan: &Plan, run: &Run, frames: Option<u64>) -> Emulation {
    let FlowControl { taken, in_flight_max } = run.flow_control();
    let before = taken();
    let flow_control = FlowControl { taken: Arc::new(move || taken() - before), in_flight_max };
    let receivers = vec![run.addresses()[0].into(); plan.detector.emulated().len()];
    let target = Target { receivers, frames, flow_control: Some(flow_control), faults: None };
    plan.detector.front_end().unwrap().start(&target, None).unwrap()
}

fn dropped(snapshot: &Snapshot, reason: &str) -> u64 {
    let drops = snapshot.ledger.iter().flat_map(|statement| &statement.dropped);
    drops.filter(|drop| drop.reason == reason).map(|drop| drop.count).sum()
}

/// As any user, and although the second sender has another port.
#[test]
fn one_sender_is_spread_evenly_and_may_restart() {
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

/// All sockets of an address stop at one instant, whenever their threads get to it.
#[test]
fn a_stop_amid_traffic_divides_no_stream() {
    for round in 0..20 {
        let (plan, run) = start([2, 4][round % 2]);
        let emulation = emulate(&plan, &run, None);
        while run.snapshot().frames() == 0 {
            thread::sleep(Duration::from_millis(10));
        }
        let snapshot = run.drain();
        emulation.stop();
        emulation.join().unwrap();
        for reason in ["other_socket", "before_socket", "kernel_queue"] {
            assert_eq!(dropped(&snapshot, reason), 0, "{reason}: {:#?}", snapshot.ledger);
        }
        assert!(snapshot.ledger.iter().all(|statement| statement.closes()));
    }
}

/// Processors that threads of this process may run on, of those threads whose name is `name`.
fn allowed(name: &str) -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let read = |path: &Path, file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
    let named = tasks.map(|task| task.path()).filter(|path| read(path, "comm").trim_end() == name);
    let list = |status: String| {
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.unwrap_or_default().trim().to_owned()
    };
    named.map(|path| list(read(&path, "status"))).collect()
}

#[test]
fn receiving_threads_keep_to_the_listed_processors_or_nothing_runs() {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let last = list.trim().rsplit([',', '-']).next().unwrap();
    let run = Run::configure(&plan(1, &format!("[{last}]")).unwrap()).unwrap();
    run.start().unwrap();
    assert_eq!(run.snapshot().sources[0].cpu.map(|cpu| cpu.to_string()).as_deref(), Some(last));
    let receiving = allowed("gannet-receive");
    assert!(receiving.iter().any(|cpus| cpus == last), "{last}: {receiving:?}");
    run.drain();

    let error = Run::configure(&plan(1, "[1023]").unwrap()).err().unwrap().to_string();
    assert_eq!(error, "run.receive_cpus: this process may not run on CPU 1023");
    let error = plan(2, "[0]").unwrap_err().to_string();
    assert!(error.contains("2 threads receive") && error.starts_with("test.toml:2:"), "{error}");
}

#[test]
fn sockets_without_a_stream_are_doubted() {
    let doubts = |sockets| plan(sockets, "\"any\"").unwrap().doubts().join(" ");
    assert!(doubts(65).contains("source 1: 65 sockets share 64 streams"), "{}", doubts(65));
    assert!(!doubts(64).contains("stay idle"));
}
