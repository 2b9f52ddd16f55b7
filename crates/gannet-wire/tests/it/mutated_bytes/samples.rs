//! Valid bytes of every format.

use gannet_wire::apelink;
use gannet_wire::capture::{LINK_TYPE_ETHERNET, Packet};
use gannet_wire::component_request::ComponentRequest;
use gannet_wire::inspect::Format;
use gannet_wire::km3net::{CHANNELS, Hit, Status, clb, daq, tdm};
use gannet_wire::na62::{self, m2egp, mep, mgp, mtp};
use gannet_wire::network::Addresses;
use gannet_wire::record::Record;
use gannet_wire::time_slice::TimeSliceHeader;
use gannet_wire::trigger_activity::TriggerActivityData;
use gannet_wire::trigger_candidate::TriggerCandidateData;
use gannet_wire::trigger_primitive::TriggerPrimitive;
use gannet_wire::trigger_primitive_v1::{self, TriggerPrimitiveV1};
use gannet_wire::{
    FragmentType, SourceId, Subsystem, daq_ethernet, ethernet, exchange, fragment, ipv4, neighbour,
    overlay, pcap, pcapng, protowib, rdma, readout_link, roce, slow_control, tpc_frame,
    trigger_record, udp,
};

/// Valid bytes of `format`.
pub fn sample(format: Format) -> Vec<u8> {
    match format {
        Format::Fragment => fragment_of(FragmentType::WibEth, &tpc_frames(10)),
        Format::TriggerRecord => trigger_record(),
        Format::TimeSlice => records::<TimeSliceHeader>(1),
        Format::ComponentRequest => records::<ComponentRequest>(3),
        Format::SourceId => SourceId::new(Subsystem::Trigger, 7).to_bytes(),
        Format::TriggerPrimitive => records::<TriggerPrimitive>(20),
        Format::TriggerPrimitiveV1 => old_primitives(),
        Format::TriggerActivity => objects::<TriggerActivityData, TriggerPrimitive>(),
        Format::TriggerCandidate => objects::<TriggerCandidateData, TriggerActivityData>(),
        Format::WibEth => tpc_frames(10),
        Format::TdeEth => tpc_frames(11),
        Format::ProtoWib => protowib_frames(),
        Format::DaqEthernet => daq_frame(),
        Format::Ethernet => link_frame(),
        Format::Ipv4 => link_frame()[ethernet::HEADER_LEN..].to_vec(),
        Format::Udp => link_frame()[ethernet::HEADER_LEN + ipv4::HEADER_LEN..].to_vec(),
        Format::ApeLink => apelink_packet(),
        Format::Pcap => pcap_file(),
        Format::Pcapng => pcapng_file(),
        Format::Rdma => rdma_packet(),
        Format::RoCe => roce_packet(),
        Format::M2Egp => merged_events(),
        Format::Mgp => mgp_datagram(),
        Format::Mtp => mtp_packet(),
        Format::Clb => clb_packet(),
        Format::ClbCapture => clb_capture(),
        Format::Km3NetDaq => km3net_objects(),
        Format::Mep => mep_packet(),
        Format::Tdm => tdm_frame(),
        Format::SlowControl => slow_control_command(),
        Format::Exchange => window_message(),
        Format::ReadoutLink => readout_message(),
        Format::ApeLinkFrame => apelink_frame(),
        Format::Neighbour => neighbour_message(),
        _ => panic!("no sample of {format}: make one"),
    }
}

/// Bytes of a steady, unremarkable pattern.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 37 % 251) as u8).collect()
}

trait ToBytes {
    fn to_bytes(&self) -> Vec<u8>;
}

impl<R: Record> ToBytes for R {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; R::LEN];
        self.emit(&mut bytes);
        bytes
    }
}

/// A record of the pattern. What `read` takes from the first byte as it is may be a version.
fn record<R: Record>() -> R {
    let mut bytes = R::read(&pattern(R::LEN)).to_bytes();
    let versions = 0..=u8::MAX;
    let parse = |version| {
        bytes[0] = version;
        R::parse(&bytes).ok()
    };
    versions.into_iter().find_map(parse).expect("a version that is read")
}

fn records<R: Record>(count: usize) -> Vec<u8> {
    record::<R>().to_bytes().repeat(count)
}

fn old_primitives() -> Vec<u8> {
    let mut primitive = record::<TriggerPrimitiveV1>();
    primitive.sensor = trigger_primitive_v1::Type::Tpc;
    primitive.algorithm = trigger_primitive_v1::Algorithm::SimpleThreshold;
    primitive.to_bytes().repeat(3)
}

/// Two objects with inputs.
fn objects<D: Record, I: Record>() -> Vec<u8> {
    let inputs: Vec<I> = std::iter::repeat_with(record).take(5).collect();
    let mut bytes = vec![0; overlay::buffer_len::<D, I>(inputs.len())];
    overlay::emit(&record::<D>(), &inputs, &mut bytes);
    bytes.repeat(2)
}

fn fragment_of(fragment_type: FragmentType, payload: &[u8]) -> Vec<u8> {
    let header = fragment::Repr {
        version: fragment::Version::V5,
        size: 0,
        trigger_number: 1,
        trigger_timestamp: 1000,
        window_begin: 900,
        window_end: 1100,
        run_number: 123,
        error_bits: 1,
        fragment_type,
        sequence_number: 0,
        detector_id: 3,
        source_id: SourceId::new(Subsystem::DetectorReadout, 9),
    };
    let mut bytes = header.with_payload_len(payload.len()).to_bytes();
    bytes.extend(payload);
    bytes
}

fn trigger_record() -> Vec<u8> {
    let component = SourceId::new(Subsystem::DetectorReadout, 0x64);
    let requests = [ComponentRequest { component, window_begin: 10, window_end: 20 }; 3];
    let header = trigger_record::Repr {
        version: trigger_record::Version::V4,
        trigger_number: 1,
        trigger_timestamp: 2,
        run_number: 3,
        error_bits: 0,
        trigger_type: 1,
        sequence_number: 0,
        max_sequence_number: 0,
        source_id: SourceId::new(Subsystem::TrBuilder, 0),
    };
    let mut bytes = vec![0; trigger_record::buffer_len(requests.len())];
    trigger_record::emit(&header, &requests, &mut bytes);
    bytes
}

/// Two frames of a front end of the TPC, told apart by their detector number.
fn tpc_frames(det_id: u8) -> Vec<u8> {
    let mut frame = pattern(tpc_frame::FRAME_LEN);
    let block_length = tpc_frame::BLOCK_LENGTH;
    let daq = daq_ethernet::Repr { det_id, block_length, version: 2, ..Default::default() };
    daq.emit(&mut daq_ethernet::Header::new_unchecked(&mut frame[..]));
    frame.repeat(2)
}

fn daq_frame() -> Vec<u8> {
    let mut frame = pattern(64);
    let daq = daq_ethernet::Repr { det_id: 2, block_length: 7, ..Default::default() };
    daq.emit(&mut daq_ethernet::Header::new_unchecked(&mut frame[..]));
    frame
}

/// Two frames, one step of time apart.
fn protowib_frames() -> Vec<u8> {
    let mut frames = vec![0; 2 * protowib::FRAME_LEN];
    frames[protowib::FRAME_LEN + 8] = protowib::TICKS_PER_FRAME as u8;
    frames
}

/// A front-end frame as it comes over the network.
fn link_frame() -> Vec<u8> {
    let addresses = Addresses {
        source_hardware: ethernet::Address([2, 0, 0, 0, 0, 1]),
        destination_hardware: ethernet::Address([2, 0, 0, 0, 0, 2]),
        source: "10.0.0.1:4000".parse().unwrap(),
        destination: "10.0.0.2:4001".parse().unwrap(),
    };
    let payload = &tpc_frames(10)[..tpc_frame::FRAME_LEN];
    let mut frame = vec![0; addresses.buffer_len(payload.len())];
    addresses.emit(payload, &mut frame).unwrap();
    assert!(udp::Datagram::new_checked(&frame[34..]).is_ok());
    frame
}

fn packet(data: &[u8]) -> Packet<'_> {
    let (interface, link_type, original_len) = (0, LINK_TYPE_ETHERNET, data.len() as u32);
    Packet { interface, link_type, timestamp_ns: Some(1 << 60), original_len, data }
}

fn apelink_packet() -> Vec<u8> {
    let mut bytes = vec![0; 8 * apelink::WORD_LEN];
    let header = apelink::Header { hops: 3, ..Default::default() };
    let len = apelink::packet::emit(&header, &pattern(77), Default::default(), &mut bytes);
    bytes.truncate(len);
    bytes
}

fn apelink_frame() -> Vec<u8> {
    let room = [apelink::frame::Room { words: 500, headers: 100 }; apelink::VIRTUAL_CHANNELS];
    let head = apelink::frame::Head {
        virtual_channels: 2,
        packets: 2,
        session: 7,
        echo: 9,
        next: 11,
        room,
        frame_bytes: 8972,
        ..Default::default()
    };
    [head.to_bytes(), apelink_packet(), apelink_packet()].concat()
}

fn neighbour_message() -> Vec<u8> {
    let identity = neighbour::Identity {
        host: neighbour::HostId(7),
        life: 9,
        port: 3,
        frame_bytes: 8972,
        protects: true,
        is_service: false,
        host_name: neighbour::Name::of("n07"),
        port_name: neighbour::Name::of("p3"),
    };
    let mut bytes = vec![0; 200];
    let len = neighbour::Message::Open(identity, &pattern(48)).emit(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

fn pcap_file() -> Vec<u8> {
    let mut file = Vec::new();
    let writer = pcap::Writer::new(pcap::FileHeader::new(LINK_TYPE_ETHERNET), &mut file);
    for frame in [&link_frame()[..], &link_frame()[..60]] {
        writer.packet(&packet(frame), &mut file).unwrap();
    }
    file
}

fn pcapng_file() -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = pcapng::Writer::new(Default::default(), &mut file);
    writer.interface(pcapng::Interface::new(LINK_TYPE_ETHERNET), &mut file).unwrap();
    for frame in [&link_frame()[..], &link_frame()[..60]] {
        writer.packet(&packet(frame), &mut file).unwrap();
    }
    file
}

fn rdma_packet() -> Vec<u8> {
    let mut packet = vec![0; rdma::HEADER_LEN];
    packet.extend(pattern(200));
    let operation = rdma::Operation::Put;
    rdma::Repr { operation, length: 5000, ..Default::default() }.seal(&mut packet);
    packet
}

fn roce_packet() -> Vec<u8> {
    let repr = roce::Repr { data_len: 201, ..roce::Repr::new(roce::Opcode::WriteOnlyImmediate) };
    let mut packet = vec![0; repr.buffer_len()];
    packet[repr.opcode.headers_len()..][..repr.data_len].copy_from_slice(&pattern(repr.data_len));
    let address = "10.0.0.1:4791".parse().unwrap();
    repr.seal(&roce::invariant_crc::Path::of_socket(address, address), &mut packet);
    packet
}

fn merged_events() -> Vec<u8> {
    let mut bytes = vec![0; 3 * m2egp::EVENT_LEN_MAX];
    let mut len = 0;
    for hits in [4, 0, 25] {
        let header = m2egp::HeaderRepr::new(na62::Time::new(1000, hits), [1, hits, 2, 0]);
        len += m2egp::emit(&header, (1..).step_by(70), &mut bytes[len..]);
    }
    bytes.truncate(len);
    bytes
}

fn mgp_datagram() -> Vec<u8> {
    let mut bytes = vec![0; 200];
    let source = na62::Source::Rich.number();
    let header = mgp::HeaderRepr { source, sub_id: 3, frame: 3, ..Default::default() };
    let mut writer = mgp::Writer::new(header, &mut bytes);
    for hits in [1, 5, 12] {
        assert!(writer.board_event(na62::Time::new(900, hits), 0..hits.into()));
    }
    writer.finish(100);
    bytes.truncate(100);
    bytes
}

fn mtp_packet() -> Vec<u8> {
    let mut bytes = [0; mtp::LEN_MAX];
    let mut writer = mtp::Writer::new(na62::Source::Rich, 1, 2, &mut bytes);
    for timestamp in (600..1400).step_by(100) {
        let time = na62::Time::new(timestamp, 7);
        assert!(writer.primitive(mtp::Primitive { id: 0x4201, time }));
    }
    let len = writer.finish();
    bytes[..len].to_vec()
}

fn clb_packet() -> Vec<u8> {
    let header = clb::Header {
        data_type: clb::DataType::Optical,
        run: 12,
        udp_sequence: 2,
        utc_seconds: 1_700_000_000,
        ticks: 6_250_000,
        module: 808_488_895,
    };
    let hit = |channel| Hit { channel, time: 90_000_000, time_over_threshold: 26 };
    let hits: Vec<Hit> = (0..31).map(hit).collect();
    let mut bytes = vec![0; clb::optical_len(clb::OPTICAL_STATUS_WORDS, hits.len())];
    let status = Status::new(true, 0, false, 0);
    clb::emit_optical(&header, &status, clb::OPTICAL_STATUS_WORDS, &hits, &mut bytes);
    bytes
}

/// Two packets, the second of another kind.
fn clb_capture() -> Vec<u8> {
    let mut monitoring = pattern(300);
    monitoring[..4].copy_from_slice(b"TMCH");
    let mut file = Vec::new();
    for packet in [clb_packet(), monitoring] {
        file.extend(clb::capture_length(&packet));
        file.extend(packet);
    }
    file
}

/// A time slice, a summary slice and an event.
fn km3net_objects() -> Vec<u8> {
    let header = daq::Header { detector: 29, run: 7, frame_index: 5, ..Default::default() };
    let hit = Hit { channel: 4, time: 90_000_000, time_over_threshold: 26 };
    let mut bytes = Vec::new();
    let mut slice = daq::TimeSliceWriter::new(daq::DataType::TimeSliceL1, &header, &mut bytes);
    let status = Status::new(true, 0, true, 0);
    for module in 1..4 {
        slice.frame(&daq::FrameHeader { header, module, daq_status: 0, status }, &[hit; 5]);
    }
    slice.finish();
    let rates = [46; CHANNELS];
    let frame = |module| daq::SummaryFrame { module, daq_status: 0, status, rates };
    daq::emit_summary_slice(&header, &[1, 2, 3].map(frame), &mut bytes);
    let snapshot = daq::SnapshotHit { module: 2, hit };
    let triggered = daq::TriggeredHit { snapshot, trigger_mask: 1 << daq::trigger_bit::MUON };
    let event = daq::EventHeader { header, trigger_counter: 1, trigger_mask: 16, overlays: 0 };
    daq::emit_event(&event, &[triggered; 3], &[snapshot; 20], &mut bytes);
    bytes
}

/// Three events of a TDC board.
fn mep_packet() -> Vec<u8> {
    let board = mep::tdc::Board { fpga_flags: 0, trigger_type: 1, sub_id: 2, format: 4 };
    let words = [mep::tdc::edge_word(true, 1, 2, 300), mep::tdc::edge_word(false, 1, 2, 500)];
    let frames = [(0x1000, &words[..]), (0x1100, &words[..])];
    let mut payload = Vec::new();
    let blocks = [0, 3].map(|fpga| mep::tdc::Block { fpga, frames: &frames });
    mep::tdc::emit(&board, &blocks, &mut payload);
    let source = na62::Source::Rich.number();
    let header = mep::HeaderRepr { first_event: 254, source, sub_id: 2, ..Default::default() };
    let mut bytes = Vec::new();
    let mut writer = mep::Writer::new(header, &mut bytes);
    assert!((0..3).all(|event| writer.fragment(0x1000 + event, 0, &payload)));
    writer.finish();
    bytes
}

fn tdm_frame() -> Vec<u8> {
    let mut frame = tdm::Repr { counter: 7, floor: 3, ..Default::default() };
    for module in 0..tdm::MODULES {
        for time in (100..200).step_by(10) {
            let hit = tdm::Hit { time, flags: 1, samples: &[9, 80, 40, 12] };
            tdm::push_hit(&hit, &mut frame.slots[module]);
        }
    }
    let mut bytes = vec![0; frame.buffer_len()];
    frame.emit(&mut bytes);
    bytes
}

fn window_message() -> Vec<u8> {
    let window = exchange::Window { key: 77, bytes: 4096, region: 1, ..Default::default() };
    exchange::Message::Window(window).to_bytes().to_vec()
}

fn readout_message() -> Vec<u8> {
    let segment = readout_link::Segment { stream: 3, items: 2, searched_to: 5000, age_ns: 70 };
    let mut bytes = Vec::new();
    let items = [TriggerPrimitive::INVALID; 2];
    readout_link::write_items(&mut bytes, [segment].into_iter(), items.iter());
    bytes
}

fn slow_control_command() -> Vec<u8> {
    let address = slow_control::Address { session: 7, number: 3, module: 808_488_895 };
    let command = slow_control::Repr::Command { address, key: "hv", value: "1200 V" };
    let mut bytes = vec![0; command.buffer_len()];
    command.emit(&mut bytes);
    bytes
}
