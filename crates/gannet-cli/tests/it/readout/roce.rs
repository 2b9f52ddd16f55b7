//! Frames that front ends write by RDMA, taken from an ordinary socket.

use std::io::{ErrorKind, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::readout::process::{Bench, QUIET, Readout, alone, free_address, gannet};

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

/// Frames of the emulator, as datagrams bring them.
fn frames(bench: &Bench, count: u64) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(QUIET)).unwrap();
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
    // A socket of a busy machine may lose some.
    let frames = (0..10).map(|_| frames(&bench, 400)).find(|frames| frames.len() == 800);
    let Some(frames) = frames else { panic!("a front end of 800 frames cannot be heard") };
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
