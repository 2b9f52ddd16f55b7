//! Frames and parts of a run over a live torus: two hosts, each a process on this one, and processes that use their nodes.

use std::process::Command;
use std::thread;

use crate::readout::apart::{by_udp, two_processes_record_what_one_does};
use crate::readout::equality::{expected, recorded};
use crate::readout::fabric::{bench, emulate_by, sent, stop};
use crate::readout::process::{QUIET, Readout, alone, gannet};
use crate::torus::node::Hosts;

/// The program, with the node of this host.
fn at(hosts: &Hosts, host: usize) -> Command {
    let mut command = Command::new(gannet());
    command.env("GANNET_TORUS_NODE", hosts.processes(host));
    command
}

#[test]
fn frames_go_by_the_torus_into_the_ring_of_a_run() {
    let _alone = alone();
    let hosts = Hosts::ring(40, 2);
    hosts.become_a_machine("2x1x1");
    let bench = bench("torus", 2, 0.1, "wait = \"1 s\"");
    let mut run = at(&hosts, 1);
    let readout = Readout::start_by(run.args(["run", "--json"]).arg(bench.config()));
    thread::sleep(QUIET);
    let sender = emulate_by(at(&hosts, 0), &bench, Some(6000));
    let report = sent(&sender.wait_with_output().unwrap(), 0);
    let ended = stop(readout);
    let frames = report.truth.total().frames_made;
    assert_eq!((frames, report.datagrams_unsent()), (12_000, 0));
    assert_eq!(ended.ledger("source", "offered"), frames, "{}", ended.report);
    assert_eq!(ended.ledger("source", "delivered"), frames, "{}", ended.report);
    assert_eq!(ended.ledger("frames", "delivered"), frames, "{}", ended.report);
    assert!(!ended.is_degraded(), "{}", ended.report);
    let expected = expected(&bench, &ended);
    assert!(expected.len() > 20, "{}", expected.len());
    assert!(recorded(&bench) == expected, "of {} some differ", expected.len());
}

#[test]
fn without_a_node_that_can_be_used_nothing_begins() {
    let bench = bench("torus", 1, 0.1, "");
    let nobody = bench.directory.path().join("nobody");
    let refusal = |verb: &str, node: &std::path::Path| {
        let mut command = Command::new(gannet());
        command.env("GANNET_TORUS_NODE", node).env("XDG_RUNTIME_DIR", bench.directory.path());
        let output = command.arg(verb).arg(bench.config()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let told = refusal("run", &nobody);
    assert!(told.contains("no node of a torus listens at") && told.contains("nobody"), "{told}");
    let told = refusal("run", "".as_ref());
    assert!(told.contains("start one by `gannet torus node`"), "{told}");
}

#[test]
fn what_a_torus_gives_is_measured() {
    let hosts = Hosts::ring(60, 2);
    hosts.become_a_machine("2x1x1");
    let mut command = at(&hosts, 1);
    command.args(["bench", "fabric", "--backend", "torus", "--seconds", "0", "--repeats", "1"]);
    let output = command.args(["--bytes", "8,5000", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    let is_measured = |row: &serde_json::Value| {
        row["backend"] == "torus"
            && row["per_s"].as_f64() > Some(0.0)
            && row["limit_is"].is_string()
    };
    assert!(rows.len() == 8 && rows.iter().all(is_measured), "{rows:?}");
}

#[test]
fn two_processes_record_what_one_does_over_a_torus() {
    let hosts = Hosts::ring(50, 2);
    hosts.become_a_machine("2x1x1");
    let builder = by_udp().replace("\"udp\"", "\"torus\"");
    two_processes_record_what_one_does(&builder, |end| at(&hosts, end));
}
