//! Printing a format, and what is inside it.

use core::fmt::{Display, Write};

use super::indented::Indented;
use super::payload::payload_format;
use super::{Format, capture, identify};
use crate::component_request::ComponentRequest;
use crate::error::{Error, Result};
use crate::fragment::Fragment;
use crate::km3net::{clb, daq, tdm};
use crate::layout::check_len;
use crate::na62::{self, m2egp, mep, mgp, mtp};
use crate::overlay::Overlays;
use crate::record::Record;
use crate::source_id::SourceId;
use crate::time_slice::TimeSliceHeader;
use crate::trigger_activity::TriggerActivityData;
use crate::trigger_candidate::TriggerCandidateData;
use crate::trigger_primitive::TriggerPrimitive;
use crate::trigger_primitive_v1::TriggerPrimitiveV1;
use crate::trigger_record::TriggerRecordHeader;
use crate::{
    apelink, daq_ethernet, ethernet, exchange, ipv4, neighbour, protowib, rdma, readout_link, roce,
    slow_control, tdeeth, tpc_frame, udp, wibeth,
};

/// Items printed of a list; of the others only the number is given.
pub const ITEMS_SHOWN: usize = 16;

/// Prints `bytes` as `format`, one item or field a line, what is inside indented.
///
/// # Errors
/// What is wrong with the bytes, after what could be read before it has been printed;
/// [`Error::Output`] when `out` fails.
pub fn describe(format: Format, bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    match format {
        Format::Fragment => fragment(bytes, out),
        Format::TriggerRecord => trigger_record(bytes, out),
        Format::TimeSlice => time_slice(bytes, out),
        Format::ComponentRequest => records::<ComponentRequest>(bytes, out),
        Format::SourceId => records::<SourceId>(bytes, out),
        Format::TriggerPrimitive => records::<TriggerPrimitive>(bytes, out),
        Format::TriggerPrimitiveV1 => records::<TriggerPrimitiveV1>(bytes, out),
        Format::TriggerActivity => objects::<TriggerActivityData, TriggerPrimitive>(bytes, out),
        Format::TriggerCandidate => {
            objects::<TriggerCandidateData, TriggerActivityData>(bytes, out)
        }
        Format::WibEth => frames(bytes, tpc_frame::FRAME_LEN, wibeth::Frame::new_checked, out),
        Format::TdeEth => frames(bytes, tpc_frame::FRAME_LEN, tdeeth::Frame::new_checked, out),
        Format::ProtoWib => frames(bytes, protowib::FRAME_LEN, protowib::Frame::new_checked, out),
        Format::DaqEthernet => daq_ethernet(bytes, out),
        Format::Ethernet => ethernet(bytes, out),
        Format::Ipv4 => ipv4(bytes, out),
        Format::Udp => udp(bytes, out),
        Format::ApeLink => apelink(bytes, out),
        Format::Pcap => capture::pcap(bytes, out),
        Format::Pcapng => capture::pcapng(bytes, out),
        Format::Rdma => Ok(writeln!(out, "{}", rdma::Packet::new_checked(bytes)?)?),
        Format::RoCe => Ok(writeln!(out, "{}", roce::Packet::new_checked(bytes)?)?),
        Format::M2Egp => m2egp(bytes, out),
        Format::Mgp => mgp(bytes, out),
        Format::Mtp => mtp(bytes, out),
        Format::Clb => clb(bytes, out),
        Format::ClbCapture => clb_capture(bytes, out),
        Format::Km3NetDaq => km3net_daq(bytes, out),
        Format::Mep => mep(bytes, out),
        Format::Tdm => tdm(bytes, out),
        Format::Exchange => records::<exchange::Message>(bytes, out),
        Format::ApeLinkFrame => apelink_frame(bytes, out),
        Format::Neighbour => Ok(writeln!(out, "{}", neighbour::Message::parse(bytes)?)?),
        Format::ReadoutLink => Ok(writeln!(out, "{}", readout_link::Message::parse(bytes)?)?),
        Format::SlowControl => {
            Ok(writeln!(out, "{}", slow_control::Datagram::new_checked(bytes)?)?)
        }
    }
}

fn fragment(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    let fragment = Fragment::new_checked(bytes)?;
    let (header, payload) = (fragment.header(), fragment.payload());
    writeln!(out, "{header}\npayload, {} bytes", payload.len())?;
    if !fragment.size_is_exact() {
        writeln!(out, "  the header declares a fragment of {} bytes", header.size)?;
    }
    match payload_format(header.fragment_type, payload) {
        Some(format) if !payload.is_empty() => describe(format, payload, &mut Indented::new(out)),
        _ => Ok(()),
    }
}

fn trigger_record(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    let record = TriggerRecordHeader::new_checked(bytes)?;
    let requests = record.component_requests();
    writeln!(out, "{}\n{} component requests", record.header(), requests.len())?;
    list(requests, &mut Indented::new(out))
}

fn time_slice(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    Ok(writeln!(out, "{}", TimeSliceHeader::parse(bytes)?)?)
}

fn daq_ethernet(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", daq_ethernet::Header::new_checked(bytes)?)?;
    Ok(writeln!(out, "payload, {} bytes", bytes.len() - daq_ethernet::HEADER_LEN)?)
}

fn apelink(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    let packet = apelink::Packet::new_checked(bytes)?;
    writeln!(out, "{packet}")?;
    if !packet.verify_crc() {
        writeln!(out, "  the check sum is wrong")?;
    }
    Ok(())
}

fn apelink_frame(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    let frame = apelink::Frame::new_checked(bytes)?;
    writeln!(out, "{}", frame.head())?;
    for packet in frame.packets() {
        let packet = packet?;
        writeln!(out, "{packet}")?;
        if !packet.verify_crc() {
            writeln!(out, "  the check sum is wrong")?;
        }
    }
    Ok(())
}

fn m2egp(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    check_len("M2EGP event", bytes, m2egp::WORD_LEN)?;
    results(m2egp::Events::new(bytes), out)
}

fn mgp(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    let datagram = mgp::Datagram::with_header_checked(bytes)?;
    writeln!(out, "{}", datagram.header())?;
    results(datagram.events(), &mut Indented::new(out))?;
    mgp::Datagram::new_checked(bytes).map(|_| ())
}

/// Prints events and what they hold. A payload that is none of a known board is no error.
fn mep(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    let packet = mep::Packet::new_checked(bytes)?;
    let header = packet.header();
    writeln!(out, "{header}")?;
    let out = &mut Indented::new(out);
    for (event, fragment) in packet.fragments().take(ITEMS_SHOWN) {
        writeln!(out, "{event}: {fragment}")?;
        let (timestamp, out) = (fragment.header().timestamp, &mut Indented::new(&mut *out));
        if header.source == na62::Source::L0Tp.number() {
            if let Ok(data) = mep::l0::L0Data::parse(fragment.payload()) {
                writeln!(out, "{data}")?;
            }
        } else if let Ok(payload) = mep::tdc::Payload::new_checked(fragment.payload()) {
            writeln!(out, "{}", payload.board())?;
            results(payload.edges(timestamp).map(Ok), out)?;
        }
    }
    more(header.events.into(), out)
}

fn mtp(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    let packet = mtp::Packet::new_checked(bytes)?;
    writeln!(out, "{}", packet.header())?;
    results(packet.primitives().map(Ok), &mut Indented::new(out))
}

fn tdm(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    let frame = tdm::Frame::new_unverified(bytes)?;
    writeln!(out, "{frame}")?;
    for module in 0..tdm::MODULES as u8 {
        writeln!(out, "  module {module}")?;
        results(frame.hits(module), &mut Indented::new(&mut Indented::new(out)))?;
    }
    Ok(())
}

fn clb(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    let header = clb::Header::parse(bytes)?;
    match header.data_type {
        clb::DataType::Optical => {
            let packet = clb::Optical::new_checked(bytes, clb::OPTICAL_STATUS_WORDS)?;
            writeln!(out, "{packet}")?;
            list(packet.hits(), &mut Indented::new(out))
        }
        clb::DataType::Monitoring => Ok(writeln!(out, "{}", clb::Monitoring::parse(bytes)?)?),
        _ => Ok(writeln!(out, "{header}\npayload, {} bytes", bytes.len() - clb::HEADER_LEN)?),
    }
}

/// Prints objects of KM3NeT that fill the bytes, each with what it holds.
fn km3net_daq(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    check_len("KM3NeT object", bytes, daq::PREAMBLE_LEN)?;
    let mut count = 0;
    for object in daq::Objects::new(bytes) {
        let object = object?;
        if count < ITEMS_SHOWN {
            writeln!(out, "{count}: {object}")?;
            let out = &mut Indented::new(out);
            match object {
                daq::Object::TimeSlice(slice) => results(slice.frames().map(Ok), out)?,
                daq::Object::SummarySlice(slice) => list(slice.frames(), out)?,
                daq::Object::Event(event) => list(event.triggered_hits(), out)?,
            }
        }
        count += 1;
    }
    more(count, out)
}

/// Prints the packets of a capture. A bad packet is no error: captures are made to see them.
fn clb_capture(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    check_len("CLB capture", bytes, clb::LENGTH_LEN)?;
    let mut count = 0;
    for packet in clb::Packets::new(bytes) {
        let packet = packet?;
        if count < ITEMS_SHOWN {
            writeln!(out, "{count}: packet of {} bytes", packet.len())?;
            let out = &mut Indented::new(out);
            match clb(packet, out) {
                Ok(()) => {}
                Err(Error::Output(error)) => return Err(error.into()),
                Err(error) => writeln!(out, "{error}")?,
            }
        }
        count += 1;
    }
    more(count, out)
}

pub(super) fn ethernet(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    let frame = ethernet::Frame::new_checked(bytes)?;
    writeln!(out, "{frame}")?;
    match frame.ethertype() {
        ethernet::ETHERTYPE_IPV4 => ipv4(frame.payload(), out),
        _ => Ok(writeln!(out, "payload, {} bytes", frame.payload().len())?),
    }
}

pub(super) fn ipv4(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    let packet = ipv4::Packet::new_checked(bytes)?;
    writeln!(out, "{packet}")?;
    if !packet.verify_checksum() {
        writeln!(out, "  the header check sum is wrong")?;
    }
    match packet.protocol() {
        ipv4::PROTOCOL_UDP if !packet.is_fragment() => udp(packet.payload(), out),
        _ => Ok(writeln!(out, "payload, {} bytes", packet.payload().len())?),
    }
}

fn udp(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    let datagram = udp::Datagram::new_checked(bytes)?;
    let payload = datagram.payload();
    writeln!(out, "{datagram}\npayload, {} bytes", payload.len())?;
    let is_roce = datagram.destination_port() == roce::PORT;
    if is_roce && roce::Packet::new_checked(payload).is_ok() {
        return describe(Format::RoCe, payload, &mut Indented::new(out));
    }
    // A carrier in a carrier is not opened: each would cost stack, and the sender sets the depth.
    match identify(payload) {
        None | Some(Format::Ethernet | Format::Ipv4 | Format::Pcap | Format::Pcapng) => Ok(()),
        Some(format) => describe(format, payload, &mut Indented::new(out)),
    }
}

/// Prints records that fill the bytes, one a line.
fn records<R: Record + Display>(bytes: &[u8], out: &mut dyn Write) -> Result<()> {
    items(R::FORMAT, bytes, R::LEN, |index, item| {
        Ok(writeln!(out, "{index}: {}", R::parse(item)?)?)
    })?;
    more(bytes.len() / R::LEN, out)
}

/// Prints frames that fill the bytes, one after the other.
fn frames<'a, F: Display>(
    bytes: &'a [u8],
    frame_len: usize,
    view: impl Fn(&'a [u8]) -> Result<F>,
    out: &mut dyn Write,
) -> Result<()> {
    items("frames", bytes, frame_len, |index, item| {
        let frame = view(item)?;
        writeln!(out, "{index}:")?;
        Ok(writeln!(Indented::new(out), "{frame}")?)
    })?;
    more(bytes.len() / frame_len, out)
}

/// Hands the first items of `unit` bytes to `print`; refuses bytes that end inside an item.
fn items<'a>(
    format: &'static str,
    bytes: &'a [u8],
    unit: usize,
    mut print: impl FnMut(usize, &'a [u8]) -> Result<()>,
) -> Result<()> {
    check_len(format, bytes, unit)?;
    let mut items = bytes.chunks_exact(unit).take(ITEMS_SHOWN).enumerate();
    items.try_for_each(|(index, item)| print(index, item))?;
    if !bytes.len().is_multiple_of(unit) {
        return Err(Error::Remainder { format, unit, got: bytes.len() });
    }
    Ok(())
}

/// Prints values one a line.
fn list<R: Display>(values: impl ExactSizeIterator<Item = R>, out: &mut dyn Write) -> Result<()> {
    let count = values.len();
    for (index, value) in values.take(ITEMS_SHOWN).enumerate() {
        writeln!(out, "{index}: {value}")?;
    }
    more(count, out)
}

/// Prints values one a line, up to the first error.
fn results<R: Display>(values: impl Iterator<Item = Result<R>>, out: &mut dyn Write) -> Result<()> {
    let mut count = 0;
    for value in values {
        let value = value?;
        if count < ITEMS_SHOWN {
            writeln!(out, "{count}: {value}")?;
        }
        count += 1;
    }
    more(count, out)
}

/// Prints trigger objects that fill the bytes, each with its inputs.
fn objects<D, I>(bytes: &[u8], out: &mut dyn Write) -> Result<()>
where
    D: Record + Display,
    I: Record + Display,
{
    check_len(D::FORMAT, bytes, D::LEN)?;
    let mut count = 0;
    for object in Overlays::<D, I>::new(bytes) {
        let object = object?;
        if count < ITEMS_SHOWN {
            writeln!(out, "{count}: {object}")?;
            list(object.inputs(), &mut Indented::new(out))?;
        }
        count += 1;
    }
    more(count, out)
}

/// Says how many of `count` items are not printed.
pub(super) fn more(count: usize, out: &mut dyn Write) -> Result<()> {
    if count > ITEMS_SHOWN {
        writeln!(out, "... and {} more", count - ITEMS_SHOWN)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fragment;
    use crate::fragment_type::FragmentType;
    use crate::source_id::Subsystem;
    use crate::{network, overlay, trigger_record};
    use core::fmt;

    fn text(format: Format, bytes: &[u8]) -> (String, Result<()>) {
        let mut text = String::new();
        let result = describe(format, bytes, &mut text);
        (text, result)
    }

    fn fragment_of(fragment_type: FragmentType, payload: &[u8]) -> Vec<u8> {
        let header = fragment::Repr {
            version: fragment::Version::V5,
            size: 0,
            trigger_number: 1,
            trigger_timestamp: 2,
            window_begin: 3,
            window_end: 4,
            run_number: 5,
            error_bits: 0,
            fragment_type,
            sequence_number: 0,
            detector_id: 3,
            source_id: SourceId::new(Subsystem::Trigger, 9),
        };
        let mut bytes = vec![0; fragment::Repr::LEN];
        header.with_payload_len(payload.len()).emit(&mut bytes);
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn a_fragment_shows_the_primitives_in_it() {
        let primitives = TriggerPrimitive::INVALID.to_le_bytes().repeat(ITEMS_SHOWN + 2);
        let (text, result) =
            text(Format::Fragment, &fragment_of(FragmentType::TriggerPrimitive, &primitives));
        assert_eq!(result, Ok(()));
        let lines: Vec<_> = text.lines().skip(13).collect();
        assert_eq!(lines[0], "payload, 432 bytes");
        assert!(lines[1].starts_with("  0: channel 16777215, detector Unknown(255), start"));
        assert_eq!(lines.len(), ITEMS_SHOWN + 2);
        assert_eq!(lines[ITEMS_SHOWN + 1], "  ... and 2 more");
    }

    #[test]
    fn a_fragment_with_a_wrong_size_says_so() {
        let mut bytes = fragment_of(FragmentType::Unknown, &[1, 2, 3]);
        bytes[8] = 70;
        let (text, result) = text(Format::Fragment, &bytes);
        assert_eq!(result, Ok(()));
        assert!(text.ends_with("payload, 3 bytes\n  the header declares a fragment of 70 bytes\n"));
    }

    #[test]
    fn an_empty_fragment_is_whole() {
        let (text, result) = text(Format::Fragment, &fragment_of(FragmentType::WibEth, &[]));
        assert_eq!(result, Ok(()));
        assert!(text.ends_with("payload, 0 bytes\n"));
    }

    #[test]
    fn old_primitives_in_a_fragment_are_recognised() {
        let mut old = [0; 56];
        old[0] = 1;
        let bytes = fragment_of(FragmentType::TriggerPrimitive, &old);
        let (text, result) = text(Format::Fragment, &bytes);
        assert_eq!(result, Ok(()));
        assert!(text.contains("algorithm Unknown"), "{text}");
    }

    #[test]
    fn what_precedes_an_error_is_printed() {
        let mut bytes = fragment_of(FragmentType::WibEth, &[0; 7200]);
        bytes.pop();
        let (text, result) = text(Format::Fragment, &bytes);
        let error = Error::Truncated { format: "frames", expected: 7200, got: 7199 };
        assert_eq!(result, Err(error));
        assert!(text.contains("fragment_type          WIBEth"));
    }

    #[test]
    fn a_trigger_object_shows_its_inputs() {
        let data = TriggerActivityData::read(&[0; TriggerActivityData::LEN]);
        let inputs = [TriggerPrimitive::INVALID; 2];
        let mut bytes = [0; 80 + 8 + 48];
        overlay::emit(&data, &inputs, &mut bytes);
        let (text, result) = text(Format::TriggerActivity, &bytes);
        assert_eq!(result, Ok(()));
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("0: algorithm Unknown") && lines[0].ends_with("2 inputs"));
        assert!(lines[1].starts_with("  0: channel") && lines[2].starts_with("  1: channel"));
    }

    #[test]
    fn a_trigger_record_shows_its_requests() {
        let mut bytes = vec![0; trigger_record::buffer_len(1)];
        let component = SourceId::new(Subsystem::DetectorReadout, 0x64);
        let request = ComponentRequest { component, window_begin: 10, window_end: 20 };
        let header = trigger_record::Repr {
            version: trigger_record::Version::V4,
            trigger_number: 1,
            trigger_timestamp: 2,
            run_number: 3,
            error_bits: 0,
            trigger_type: 0,
            sequence_number: 0,
            max_sequence_number: 0,
            source_id: SourceId::new(Subsystem::TrBuilder, 0),
        };
        trigger_record::emit(&header, &[request], &mut bytes);
        let (text, result) = text(Format::TriggerRecord, &bytes);
        assert_eq!(result, Ok(()));
        assert!(text.ends_with(
            "1 component requests\n  0: Detector_Readout_0x00000064, window 10 to 20 ticks\n"
        ));
    }

    fn in_ethernet(payload: &[u8]) -> Vec<u8> {
        let addresses = network::Addresses {
            source_hardware: ethernet::Address([2, 0, 0, 0, 0, 1]),
            destination_hardware: ethernet::Address([2, 0, 0, 0, 0, 2]),
            source: "10.0.0.1:1000".parse().unwrap(),
            destination: "10.0.0.2:2000".parse().unwrap(),
        };
        let mut frame = vec![0; addresses.buffer_len(payload.len())];
        addresses.emit(payload, &mut frame).unwrap();
        frame
    }

    #[test]
    fn an_ethernet_frame_shows_every_layer_down_to_the_front_end() {
        for (det_id, kind) in [(10, "WIBEth frame"), (11, "TDEEth frame")] {
            let mut payload = [0; tpc_frame::FRAME_LEN];
            let block_length = tpc_frame::BLOCK_LENGTH;
            let daq = daq_ethernet::Repr { det_id, block_length, ..Default::default() };
            daq.emit(&mut daq_ethernet::Header::new_unchecked(&mut payload[..]));
            let frame = in_ethernet(&payload);
            assert_eq!(identify(&frame), Some(Format::Ethernet));
            assert_eq!(identify(&frame[ethernet::HEADER_LEN..]), Some(Format::Ipv4));
            let (text, result) = text(Format::Ethernet, &frame);
            assert_eq!(result, Ok(()));
            let titles = ["Ethernet frame", "IPv4 packet", "UDP datagram", kind, "ADC block"];
            let mut lines = text.lines().map(str::trim_start);
            for title in titles {
                assert!(lines.any(|line| line == title), "{title}\n{text}");
            }
        }
    }

    #[test]
    fn a_packet_of_an_apelink_shows_whether_its_sum_is_right() {
        let mut bytes = [0; 64];
        let (header, footer) = (apelink::Header::default(), apelink::Footer::default());
        apelink::packet::emit(&header, &[7; 30], footer, &mut bytes);
        assert_eq!(identify(&bytes), Some(Format::ApeLink));
        assert!(text(Format::ApeLink, &bytes).0.contains("payload, 30 bytes\nAPElink footer\n"));
        bytes[20] ^= 1;
        assert_eq!(identify(&bytes), None);
        assert!(text(Format::ApeLink, &bytes).0.ends_with("\n  the check sum is wrong\n"));
    }

    #[test]
    fn a_carrier_in_a_datagram_is_not_opened() {
        let mut frame = in_ethernet(&[]);
        while frame.len() < 60_000 {
            frame = in_ethernet(&frame);
        }
        let (text, result) = text(Format::Ethernet, &frame);
        assert_eq!(result, Ok(()));
        assert_eq!(text.matches("UDP datagram").count(), 1);
    }

    #[test]
    fn a_wrong_check_sum_is_said() {
        let mut frame = in_ethernet(&[7; 20]);
        frame[ethernet::HEADER_LEN + 8] -= 1;
        assert_eq!(identify(&frame), None);
        let (text, result) = text(Format::Ethernet, &frame);
        assert_eq!(result, Ok(()));
        assert!(text.contains("  the header check sum is wrong\nUDP datagram"), "{text}");
    }

    #[test]
    fn empty_bytes_are_no_format() {
        for &format in Format::ALL {
            assert!(text(format, &[]).1.is_err(), "{format}");
        }
    }

    #[test]
    fn a_writer_that_fails_is_an_error_of_the_output() {
        struct Full;
        impl fmt::Write for Full {
            fn write_str(&mut self, _: &str) -> fmt::Result {
                Err(fmt::Error)
            }
        }
        let result = describe(Format::SourceId, &[2, 0, 1, 0, 0, 0, 0, 0], &mut Full);
        assert_eq!(result, Err(Error::Output(fmt::Error)));
    }
}
