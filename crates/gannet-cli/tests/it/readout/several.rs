//! Several readouts of one builder, each with sources of its own.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::process::Command;
use std::thread;
use std::time::Duration;

use gannet_emulate::FrontEnd;
use gannet_measure::testing::{free_address, skipped};
use gannet_record::StoredRecord;

use crate::finding::recordings;
use crate::readout::apart::{
    BETWEEN_HOSTS, BY_SHM, Part, by_libfabric, by_udp, libfabric, take_recorded,
};
use crate::readout::namespaces::Namespaces;
use crate::readout::process::{Bench, Ended, alone, gannet};

/// Streams of the two sources, each on a board of its own.
const NORTH: Range<usize> = 0..8;
const SOUTH: Range<usize> = 8..10;
/// What a slow machine may take for anything.
const PATIENCE: &str = "60 s";

/// Two sources with inputs `north` and `south`, whose front end shows so many tracks a second, and a link by `builder`.
fn bench(rate_hz: f64, [north, south]: [&str; 2], builder: &str, merge: &str) -> Bench {
    let bench = Bench::new(&format!(
        r#"
[[source]]
name = "north"
streams = {{ count = 8 }}
{north}
depth = "300 ms"
[[source]]
name = "south"
streams = {{ count = 2, slot = 1 }}
{south}
depth = "300 ms"
[builder]
{builder}
[record]
request_timeout = "{PATIENCE}"
[pipeline.tpg]
threshold = [60, 60, 60]
[pipeline.trigger.merge]
{merge}
[emulate]
seed = 3
streams = {{ count = 10 }}
pace = {{ rate_scale = 0.02 }}
tracks = {{ rate_hz = {rate_hz} }}
"#
    ));
    bench.write_secret("a secret of several processes");
    bench
}

/// A link whose first readouts wait for the others however long these take.
fn patient(builder: &str) -> String {
    format!("{builder}\ngather = \"{PATIENCE}\"")
}

const CAPTURES: [&str; 2] = ["capture = \"north.pcap\"", "capture = \"south.pcap\""];

/// Sources that are captures with so many frames of each stream. However unevenly the machine lets the processes
/// run, each waits for the others.
fn captured(builder: &str, frames: u64) -> Bench {
    let merge = format!("late_after = \"{PATIENCE}\"\nagree_within = \"{PATIENCE}\"");
    let builder = patient(&format!("{builder}\ndeadline = \"{PATIENCE}\""));
    let bench = bench(300.5, CAPTURES, &builder, &merge);
    write_captures(&bench, frames);
    bench
}

fn write_captures(bench: &Bench, frames: u64) {
    let tpc = bench.tpc();
    let mut emulator = tpc.config.emulate.emulator(&tpc.channel_map, 1 << 40).unwrap();
    let front_end = emulator.front_end();
    for (name, streams) in [("north", NORTH), ("south", SOUTH)] {
        let streams = |index| streams.clone().map(move |stream| (stream, index));
        let places = (0..frames).flat_map(streams);
        let frame = |(stream, index)| (stream, front_end.frame(stream, index).to_vec());
        let rows: Vec<_> = places.map(frame).collect();
        recordings::capture(&bench.directory.path().join(format!("{name}.pcap")), &rows);
    }
}

/// A readout of one source.
fn readout(command: Command, bench: &Bench, source: &str) -> Part {
    Part::start_by(command, bench, source, &["--role", "readout", "--source", source])
}

/// One run by one process, and one by a builder and two readouts, each of which `gannet` starts by its name.
fn several_processes_record_what_one_does(builder: &str, gannet: impl Fn(&str) -> Command) {
    let _alone = alone();
    let bench = captured(builder, 1500);
    let whole = Part::start(&bench, "whole", &[]).wait();
    let expected = take_recorded(&bench);
    assert!(expected[0].len() > 3 && !expected[1].is_empty(), "{}", whole.report);

    let builder = Part::start_by(gannet("builder"), &bench, "builder", &["--role", "builder"]);
    let [north, south] = ["north", "south"].map(|name| {
        // The second one comes a while after the first, which waits for it.
        thread::sleep(Duration::from_millis(300));
        readout(gannet(name), &bench, name)
    });
    let (north, south, builder) = (north.wait(), south.wait(), builder.wait());
    let told = format!("{}\n{}\n{}", builder.errors, north.errors, south.errors);
    for ended in [&north, &south, &builder] {
        assert_eq!(ended.open_books(), [""; 0], "{told}");
        assert_eq!(ended.status.code(), whole.status.code(), "{told}\n{}", ended.report);
    }
    let found = take_recorded(&bench);
    assert_eq!(found.each_ref().map(Vec::len), expected.each_ref().map(Vec::len), "{told}");
    assert!(found == expected, "{told}");
    let sent = [&north, &south].map(|ended| ended.ledger("to_builder", "delivered"));
    assert!(sent.iter().all(|items| *items > 0), "{told}");
    assert_eq!(sent.iter().sum::<u64>(), builder.ledger("primitives", "offered"), "{told}");
    let frames = |ended: &Ended| {
        let streams = ended.report["streams"].as_array().unwrap();
        streams.iter().map(|it| it["frames"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((frames(&north), frames(&south)), (vec![1500; 8], vec![1500; 2]), "{told}");
    assert_eq!(frames(&builder), [1500; 10], "{told}");
}

#[test]
fn two_readouts_record_what_one_process_does_over_shared_memory() {
    several_processes_record_what_one_does(BY_SHM, |_| Command::new(gannet()));
}

#[test]
fn two_readouts_record_what_one_process_does_over_udp() {
    several_processes_record_what_one_does(&by_udp(), |_| Command::new(gannet()));
}

#[test]
fn two_readouts_record_what_one_process_does_over_libfabric() {
    match libfabric() {
        Ok(()) => {
            let builder = by_libfabric(&by_udp());
            several_processes_record_what_one_does(&builder, |_| Command::new(gannet()));
        }
        Err(why) => skipped("two_readouts_record_what_one_process_does_over_libfabric", &why),
    }
}

#[test]
fn readouts_of_two_hosts_record_what_one_process_does() {
    match Namespaces::new() {
        // One readout is on the builder's host.
        Ok(hosts) => several_processes_record_what_one_does(BETWEEN_HOSTS, |name| {
            hosts.gannet(usize::from(name != "north"))
        }),
        Err(why) => skipped("readouts_of_two_hosts_record_what_one_process_does", &why),
    }
}

/// How complete each record is: whether all streams of the north and of the south have data.
fn completeness(bench: &Bench) -> Vec<[bool; 2]> {
    let [records, _] = take_recorded(bench);
    let complete = |record: &Vec<u8>| {
        let record = StoredRecord::trigger_record(record).unwrap();
        let fragments = record.fragments().map(|fragment| fragment.unwrap().header());
        let bits: Vec<_> = fragments.map(|header| header.error_bits).collect();
        [NORTH, SOUTH]
            .map(|streams| &bits[streams])
            .map(|source| source.iter().all(|bits| *bits == 0))
    };
    records.iter().map(complete).collect()
}

/// Two sources that listen, and whose tracks all lead to decisions.
fn listening(builder: &str) -> Bench {
    let inputs = [(); 2].map(|()| format!("udp = {{ listen = [\"{}\"] }}", free_address()));
    bench(1000.5, inputs.each_ref().map(String::as_str), builder, "")
}

/// A builder with both readouts.
fn at_work(bench: &Bench) -> [Part; 3] {
    let mut builder = Part::start(bench, "builder", &["--role", "builder"]);
    builder.says("is running");
    let start = |name| readout(Command::new(gannet()), bench, name);
    let (mut north, mut south) = (start("north"), start("south"));
    builder.says("readouts and builder are joined");
    north.says("run 5 is running");
    south.says("run 5 is running");
    [builder, north, south]
}

/// Kills the southern one of two readouts at work, and starts it again.
fn comes_back(link: &str) {
    let _alone = alone();
    let bench = listening(&patient(&format!("{link}\ndeadline = \"20 s\"")));
    let [mut builder, north, mut south] = at_work(&bench);
    let start = |name| readout(Command::new(gannet()), &bench, name);
    let traffic = bench.traffic();
    thread::sleep(Duration::from_secs(1));
    south.child.kill().unwrap();
    south.child.wait().unwrap();
    builder.says("the readout of south is gone");
    builder.says("no readout is left for source south");
    thread::sleep(Duration::from_secs(1));
    let mut south = start("south");
    south.says("is running");
    thread::sleep(Duration::from_secs(2));
    let builder = builder.stop();
    let (north, south) = (north.stop(), south.stop());
    drop(traffic);

    let told = format!("{}\n{}\n{}", builder.errors, north.errors, south.errors);
    assert_eq!(builder.errors.matches("south: its readout has joined").count(), 2, "{told}");
    for ended in [&north, &south, &builder] {
        assert_eq!(ended.open_books(), [""; 0], "{told}");
    }
    let complete = completeness(&bench);
    let alone = complete.iter().position(|complete| *complete == [true, false]);
    let again = complete.iter().rposition(|complete| *complete == [true, true]);
    assert!(alone.is_some() && alone < again, "{complete:?}\n{told}");
    // What nobody took while the readout was away is counted, and what it took before is not forgotten.
    let of_south = |figure: &str| builder.number(&format!("/streams/{}/{figure}", SOUTH.start));
    assert!(of_south("missing") > 100, "{}\n{told}", builder.report);
    let began = south.number("/streams/0/first_timestamp");
    assert!(of_south("first_timestamp") < began, "{}\n{told}", builder.report);
    assert!(builder.ledger("sent", "no_readout") > 100, "{}\n{told}", builder.report);
    // Nor is a record whole that nobody had the southern streams for.
    let unreachable = builder.number("/recorder/unreachable");
    assert!(unreachable > 0, "{}\n{told}", builder.report);
    assert!(builder.number("/recorder/damaged") >= unreachable, "{}\n{told}", builder.report);
    assert_eq!(builder.status.code(), Some(3), "{told}");
}

/// Stops the southern one of two readouts at work.
fn leaves(link: &str) {
    let _alone = alone();
    let bench = listening(&format!("{link}\ngather = \"2 s\""));
    let [builder, north, south] = at_work(&bench);
    let traffic = bench.traffic();
    thread::sleep(Duration::from_secs(2));
    // However much is asked meanwhile, it is let go, and all that it has sent was taken.
    let south = south.stop();
    thread::sleep(Duration::from_secs(1));
    drop(traffic);
    let (north, builder) = (north.stop(), builder.stop());

    let told = format!("{}\n{}\n{}", builder.errors, north.errors, south.errors);
    for ended in [&north, &south, &builder] {
        assert_eq!(ended.open_books(), [""; 0], "{told}");
    }
    assert!(south.ledger("fragments", "delivered") > 0, "{}\n{told}", south.report);
    for sent in ["to_builder", "fragments"] {
        assert_eq!(south.ledger(sent, "no_builder"), 0, "{}\n{told}", south.report);
    }
    // Records behind its end reach beyond its data, and frames that nobody took are counted.
    assert!(completeness(&bench).contains(&[true, false]), "{told}");
    assert_eq!(builder.number("/recorder/unreachable"), 0, "{}\n{told}", builder.report);
    assert!(builder.ledger("sent", "no_readout") > 100, "{}\n{told}", builder.report);
    assert!(!builder.errors.contains("is set apart"), "{told}");
}

#[test]
fn a_readout_that_is_stopped_leaves_nothing_behind_over_shared_memory() {
    leaves(BY_SHM);
}

#[test]
fn a_readout_that_is_stopped_leaves_nothing_behind_over_udp() {
    leaves(&by_udp());
}

#[test]
fn a_readout_that_is_killed_disturbs_no_other_and_comes_back_over_shared_memory() {
    comes_back(BY_SHM);
}

#[test]
fn a_readout_that_is_killed_disturbs_no_other_and_comes_back_over_udp() {
    comes_back(&by_udp());
}

#[test]
fn two_readouts_cannot_have_one_source() {
    let bench = bench(300.5, CAPTURES, &patient(BY_SHM), "");
    write_captures(&bench, 10);
    let mut builder = Part::start(&bench, "builder", &["--role", "builder"]);
    builder.says("is running");
    builder.says("no readout has joined for sources north, south");
    let mut first = readout(Command::new(gannet()), &bench, "north");
    first.says("and for readouts of \"south\"");
    // It waits for some seconds, as the other one might be gone.
    let both = Part::start(&bench, "both", &["--role", "readout"]).wait();
    assert!(both.errors.contains("another readout has its streams"), "{}", both.errors);
    assert!(!both.status.success());
    builder.says("a readout of north, south was refused: another readout has its streams");
    let south = readout(Command::new(gannet()), &bench, "south").wait();
    let (first, builder) = (first.wait(), builder.wait());
    let told = format!("{}\n{}\n{}", builder.errors, first.errors, south.errors);
    assert_eq!(builder.number("/streams/0/frames"), 10, "{told}");
    assert_eq!(builder.number("/streams/8/frames"), 10, "{told}");
    assert_eq!(builder.open_books(), [""; 0], "{told}");
}

#[test]
fn a_source_that_there_is_not_is_an_error_that_lists_those_that_there_are() {
    let bench = bench(300.5, CAPTURES, BY_SHM, "");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(gannet());
        let output = command.arg("run").args(arguments).arg(bench.config()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, errors) = run(&["--role", "readout", "--source", "north,east"]);
    assert_eq!(code, Some(2), "{errors}");
    let expected = "there is no source \"east\"; the sources are \"north\", \"south\"";
    assert!(errors.contains(expected), "{errors}");
    let (code, errors) = run(&["--role", "builder", "--source", "north"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("--source is for `--role readout`"), "{errors}");
}

/// Twenty that say nothing or nonsense, until dropped.
fn strangers(place: SocketAddr) -> Vec<TcpStream> {
    let stranger = |number| {
        let mut stranger = TcpStream::connect(place).unwrap();
        if number % 2 == 0 {
            // Whether it is still listened to makes no difference.
            let _unheard = stranger.write_all(&[0xa5; 1000]);
        }
        stranger
    };
    (0..20).map(stranger).collect()
}

#[test]
fn strangers_at_the_port_keep_no_readout_away() {
    let _alone = alone();
    let listen = free_address();
    let link = format!("listen = \"{listen}\"\nbackend = \"udp\"\nsecret_file = \"secret\"");
    let bench = captured(&link, 100);
    let mut builder = Part::start(&bench, "builder", &["--role", "builder"]);
    builder.says("is running");
    let before = strangers(listen);
    let north = readout(Command::new(gannet()), &bench, "north");
    let between = strangers(listen);
    let south = readout(Command::new(gannet()), &bench, "south");
    let (north, south, builder) = (north.wait(), south.wait(), builder.wait());
    drop((before, between));
    let told = format!("{}\n{}\n{}", builder.errors, north.errors, south.errors);
    for ended in [&north, &south, &builder] {
        assert_eq!(ended.open_books(), [""; 0], "{told}");
    }
    assert_eq!(builder.number("/streams/8/frames"), 100, "{told}");
    assert!(builder.errors.contains("did not join"), "{told}");
}
