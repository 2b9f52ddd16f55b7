//! RoCEv2 packets against those of an encoder of its own: `tests/judges/roce.py`.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Command, Stdio};

use gannet_measure::testing::skipped;
use gannet_wire::roce::invariant_crc::{Path, SocketCheck};
use gannet_wire::roce::{Opcode, Packet, Repr, Write};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/judges/roce.py");
const SOURCE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 1, 2, 3), 40_000);
const DESTINATION: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 200, 0, 9), 4791);

/// Headers and path of packet `index`: every opcode, lengths about four and about a frame.
fn packet(index: usize) -> (Repr, Path) {
    let opcode = Opcode::ALL[index % Opcode::ALL.len()];
    let number = (index as u32).wrapping_mul(2_654_435_761);
    let (address, length) = (u64::from(number) << 20, index as u32);
    let repr = Repr {
        queue_pair: number & 0xff_ffff,
        sequence: number >> 8,
        write: Write { address, key: !number, length },
        immediate: number ^ 0x5555_5555,
        data_len: [0, 1, 2, 3, 4, 63, 1024, 4096][index / 3 % 8],
        ..Repr::new(opcode)
    };
    let (identification, do_not_fragment) = (number as u16, !index.is_multiple_of(3));
    (repr, Path { source: SOURCE, destination: DESTINATION, identification, do_not_fragment })
}

fn data(index: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 37 + index) as u8).collect()
}

/// What the encoder is to make of it.
fn line((repr, path): &(Repr, Path), data: &[u8]) -> String {
    let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
    let flags = if path.do_not_fragment { 2 } else { 0 };
    format!(
        "source={} source_port={} destination={} destination_port={} identification={} flags={flags} \
         opcode={} queue_pair={} sequence={} address={} key={} length={} immediate={} data={hex}\n",
        path.source.ip(),
        path.source.port(),
        path.destination.ip(),
        path.destination.port(),
        path.identification,
        repr.opcode.number(),
        repr.queue_pair,
        repr.sequence,
        repr.write.address,
        repr.write.key,
        repr.write.length,
        repr.immediate,
    )
}

#[test]
fn an_independent_encoder_makes_the_same_packets() {
    let mut python = Command::new("python3");
    python.arg(SCRIPT).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut judge = match python.spawn() {
        Ok(judge) => judge,
        Err(why) => return skipped("RoCEv2 packets of an independent encoder", why),
    };
    let packets: Vec<_> = (0..96).map(packet).collect();
    let lines = packets.iter().enumerate();
    let lines: String = lines.map(|(at, it)| line(it, &data(at, it.0.data_len))).collect();
    let mut input = judge.stdin.take().unwrap();
    let writing = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = judge.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert!(output.status.success());
    let output = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.lines().count(), packets.len());
    for (index, (hex, (repr, path))) in output.lines().zip(&packets).enumerate() {
        let mut bytes = vec![0; repr.buffer_len()];
        let start = repr.opcode.headers_len();
        bytes[start..][..repr.data_len].copy_from_slice(&data(index, repr.data_len));
        repr.seal(path, &mut bytes);
        let ours: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(ours, hex, "packet {index}: {repr}");
        let packet = Packet::new_checked(&bytes).unwrap();
        let found = SocketCheck::default().path(path.source, path.destination, &packet);
        assert_eq!(found, Some(*path), "packet {index}");
    }
}
