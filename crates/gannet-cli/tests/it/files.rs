//! The files of a run, as others may bend them: links, pipes and foreign files under our names; and
//! the numbers and the manifest of a run.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use gannet_control::config;
use gannet_dune::detector::{DUNE_TPC, TpcPlan};
use gannet_emulate::FrontEnd;
use gannet_log::name::run_stem;
use gannet_wire::capture::{LINK_TYPE_ETHERNET, Packet};
use gannet_wire::network::Addresses;
use gannet_wire::{ethernet, pcap, tpc_frame};
use serde_json::Value;

const CONFIG: &str = r#"
source = [{ streams = { count = 1 }, capture = "frames.pcap", depth = "20 ms" }]
recorder = { directory = "out" }

[emulate]
streams = { count = 1 }
noise = { induction_pedestal = 2000.0, collection_pedestal = 2000.0 }

[pipeline.tpg]
initial_pedestal = 2000
"#;
/// Frames in the capture.
const FRAMES: u64 = 1000;
/// What others must not read.
const SECRET: &str = "a secret that is in no file of a run";

/// A directory with a capture, a configuration for it, a directory `out` for its files, and a private file.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        fs::write(bench.path("frames.pcap"), capture()).unwrap();
        fs::write(bench.path("run.toml"), CONFIG).unwrap();
        fs::write(bench.path("private"), SECRET).unwrap();
        fs::create_dir(bench.path("out")).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn out(&self, name: &str) -> PathBuf {
        self.path("out").join(name)
    }

    fn gannet(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
        command.args(arguments).current_dir(self.0.path()).output().unwrap()
    }

    /// Reads the capture as a run; gives its report.
    fn run(&self, arguments: &[&str]) -> (Value, Output) {
        let all = [&["run", "run.toml", "--quiet", "--json"], arguments].concat();
        let output = self.gannet(&all);
        let report = serde_json::from_slice(&output.stdout);
        (report.unwrap_or_else(|_| panic!("{}", err(&output))), output)
    }

    /// Names in `out`, sorted, but that of the counter.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("out")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names
    }
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Frames of the emulator as a packet capture.
fn capture() -> Vec<u8> {
    let plan = config::parse("run.toml", CONFIG, Path::new("."), &[&DUNE_TPC]).unwrap();
    let plan = TpcPlan::of(&plan).unwrap();
    let mut emulator = plan.config.emulate.emulator(&plan.channel_map, 1 << 40).unwrap();
    let addresses = Addresses {
        source_hardware: ethernet::Address([2, 0, 0, 0, 0, 1]),
        destination_hardware: ethernet::Address([2, 0, 0, 0, 0, 2]),
        source: "10.0.0.1:1000".parse().unwrap(),
        destination: "10.0.0.2:7000".parse().unwrap(),
    };
    let mut capture = Vec::new();
    let writer = pcap::Writer::new(pcap::FileHeader::new(LINK_TYPE_ETHERNET), &mut capture);
    let mut frame = [0; tpc_frame::FRAME_LEN];
    for index in 0..FRAMES {
        frame.copy_from_slice(&emulator.front_end().frame(0, index));
        let mut data = vec![0; addresses.buffer_len(frame.len())];
        addresses.emit(&frame, &mut data).unwrap();
        let packet = Packet {
            interface: 0,
            link_type: LINK_TYPE_ETHERNET,
            timestamp_ns: Some(index * 32_768),
            original_len: data.len() as u32,
            data: &data,
        };
        writer.packet(&packet, &mut capture).unwrap();
    }
    capture
}

#[test]
fn runs_are_numbered_by_themselves_and_never_share_a_name() {
    let bench = Bench::new();
    let number = |arguments: &[&str]| bench.run(arguments).0["run"].as_u64().unwrap();
    assert_eq!((number(&[]), number(&[])), (1, 2));
    for name in bench.names() {
        fs::rename(bench.out(&name), bench.path(&name)).unwrap();
    }
    assert_eq!(number(&[]), 3, "also after the files were moved away");
    // As fast as they come, and of one number: mostly in one second.
    assert!((0..3).all(|_| number(&["--run", "3"]) == 3));
    assert_eq!(number(&[]), 4);
    let logs = bench.names().into_iter().filter(|name| name.ends_with(".glog"));
    let logs: Vec<_> = logs.collect();
    assert_eq!(logs.len(), 5);
    assert!(logs.iter().all(|name| name.ends_with("_f0000.glog")), "{logs:?}");
}

#[test]
fn the_manifest_lists_each_file_of_a_run_and_verify_compares() {
    let bench = Bench::new();
    bench.run(&[]);
    let names = bench.names();
    let manifest = names.iter().find(|name| name.ends_with(".sha256")).unwrap();
    let listed = fs::read_to_string(bench.out(manifest)).unwrap();
    for name in names.iter().filter(|name| *name != manifest) {
        assert!(listed.contains(name), "{name} is not in\n{listed}");
        assert_eq!(bench.out(name).metadata().unwrap().permissions().mode() & 0o137, 0, "{name}");
    }
    assert!(names.iter().any(|name| name.ends_with(".parquet")), "{names:?}");
    let verify = |name: &str| bench.gannet(&["verify", bench.out(name).to_str().unwrap()]);
    let output = verify(manifest);
    assert_eq!(output.status.code(), Some(0), "{}{}", out(&output), err(&output));
    assert_eq!(out(&output).matches("as listed in").count(), names.len() - 1, "{}", out(&output));
    let mut sha256sum = Command::new("sha256sum");
    match sha256sum.arg("-c").arg(manifest).current_dir(bench.path("out")).output() {
        Ok(checked) => assert!(checked.status.success(), "{}", err(&checked)),
        Err(cause) => gannet_measure::testing::skipped("check by sha256sum", cause),
    }
    // Each file by itself: changed, with and without the manifest.
    for name in names.iter().filter(|name| *name != manifest) {
        let whole = fs::read(bench.out(name)).unwrap();
        let mut bytes = whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(bench.out(name), &bytes).unwrap();
        let with = verify(name);
        assert_eq!(with.status.code(), Some(6), "{}", out(&with));
        fs::rename(bench.out(manifest), bench.path("aside")).unwrap();
        let without = verify(name);
        assert_eq!(without.status.code(), Some(6), "{}", out(&without));
        fs::write(bench.out(name), &whole).unwrap();
        let lone = verify(name);
        let expected = if name.ends_with(".csv") { 6 } else { 0 };
        assert_eq!(lone.status.code(), Some(expected), "{}", out(&lone));
        assert!(out(&lone).contains("no manifest"), "{}", out(&lone));
        fs::rename(bench.path("aside"), bench.out(manifest)).unwrap();
    }
    // The manifest itself: with a file that is gone, and with no file.
    let raw = names.iter().find(|name| name.ends_with(".hdf5")).unwrap();
    fs::rename(bench.out(raw), bench.path("aside")).unwrap();
    let output = verify(manifest);
    assert_eq!(output.status.code(), Some(6), "{}{}", out(&output), err(&output));
    assert!(out(&output).contains("does not exist"), "{}", out(&output));
    assert_eq!(out(&output).matches("as listed in").count(), names.len() - 1, "{}", out(&output));
    fs::rename(bench.path("aside"), bench.out(raw)).unwrap();
    fs::write(bench.out(manifest), "").unwrap();
    let output = verify(manifest);
    assert_eq!(output.status.code(), Some(6), "{}{}", out(&output), err(&output));
    assert!(out(&output).contains("lists no files"), "{}", out(&output));
    let table = names.iter().find(|name| name.ends_with(".parquet")).unwrap();
    let output = bench.gannet(&["inspect", bench.out(table).to_str().unwrap()]);
    let text = out(&output);
    assert!(text.starts_with("Parquet table, ") && text.contains("column time_start"), "{text}");
    assert!(text.contains("uint64") && text.contains("\nrow 0: version 2"), "{text}");
}

/// Puts something that is not ours under a name of ours; `kind` counts through what there is.
fn trap(bench: &Bench, name: &str, kind: usize) {
    let path = bench.out(name);
    match kind % 5 {
        0 => symlink(bench.path("private"), path).unwrap(),
        1 => symlink(bench.path("made"), path).unwrap(),
        2 => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        3 => drop(UnixListener::bind(path).unwrap()),
        _ => fs::create_dir(path).unwrap(),
    }
}

/// Checks that nothing outside of `out` was written or made, and nothing of it is in a file of ours.
fn check_outside(bench: &Bench) {
    assert_eq!(fs::read_to_string(bench.path("private")).unwrap(), SECRET);
    assert!(!bench.path("made").exists());
    for name in bench.names().iter().map(|name| bench.out(name)) {
        if name.symlink_metadata().unwrap().is_file() {
            let bytes = fs::read(&name).unwrap();
            let holds = bytes.windows(SECRET.len()).any(|at| at == SECRET.as_bytes());
            assert!(!holds, "{}", name.display());
        }
    }
}

#[test]
fn a_run_amid_traps_ends_and_touches_none() {
    // What a run writes, and what it writes first and renames.
    let endings = [
        "_f0000.glog.part",
        "_f0000.glog",
        "_channels.csv.new",
        "_channels.csv",
        "_f0001_tps.parquet",
        "_f0001_tps.hdf5.part",
    ];
    for kind in 0..5 {
        let bench = Bench::new();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        for second in now..now + 30 {
            for (place, ending) in endings.iter().enumerate() {
                let name = format!("{}{ending}", run_stem("gannet", 5, second));
                trap(&bench, &name, kind + place);
            }
        }
        trap(&bench, "gannet_run000005_manifest.sha256", kind);
        let before = bench.names();
        let (report, output) = bench.run(&["--run", "5"]);
        check_outside(&bench);
        assert!(before.iter().all(|name| bench.names().contains(name)), "a trap is gone");
        let log = bench.names().into_iter().find(|name| name.ends_with("_f0001.glog"));
        assert!(log.is_some(), "the log has the next name: {}", err(&output));
        let told = format!("{report}{}", err(&output));
        for ending in ["_f0000.glog", "_channels.csv", ".sha256", "_f0001_tps."] {
            assert!(told.contains(ending), "{ending} is not named in {told}");
        }
    }
}

#[test]
fn recover_and_export_leave_alone_and_name_what_is_not_ours() {
    let bench = Bench::new();
    bench.run(&[]);
    let log = bench.names().into_iter().find(|name| name.ends_with(".glog")).unwrap();
    fs::write(bench.out("foreign_f0000.glog.part"), "holiday pictures").unwrap();
    fs::copy(bench.out(&log), bench.path("elsewhere")).unwrap();
    symlink(bench.path("elsewhere"), bench.out("linked_f0000.glog.part")).unwrap();
    fs::hard_link(bench.path("elsewhere"), bench.out("twice_f0000.glog.part")).unwrap();
    for kind in 0..5 {
        trap(&bench, &format!("trap{kind}_f0000.glog.part"), kind);
    }
    fs::copy(bench.out(&log), bench.out("others_f0000.glog.part")).unwrap();
    let others = std::os::unix::fs::chown(bench.out("others_f0000.glog.part"), Some(12_345), None);
    if others.is_err() {
        gannet_measure::testing::skipped("files of other users", "only root makes them");
        fs::remove_file(bench.out("others_f0000.glog.part")).unwrap();
    }
    let (before, elsewhere) = (bench.names(), fs::read(bench.path("elsewhere")).unwrap());
    let output = bench.gannet(&["recover", "out"]);
    assert_eq!(output.status.code(), Some(1));
    for name in before.iter().filter(|name| name.ends_with(".part")) {
        assert!(err(&output).contains(name.as_str()), "{name} is not named: {}", err(&output));
    }
    assert_eq!(bench.names(), before);
    assert_eq!(fs::read(bench.path("elsewhere")).unwrap(), elsewhere);
    check_outside(&bench);

    let stem = log.trim_end_matches(".glog");
    for (kind, ending) in ["_tps.parquet", "_tps.parquet.part"].iter().enumerate() {
        for kind in [kind, 2, 3] {
            let (name, to) = (format!("{stem}{ending}"), bench.out("to"));
            fs::create_dir(&to).unwrap();
            trap(&bench, &format!("to/{name}"), kind);
            let to = to.to_str().unwrap();
            let log = bench.out(&log);
            let arguments = ["export", "--to", to, "--format", "parquet", log.to_str().unwrap()];
            for overwrite in [&[][..], &["--overwrite"]] {
                let output = bench.gannet(&[&arguments[..], overwrite].concat());
                assert_eq!(output.status.code(), Some(1), "{}", err(&output));
                assert!(err(&output).contains(&name), "{}", err(&output));
            }
            assert_eq!(fs::read_dir(to).unwrap().count(), 1);
            fs::remove_dir_all(to).unwrap();
        }
    }
    check_outside(&bench);
}

#[test]
fn a_pipe_in_the_place_of_a_file_holds_no_reader_up() {
    let bench = Bench::new();
    for name in ["f.glog", "f.hdf5", "f.parquet", "f.sha256", "f_channels.csv"] {
        let pipe = bench.path(name);
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for verb in ["verify", "inspect", "find"] {
            let output = bench.gannet(&[verb, pipe.to_str().unwrap()]);
            assert!(!output.status.success(), "{verb} {name}: {}", out(&output));
            assert!(err(&output).contains("it is a named pipe"), "{verb} {name}: {}", err(&output));
        }
    }
}
