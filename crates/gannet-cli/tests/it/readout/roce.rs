//! Frames that front ends write by RDMA, taken from an ordinary socket.

use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use gannet_control::emulation::{Target, receivers};
use gannet_measure::random::Random;
use gannet_measure::testing::free_address;
use gannet_wire::capture::{self, LINK_TYPE_ETHERNET};
use gannet_wire::network::Addresses;
use gannet_wire::roce::{Opcode, Repr, Write, invariant_crc};
use gannet_wire::{ethernet, pcap};

use crate::readout::process::{Bench, QUIET, Readout, alone, gannet, resident_kib, scale};

/// The encoder, and what it is told of a window.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/judges/roce.py");
const QUEUE_PAIR: u32 = 17;
const KEY: u32 = 0x0bad_cafe;
const START: u64 = 1 << 32;

/// Two streams at a tenth of the true rate, so that nothing goes wrong by itself.
fn bench() -> Bench {
    let listen = free_address();
    Bench::new(&format!(
        r#"
[[source]]
streams = {{ count = 2 }}
roce = {{ listen = "{listen}", queue_pairs = [{QUEUE_PAIR}], key = {KEY}, start = {START} }}
depth = "200 ms"

[emulate]
seed = 5
pace = {{ rate_scale = 0.1 }}
[emulate.streams]
count = 2
"#
    ))
}

#[test]
fn the_emulator_writes_into_the_window_of_a_readout() {
    let _alone = alone();
    let (bench, frames) = (bench(), 5000);
    let readout = Readout::start(&bench.config());
    thread::sleep(QUIET);
    let mut emulate = Command::new(gannet());
    emulate.arg("emulate").arg(bench.config()).args(["--frames", &frames.to_string()]);
    assert!(emulate.stdout(Stdio::null()).status().unwrap().success());
    thread::sleep(QUIET);
    let ended = readout.stop();
    if ended.kernel_was_short("the_emulator_writes_into_the_window_of_a_readout") {
        return;
    }
    assert_eq!(ended.open_books(), [""; 0]);
    assert_eq!(ended.ledger("frames", "delivered"), 2 * frames, "{}", ended.report);
    assert!(!ended.is_degraded(), "{}", ended.report);
}

/// A packet for the encoder; what is sent is damaged behind it if asked for.
struct Packet {
    line: String,
    is_damaged: bool,
}

/// Writes frames as packets, of which some lack or are wrong.
struct Writer {
    address: String,
    cell_bytes: u64,
    sequence: u32,
    packets: Vec<Packet>,
}

impl Writer {
    fn packet(&mut self, opcode: u32, queue_pair: u32, data: &[u8], more: &str) {
        let data: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
        let (sequence, address) = (self.sequence, &self.address);
        let line = format!(
            "{address} opcode={opcode} queue_pair={queue_pair} sequence={sequence} data={data} {more}"
        );
        self.packets.push(Packet { line, is_damaged: false });
    }

    /// A message of two packets to a cell.
    fn message(&mut self, cell: u64, frame: &[u8]) {
        let (first, last) = frame.split_at(4096);
        let address = START + cell * self.cell_bytes;
        let to = format!("address={address} key={KEY} length={}", frame.len());
        self.packet(0x26, QUEUE_PAIR, first, &to);
        self.sequence += 1;
        self.packet(0x29, QUEUE_PAIR, last, &format!("immediate={cell}"));
        self.sequence += 1;
    }

    /// One packet that begins a message.
    fn wrong(&mut self, queue_pair: u32, key: u32, address: u64, frame: &[u8]) {
        let to = format!("address={address} key={key} length={}", frame.len());
        self.packet(0x26, queue_pair, &frame[..4096], &to);
    }
}

/// Frames of both streams of the emulator, as datagrams bring them.
fn frames(bench: &Bench, count: u64) -> Vec<Vec<u8>> {
    // A socket of a busy machine may lose some.
    let all = (0..10).map(|_| heard(bench, count)).find(|frames| frames.len() as u64 == 2 * count);
    all.expect("a front end can be heard")
}

fn heard(bench: &Bench, count: u64) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(QUIET)).unwrap();
    // What the system gives at most: this thread may not run for a while.
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20).unwrap();
    let emulation = bench.emulate(socket.local_addr().unwrap(), Some(count));
    let mut frames = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match socket.recv(&mut buffer) {
            Ok(len) => frames.push(buffer[..len].to_vec()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    emulation.join().unwrap();
    frames
}

#[test]
fn each_packet_of_another_encoder_is_taken_or_counted() {
    let test = "each_packet_of_another_encoder_is_taken_or_counted";
    let _alone = alone();
    let bench = bench();
    let frames = frames(&bench, 400);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = bench.plan.sources[0].listen()[0].unwrap();
    let mut writer = Writer {
        address: format!(
            "source=127.0.0.1 source_port={} destination=127.0.0.1 destination_port={} flags=2",
            sender.local_addr().unwrap().port(),
            listen.port()
        ),
        cell_bytes: bench.plan.sources[0].frame_bytes(),
        sequence: 0x00ff_ff00,
        packets: Vec::new(),
    };
    // The numbers pass their end on the way.
    let (mut removed, mut wrong) = (0, 0);
    for (number, frame) in frames.iter().enumerate() {
        writer.sequence %= 1 << 24;
        writer.message(number as u64 % 64, frame);
        match number % 200 {
            50 | 150 => {
                // Of one message the first packet lacks, of the other the last.
                let at = writer.packets.len() - if number % 200 == 50 { 2 } else { 1 };
                writer.packets.remove(at);
                removed += 1;
            }
            100 => {
                wrong += 1;
                writer.wrong(QUEUE_PAIR + 1, KEY, START, frame);
                writer.wrong(QUEUE_PAIR, KEY ^ 1, START, frame);
                writer.wrong(QUEUE_PAIR, KEY, START, frame);
                writer.packets.last_mut().unwrap().is_damaged = true;
                // A sender who knows the key has its numbers moved on by what is refused.
                writer.wrong(QUEUE_PAIR, KEY, START + 1, frame);
                writer.sequence += 1;
            }
            _ => {}
        }
    }
    let mut python = Command::new("python3");
    python.arg(SCRIPT).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut judge = match python.spawn() {
        Ok(judge) => judge,
        Err(error) => return gannet_measure::testing::skipped(test, format!("python3: {error}")),
    };
    let mut input = judge.stdin.take().unwrap();
    let lines: Vec<_> = writer.packets.iter().map(|packet| packet.line.clone()).collect();
    let feeder = thread::spawn(move || {
        lines.iter().for_each(|line| writeln!(input, "{line}").unwrap());
    });
    let output = judge.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert!(output.status.success());

    let readout = Readout::start(&bench.config());
    thread::sleep(QUIET);
    let packets = String::from_utf8(output.stdout).unwrap();
    for (number, (line, packet)) in packets.lines().zip(&writer.packets).enumerate() {
        let bytes = (0..line.len()).step_by(2);
        let mut bytes: Vec<u8> =
            bytes.map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap()).collect();
        if packet.is_damaged {
            bytes[100] ^= 0x10;
        }
        sender.send_to(&bytes, listen).unwrap();
        if number % 8 == 7 {
            thread::sleep(Duration::from_millis(1));
        }
    }
    thread::sleep(QUIET);
    let ended = readout.stop();
    if ended.kernel_was_short(test) {
        return;
    }
    assert_eq!(ended.open_books(), [""; 0]);
    let counted = |reason: &str| ended.ledger("source", reason);
    for reason in ["wrong_queue_pair", "wrong_key", "bad_check_sum", "outside_window"] {
        assert_eq!(counted(reason), wrong, "{reason}: {}", ended.report);
    }
    assert_eq!((counted("missing"), counted("unfinished")), (removed, removed));
    let streams = ended.report["streams"].as_array().unwrap();
    let missing: u64 = streams.iter().map(|stream| stream["missing"].as_u64().unwrap()).sum();
    assert_eq!(missing, removed, "{}", ended.report);
    assert_eq!(ended.ledger("frames", "delivered"), frames.len() as u64 - removed);
    assert!(ended.is_degraded());
}

#[test]
fn recorded_frames_are_written_into_the_window_that_expects_their_stream() {
    let test = "recorded_frames_are_written_into_the_window_that_expects_their_stream";
    let _alone = alone();
    let (bench, count) = (bench(), 400);
    let frames = frames(&bench, count);
    let file = bench.directory.path().join("frames.pcap");
    std::fs::write(&file, pcap_of(&frames)).unwrap();
    let replay = |config: &Path| {
        let mut replay = Command::new(gannet());
        replay.arg("replay").arg(&file).arg("--config").arg(config);
        replay.args(["--rate-scale", "0.1", "--json"]).output().unwrap()
    };
    let readout = Readout::start(&bench.config());
    thread::sleep(QUIET);
    let output = replay(&bench.config());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    thread::sleep(QUIET);
    let ended = readout.stop();
    if !ended.kernel_was_short(test) {
        assert_eq!(ended.open_books(), [""; 0]);
        assert_eq!(ended.ledger("frames", "delivered"), frames.len() as u64, "{}", ended.report);
        assert!(!ended.is_degraded(), "{}", ended.report);
    }
    // One that expects the first stream only.
    let text = std::fs::read_to_string(bench.config()).unwrap();
    let first = text.replace("streams = { count = 2 }", "streams = { count = 1 }");
    let config = bench.directory.path().join("first.toml");
    std::fs::write(&config, first).unwrap();
    let output = replay(&config);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["datagrams"], &report["untaken"]), (&(2 * count).into(), &count.into()));
    assert_eq!(output.status.code(), Some(3));
}

/// A capture file of datagrams with these contents, 16.384 us from one to the next.
fn pcap_of(frames: &[Vec<u8>]) -> Vec<u8> {
    let addresses = Addresses {
        source_hardware: ethernet::Address([2, 0, 0, 0, 0, 1]),
        destination_hardware: ethernet::Address([2, 0, 0, 0, 0, 2]),
        source: "10.73.139.16:17476".parse().unwrap(),
        destination: "10.73.139.17:17476".parse().unwrap(),
    };
    let mut file = Vec::new();
    let writer = pcap::Writer::new(pcap::FileHeader::new(LINK_TYPE_ETHERNET), &mut file);
    for (number, frame) in (0..).zip(frames) {
        let mut data = vec![0; addresses.buffer_len(frame.len())];
        addresses.emit(frame, &mut data).unwrap();
        let (interface, link_type, original_len) = (0, LINK_TYPE_ETHERNET, data.len() as u32);
        let timestamp_ns = Some(1_795_000_000_000_000_000 + number * 16_384);
        let packet =
            capture::Packet { interface, link_type, timestamp_ns, original_len, data: &data };
        writer.packet(&packet, &mut file).unwrap();
    }
    file
}

/// Malformed packets that are sent without a pause.
const BURST: u64 = 64;

/// A packet that no source takes. Some are right but for who sends them.
fn malformed(random: &mut Random, path: &invariant_crc::Path, cell_bytes: u64) -> Vec<u8> {
    let opcode = Opcode::from_number(random.below(256) as u8);
    let opcode = if random.chance(0.5) { Opcode::WriteOnly } else { opcode };
    let key = if random.chance(0.5) { KEY } else { random.bits() as u32 };
    let data_len = random.below(4097) as usize;
    let repr = Repr {
        queue_pair: if random.chance(0.8) { QUEUE_PAIR } else { random.below(1 << 24) as u32 },
        sequence: random.below(1 << 24) as u32,
        write: Write {
            address: START + cell_bytes * random.below(9),
            key,
            length: data_len as u32,
        },
        data_len,
        ..Repr::new(opcode)
    };
    let mut packet = vec![0; repr.buffer_len()];
    repr.seal(path, &mut packet);
    match random.below(5) {
        0 => packet.truncate(random.below(packet.len() as u64 + 1) as usize),
        1 => packet.resize(random.below(9001) as usize, random.below(256) as u8),
        2 => {
            let place = random.below(packet.len() as u64) as usize;
            packet[place] ^= 1 << random.below(8);
        }
        _ => {}
    }
    packet
}

#[test]
fn malformed_packets_are_counted_and_no_good_one_is_lost_to_them() {
    let test = "malformed_packets_are_counted_and_no_good_one_is_lost_to_them";
    let _alone = alone();
    let bench = bench();
    let readout = Readout::start(&bench.config());
    let SocketAddr::V4(listen) = readout.address else { panic!("not IPv4") };
    thread::sleep(QUIET);
    let target = Target {
        receivers: receivers(&bench.plan).unwrap(),
        frames: None,
        flow_control: None,
        faults: None,
    };
    let good = bench.plan.detector.front_end().unwrap().start(&target, None).unwrap();
    // The queue pair has its sender before others come.
    thread::sleep(QUIET);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let SocketAddr::V4(own) = socket.local_addr().unwrap() else { panic!("not IPv4") };
    let path = invariant_crc::Path::of_socket(own, listen);
    let cell_bytes = bench.plan.sources[0].frame_bytes();
    let (bad, mut memory) = (50_000 * scale(200), (0, 0));
    // Made before, as to seal a packet takes longer than to send it.
    let mut random = Random::new(14);
    let packets: Vec<_> = (0..5000).map(|_| malformed(&mut random, &path, cell_bytes)).collect();
    let begin = Instant::now();
    for number in 0..bad {
        let packet = &packets[random.below(packets.len() as u64) as usize];
        socket.send_to(packet, listen).unwrap();
        if number % BURST == 0 {
            // The socket is that of the good ones too, and keeps no more than its buffer has room for.
            thread::sleep(Duration::from_micros(50));
        }
        if number == bad / 5 {
            memory.0 = resident_kib(readout.id());
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    memory.1 = resident_kib(readout.id());
    good.stop();
    let sent = good.join().unwrap();
    thread::sleep(QUIET);
    let ended = readout.stop();
    if ended.kernel_was_short(test) {
        return;
    }
    assert_eq!(ended.open_books(), [""; 0]);
    let frames = sent.truth.total().frames_made;
    assert_eq!(ended.ledger("frames", "delivered"), frames, "{}", ended.report);
    let reasons = [
        "empty",
        "wrong_length",
        "malformed",
        "bad_check_sum",
        "wrong_queue_pair",
        "wrong_key",
        "taken_queue_pair",
        "out_of_turn",
    ];
    let refused = reasons.map(|reason| ended.ledger("source", reason));
    assert_eq!(refused.iter().sum::<u64>(), bad, "{}", ended.report);
    // Those of a stranger are refused by their headers, before the check sum is looked at.
    let of_headers = reasons.iter().zip(&refused).filter(|(reason, _)| **reason != "bad_check_sum");
    assert!(of_headers.skip(1).all(|(_, count)| *count > 0), "{refused:?}");
    assert_eq!(ended.ledger("source", "bad_check_sum"), 0, "{refused:?}");
    let (early, late) = memory;
    assert!(late < early + 4096, "resident memory went from {early} to {late} KiB");
    eprintln!("{bad} malformed in {seconds:.1} s beside {frames} frames; {early} to {late} KiB");
}
