//! Capture files of every kind and condition.

use std::io::Write;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use gannet_ingest::{Error, Landing, PcapConfig, PcapSource, Source, SourceDrop};
use gannet_measure::clock::SystemClock;
use gannet_wire::capture::{ByteOrder, LINK_TYPE_ETHERNET, LINK_TYPE_RAW, Packet};
use gannet_wire::{ethernet, ipv4, network, pcap, pcapng};

const FRAME_LEN: usize = 500;

/// An Ethernet frame from host `host` to `port` whose payload is `len` times `value`.
fn ethernet_frame(host: u8, port: u16, value: u8, len: usize) -> Vec<u8> {
    let addresses = network::Addresses {
        source_hardware: ethernet::Address([2, 0, 0, 0, 0, 1]),
        destination_hardware: ethernet::Address([2, 0, 0, 0, 0, 2]),
        source: SocketAddrV4::new([10, 0, 0, host].into(), 17476),
        destination: SocketAddrV4::new([10, 0, 0, 2].into(), port),
    };
    let payload = vec![value; len];
    let mut frame = vec![0; addresses.buffer_len(len)];
    addresses.emit(&payload, &mut frame).unwrap();
    frame
}

fn packet(link_type: u16, data: &[u8]) -> Packet<'_> {
    let (interface, timestamp_ns, original_len) = (0, Some(1), data.len() as u32);
    Packet { interface, link_type, timestamp_ns, original_len, data }
}

fn pcap_file(link_type: u16, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let writer = pcap::Writer::new(pcap::FileHeader::new(link_type), &mut file);
    packets.iter().for_each(|data| writer.packet(&packet(link_type, data), &mut file).unwrap());
    file
}

fn pcapng_file(packets: &[Vec<u8>]) -> Vec<u8> {
    let (mut file, link_type) = (Vec::new(), LINK_TYPE_ETHERNET);
    let mut writer = pcapng::Writer::new(ByteOrder::Little, &mut file);
    writer.interface(pcapng::Interface::new(link_type), &mut file).unwrap();
    packets.iter().for_each(|data| writer.packet(&packet(link_type, data), &mut file).unwrap());
    file
}

/// Reads a file: the first byte of each frame, the error that ended it, and the source.
fn read(bytes: &[u8], more: &str) -> (Vec<u8>, Option<Error>, PcapSource) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let text = format!("path = {:?}\n{more}", file.path());
    let config: PcapConfig = toml::from_str(&text).unwrap();
    let landing = Landing { lengths: FRAME_LEN..=FRAME_LEN, cells: 1 };
    let clock = Arc::new(SystemClock::start());
    let mut source = PcapSource::open(&config, landing, clock).unwrap();
    source.start().unwrap();
    let (mut frames, mut failure) = (Vec::new(), None);
    while !source.is_exhausted() {
        match source.poll(Duration::ZERO) {
            Ok(_) => {
                frames.extend(
                    source.landed().arrivals().iter().map(|arrival| {
                        source.landed().producer().bytes(arrival.cell, FRAME_LEN)[0]
                    }),
                )
            }
            Err(error) => failure = Some(error),
        }
    }
    assert!(source.landed().account().statement("pcap").closes());
    (frames, failure, source)
}

#[test]
fn both_formats_and_packets_without_ethernet_header_are_read() {
    let frames: Vec<_> = (0..200).map(|n| ethernet_frame(1, 9, n, FRAME_LEN)).collect();
    let bare: Vec<_> = frames.iter().map(|frame| frame[14..].to_vec()).collect();
    let files = [
        pcap_file(LINK_TYPE_ETHERNET, &frames),
        pcapng_file(&frames),
        pcap_file(LINK_TYPE_RAW, &bare),
    ];
    for file in files {
        let (found, failure, _) = read(&file, "ports = [9]\nverify_checksums = true");
        assert!(failure.is_none());
        assert_eq!(found, (0..200).collect::<Vec<u8>>());
    }
}

#[test]
fn what_is_not_a_frame_is_counted_by_its_reason() {
    let good = ethernet_frame(1, 9, 7, FRAME_LEN);
    let mut fragment = good.clone();
    fragment[14 + 6] |= 0x20;
    ipv4::Packet::new_unchecked(&mut fragment[14..]).fill_checksum();
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let mut arp = good.clone();
    arp[13] = 6;
    let packets = [
        good.clone(),
        ethernet_frame(1, 9, 1, FRAME_LEN - 1),
        ethernet_frame(1, 10, 2, FRAME_LEN),
        ethernet_frame(3, 9, 3, FRAME_LEN),
        fragment,
        damaged,
        arp,
        good[..60].to_vec(),
        good,
    ];
    let options = "ports = [9]\nallow = [\"10.0.0.1\"]\nverify_checksums = true";
    let (found, failure, source) = read(&pcapng_file(&packets), options);
    assert!(failure.is_none());
    assert_eq!(found, [7, 7]);
    let account = source.landed().account();
    assert_eq!(account.dropped(SourceDrop::WrongLength), 1);
    assert_eq!(account.dropped(SourceDrop::ForeignAddress), 1);
    assert_eq!(account.dropped(SourceDrop::Fragment), 1);
    assert_eq!(account.dropped(SourceDrop::Malformed), 2, "wrong check sum, cut short");
    assert_eq!(account.statement("pcap").offered, 7, "other ports and protocols are not ours");
}

#[test]
fn a_file_that_was_cut_delivers_what_is_whole_and_then_says_so() {
    let frames: Vec<_> = (0..10).map(|n| ethernet_frame(1, 9, n, FRAME_LEN)).collect();
    let file = pcap_file(LINK_TYPE_ETHERNET, &frames);
    let (found, failure, _) = read(&file[..file.len() - 1], "");
    assert_eq!(found, (0..9).collect::<Vec<u8>>());
    assert!(matches!(failure, Some(Error::Capture { .. })), "{failure:?}");
}

#[test]
fn a_file_of_another_kind_is_an_error_that_names_it() {
    let (found, failure, _) = read(b"this is not a capture file", "");
    let text = failure.unwrap().to_string();
    assert!(found.is_empty() && text.contains("at byte") && text.contains("magic"), "{text}");
}

#[test]
fn an_unknown_kind_of_link_is_an_error_that_says_what_to_do() {
    let (_, failure, _) = read(&pcap_file(113, &[vec![0; 100]]), "");
    let text = failure.unwrap().to_string();
    assert!(text.contains("link type 113") && text.contains("one Ethernet interface"), "{text}");
}

#[test]
fn a_missing_file_is_an_error_that_names_it() {
    let config: PcapConfig = toml::from_str("path = \"/nowhere/x.pcap\"").unwrap();
    let landing = Landing { lengths: FRAME_LEN..=FRAME_LEN, cells: 1 };
    let source = PcapSource::open(&config, landing, Arc::new(SystemClock::start()));
    let text = source.err().unwrap().to_string();
    assert!(text.starts_with("cannot read /nowhere/x.pcap: "), "{text}");
}
