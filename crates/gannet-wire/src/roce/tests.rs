use core::net::{Ipv4Addr, SocketAddrV4};

use proptest::prelude::*;

use super::invariant_crc::{Path, SocketCheck};
use super::*;
use crate::network::{Checksums, from_ethernet};
use crate::noise;

const SOURCE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 168, 0, 7), 49152);
const DESTINATION: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 168, 0, 8), PORT);

/// A notification of congestion, Ethernet header first, as a ConnectX-4 Lx sent it (scapy's tests).
const CAPTURED: &str = "e41d2dab2bc27cfe90643b32080045c2003c718c40004011\
    91610a0011010a001201000012b7002800008100ffff40000118000000000000000000000000000000000000000082fd002a";

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn sealed(repr: &Repr, data: &[u8]) -> Vec<u8> {
    let repr = Repr { data_len: data.len(), ..*repr };
    let mut packet = vec![0xa5; repr.buffer_len()];
    packet[repr.opcode.headers_len()..][..data.len()].copy_from_slice(data);
    repr.seal(&Path::of_socket(SOURCE, DESTINATION), &mut packet);
    packet
}

fn write() -> Repr {
    Repr {
        solicited: true,
        acknowledge: true,
        congestion: 0x80,
        queue_pair: 0x12_3456,
        sequence: 0xab_cdef,
        write: Write { address: 0x0102_0304_0506_0708, key: 0x1122_3344, length: 5 },
        immediate: 0xcafe_f00d,
        ..Repr::new(Opcode::WriteOnlyImmediate)
    }
}

#[test]
fn fields_lie_where_the_diagram_says() {
    let packet = sealed(&write(), b"hello");
    let headers = "2bb0ffff80123456 80abcdef 0102030405060708 11223344 00000005 cafef00d";
    assert_eq!(packet[..32], bytes_of(&headers.replace(' ', "")));
    assert_eq!(&packet[32..40], b"hello\0\0\0");
    assert_eq!(packet.len(), 44);
}

#[test]
fn a_captured_packet_has_the_check_sum_that_is_computed() {
    let frame = bytes_of(CAPTURED);
    let found = from_ethernet(&frame, Checksums::Verify).unwrap();
    let packet = Packet::new_checked(found.payload).unwrap();
    assert_eq!(packet.opcode(), Opcode::Other(0x81));
    assert_eq!((packet.queue_pair(), packet.congestion()), (0x118, 0x40));
    let source = SocketAddrV4::new(Ipv4Addr::new(10, 0, 17, 1), 0);
    let destination = SocketAddrV4::new(Ipv4Addr::new(10, 0, 18, 1), PORT);
    let path = Path { source, destination, identification: 0x718c, do_not_fragment: true };
    assert_eq!(path.crc(&found.payload[..28]), packet.crc());
    assert_eq!(packet.crc(), u32::from_be(0x82fd_002a));
    assert_eq!(SocketCheck::default().path(source, destination, &packet), Some(path));
}

/// The packet of an unreliable connection in scapy's tests.
#[test]
fn a_published_packet_has_the_published_check_sum() {
    let data = b"F0\x81\x8b\xe2\x895\xd9\x0e\x9a\x95PT\x01\xbe\x88^P";
    let destination = SocketAddrV4::new(*SOURCE.ip(), PORT);
    let path = Path { source: SOURCE, destination, identification: 1144, do_not_fragment: true };
    let repr = Repr {
        migrated: true,
        queue_pair: 211,
        sequence: 13_571_856,
        data_len: data.len(),
        ..Repr::new(Opcode::SendOnly)
    };
    let mut bytes = vec![0; repr.buffer_len()];
    bytes[BASE_LEN..][..data.len()].copy_from_slice(data);
    repr.seal(&path, &mut bytes);
    assert_eq!(bytes.len(), 36);
    assert_eq!(bytes[32..], [0x78, 0xf3, 0x53, 0xf3]);
    assert_eq!(bytes[1], 0x60, "padding and migration");
}

#[test]
fn what_is_no_packet_is_refused_by_name() {
    let packet = sealed(&write(), b"hello");
    let error = |packet: &[u8]| Packet::new_checked(packet).unwrap_err();
    let truncated = |expected, got| Error::Truncated { format: FORMAT, expected, got };
    assert_eq!(error(&packet[..15]), truncated(16, 15));
    assert_eq!(error(&packet[..38]), truncated(39, 38));
    assert!(Packet::new_checked(&packet[..39]).unwrap().data().is_empty());
    let mut wrong = packet.clone();
    wrong[1] |= 1;
    assert_eq!(error(&wrong), Error::Version { format: FORMAT, known: "0", got: 1 });
}

#[test]
fn a_flipped_bit_is_seen_if_the_identification_is_known_and_nearly_always_if_not() {
    let packet = sealed(&write(), &noise::bytes(1, 4096));
    let (mut check, path) = (SocketCheck::default(), Path::of_socket(SOURCE, DESTINATION));
    let (mut flips, mut unseen) = (0, 0);
    for bit in (0..8 * packet.len()).filter(|bit| bit / 8 != field::CONGESTION) {
        let mut damaged = packet.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let Ok(damaged) = Packet::new_checked(&damaged) else { continue };
        assert_ne!(path.crc(&damaged.bytes()[..packet.len() - CRC_LEN]), damaged.crc());
        flips += 1;
        unseen += u32::from(check.is_right(SOURCE, DESTINATION, &damaged));
    }
    assert!(flips > 1 << 15 && unseen < 5, "{unseen} of {flips}");
}

#[test]
fn a_packet_of_another_sender_has_another_check_sum() {
    let packet = sealed(&write(), b"hello");
    let packet = Packet::new_checked(&packet).unwrap();
    let mut check = SocketCheck::default();
    assert!(check.is_right(SOURCE, DESTINATION, &packet));
    assert!(!check.is_right(SocketAddrV4::new(*SOURCE.ip(), 49153), DESTINATION, &packet));
    let elsewhere = SocketAddrV4::new(*DESTINATION.ip(), PORT + 1);
    assert!(!check.is_right(SOURCE, elsewhere, &packet));
}

#[test]
fn prints_headers_and_data() {
    let text = Packet::new_checked(sealed(&write(), b"hello")).unwrap().to_string();
    assert!(text.contains("opcode                 write-only-immediate\n"), "{text}");
    assert!(text.contains("address                0x0102030405060708\n"), "{text}");
    assert!(text.ends_with("\ndata, 5 bytes"), "{text}");
}

proptest! {
    #[test]
    fn what_is_sealed_is_read_back(seed: u64, opcode: u8, len in 0usize..5000, identification: u16, do_not_fragment: bool) {
        let opcode = Opcode::from_number(opcode);
        let data = noise::bytes(seed, len);
        let repr = Repr {
            opcode,
            migrated: seed & 1 == 1,
            data_len: len,
            write: if opcode.begins_write() { write().write } else { Write::default() },
            immediate: if opcode.has_immediate() { write().immediate } else { 0 },
            ..write()
        };
        let path = Path { identification, do_not_fragment, ..Path::of_socket(SOURCE, DESTINATION) };
        let mut bytes = vec![0xa5; repr.buffer_len()];
        bytes[opcode.headers_len()..][..len].copy_from_slice(&data);
        repr.seal(&path, &mut bytes);
        let packet = Packet::new_checked(&bytes).unwrap();
        prop_assert_eq!(Repr::parse(&packet), repr);
        prop_assert_eq!(packet.data(), data);
        let mut check = SocketCheck::default();
        prop_assert_eq!(check.path(SOURCE, DESTINATION, &packet), Some(path));
    }
}
