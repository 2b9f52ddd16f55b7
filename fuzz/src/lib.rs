//! What the fuzz targets do with arbitrary bytes: print them, or refuse them.

mod queues;

use std::fmt::Display;
use std::fs;
use std::io::{self, Cursor};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;

use gannet_control::config::{self, Tokens};
use gannet_control::emulation::{Breakable, Faults};
use gannet_control::figures::Figures;
use gannet_control::run::Views;
use gannet_control::run_control::State;
use gannet_control::snapshot::Snapshot;
use gannet_dune::detector::DUNE_TPC;
use gannet_hdf5::{GroupReader, Reader};
use gannet_log::format::encode_chunk;
use gannet_log::{Kind, Label};
use gannet_topology::TopologyFile;
use gannet_torus::link::{Config, Form, Link, Origin};
use gannet_trigger::merge::{MergeConfig, Merged, Merger};
use gannet_web::{Access, Commands, Content, Site};
use gannet_wire::apelink::frame::{Head, Room};
use gannet_wire::apelink::{
    Credit, Footer, Header, MAGIC, START, VIRTUAL_CHANNELS, WORD_LEN, words_of,
};
use gannet_wire::daq_ethernet::CLOCK;
use gannet_wire::exchange::{TorusAddress, UdpAddress};
use gannet_wire::inspect::{Format, describe, identify};
use gannet_wire::lofamo::{Assembler, FaultDescriptorRepr, HostWatchdogRepr, NicWatchdogRepr};
use gannet_wire::neighbour::Item;
use gannet_wire::network::{Checksums, from_ethernet};
use gannet_wire::record::Record;
use gannet_wire::roce;
use gannet_wire::roce::invariant_crc::{self, SocketCheck};
use gannet_wire::torus_user;
use gannet_wire::tpc_frame::FRAME_LEN;
use gannet_wire::{ChannelMap, TriggerPrimitive};

/// Makes a function of each target, named as its file with `_` for `-`, and [`TARGETS`] of all.
macro_rules! targets {
    ($($name:ident: $body:expr,)*) => {
        $(
            #[doc = concat!("The target `", stringify!($name), "`.")]
            pub fn $name(bytes: &[u8]) {
                let body: fn(&[u8]) = $body;
                body(bytes);
            }
        )*

        /// Every target with its name.
        pub const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), $name)),*];
    };
}

/// Makes the program of a target: what the fuzzer calls, or without it one that shows the target the
/// files that it is given.
#[macro_export]
macro_rules! program {
    ($target:ident) => {
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $crate::$target(bytes));

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            $crate::show_files($crate::$target)
        }
    };
}

/// Shows a target each of the files that the command line names.
///
/// # Errors
/// When one of them cannot be read.
pub fn show_files(target: fn(&[u8])) -> io::Result<()> {
    std::env::args_os().skip(1).try_for_each(|path| {
        target(&fs::read(path)?);
        Ok(())
    })
}

targets! {
    any_format: print_any_format,
    apelink: |bytes| print(Format::ApeLink, bytes),
    apelink_accept: receive_frames,
    apelink_credit: read_record::<Credit>,
    apelink_footer: read_record::<Footer>,
    apelink_frame: |bytes| print(Format::ApeLinkFrame, bytes),
    apelink_header: read_record::<Header>,
    apelink_link: receive_words,
    channel_map: read_channel_map,
    clb: |bytes| print(Format::Clb, bytes),
    clb_capture: |bytes| print(Format::ClbCapture, bytes),
    clop: queues::clop,
    component_request: |bytes| print(Format::ComponentRequest, bytes),
    configuration: read_configuration,
    daq_ethernet: |bytes| print(Format::DaqEthernet, bytes),
    ethernet: |bytes| print(Format::Ethernet, bytes),
    exchange: |bytes| print(Format::Exchange, bytes),
    exchange_torus: read_record::<TorusAddress>,
    exchange_udp: read_record::<UdpAddress>,
    fragment: |bytes| print(Format::Fragment, bytes),
    hdf5: read_hdf5,
    http: serve,
    ipv4: |bytes| print(Format::Ipv4, bytes),
    km3net_daq: |bytes| print(Format::Km3NetDaq, bytes),
    lofamo: read_registers,
    log: verify_log,
    m2egp: |bytes| print(Format::M2Egp, bytes),
    mep: |bytes| print(Format::Mep, bytes),
    merger: merge,
    mgp: |bytes| print(Format::Mgp, bytes),
    mtp: |bytes| print(Format::Mtp, bytes),
    neighbour: |bytes| print(Format::Neighbour, bytes),
    neighbour_items: read_items,
    packet: take_packet,
    pcap: |bytes| print(Format::Pcap, bytes),
    pcapng: |bytes| print(Format::Pcapng, bytes),
    pci_config_space: read_config_space,
    primitive_queue: queues::primitives,
    protowib: |bytes| print(Format::ProtoWib, bytes),
    rdma: |bytes| print(Format::Rdma, bytes),
    readout_link: |bytes| print(Format::ReadoutLink, bytes),
    record_requests: queues::records,
    roce: |bytes| print_roce(Format::RoCe, bytes),
    slow_control: |bytes| print(Format::SlowControl, bytes),
    source_id: |bytes| print(Format::SourceId, bytes),
    tdeeth: |bytes| print_tpc_frame(Format::TdeEth, bytes),
    tdm: |bytes| print(Format::Tdm, bytes),
    time_slice: |bytes| print(Format::TimeSlice, bytes),
    torus_user: read_record::<torus_user::Message>,
    topology_file: predict_paths,
    trigger_activity: |bytes| print(Format::TriggerActivity, bytes),
    trigger_candidate: |bytes| print(Format::TriggerCandidate, bytes),
    trigger_primitive: |bytes| print(Format::TriggerPrimitive, bytes),
    trigger_primitive_v1: |bytes| print(Format::TriggerPrimitiveV1, bytes),
    trigger_record: |bytes| print(Format::TriggerRecord, bytes),
    udp: |bytes| print(Format::Udp, bytes),
    wibeth: |bytes| print_tpc_frame(Format::WibEth, bytes),
}

/// Prints `bytes` as `format`, which calls every accessor of what is accepted.
fn print(format: Format, bytes: &[u8]) {
    let _ = describe(format, bytes, &mut String::new());
}

/// Reads what a sealed message of a neighbour holds, and writes what was read to the same bytes.
fn read_items(mut bytes: &[u8]) {
    while let Ok((item, behind)) = Item::parse(bytes) {
        let read = &bytes[..bytes.len() - behind.len()];
        let mut written = vec![0; item.buffer_len()];
        item.emit(&mut written);
        assert_eq!(written, read);
        bytes = behind;
    }
}

/// Prints a packet of RoCEv2, and makes a packet of what was read whose check sum is right: it has the same
/// headers and data.
fn print_roce(format: Format, bytes: &[u8]) {
    print(format, bytes);
    let Ok(packet) = roce::Packet::new_checked(bytes) else { return };
    let (repr, address) =
        (roce::Repr::parse(&packet), SocketAddrV4::new(Ipv4Addr::LOCALHOST, roce::PORT));
    let mut again = vec![0; repr.buffer_len()];
    again[packet.data_start()..][..repr.data_len].copy_from_slice(packet.data());
    repr.seal(&invariant_crc::Path::of_socket(address, address), &mut again);
    let again = roce::Packet::new_checked(&again).expect("what was emitted is a packet");
    assert_eq!((roce::Repr::parse(&again), again.data()), (repr, packet.data()));
    assert!(SocketCheck::default().is_right(address, address, &again));
}

/// Looks for a UDP payload as a source does that gets whole Ethernet frames. It lies in the frame, and
/// right check sums are not what makes it one.
fn take_packet(bytes: &[u8]) {
    let trusted = from_ethernet(bytes, Checksums::Trust);
    if let Ok(found) = trusted {
        let place = bytes.as_ptr_range();
        let payload = found.payload.as_ptr_range();
        assert!(place.start <= payload.start && payload.end <= place.end);
    }
    if let Ok(verified) = from_ethernet(bytes, Checksums::Verify) {
        assert_eq!(trusted, Ok(verified));
    }
}

/// Prints a whole TPC frame with `bytes` at its front: a fuzzer seldom makes as many as it has.
fn print_tpc_frame(format: Format, bytes: &[u8]) {
    let mut frame = bytes.to_vec();
    frame.resize(FRAME_LEN.max(bytes.len()), 0);
    print(format, &frame);
    print(format, bytes);
}

/// Prints `bytes` as what they look like.
fn print_any_format(bytes: &[u8]) {
    if let Some(format) = identify(bytes) {
        print(format, bytes);
    }
}

/// Reads `bytes` as a channel map.
fn read_channel_map(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = ChannelMap::parse(text);
    }
}

/// Reads `bytes` as a configuration. Files that it names are looked for where none are.
fn read_configuration(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Err(problem) =
            config::parse("fuzz.toml", text, Path::new("/nonexistent"), &[&DUNE_TPC])
    {
        assert!(problem.line > 0 && problem.column > 0, "{problem}");
    }
}

/// Reads `bytes` as the configuration space of a device.
fn read_config_space(bytes: &[u8]) {
    let sizes = gannet_topology::express(bytes).map(|it| [it.payload_bytes, it.read_request_bytes]);
    assert!(sizes.into_iter().flatten().flatten().all(|size| (128..=4096).contains(&size)));
    let _ = gannet_topology::acs(bytes);
}

/// Reads `bytes` as a topology file; every path that is accepted has rates.
fn predict_paths(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let file = config::Document::new("fuzz.toml", text).read::<TopologyFile>();
    for path in file.ok().and_then(|file| file.paths().ok()).unwrap_or_default() {
        let prediction = path.predict();
        for rate in [&prediction.put, &prediction.get] {
            let rate = rate.as_ref().expect("each hop of a file has a rate").gbyte_per_s();
            assert!(rate > 0.0 && rate.is_finite(), "{prediction:?}");
        }
    }
}

/// Verifies `bytes` as a file of the run log, to its end, past all damage. Then takes them as kinds,
/// numbers and payloads of chunks, since the fuzzer makes no CRC that holds, and damages some.
fn verify_log(bytes: &[u8]) {
    verify_log_file(bytes);
    let (mut file, mut sequence, mut rest) = (Vec::new(), 0, bytes);
    while let Some((&[kind, numbers, damage, len], more)) = rest.split_first_chunk() {
        let (payload, more) = more.split_at(more.len().min(len.into()));
        let number = |shift: u8| u64::from(numbers >> shift & 3);
        let label = Label::new(Kind(u16::from(kind) % 48))
            .times(number(0), number(0) + number(2))
            .counts(number(4) as u32, number(6) as u32);
        let begin = file.len();
        encode_chunk(&label, 0, sequence, &[payload], &mut file);
        match damage {
            0..128 => sequence = sequence.wrapping_add(u64::from(label.kind.is_data())),
            128..160 => sequence = sequence.wrapping_add(number(6)).wrapping_sub(1),
            160..192 => file.truncate(begin + usize::from(damage)),
            _ => file[begin + usize::from(damage - 192) * 2] ^= numbers,
        }
        rest = more;
    }
    verify_log_file(&file);
}

fn verify_log_file(bytes: &[u8]) {
    let name = Path::new("fuzz.log");
    let reader = gannet_log::Reader::new(Cursor::new(bytes), name).expect("a slice has a length");
    let _ = gannet_log::verify_source(reader, name).map(|report| report.to_string());
}

/// Reads `bytes` as an HDF5 file: groups, their attributes and data sets, and finds each by its name.
fn read_hdf5(bytes: &[u8]) {
    let source = Cursor::new(bytes.to_vec());
    if let Ok(reader) = Reader::new(source, Path::new("fuzz.hdf5")) {
        read_hdf5_group(reader.root(), 3);
    }
}

/// Reads a group and what is in it, `depth` groups down. In a damaged file a group may be its own member,
/// so only some of each kind are entered.
fn read_hdf5_group(group: &GroupReader, depth: usize) {
    const MEMBERS_MAX: usize = 8;
    let _ = group.attributes();
    for (name, data_set) in group.data_sets().unwrap_or_default().iter().take(MEMBERS_MAX) {
        let len = data_set.len_bytes();
        if let Ok(content) = data_set.bytes() {
            assert!(len.is_ok_and(|len| content.len() as u64 <= len), "{name}");
        }
        let _ = group.data_set(name);
    }
    for (name, member) in group.groups().unwrap_or_default().iter().take(MEMBERS_MAX) {
        let _ = group.group(name);
        if depth > 0 {
            read_hdf5_group(member, depth - 1);
        }
    }
}

/// Sends `bytes` to the HTTP server, as all that comes on one connection: to one of loopback that shows a run, and to one
/// that is asked with tokens and takes commands. What comes back is nothing, or answers, none of which is an internal
/// error.
fn serve(bytes: &[u8]) {
    let figures = || {
        let running = || Snapshot { state: State::Running, ..Snapshot::default() };
        Arc::new(Figures::new(Arc::new(running)))
    };
    let tokens = Tokens::parse("view view-0123456789ab\nadmin admin-0123456789a").expect("tokens");
    let session = Access::Session { tokens, loopback: true, secure: false };
    let faults = Some(Arc::new(Faults::new(vec!["0".into()], Breakable::default())));
    let views = Views { faults, ..figures().into() };
    let commands = Commands { allowed: true, ..Commands::default() };
    let sites = [
        Site::new(figures(), Access::Loopback, Content::Pages),
        Site::with_commands(views, session, Content::Pages, commands, None),
    ];
    for site in sites {
        let answer = site.answer(bytes);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{answer:?}");
        assert!(!answer.starts_with(b"HTTP/1.1 500"), "an internal error");
    }
}

/// Prints `bytes` as the registers of LO|FA|MO, and takes them as the spare bits of credit words.
fn read_registers(bytes: &[u8]) {
    let (words, _) = bytes.as_chunks();
    for word in words.iter().map(|&word| u64::from_le_bytes(word)) {
        let host = HostWatchdogRepr::from_word(word);
        let nic = NicWatchdogRepr::from_word(word);
        let descriptor = FaultDescriptorRepr::from_word(word);
        assert_eq!([host.word(), nic.word(), descriptor.word()], [word; 3]);
        let _ = format!("{host}{nic}{descriptor}");
    }
    let mut assembler = Assembler::default();
    let (words, _) = bytes.as_chunks();
    for word in words.iter().map(|&word| u16::from_le_bytes(word)) {
        let _ = assembler.take(word).map(|diagnostic| diagnostic.to_string());
    }
}

/// Reads `bytes` as a record; one that is read is written and read again as the same.
fn read_record<R: Record + PartialEq + Display>(bytes: &[u8]) {
    let Ok(record) = R::parse(bytes) else { return };
    let mut copy = vec![0; R::LEN];
    record.emit(&mut copy);
    assert!(R::parse(&copy).is_ok_and(|again| again == record), "{record}");
}

/// Shows an end of a link the bytes as frames: the first says how long each of them is, and whether its head is
/// made right.
fn receive_frames(bytes: &[u8]) {
    let form = Form::Frames { bytes: 8500 };
    let mut end = Link::new(Config { form, ..Config::default() }).expect("the form is valid");
    let Some((&first, rest)) = bytes.split_first() else { return };
    let mut room = [0; 8500];
    for (now, frame) in (0..).zip(rest.chunks(65 + 4 * usize::from(first / 2))) {
        let mut frame = frame.to_vec();
        if first & 1 == 1 && frame.len() >= Head::LEN {
            let number = |at: usize| u32::from(frame[at]);
            let room = [Room { words: number(24), headers: number(40) }; VIRTUAL_CHANNELS];
            let (resend, asks) = (frame[4] & 1 == 1, frame[4] & 2 == 2);
            let packets = frame[6].into();
            let (session, echo, next) = (9, 1, number(16));
            let told = Head { resend, asks, packets, session, echo, next, room, ..Head::default() };
            Head { virtual_channels: 2, frame_bytes: 8500, ..told }.emit(&mut frame);
        }
        let _ = end.accept(&frame, now, |_| ());
        end.tick(now);
        let _ = end.send(Header::default(), Origin::default(), &bytes[..bytes.len().min(99)]);
        assert!(end.emit(&mut room, now) <= room.len());
        (0..2).for_each(|vc| _ = end.pop(vc));
    }
}

/// Lets an end of a link receive `bytes`. The low bits of the first byte of each word say whether
/// it is a control word or has its check bits made right, so that all of the end is reached.
fn receive_words(bytes: &[u8]) {
    let mut end = Link::new(Config::default()).expect("the default is valid");
    let mut buffer = [0; 4096];
    for (now, word) in (0..).zip(words_of(bytes)) {
        let header = Header::from_word(word);
        let word = match word & 7 {
            0 => MAGIC,
            1 => START,
            2 => header.to_word(),
            3 => Header { size: header.size % 64, virtual_channel: 0, ..header }.to_word(),
            4 => Credit { session: 9, echo: 1, ..credit(word.to_le_bytes()) }.to_word(),
            _ => word,
        };
        end.receive(word, now);
        end.tick(now);
        if bytes[0] & 8 != 0 {
            let _ = end.send(Header::default(), Origin::default(), &bytes[..bytes.len().min(99)]);
        }
        end.transmit(now);
        for vc in 0..2 {
            end.take(vc, &mut buffer[..usize::from(bytes[0])]);
        }
    }
}

/// Merges what eight streams tell: each 8 bytes are a claim with a primitive, or a release. What is
/// given out is in order until time begins anew, and every primitive is given out or refused.
fn merge(bytes: &[u8]) {
    const STREAMS: usize = 8;
    let config = MergeConfig { waiting_max: 64, ..MergeConfig::default() };
    let mut merger = Merger::new(&config, STREAMS, CLOCK).expect("valid");
    let (mut out, mut begin, mut offered) = (Merged::default(), 0, 0);
    let (mut now_ns, mut clocks) = (0u64, [1u64 << 40; STREAMS]);
    let in_order = |out: &Merged<TriggerPrimitive>, begin: usize| {
        assert!(out.ordered[begin..].is_sorted_by_key(TriggerPrimitive::time_order));
    };
    for step in bytes.as_chunks::<8>().0 {
        let [kind, stream, ..] = *step;
        let size = u64::from(u32::from_le_bytes([step[2], step[3], step[4], step[5]]));
        let (stream, small) = (usize::from(stream) % STREAMS, size % (1 << 22));
        match kind % 8 {
            0 => now_ns = now_ns.saturating_add(size),
            1 => clocks.iter_mut().for_each(|clock| *clock = clock.saturating_add(small)),
            2 => clocks[stream] = size << (kind / 8),
            _ => clocks[stream] = clocks[stream].saturating_add(small),
        }
        if kind & 64 == 0 {
            let start = clocks[stream].wrapping_sub(u64::from(step[6]) << (step[7] % 32));
            let tp = TriggerPrimitive { words: [2, start, u64::from(step[7])] };
            merger.push(stream, &[tp], clocks[stream], &mut out);
            offered += 1;
        }
        if kind & 128 == 0 && merger.release(now_ns, &mut out) {
            in_order(&out, begin);
            begin = out.ordered.len();
        }
    }
    merger.drain(&mut out);
    in_order(&out, begin);
    assert_eq!(out.ordered.len() + out.late.len(), offered);
    let statement = merger.counters().statement();
    assert!(statement.closes() && merger.counters().waiting.get() == 0, "{statement}");
}

/// A credit with fields from these bytes.
fn credit(bytes: [u8; WORD_LEN]) -> Credit {
    let next = u16::from_le_bytes([bytes[1], bytes[2] % 16]);
    Credit { next, diagnostics: bytes[3].into(), resend: bytes[4] & 1 == 1, ..Credit::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::TARGETS;

    fn names(directory: &str) -> BTreeSet<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
        let entries = fs::read_dir(path).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.map(|path| path.file_stem().unwrap().to_str().unwrap().replace('-', "_")).collect()
    }

    #[test]
    fn every_target_has_its_file_and_its_corpus() {
        let targets: BTreeSet<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(targets, names("fuzz_targets"));
        assert_eq!(targets, names("corpus"));
    }

    #[test]
    fn no_input_of_the_corpus_finds_a_fault() {
        for (name, target) in TARGETS {
            let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
            let inputs = fs::read_dir(corpus.join(name.replace('_', "-"))).unwrap();
            let mut count = 0;
            for input in inputs.map(|input| input.unwrap().path()) {
                let bytes = fs::read(&input).unwrap();
                assert!(
                    std::panic::catch_unwind(|| target(&bytes)).is_ok(),
                    "{name}: {}",
                    input.display()
                );
                count += 1;
            }
            assert!(count > 0, "{name}");
        }
    }
}
