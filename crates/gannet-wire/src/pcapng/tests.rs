use super::*;
use crate::capture::{
    ByteOrder, Event, LINK_TYPE_ETHERNET, PACKET_LEN_MAX, Packet, RECORD_LEN_MAX, Statistics,
};
use crate::{Error, Result, noise};
use proptest::prelude::*;

/// A file written by hand from the specification, little-endian: section, interface with
/// `if_tsresol` 9, a name resolution block (type 4, skipped), an enhanced packet of 3 bytes at
/// 0x1_0000_0002 ns, a simple packet of 5 bytes, statistics with 10 received and 2 dropped.
const LITTLE: [&[u8]; 6] = [
    b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0",
    b"\x01\0\0\0\x20\0\0\0\x01\0\0\0\0\0\x04\0\x09\0\x01\0\x09\0\0\0\0\0\0\0\x20\0\0\0",
    b"\x04\0\0\0\x10\0\0\0\0\0\0\0\x10\0\0\0",
    b"\x06\0\0\0\x24\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x3c\0\0\0abc\0\x24\0\0\0",
    b"\x03\0\0\0\x18\0\0\0\x05\0\0\0hello\0\0\0\x18\0\0\0",
    b"\x05\0\0\0\x34\0\0\0\0\0\0\0\x01\0\0\0\x03\0\0\0\x04\0\x08\0\x0a\0\0\0\0\0\0\0\
      \x07\0\x08\0\x02\0\0\0\0\0\0\0\0\0\0\0\x34\0\0\0",
];

const SECTION_AT: usize = 0;
const INTERFACE_AT: usize = 28;
const ENHANCED_AT: usize = 28 + 32 + 16;

fn file() -> Vec<u8> {
    LITTLE.concat()
}

fn packet(timestamp_ns: Option<u64>, original_len: u32, data: &[u8]) -> Packet<'_> {
    Packet { interface: 0, link_type: LINK_TYPE_ETHERNET, timestamp_ns, original_len, data }
}

fn expected_events() -> [Event<'static>; 3] {
    [
        Event::Packet(packet(Some(0x1_0000_0002), 60, b"abc")),
        Event::Packet(packet(None, 5, b"hello")),
        Event::Statistics(Statistics {
            interface: 0,
            timestamp_ns: 0x1_0000_0003,
            received: Some(10),
            dropped_by_interface: None,
            dropped_by_system: Some(2),
        }),
    ]
}

/// All events of a file that is shown whole.
fn events(file: &[u8]) -> Result<Vec<Event<'_>>> {
    let (mut reader, mut rest, mut events) = (Reader::new(), file, Vec::new());
    loop {
        let progress = reader.next(rest)?;
        rest = &rest[progress.consumed..];
        match progress.event {
            Some(event) => events.push(event),
            None => return reader.finish(rest).map(|()| events),
        }
    }
}

fn corrupt(at: usize, value: u8) -> Error {
    let mut file = file();
    file[at] = value;
    events(&file).unwrap_err()
}

/// The events written as a file with one interface.
fn written(order: ByteOrder, interface: Interface, events: &[Event<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(order, &mut out);
    assert_eq!(writer.interface(interface, &mut out).unwrap(), 0);
    for event in events {
        match event {
            Event::Packet(packet) => writer.packet(packet, &mut out).unwrap(),
            Event::Statistics(statistics) => writer.statistics(statistics, &mut out).unwrap(),
        }
    }
    out
}

#[test]
fn reads_a_file_written_by_hand() {
    assert_eq!(events(&file()).unwrap(), expected_events());
}

#[test]
fn counts_the_blocks_it_skips() {
    let mut reader = Reader::new();
    reader.next(&file()).unwrap();
    assert_eq!(reader.blocks_skipped(), 1);
    assert_eq!(reader.interfaces(), [Interface::new(LINK_TYPE_ETHERNET)]);
}

#[test]
fn writes_the_same_file() {
    let interface = Interface::new(LINK_TYPE_ETHERNET);
    let without_names = [LITTLE[0], LITTLE[1], LITTLE[3], LITTLE[4], LITTLE[5]].concat();
    assert_eq!(written(ByteOrder::Little, interface, &expected_events()), without_names);
}

#[test]
fn a_second_section_brings_its_own_order_and_interfaces() {
    let mut file = file();
    let interface = Interface { resolution: Resolution::MICROSECONDS, ..Interface::new(101) };
    let late = [Event::Packet(Packet { link_type: 101, ..packet(Some(5_000), 1, b"z") })];
    file.extend(written(ByteOrder::Big, interface, &late));
    let mut expected = expected_events().to_vec();
    expected.extend(late);
    assert_eq!(events(&file).unwrap(), expected);
}

#[test]
fn a_simple_packet_is_cut_at_the_snapshot_length() {
    let interface = Interface { snap_len: 4, ..Interface::new(LINK_TYPE_ETHERNET) };
    let cut = [Event::Packet(packet(None, 9, b"hell"))];
    let file = written(ByteOrder::Big, interface, &cut);
    assert_eq!(events(&file).unwrap(), cut);
}

#[test]
fn tells_a_cut_file_from_a_clean_end() {
    let file = file();
    let ends: Vec<usize> =
        (1..=LITTLE.len()).map(|blocks| LITTLE[..blocks].concat().len()).collect();
    for len in 0..=file.len() {
        assert_eq!(events(&file[..len]).is_ok(), ends.contains(&len), "{len}");
    }
}

#[test]
fn a_long_block_of_another_type_is_skipped_piece_by_piece() {
    let len = 1_u32 << 30;
    let mut front = LITTLE[0].to_vec();
    front.extend(0x0bad_u32.to_le_bytes());
    front.extend(len.to_le_bytes());
    front.extend([0; 4]);
    let mut reader = Reader::new();
    assert_eq!(reader.next(&front).unwrap().consumed, front.len());
    let piece = vec![0; 1 << 24];
    let mut left = len as usize - 12;
    while left > 0 {
        assert!(matches!(reader.finish(&[]), Err(Error::Truncated { .. })));
        let progress = reader.next(&piece[..left.min(piece.len())]).unwrap();
        assert!(progress.event.is_none());
        left -= progress.consumed;
    }
    assert_eq!(reader.finish(&[]), Ok(()));
}

#[test]
fn refuses_a_file_that_does_not_begin_with_a_section() {
    let (field, expected, got) = ("first block type", 0x0a0d_0d0a, 0x0a0d_0d0b);
    assert_eq!(corrupt(SECTION_AT, 0x0b), Error::Value { format: FORMAT, field, expected, got });
}

#[test]
fn refuses_another_byte_order_magic() {
    let (field, got) = ("byte-order magic", 0x4d3c_2b1b);
    assert_eq!(corrupt(SECTION_AT + 11, 0x1b), Error::Unknown { format: FORMAT, field, got });
}

#[test]
fn refuses_major_version_2() {
    let (field, expected, got) = ("major version", 1, 2);
    assert_eq!(corrupt(SECTION_AT + 12, 2), Error::Value { format: FORMAT, field, expected, got });
}

#[test]
fn refuses_a_block_length_shorter_than_its_fields() {
    let error = corrupt(ENHANCED_AT + 4, 0x1c);
    let (field, max) = ("block length", RECORD_LEN_MAX as u64);
    assert_eq!(error, Error::Range { format: FORMAT, field, min: 32, max, got: 28 });
}

#[test]
fn refuses_a_block_length_above_the_limit_before_waiting_for_it() {
    let error = corrupt(ENHANCED_AT + 7, 0x7f);
    assert!(matches!(error, Error::Range { field: "block length", got: 0x7f00_0024, .. }));
}

#[test]
fn refuses_a_block_length_that_is_not_a_multiple_of_four() {
    let (field, expected, got) = ("block length modulo 4", 0, 1);
    assert_eq!(
        corrupt(ENHANCED_AT + 4, 0x25),
        Error::Value { format: FORMAT, field, expected, got }
    );
}

#[test]
fn refuses_a_block_whose_two_lengths_differ() {
    let error = corrupt(INTERFACE_AT + 28, 0x24);
    let (field, expected, got) = ("block length at the end", 0x20, 0x24);
    assert_eq!(error, Error::Value { format: FORMAT, field, expected, got });
}

#[test]
fn refuses_a_packet_of_an_interface_that_was_not_described() {
    let (field, got) = ("interface of a packet", 1);
    assert_eq!(corrupt(ENHANCED_AT + 8, 1), Error::Unknown { format: FORMAT, field, got });
}

#[test]
fn refuses_a_captured_length_past_the_block() {
    let error = corrupt(ENHANCED_AT + 20, 5);
    assert_eq!(error, Error::Truncated { format: "pcapng packet", expected: 5, got: 4 });
}

#[test]
fn refuses_a_captured_length_above_the_limit() {
    let error = corrupt(ENHANCED_AT + 23, 1);
    assert!(matches!(error, Error::Range { field: "captured length", max: 262_144, .. }));
}

#[test]
fn refuses_an_interface_option_past_the_block() {
    let error = corrupt(INTERFACE_AT + 18, 60);
    assert_eq!(error, Error::Truncated { format: "pcapng option", expected: 64, got: 12 });
}

#[test]
fn refuses_more_interfaces_than_the_limit() {
    let mut file = LITTLE[0].to_vec();
    for _ in 0..INTERFACES_MAX {
        file.extend(LITTLE[1]);
    }
    assert!(events(&file).is_ok());
    file.extend(LITTLE[1]);
    assert!(matches!(events(&file), Err(Error::Range { got: 1025, .. })));

    let mut writer = Writer::new(ByteOrder::Little, &mut Vec::new());
    let mut add = || writer.interface(Interface::new(1), &mut Vec::new());
    assert!((0..INTERFACES_MAX).all(|_| add().is_ok()));
    assert!(matches!(add(), Err(Error::Range { got: 1025, .. })));
}

#[test]
fn refuses_to_write_what_the_format_cannot_hold() {
    let mut out = Vec::new();
    let mut writer = Writer::new(ByteOrder::Little, &mut out);
    let mut refusal = |packet: Packet<'_>| {
        let before = out.len();
        let error = writer.packet(&packet, &mut out).unwrap_err();
        assert_eq!(out.len(), before, "nothing is appended");
        error
    };
    let unknown = refusal(packet(Some(0), 0, b""));
    assert!(matches!(unknown, Error::Unknown { field: "interface of a packet", .. }));

    let interface = Interface { snap_len: 0, ..Interface::new(1) };
    writer.interface(interface, &mut out).unwrap();
    writer.interface(interface, &mut out).unwrap();
    let mut refusal = |packet: Packet<'_>| writer.packet(&packet, &mut out).unwrap_err();
    let long = vec![0; PACKET_LEN_MAX + 1];
    let long = refusal(packet(Some(0), 0, &long));
    assert!(matches!(long, Error::Range { field: "captured length", .. }));
    let cut = refusal(packet(None, 9, b"hell"));
    assert!(matches!(cut, Error::Value { expected: 9, got: 4, .. }));
    let other = refusal(Packet { interface: 1, ..packet(None, 4, b"hell") });
    assert!(matches!(other, Error::Value { expected: 0, got: 1, .. }));
}

proptest! {
    #[test]
    fn what_was_written_is_read_back(
        big: bool, seed: u64, offset_s in -1000i64..1000,
        contents in proptest::collection::vec((1u64 << 50..1 << 60, 0usize..300, any::<bool>()), 0..10),
        counters: (Option<u64>, Option<u64>, Option<u64>),
    ) {
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let interface = Interface { offset_s, ..Interface::new(LINK_TYPE_ETHERNET) };
        let bytes = noise::bytes(seed, 300);
        let mut expected: Vec<_> = contents
            .iter()
            .map(|&(time, len, timed)| {
                let extra = if timed { 4 } else { 0 };
                let time = timed.then_some(time);
                Event::Packet(packet(time, len as u32 + extra, &bytes[..len]))
            })
            .collect();
        expected.push(Event::Statistics(Statistics {
            interface: 0,
            timestamp_ns: 1 << 55,
            received: counters.0,
            dropped_by_interface: counters.1,
            dropped_by_system: counters.2,
        }));
        let file = written(order, interface, &expected);
        prop_assert_eq!(events(&file).unwrap(), expected);
    }
}
