//! Printing captures.

use core::fmt::Write;

use super::describe::{ITEMS_SHOWN, ethernet, ipv4, more};
use super::indented::Indented;
use crate::capture::{
    Event, LINK_TYPE_ETHERNET, LINK_TYPE_IPV4, LINK_TYPE_RAW, Packet, Progress, Statistics,
};
use crate::capture_file::Reader;
use crate::error::{Error, Result};
use crate::{pcap, pcapng};

/// Prints a pcap file.
pub(super) fn pcap(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", pcap::FileHeader::parse(bytes)?)?;
    events(Reader::Pcap(pcap::Reader::new()), bytes, out)
}

/// Prints a pcapng file.
pub(super) fn pcapng(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    events(Reader::Pcapng(pcapng::Reader::new()), bytes, out)
}

/// Prints the packets of a capture, and the counters of the side that captured.
fn events(mut reader: Reader, bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    let (mut rest, mut count) = (bytes, 0);
    loop {
        let Progress { consumed, event } = reader.next(rest)?;
        rest = &rest[consumed..];
        let Some(event) = event else { break };
        if count < ITEMS_SHOWN {
            write!(out, "{count}: ")?;
            match event {
                Event::Packet(packet) => one_packet(&packet, out)?,
                Event::Statistics(statistics) => one_statistics(&statistics, out)?,
            }
        }
        count += 1;
    }
    if count == 0 {
        writeln!(out, "no packets")?;
    }
    more(count, out)?;
    reader.finish(rest)
}

/// Prints a packet and what it carries. A bad packet is no error: captures are made to see them.
fn one_packet(packet: &Packet<'_>, out: &mut dyn Write) -> Result<()> {
    let Packet { interface, link_type, timestamp_ns, original_len, data } = packet;
    write!(out, "packet of {original_len} bytes on interface {interface}")?;
    if let Some(time) = timestamp_ns {
        write!(out, " at {time} ns since 1970")?;
    }
    if packet.is_cut() {
        write!(out, ", cut to {} bytes", data.len())?;
    }
    writeln!(out)?;
    let out = &mut Indented::new(out);
    let described = match *link_type {
        LINK_TYPE_ETHERNET => ethernet(data, out),
        LINK_TYPE_RAW | LINK_TYPE_IPV4 => ipv4(data, out),
        other => Ok(writeln!(out, "link type {other}, not read here")?),
    };
    match described {
        Ok(()) | Err(Error::Output(_)) => described,
        Err(error) => Ok(writeln!(out, "{error}")?),
    }
}

/// Prints the counters that are there.
fn one_statistics(statistics: &Statistics, out: &mut dyn Write) -> Result<()> {
    let Statistics { interface, timestamp_ns, .. } = statistics;
    write!(out, "statistics of interface {interface} at {timestamp_ns} ns since 1970")?;
    for (name, counter) in [
        ("received", statistics.received),
        ("dropped by the interface", statistics.dropped_by_interface),
        ("dropped by the system", statistics.dropped_by_system),
    ] {
        if let Some(packets) = counter {
            write!(out, ", {packets} {name}")?;
        }
    }
    Ok(writeln!(out)?)
}

#[cfg(test)]
mod tests {
    use crate::capture::{ByteOrder, LINK_TYPE_ETHERNET, LINK_TYPE_IPV4, Packet, Statistics};
    use crate::inspect::{Format, ITEMS_SHOWN, describe, identify};
    use crate::{Error, pcap, pcapng};

    /// An Ethernet frame of a protocol that is not opened.
    const FRAME: [u8; 16] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x06, 7, 7];

    fn packet(data: &[u8]) -> Packet<'_> {
        Packet {
            interface: 0,
            link_type: LINK_TYPE_ETHERNET,
            timestamp_ns: Some(5),
            original_len: 16,
            data,
        }
    }

    fn pcap_of(packets: &[&[u8]]) -> Vec<u8> {
        let mut file = Vec::new();
        let writer = pcap::Writer::new(pcap::FileHeader::new(LINK_TYPE_ETHERNET), &mut file);
        for data in packets {
            writer.packet(&packet(data), &mut file).unwrap();
        }
        file
    }

    fn text(file: &[u8]) -> (String, crate::Result<()>) {
        let mut text = String::new();
        let result = describe(identify(file).unwrap(), file, &mut text);
        (text, result)
    }

    #[test]
    fn a_pcap_file_shows_its_packets_and_what_they_carry() {
        let file = pcap_of(&[&FRAME[..]; ITEMS_SHOWN + 3]);
        assert_eq!(identify(&file), Some(Format::Pcap));
        let (text, result) = text(&file);
        assert_eq!(result, Ok(()));
        assert!(text.contains("\n1: packet of 16 bytes on interface 0 at 5 ns since 1970\n"));
        assert_eq!(text.matches("\n  Ethernet frame\n").count(), ITEMS_SHOWN);
        assert!(text.ends_with("  payload, 2 bytes\n... and 3 more\n"), "{text}");
    }

    #[test]
    fn a_cut_or_bad_packet_does_not_hide_the_next() {
        let (text, result) = text(&pcap_of(&[&FRAME[..5], &FRAME]));
        assert_eq!(result, Ok(()));
        assert!(text.contains("since 1970, cut to 5 bytes\n  Ethernet frame: 5 bytes, expected"));
        assert!(text.contains("\n1: packet of 16 bytes"));
    }

    #[test]
    fn a_file_that_ends_in_a_packet_is_refused_after_what_is_whole() {
        let mut file = pcap_of(&[&FRAME, &FRAME]);
        file.pop();
        let (text, result) = text(&file);
        assert!(matches!(result, Err(Error::Truncated { .. })), "{result:?}");
        assert!(text.contains("\n0: packet of 16 bytes"));
    }

    #[test]
    fn a_pcapng_file_shows_packets_and_counters() {
        let mut file = Vec::new();
        let mut writer = pcapng::Writer::new(ByteOrder::Big, &mut file);
        for link_type in [LINK_TYPE_ETHERNET, LINK_TYPE_IPV4, 9] {
            let interface = pcapng::Interface::new(link_type);
            let interface = writer.interface(interface, &mut file).unwrap();
            writer.packet(&Packet { interface, ..packet(&FRAME) }, &mut file).unwrap();
        }
        let statistics = Statistics {
            interface: 0,
            timestamp_ns: 9,
            received: Some(4),
            dropped_by_interface: None,
            dropped_by_system: Some(1),
        };
        writer.statistics(&statistics, &mut file).unwrap();
        assert_eq!(identify(&file), Some(Format::Pcapng));
        let (text, result) = text(&file);
        assert_eq!(result, Ok(()));
        assert!(text.contains("  ethertype              0x0806"), "{text}");
        assert!(text.contains("  link type 9, not read here"), "{text}");
        assert!(text.ends_with(
            "3: statistics of interface 0 at 9 ns since 1970, 4 received, 1 dropped by the system\n"
        ));
    }
}
