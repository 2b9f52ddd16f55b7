//! Guessing a format from markers, versions and lengths.

use super::Format;
use crate::component_request::ComponentRequest;
use crate::detector::Detector;
use crate::km3net::{clb, daq, tdm};
use crate::little_endian as le;
use crate::na62::{self, m2egp, mep, mgp, mtp};
use crate::overlay::Overlays;
use crate::record::{Record, Records};
use crate::source_id::{SourceId, Subsystem};
use crate::time_slice::TimeSliceHeader;
use crate::trigger_activity::TriggerActivityData;
use crate::trigger_candidate::TriggerCandidateData;
use crate::trigger_primitive::TriggerPrimitive;
use crate::trigger_primitive_v1::{self, TriggerPrimitiveV1};
use crate::{
    apelink, capture_file, daq_ethernet, ethernet, exchange, fragment, ipv4, neighbour, pcap,
    protowib, rdma, readout_link, slow_control, tpc_frame, trigger_record,
};

/// A test whether bytes look like a format.
type Test = fn(&[u8]) -> bool;

/// The tests, surest first: a marker, then lengths that agree with each other, then small values.
const TESTS: [(Format, Test); 32] = [
    (Format::Fragment, |bytes| starts_with(bytes, fragment::Repr::MAGIC)),
    (Format::TriggerRecord, |bytes| starts_with(bytes, trigger_record::Repr::MAGIC)),
    (Format::TimeSlice, |bytes| starts_with(bytes, TimeSliceHeader::MAGIC)),
    (Format::Exchange, are_records::<exchange::Message>),
    (Format::ReadoutLink, |bytes| readout_link::Message::parse(bytes).is_ok()),
    (Format::ApeLinkFrame, |bytes| apelink::Frame::new_checked(bytes).is_ok()),
    (Format::Neighbour, |bytes| neighbour::Message::parse(bytes).is_ok()),
    (Format::Pcap, |bytes| pcap::FileHeader::parse(bytes).is_ok()),
    (Format::Pcapng, |bytes| bytes.starts_with(&capture_file::PCAPNG_MAGIC)),
    (Format::TdeEth, |bytes| is_tpc_frame(bytes) && detector(bytes) == Detector::VdTopTpc),
    (Format::WibEth, is_tpc_frame),
    (Format::Rdma, is_rdma),
    (Format::SlowControl, is_slow_control),
    (Format::Ethernet, is_ethernet),
    (Format::Ipv4, is_ipv4),
    (Format::ApeLink, is_apelink),
    (Format::Tdm, |bytes| bytes.len() == tdm::FRAME_LEN && tdm::Frame::new_checked(bytes).is_ok()),
    (Format::Clb, is_clb),
    (Format::ClbCapture, is_clb_capture),
    (Format::Km3NetDaq, are_km3net_objects),
    (Format::Mep, is_mep),
    (Format::M2Egp, are_merged_events),
    (Format::Mgp, is_mgp),
    (Format::Mtp, is_mtp),
    (Format::TriggerCandidate, are_objects::<TriggerCandidateData, TriggerActivityData>),
    (Format::TriggerActivity, are_objects::<TriggerActivityData, TriggerPrimitive>),
    (Format::ComponentRequest, are_component_requests),
    (Format::TriggerPrimitiveV1, are_primitives_v1),
    (Format::TriggerPrimitive, are_records::<TriggerPrimitive>),
    (Format::SourceId, is_source_id),
    (Format::DaqEthernet, is_daq_ethernet),
    (Format::ProtoWib, is_protowib),
];

/// The format that bytes most probably have.
///
/// A bare UDP datagram and a packet of RoCEv2 have nothing to know them by and are never guessed.
pub fn identify(bytes: &[u8]) -> Option<Format> {
    TESTS.iter().find(|(_, is)| is(bytes)).map(|&(format, _)| format)
}

fn starts_with(bytes: &[u8], magic: u32) -> bool {
    bytes.starts_with(&magic.to_le_bytes())
}

fn daq_header(bytes: &[u8]) -> Option<daq_ethernet::Repr> {
    Some(daq_ethernet::Repr::parse(&daq_ethernet::Header::new_checked(bytes).ok()?))
}

fn detector(bytes: &[u8]) -> Detector {
    daq_header(bytes).map_or(Detector::Unknown, |daq| Detector::from_number(daq.det_id.into()))
}

/// Whole frames of 7200 bytes, of which the first says so.
fn is_tpc_frame(bytes: &[u8]) -> bool {
    bytes.len().is_multiple_of(tpc_frame::FRAME_LEN)
        && daq_header(bytes).is_some_and(|daq| daq.block_length == tpc_frame::BLOCK_LENGTH)
}

/// A frame of another front end: a known detector, and a header that gives the length.
fn is_daq_ethernet(bytes: &[u8]) -> bool {
    let known = !matches!(detector(bytes), Detector::Unknown | Detector::Other(_));
    known && daq_header(bytes).is_some_and(|daq| (daq.block_length as usize + 1) * 8 == bytes.len())
}

fn is_rdma(bytes: &[u8]) -> bool {
    rdma::Packet::new_checked(bytes).is_ok_and(|packet| packet.verify_checksum())
}

fn is_slow_control(bytes: &[u8]) -> bool {
    slow_control::Repr::parse(bytes).is_ok()
}

fn is_ipv4(bytes: &[u8]) -> bool {
    ipv4::Packet::new_checked(bytes).is_ok_and(|packet| packet.verify_checksum())
}

fn is_ethernet(bytes: &[u8]) -> bool {
    ethernet::Frame::new_checked(bytes).is_ok_and(|frame| {
        frame.ethertype() == ethernet::ETHERTYPE_IPV4 && is_ipv4(frame.payload())
    })
}

/// A packet with the right check sum that ends where the bytes do.
fn is_apelink(bytes: &[u8]) -> bool {
    apelink::Packet::new_checked(bytes).is_ok_and(|packet| {
        packet.packet_len() == bytes.len() && packet.footer().is_some() && packet.verify_crc()
    })
}

/// A packet of an optical module: one of three names, and hits that end where the bytes do.
fn is_clb(bytes: &[u8]) -> bool {
    clb::Header::parse(bytes).is_ok_and(|header| match header.data_type {
        clb::DataType::Optical => {
            clb::Optical::new_checked(bytes, clb::OPTICAL_STATUS_WORDS).is_ok()
        }
        clb::DataType::Monitoring => clb::Monitoring::parse(bytes).is_ok(),
        _ => true,
    })
}

/// Objects of known types and versions that lead exactly to the end.
fn are_km3net_objects(bytes: &[u8]) -> bool {
    !bytes.is_empty() && daq::Objects::new(bytes).all(|object| object.is_ok())
}

/// Packets behind their lengths that lead exactly to the end, of which the first is one.
fn is_clb_capture(bytes: &[u8]) -> bool {
    let mut packets = clb::Packets::new(bytes);
    packets.next().is_some_and(|packet| packet.is_ok_and(is_clb)) && packets.all(|p| p.is_ok())
}

/// Events with delimiters and right counts that lead exactly to the end.
fn are_merged_events(bytes: &[u8]) -> bool {
    !bytes.is_empty() && m2egp::Events::new(bytes).all(|event| event.is_ok())
}

/// A datagram of a known source with as many events as it says, padded with zeros.
fn is_mgp(bytes: &[u8]) -> bool {
    mgp::Datagram::new_checked(bytes).is_ok_and(|datagram| {
        let mgp::HeaderRepr { source, flags, length, .. } = datagram.header();
        let padding = &bytes[length.into()..];
        is_na62(source) && flags <= mgp::END_OF_BURST && padding.iter().all(|&byte| byte == 0)
    })
}

/// Events of a known source that lead exactly to the end, one at least.
fn is_mep(bytes: &[u8]) -> bool {
    mep::Packet::new_checked(bytes).is_ok_and(|packet| {
        let header = packet.header();
        is_na62(header.source) && header.events > 0
    })
}

/// A packet of a known source with length and number of primitives as it says.
fn is_mtp(bytes: &[u8]) -> bool {
    mtp::Packet::new_checked(bytes).is_ok_and(|packet| is_na62(packet.header().source))
}

fn is_na62(source: u8) -> bool {
    !matches!(na62::Source::from_number(source), na62::Source::Other(_))
}

/// Trigger objects whose numbers of inputs lead exactly to the end.
fn are_objects<D: Record, I: Record>(bytes: &[u8]) -> bool {
    !bytes.is_empty() && Overlays::<D, I>::new(bytes).all(|object| object.is_ok())
}

fn are_records<R: Record>(bytes: &[u8]) -> bool {
    !bytes.is_empty() && Records::<R>::new_checked(bytes).is_ok()
}

fn are_component_requests(bytes: &[u8]) -> bool {
    are_records::<ComponentRequest>(bytes) && le::u32(bytes, 4) == u32::MAX
}

fn are_primitives_v1(bytes: &[u8]) -> bool {
    Records::<TriggerPrimitiveV1>::new_checked(bytes).is_ok_and(|mut primitives| {
        primitives.len() > 0
            && primitives.all(|primitive| {
                !matches!(primitive.sensor, trigger_primitive_v1::Type::Other(_))
                    && !matches!(primitive.algorithm, trigger_primitive_v1::Algorithm::Other(_))
            })
    })
}

fn is_source_id(bytes: &[u8]) -> bool {
    bytes.len() == SourceId::LEN
        && SourceId::parse(bytes)
            .is_ok_and(|source| !matches!(source.subsystem, Subsystem::Other(_)))
}

/// Whole frames of 464 bytes, one step of time apart, with reserved bits clear.
fn is_protowib(bytes: &[u8]) -> bool {
    let mut frames = bytes.chunks(protowib::FRAME_LEN).map(protowib::Frame::new_checked);
    let mut expected = None;
    bytes.iter().any(|&byte| byte != 0)
        && frames.all(|frame| {
            frame.is_ok_and(|frame| {
                let wib = frame.wib();
                let time = wib.timestamp();
                let in_step = expected.is_none_or(|expected| expected == time);
                expected = Some(time.wrapping_add(protowib::TICKS_PER_FRAME));
                in_step && wib.reserved_1() == 0 && wib.reserved_2() == 0
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_made_of_nothing_or_of_text() {
        assert_eq!(identify(&[]), None);
        assert_eq!(identify(&[0; 464]), None);
        assert_eq!(identify(b"# Every byte format of the platform"), None);
    }

    #[test]
    fn a_marker_is_enough_even_when_the_rest_is_missing() {
        assert_eq!(identify(&[0x22, 0x22, 0x11, 0x11]), Some(Format::Fragment));
        assert_eq!(identify(&[0x44, 0x44, 0x33, 0x33, 9]), Some(Format::TriggerRecord));
        assert_eq!(identify(&[0x66, 0x66, 0x55, 0x55, 9]), Some(Format::TimeSlice));
    }

    #[test]
    fn versions_tell_primitives_apart() {
        let mut bytes = [0; 168];
        bytes[0] = 1;
        assert_eq!(identify(&bytes[..56]), Some(Format::TriggerPrimitiveV1));
        bytes.iter_mut().step_by(24).for_each(|version| *version = 2);
        assert_eq!(identify(&bytes[..24]), Some(Format::TriggerPrimitive));
        assert_eq!(identify(&bytes), Some(Format::TriggerPrimitive));
        bytes[144] = 3;
        assert_eq!(identify(&bytes), None);
    }

    #[test]
    fn a_daq_frame_of_unknown_kind_is_known_by_its_length() {
        let mut bytes = [0; 64];
        let header = daq_ethernet::Repr { det_id: 2, block_length: 7, ..Default::default() };
        header.emit(&mut daq_ethernet::Header::new_unchecked(&mut bytes[..]));
        assert_eq!(identify(&bytes), Some(Format::DaqEthernet));
        assert_eq!(identify(&bytes[..56]), None);
    }

    #[test]
    fn protowib_frames_are_known_by_their_step_of_time() {
        let mut bytes = [0; 2 * protowib::FRAME_LEN];
        bytes[protowib::FRAME_LEN + 8] = 25;
        assert_eq!(identify(&bytes), Some(Format::ProtoWib));
        bytes[protowib::FRAME_LEN + 8] = 26;
        assert_eq!(identify(&bytes), None);
    }
}
