//! Every decoder of front-end, network and capture formats, shown arbitrary and damaged bytes.
//!
//! A decoder may refuse, but not panic: what it accepts is printed, which calls every accessor.

use gannet_wire::capture::{Event, LINK_TYPE_ETHERNET, Packet, Progress};
use gannet_wire::network::{self, Addresses, Checksums};
use gannet_wire::{
    capture_file, daq_ethernet, ethernet, ipv4, pcap, pcapng, protowib, tdeeth, udp, wibeth,
};
use proptest::prelude::*;

/// What a decoder says of `bytes`, or `None` when it refuses them.
type Decoder = fn(&[u8]) -> Option<String>;

const DECODERS: [(&str, Decoder); 14] = [
    ("DAQ Ethernet header", |b| Some(daq_ethernet::Header::new_checked(b).ok()?.to_string())),
    ("WIBEth frame", |b| Some(format!("{:#}", wibeth::Frame::new_checked(b).ok()?))),
    ("WIBEth header", |b| Some(wibeth::Header::new_checked(b).ok()?.to_string())),
    ("TDEEth frame", |b| Some(format!("{:#}", tdeeth::Frame::new_checked(b).ok()?))),
    ("TDEEth header", |b| Some(tdeeth::Header::new_checked(b).ok()?.to_string())),
    ("ProtoDUNE-SP frame", |b| Some(format!("{:#}", protowib::Frame::new_checked(b).ok()?))),
    ("WIB header", |b| Some(protowib::WibHeader::new_checked(b).ok()?.timestamp().to_string())),
    ("COLDATA header", |b| {
        let header = protowib::coldata::Header::new_checked(b).ok()?;
        Some(format!("{header} {} {}", header.checksum_a(), header.checksum_b()))
    }),
    ("Ethernet frame", |b| {
        let frame = ethernet::Frame::new_checked(b).ok()?;
        Some(format!("{frame} {:?}", frame.payload()))
    }),
    ("IPv4 packet", |b| {
        let packet = ipv4::Packet::new_checked(b).ok()?;
        let sum = packet.verify_checksum();
        Some(format!("{packet} {sum} {:?} {:?}", packet.options(), packet.payload()))
    }),
    ("UDP datagram", |b| {
        let datagram = udp::Datagram::new_checked(b).ok()?;
        let sum = datagram.verify_checksum([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        Some(format!("{datagram} {sum} {:?}", datagram.payload()))
    }),
    ("UDP payload", |b| {
        let trusted = network::from_ethernet(b, Checksums::Trust);
        let verified = network::from_ethernet(b, Checksums::Verify);
        assert!(trusted.is_ok() || verified.is_err());
        Some(format!("{trusted:?} {verified:?} {:?}", network::from_ipv4(b, Checksums::Verify)))
    }),
    ("pcap file header", |b| Some(pcap::FileHeader::parse(b).ok()?.to_string())),
    ("capture file", |b| Some(format!("{:?}", events(b)))),
];

/// What is found in a capture file, and whether it ends in an error.
fn events(file: &[u8]) -> (Vec<Event<'_>>, Option<gannet_wire::Error>) {
    let (mut reader, mut rest, mut events) = (capture_file::Reader::new(), file, Vec::new());
    loop {
        let Progress { consumed, event } = match reader.next(rest) {
            Ok(progress) => progress,
            Err(error) => return (events, Some(error)),
        };
        rest = &rest[consumed..];
        match event {
            Some(event) => events.push(event),
            None => return (events, reader.finish(rest).err()),
        }
        assert_eq!(reader.position(), (file.len() - rest.len()) as u64);
    }
}

/// Bytes of pseudo-random content.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    core::iter::repeat_with(step).take(len).collect()
}

/// A WIBEth frame on its way through Ethernet.
fn link_frame() -> Vec<u8> {
    let addresses = Addresses {
        source_hardware: ethernet::Address([2, 0, 0, 0, 0, 1]),
        destination_hardware: ethernet::Address([2, 0, 0, 0, 0, 2]),
        source: "10.0.0.1:4000".parse().unwrap(),
        destination: "10.0.0.2:4001".parse().unwrap(),
    };
    let payload = noise(1, wibeth::FRAME_LEN);
    let mut frame = vec![0; addresses.buffer_len(payload.len())];
    addresses.emit(&payload, &mut frame).unwrap();
    frame
}

fn packet(data: &[u8]) -> Packet<'_> {
    let (interface, link_type, original_len) = (0, LINK_TYPE_ETHERNET, data.len() as u32);
    Packet { interface, link_type, timestamp_ns: Some(1 << 60), original_len, data }
}

/// Valid inputs of the formats that refuse most random bytes.
fn valid_inputs() -> [Vec<u8>; 5] {
    let frame = link_frame();
    let small = packet(&frame[..60]);
    let (mut classic, mut modern) = (Vec::new(), Vec::new());
    let writer = pcap::Writer::new(pcap::FileHeader::new(LINK_TYPE_ETHERNET), &mut classic);
    let mut modern_writer = pcapng::Writer::new(Default::default(), &mut modern);
    let interface = pcapng::Interface { offset_s: 3, ..pcapng::Interface::new(LINK_TYPE_ETHERNET) };
    modern_writer.interface(interface, &mut modern).unwrap();
    for _ in 0..3 {
        writer.packet(&small, &mut classic).unwrap();
        modern_writer.packet(&small, &mut modern).unwrap();
    }
    let untimed = Packet { timestamp_ns: None, ..small };
    modern_writer.packet(&untimed, &mut modern).unwrap();
    let counters = gannet_wire::capture::Statistics { received: Some(4), ..Default::default() };
    modern_writer.statistics(&counters, &mut modern).unwrap();
    [frame[14..].to_vec(), frame[34..].to_vec(), frame, classic, modern]
}

#[test]
fn the_valid_inputs_are_accepted() {
    let [ip, datagram, frame, classic, modern] = valid_inputs();
    assert!(network::from_ethernet(&frame, Checksums::Verify).is_ok());
    assert!(network::from_ipv4(&ip, Checksums::Verify).is_ok());
    assert!(udp::Datagram::new_checked(datagram).is_ok());
    assert_eq!((events(&classic).0.len(), events(&classic).1), (3, None));
    assert_eq!((events(&modern).0.len(), events(&modern).1), (5, None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes(seed: u64, len in prop_oneof![0usize..600, 7190usize..7300]) {
        let bytes = noise(seed, len);
        for (name, decode) in DECODERS {
            prop_assert_ne!(decode(&bytes), Some(String::new()), "{}", name);
        }
    }

    #[test]
    fn damaged_valid_bytes(
        input in 0usize..5,
        damage in proptest::collection::vec((0usize..200, any::<u8>()), 1..5),
        cut in 0usize..8000,
    ) {
        let mut bytes = valid_inputs()[input].clone();
        for (at, value) in damage {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        bytes.truncate(cut.max(1));
        for (name, decode) in DECODERS {
            prop_assert_ne!(decode(&bytes), Some(String::new()), "{}", name);
        }
    }
}
