//! Whatever bytes come: each is described or refused, and nothing panics.

use gannet_wire::capture::{ByteOrder, LINK_TYPE_ETHERNET};
use gannet_wire::fragment::{Repr, Version};
use gannet_wire::inspect::{Format, describe, identify};
use gannet_wire::{FragmentType, Record, SourceId, Subsystem, pcap, pcapng};
use proptest::prelude::*;

/// Describes `bytes` as every format, and as the one that they look like.
fn describe_all(bytes: &[u8]) {
    for &format in Format::ALL {
        let mut text = String::new();
        let result = describe(format, bytes, &mut text);
        assert!(result.is_err() || text.ends_with('\n'), "{format}: {text:?}");
    }
    identify(bytes);
}

fn pcap_header() -> Vec<u8> {
    pcap::FileHeader::new(LINK_TYPE_ETHERNET).emit().to_vec()
}

fn pcapng_header() -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = pcapng::Writer::new(ByteOrder::Little, &mut file);
    writer.interface(pcapng::Interface::new(LINK_TYPE_ETHERNET), &mut file).unwrap();
    file
}

/// Beginnings of all formats that have a marker or version, so that a test gets past them.
fn beginning() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![
        vec![],
        vec![1, 0],
        vec![2],
        vec![2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 2, 0],
        vec![3],
        vec![0x22, 0x22, 0x11, 0x11, 5, 0, 0, 0],
        vec![0x44, 0x44, 0x33, 0x33, 4, 0, 0, 0],
        vec![0x66, 0x66, 0x55, 0x55, 2, 0, 0, 0],
        pcap_header(),
        pcapng_header(),
        vec![0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17],
        vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17],
    ])
}

#[test]
fn nothing_behind_a_good_beginning() {
    describe_all(&[]);
    describe_all(&pcap_header());
    describe_all(&pcapng_header());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn bytes_behind_a_good_beginning(
        mut bytes in beginning(),
        rest in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        bytes.extend(rest);
        describe_all(&bytes);
    }

    #[test]
    fn payloads_of_every_fragment_type(
        number in 0..24_u32,
        first in 0..4_u8,
        count in 0..4_u8,
        mut payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        for (at, value) in [(0, first), (48, count), (80, count)] {
            if let Some(byte) = payload.get_mut(at) {
                *byte = value;
            }
        }
        for at in [49, 81] {
            if let Some(bytes) = payload.get_mut(at..at + 7) {
                bytes.fill(0);
            }
        }
        let header = Repr {
            version: Version::V6,
            size: 0,
            trigger_number: 0,
            trigger_timestamp: 0,
            window_begin: 0,
            window_end: 0,
            run_number: 0,
            error_bits: 0,
            fragment_type: FragmentType::from_number(number),
            sequence_number: 0,
            detector_id: 0,
            source_id: SourceId::new(Subsystem::Unknown, 0),
        };
        let mut bytes = vec![0; Repr::LEN];
        header.emit(&mut bytes);
        bytes.extend(payload);
        describe_all(&bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn front_end_frames(bytes in prop::collection::vec(any::<u8>(), 7190..7210)) {
        describe_all(&bytes);
    }
}
