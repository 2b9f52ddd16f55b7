//! `gannet predict` through the binary: files, machines and mistakes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gannet_topology::testing::{MadeUp, MadeUpSpace};
use serde_json::Value;

fn predict(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gannet")).arg("predict").args(arguments).output().unwrap()
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn every_topology_of_the_examples_is_predicted_and_told_of() {
    let told = fs::read_to_string(examples().join("README.md")).unwrap();
    let mut count = 0;
    for entry in fs::read_dir(examples().join("topology")).unwrap() {
        let path = entry.unwrap().path();
        count += 1;
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(
            told.contains(&format!("](topology/{name})")),
            "examples/README.md tells of {name}"
        );
        let output = predict(&["--json", "--topology", path.to_str().unwrap()]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let predictions: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        assert!(
            predictions.iter().all(|it| it["put"]["limit"]["gbyte_per_s"].as_f64() > Some(0.0))
        );
    }
    assert!(count >= 2, "{count} examples");
}

#[test]
fn the_sentence_names_limit_runner_up_and_calibration() {
    let offload = examples().join("topology/offload.toml");
    let told = text(&predict(&["--topology", offload.to_str().unwrap()]).stdout);
    let slow = "Path 3 at 250 MHz:\n  PUT 8.00 GB/s, limited by the port of its memory (256 bits at 250 MHz); \
                next would be the switch (69.4 % of Gen3 x16, MPS 256 B) at 10.00.";
    assert!(told.contains(slow), "{told}");
    assert!(told.contains("calibrated to the published 4.8 and 1.2 GB/s"), "{told}");
    assert!(told.contains("4.72 s."), "{told}");
}

#[test]
fn a_mistake_is_told_with_its_place_and_what_to_write() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.toml");
    let refused = |hop: &str| {
        fs::write(&file, format!("[[path]]\nname = \"a\"\n[[path.hop]]\n{hop}\n")).unwrap();
        let output = predict(&["--topology", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(4), "{hop}");
        text(&output.stderr).replace(directory.path().to_str().unwrap(), "")
    };
    let unknown = refused("kind = \"pcie\"\ngeneration = 3\nlane = 16");
    assert!(unknown.contains("/a.toml:6:1: unknown key `lane`"), "{unknown}");
    assert!(unknown.contains("did you mean `lanes`?"), "{unknown}");
    let kind = refused("kind = \"pci\"");
    assert!(kind.contains("/a.toml:4:8: ") && kind.contains("did you mean `pcie`?"), "{kind}");
    let lanes = refused("kind = \"pcie\"\ngeneration = 3\nlanes = 64");
    assert!(lanes.contains("/a.toml:6:9: path[0].hop[0].lanes: 64 is out of range"), "{lanes}");
    let missing = refused("kind = \"memory\"");
    assert!(missing.contains("add the key `clock_mhz`"), "{missing}");
    let kind = refused("name = \"b\"");
    assert!(kind.contains("`gannet predict --schema` describes it"), "{kind}");
    let output = predict(&["--topology", "/no/such/file"]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
}

#[test]
fn the_paths_of_another_machine_are_predicted_from_a_copy_of_its_files() {
    let root = tempfile::tempdir().unwrap();
    let made_up = MadeUp::below(root.path());
    let full = ("8.0", 16);
    made_up.sockets(2);
    for (path, node) in [("pci0000:17/0000:17:00.0", 0), ("pci0000:d7/0000:d7:00.0", 1)] {
        made_up.device(path, 0x060400, 0x8086).link(full, full).node(node);
    }
    let card = made_up.device("pci0000:17/0000:17:00.0/0000:18:00.0", 0x020700, 0x15b3);
    card.link(full, full).node(0).space(MadeUpSpace::default()).infiniband("mlx5_0", 200);
    let accelerator = made_up.device("pci0000:d7/0000:d7:00.0/0000:d8:00.0", 0x120000, 0x10ee);
    accelerator.link(full, full).node(1);
    let root = root.path().to_str().unwrap();
    let told = text(&predict(&["--root", root]).stdout);
    let to_host =
        "mlx5_0 0000:18:00.0 to host memory:\n  PUT 14.40 GB/s, limited by the link of mlx5_0";
    assert!(told.contains(to_host), "{told}");
    assert!(told.contains("to accelerator 0000:d8:00.0 (SYS):\n  PUT 4.80 GB/s"), "{told}");
    assert!(told.contains("the interconnect between NUMA nodes"), "{told}");
}

#[test]
fn where_nothing_is_told_that_is_one_line() {
    let root = tempfile::tempdir().unwrap();
    let made_up = MadeUp::below(root.path());
    for n in 0..4 {
        made_up.device(&format!("pci0000:00/0000:00:0{n}.0"), 0x020000, 0x1af4);
    }
    let output = predict(&["--root", root.path().to_str().unwrap()]);
    let told = text(&output.stdout);
    assert_eq!((output.status.code(), told.lines().count()), (Some(0), 1), "{told}");
    assert!(told.contains("and 3 more") && told.contains("virtual machine"), "{told}");
    let nothing = predict(&["--root", "/nonexistent", "--json"]);
    assert_eq!((nothing.status.code(), text(&nothing.stdout)), (Some(0), "[]\n".to_owned()));
    assert!(text(&nothing.stderr).contains("no network card"), "{nothing:?}");
}

#[test]
fn the_schema_describes_every_kind_of_hop() {
    let schema: Value = serde_json::from_slice(&predict(&["--schema"]).stdout).unwrap();
    let text = schema.to_string();
    for word in ["pcie", "root-complex", "infiniband", "clock_mhz", "calibrated", "QDR"] {
        assert!(text.contains(word), "{word}");
    }
}
