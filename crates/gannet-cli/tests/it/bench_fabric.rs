//! `gannet bench fabric` through the binary: fields, table, two terminals, and exit codes.

use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use gannet_measure::testing::free_address;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType, connect, send, socket};
use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.args(["bench", "fabric", "--seconds", "0"]).args(arguments).output().unwrap()
}

/// Bytes and operations of the rows, each of which has its figures and their ratio.
fn rows(output: &Output, backend: &str) -> Vec<(u64, String)> {
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = |row: &Value| {
        let figure = |name: &str| row[name].as_f64().unwrap();
        let operation = row["operation"].as_str().unwrap().to_owned();
        assert_eq!(
            (&row["backend"], row["packet_bytes"].is_u64()),
            (&backend.into(), ["udp", "sim"].contains(&backend))
        );
        assert!(row["provider"].is_null() && row["limit_is"].is_string());
        let rate = figure("per_s") * figure("bytes") * 1e-9;
        assert!((figure("gbyte_per_s") / rate - 1.0).abs() < 1e-6);
        let value = if operation == "round-trip" { "latency_ns_p50" } else { "per_s" };
        assert!((figure("ratio") * figure("limit") / figure(value) - 1.0).abs() < 1e-6, "{row}");
        assert_eq!(row["latency_ns_p99"].is_number(), operation == "round-trip");
        (row["bytes"].as_u64().unwrap(), operation)
    };
    report.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn each_operation_and_size_has_its_row() {
    let output = bench(&["--bytes", "8,5000", "--repeats", "2", "--json"]);
    let mut got = rows(&output, "shm");
    got.sort();
    let mut expected = Vec::new();
    for bytes in [8, 5000] {
        for operation in ["flush", "get", "one-way", "round-trip"] {
            expected.push((bytes, operation.to_owned()));
        }
    }
    assert_eq!(got, expected);
}

#[test]
fn over_udp_the_other_process_is_told_a_secret() {
    let sizes = ["--bytes", "8,100000", "--repeats", "2", "--json"];
    let output = bench(&[&["--backend", "udp"][..], &sizes].concat());
    assert_eq!(rows(&output, "udp").len(), 8);
}

#[test]
fn over_udp_another_terminal_needs_the_same_secret() {
    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "gannets and terns").unwrap();
    std::fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let secret = secret.to_str().unwrap();
    let place = free_address().to_string();
    let mut other = Command::new(env!("CARGO_BIN_EXE_gannet"))
        .args(["bench", "fabric", "--backend", "udp", "--bytes", "64", "--listen", &place])
        .args(["--secret-file", secret])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let output = loop {
        let arguments = ["--backend", "udp", "--bytes", "64", "--operation", "get", "--json"];
        let output = bench(&[&arguments[..], &["--to", &place, "--secret-file", secret]].concat());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        if !message.contains("nobody listens at") {
            break output;
        }
        assert!(other.try_wait().unwrap().is_none(), "{message}");
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(rows(&output, "udp"), [(64, "get".to_owned())]);
    assert!(other.wait().unwrap().success(), "it ends with the one that measures");
    let none = bench(&["--backend", "udp", "--to", &place, "--bytes", "64"]);
    let message = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(none.status.code() == Some(2) && message.contains("need a secret"), "{message}");
}

#[test]
fn a_table_tells_where_and_beside_what() {
    let output = bench(&["--bytes", "8", "--operation", "one-way", "--repeats", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["a cache line passes between them", "one-way", "ratio", "the same bytes each time"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_other_process_may_be_of_another_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bench.sock");
    let name = path.to_str().unwrap();
    let mut other = listening(&path);
    let output = bench(&["--bytes", "64", "--operation", "get", "--to", name, "--json"]);
    assert_eq!(rows(&output, "shm"), [(64, "get".to_owned())]);
    assert!(other.wait().unwrap().success(), "it ends with the one that measures");
    assert!(!path.exists());
}

/// `--listen` at a path, once it is there.
fn listening(path: &Path) -> Child {
    let mut other = Command::new(env!("CARGO_BIN_EXE_gannet"))
        .args(["bench", "fabric", "--bytes", "64", "--listen"])
        .arg(path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while UnixSeqpacket::connect(path).is_err() {
        assert!(other.try_wait().unwrap().is_none());
        thread::sleep(Duration::from_millis(5));
    }
    other
}

#[test]
fn strangers_are_turned_away_and_a_place_that_nobody_has_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bench.sock");
    let name = path.to_str().unwrap();
    let mut killed = listening(&path);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(path.exists(), "it left its socket");
    let mut other = listening(&path);
    for garbage in [&b""[..], b"GET / HTTP/1.1", &[0xa5; 640]] {
        UnixSeqpacket::connect(&path).unwrap().send(garbage);
    }
    let second = bench(&["--bytes", "64", "--listen", name]);
    let message = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(1) && message.contains("cannot listen at"), "{message}");
    let output = bench(&["--bytes", "64", "--operation", "get", "--to", name, "--json"]);
    assert_eq!(rows(&output, "shm"), [(64, "get".to_owned())]);
    assert!(other.wait().unwrap().success(), "it ends with the one that measures");
}

/// A stranger at a socket that keeps messages apart.
struct UnixSeqpacket(OwnedFd);

impl UnixSeqpacket {
    fn connect(path: &Path) -> rustix::io::Result<Self> {
        let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self(socket))
    }

    fn send(self, bytes: &[u8]) {
        // It may have been let go already.
        let _sent = send(&self.0, bytes, SendFlags::NOSIGNAL);
    }
}

#[test]
fn nobody_at_the_socket_is_an_error_that_says_so() {
    let output = bench(&["--to", "/nowhere/bench.sock"]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("nobody listens at /nowhere/bench.sock"), "{message}");
    let output = bench(&["--bytes", "0"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_later_bench_is_compared_with_an_earlier_one_and_shown_on_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let sizes = ["--bytes", "8", "--operation", "flush", "--repeats", "1"];
    let output = bench(&[&sizes[..], &["--json"]].concat());
    let mut earlier: Value = serde_json::from_slice(&output.stdout).unwrap();
    let page = file("page.html");
    for (faster, code) in [(1e-6, 0), (1e6, 6)] {
        let before = earlier[0]["per_s"].as_f64().unwrap();
        earlier[0]["per_s"] = (before * faster).into();
        let name = file("earlier.json");
        std::fs::write(&name, earlier.to_string()).unwrap();
        earlier[0]["per_s"] = before.into();
        let compared = ["--against", &name, "--html", &page, "--overwrite"];
        let output = bench(&[&sizes[..], &compared].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains("times as fast as before"), "{message}");
    }
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("<svg") && page.contains("<td>flush<td>8<td>"), "{page}");
    assert!(!page.replace("http://www.w3.org/2000/svg", "").contains("http"), "{page}");

    let other = ["--bytes", "16", "--operation", "flush", "--repeats", "1", "--against"];
    let output = bench(&[&other[..], &[&file("earlier.json")]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_path_that_is_not_there_is_measured_in_virtual_time() {
    let wire = r#"kind = "wire", gbit_per_s = 100, latency = "1 us""#;
    let over = ["--backend", "sim", "--hop", wire, "--bytes", "8,100000"];
    let output = bench(&[&over[..], &["--json"]].concat());
    assert_eq!(rows(&output, "sim").len(), 8);
    assert_eq!(output.stdout, bench(&[&over[..], &["--json"]].concat()).stdout);
    let text = String::from_utf8(bench(&over).stdout).unwrap();
    for part in
        ["virtual time", "12.50 GB/s of PUTs", "1000 ns from one end", "32 packets for each"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let topology =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/topology/cluster.toml");
    let of_file = ["--backend", "sim", "--topology", topology.to_str().unwrap(), "--bytes", "8"];
    let output = bench(&of_file);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && message.contains("--path"), "{message}");
    let named = ["--path", "two switches", "--loss", "0.01", "--repeats", "2", "--json"];
    let report: Value =
        serde_json::from_slice(&bench(&[&of_file[..], &named].concat()).stdout).unwrap();
    assert_eq!((&report[0]["path"], &report[0]["repeats"]), (&"two switches".into(), &2.into()));
}

#[test]
fn a_path_needs_the_backend_and_the_backend_a_path() {
    for (arguments, code, says) in [
        (&["--backend", "sim"][..], 2, "needs a path"),
        (&["--hop", "kind = \"wire\""], 2, "for --backend sim"),
        (&["--backend", "sim", "--hop", "kind = \"wire\""], 4, "--hop:2"),
        (&["--backend", "sim", "--to", "here"], 2, "no other process"),
    ] {
        let output = bench(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && message.contains(says), "{message}");
    }
}

#[test]
fn a_file_can_be_the_memory_of_the_other_process() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("memory");
    fs::write(&file, vec![0; 8192]).unwrap();
    let path = file.to_str().unwrap();
    let of_file = |arguments: &[&str]| {
        bench(&[&["--memory", path, "--repeats", "1", "--json"], arguments].concat())
    };
    let output = of_file(&["--backend", "udp", "--bytes", "8,5000"]);
    assert_eq!(rows(&output, "udp").len(), 8);
    assert!(fs::read(&file).unwrap().iter().any(|&byte| byte != 0), "the bytes went there");
    for (arguments, why) in [
        (&["--backend", "udp", "--bytes", "8193"][..], "has 8192 bytes, and 8193 are needed"),
        (&["--bytes", "8"], "do not map an ordinary file"),
        (&["--backend", "sim", "--hop", "kind=\"wire\",gbit_per_s=1"], "for the process that has"),
        (&["--to", "nowhere"], "for the process that has"),
    ] {
        let output = of_file(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(why), "{message}");
    }
}
