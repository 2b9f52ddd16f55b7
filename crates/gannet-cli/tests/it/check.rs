//! `gannet check` through the binary: what it prints is a configuration again.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const CONFIG: &str = r#"
[[source]]
streams = { count = 4 }
udp = { listen = ["127.0.0.1:7000"] }
"#;

/// Checks `text` as a file in `directory`.
fn check(directory: &Path, text: &str, arguments: &[&str]) -> Output {
    fs::write(directory.join("a.toml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.args(["check", "a.toml"]).args(arguments).current_dir(directory).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn what_is_printed_is_the_same_configuration_with_every_default() {
    let directory = tempfile::tempdir().unwrap();
    let first = check(directory.path(), CONFIG, &[]);
    assert_eq!((first.status.code(), text(&first.stderr)), (Some(0), String::new()));
    let printed = text(&first.stdout);
    assert!(printed.starts_with("# 4 streams, 122070 frames/s"), "{printed}");
    assert!(printed.contains("\nkernel_buffer = \"64 MiB\"\n"), "{printed}");
    let again = text(&check(directory.path(), &printed, &[]).stdout);
    let settings = |text: &str| text[text.find("[run]").unwrap()..].to_owned();
    assert_eq!(settings(&again), settings(&printed));
}

#[test]
fn each_detector_is_forecast_in_its_own_words() {
    let directory = tempfile::tempdir().unwrap();
    for (detector, words) in [
        ("dune", "100 primitives a second and channel"),
        ("rich", "as [emulate] says: 0.020 million events/s"),
        ("km3", "42 modules x 31 photomultipliers x 5 to 8 kHz"),
    ] {
        let mut demo = Command::new(env!("CARGO_BIN_EXE_gannet"));
        let demo = demo.args(["demo", "--print-config", "--detector", detector]).output().unwrap();
        let told = text(&check(directory.path(), &text(&demo.stdout), &["--elsewhere"]).stdout);
        let lines = told.lines().take_while(|line| line.starts_with("# "));
        let forecast = lines.map(|line| line[2..].trim()).collect::<Vec<_>>().join(" ");
        assert!(forecast.contains(words), "{detector}: {forecast}");
        assert_eq!(forecast.contains("primitives"), detector == "dune", "{forecast}");
    }
}

#[test]
fn modules_that_take_commands_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let modules = "[slow_control]\nmodules = [{ id = 1, address = \"127.0.0.1:6000\", count = 3 }]\n\
                   start = [{ module = \"*\", set = { hv = 1200 } }]\n";
    let config = format!("{CONFIG}{modules}");
    let told = text(&check(directory.path(), &config, &[]).stdout);
    assert!(told.contains("# modules    3 modules at 3 addresses, 127.0.0.1:6000 to "), "{told}");
    let value = check(directory.path(), &config, &["--json"]).stdout;
    let value: Value = serde_json::from_slice(&value).unwrap();
    assert!(value["slow_control"].as_str().unwrap().contains("3 at start"), "{value}");
}

#[test]
fn as_json_there_are_forecast_and_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let output = check(directory.path(), CONFIG, &["--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["forecast"]["receive_threads"], 1);
    assert!(value["forecast"]["disk_time_s"].as_f64().unwrap() > 0.0);
    assert_eq!(value["configuration"]["source"][0]["streams"]["count"], 4);
}

#[test]
fn a_missing_directory_and_too_much_memory_are_told() {
    let directory = tempfile::tempdir().unwrap();
    // Ten hours of four streams: 31 TB.
    let text_of = format!(
        "{CONFIG}depth = \"10 h\"\nbuffer_max = \"100 TB\"\n[recorder]\ndirectory = \"gone\"\n"
    );
    let output = check(directory.path(), &text_of, &[]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{told}");
    assert!(
        told.contains("cannot start here: directory gone: not there\n  mkdir -p gone"),
        "{told}"
    );
    assert!(told.contains("make `depth` shorter"), "{told}");
    assert!(text(&output.stdout).contains("# disk full  unknown"));
    let elsewhere = check(directory.path(), &text_of, &["--elsewhere"]);
    assert_eq!((elsewhere.status.code(), text(&elsewhere.stderr)), (Some(0), String::new()));
}

#[test]
fn frames_by_af_xdp_from_loopback_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let config = CONFIG.replace(
        "udp = { listen = [\"127.0.0.1:7000\"] }",
        "xdp = { listen = \"127.0.0.1:7000\" }",
    );
    let output = check(directory.path(), &config, &[]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{told}");
    assert!(
        told.contains("cannot start here: card of 127.0.0.1:7000: AF_XDP on loopback"),
        "{told}"
    );
}

#[test]
fn addresses_that_a_run_cannot_have_here_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let used = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let used = used.local_addr().unwrap();
    // 192.0.2.0/24 is kept for documents: nobody has it.
    for (address, why) in [
        (used.to_string().as_str(), "in use by another program"),
        ("192.0.2.1:7000", "not an address of this machine"),
    ] {
        let output = check(directory.path(), &CONFIG.replace("127.0.0.1:7000", address), &[]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{told}");
        assert!(told.contains(&format!("address udp {address}: {why}")), "{told}");
    }
}

/// Each with a piece of what is said, and what stands at the line and column that is named.
const WRONG: [(&str, &str, &str); 9] = [
    (
        "[[source]]\nstreams = { crate = 2 }\nudp = { listen = [\"0.0.0.0:7000\"] }",
        "taken already",
        "[",
    ),
    (
        "[[source]]\nstreams = { crate = 2 }\nudp = { listen = [\"127.0.0.1:7000\"] }",
        "taken already",
        "[",
    ),
    (
        "[[source]]\nstreams = { crate = 2 }\nudp = { listen = [\"224.0.0.9:7001\"] }",
        "multicast group",
        "[",
    ),
    (
        "[[source]]\nname = \"source 1\"\nstreams = { crate = 2 }\nudp = { listen = [\"127.0.0.1:7001\"] }",
        "already",
        "\"source 1",
    ),
    ("[pipeline.tpg]\nthreshold = [100, 0, 100]", "each must be 1 to 32767", "[100"),
    ("[pipeline.tpg]\nthreshold = [100, 100, 100, 100]", "expected 3 values", "[100"),
    ("[pipeline.tpg]\nsot_minimum = [1, 1]", "expected 3 values", "[1"),
    ("[pipeline.tpg]\ntreshold = [100, 100, 100]", "did you mean `threshold`?", "treshold"),
    ("[rnu]\nnumber = 1", "did you mean `run`?", "rnu"),
];

#[test]
fn what_no_run_can_be_made_of_is_refused_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    for (wrong, why, place) in WRONG {
        let written = format!("{CONFIG}{wrong}\n");
        let output = check(directory.path(), &written, &[]);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{wrong}: {told}");
        assert!(told.contains(why), "{wrong}: {told}");
        let mut numbers = told.split_once("a.toml:").unwrap().1.split(':').map(str::parse::<usize>);
        let (line, column) = (numbers.next().unwrap().unwrap(), numbers.next().unwrap().unwrap());
        let there = &written.lines().nth(line - 1).unwrap()[column - 1..];
        assert!(there.starts_with(place), "{wrong}: {there:?}, {told}");
    }
}

#[test]
fn a_channel_map_without_end_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let output =
        check(directory.path(), &format!("pipeline.channel_map = \"/dev/zero\"\n{CONFIG}"), &[]);
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("/dev/zero: it is no ordinary file"));
}

#[test]
fn an_emulated_front_end_that_is_not_that_of_the_sources_is_doubted() {
    let directory = tempfile::tempdir().unwrap();
    let told = |emulate: &str| {
        let output = check(directory.path(), &format!("{CONFIG}{emulate}\n"), &[]);
        assert_eq!(output.status.code(), Some(0));
        text(&output.stderr)
    };
    assert_eq!(told("[emulate.streams]\ncount = 4"), "");
    let other = told("[emulate.streams]\ncount = 3\ncrate = 2");
    assert!(
        other.contains("3 of the 3 emulated streams") && other.contains("4 of the 4"),
        "{other}"
    );
}

#[test]
fn a_mask_beside_the_channel_map_and_a_pedestal_frozen_above_all_samples_are_doubted() {
    let directory = tempfile::tempdir().unwrap();
    let told = |tpg: &str| {
        let output = check(directory.path(), &format!("{CONFIG}[pipeline.tpg]\n{tpg}"), &[]);
        assert_eq!(output.status.code(), Some(0));
        text(&output.stderr)
    };
    let mask = told("mask = [3, 700000, 1600]");
    assert!(mask.contains("tpg.mask: 1 masked channels") && mask.contains(": 700000"), "{mask}");
    let frozen = told("chain = \"fixed-pedestal\"\ninitial_pedestal = 16384");
    assert!(frozen.contains("16384 to 16294 at best") && frozen.contains("180224"), "{frozen}");
    for fine in [
        "initial_pedestal = \"data\"",
        "initial_pedestal = 900",
        "initial_pedestal = 16384\nstart_period = 180_224",
        "initial_pedestal = 16384\naccum_limit = 0\nstart_period = 16_000",
    ] {
        assert_eq!(told(&format!("chain = \"fixed-pedestal\"\n{fine}")), "", "{fine}");
    }
}

#[test]
fn metrics_for_a_whole_network_need_a_token_or_a_word() {
    let directory = tempfile::tempdir().unwrap();
    let check_metrics = |metrics: &str| {
        let output = check(directory.path(), &format!("{CONFIG}[metrics]\n{metrics}"), &[]);
        (output.status.code(), text(&output.stderr))
    };
    let (code, told) = check_metrics("listen = \"0.0.0.0:9180\"");
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("a.toml:6:10: metrics.listen: whoever reaches 0.0.0.0:9180"), "{told}");
    let (code, told) = check_metrics("listen = \"0.0.0.0:9180\"\nplain = true");
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("whoever reaches 0.0.0.0:9180 can read the run"), "{told}");
    let (code, told) = check_metrics("listen = \"0.0.0.0:9180\"\ntoken_file = \"absent\"");
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("a.toml:7:14: metrics.token_file") && told.contains("urandom"), "{told}");
}
