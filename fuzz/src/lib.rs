//! What the fuzz targets do with arbitrary bytes: print them, or refuse them.

use std::fmt::Display;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use gannet_control::config;
use gannet_control::snapshot::Snapshot;
use gannet_hdf5::{GroupReader, Reader};
use gannet_readout::log;
use gannet_torus::link::{Config, Link, Origin};
use gannet_trigger::merge::{MergeConfig, Merged, TpMerger};
use gannet_web::{Access, Site};
use gannet_wire::apelink::{Credit, Header, MAGIC, START, WORD_LEN, words_of};
use gannet_wire::inspect::{Format, describe, identify};
use gannet_wire::lofamo::{Assembler, FaultDescriptorRepr, HostWatchdogRepr, NicWatchdogRepr};
use gannet_wire::record::Record;
use gannet_wire::tpc_frame::FRAME_LEN;
use gannet_wire::{ChannelMap, TriggerPrimitive};

/// Prints `bytes` as `format`, which calls every accessor of what is accepted.
pub fn describe_as(format: Format, bytes: &[u8]) {
    let _ = describe(format, bytes, &mut String::new());
}

/// Prints a whole TPC frame with `bytes` at its front: a fuzzer seldom makes as many as it has.
pub fn describe_tpc_frame(format: Format, bytes: &[u8]) {
    let mut frame = bytes.to_vec();
    frame.resize(FRAME_LEN.max(bytes.len()), 0);
    describe_as(format, &frame);
    describe_as(format, bytes);
}

/// Prints `bytes` as what they look like.
pub fn any_format(bytes: &[u8]) {
    if let Some(format) = identify(bytes) {
        describe_as(format, bytes);
    }
}

/// Reads `bytes` as a channel map.
pub fn channel_map(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = ChannelMap::parse(text);
    }
}

/// Reads `bytes` as a configuration. Files that it names are looked for where none are.
pub fn configuration(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Err(problem) = config::parse("fuzz.toml", text, Path::new("/nonexistent"))
    {
        assert!(problem.line > 0 && problem.column > 0, "{problem}");
    }
}

/// Verifies `bytes` as a file of the run log, to its end, past all damage.
pub fn log(bytes: &[u8]) {
    let name = Path::new("fuzz.log");
    let reader = log::Reader::new(Cursor::new(bytes), name).expect("a slice has a length");
    let _ = log::verify_source(reader, name).map(|report| report.to_string());
}

/// Reads `bytes` as an HDF5 file: groups, their attributes and data sets, and finds each by its name.
pub fn hdf5(bytes: &[u8]) {
    let source = Cursor::new(bytes.to_vec());
    if let Ok(reader) = Reader::new(source, Path::new("fuzz.hdf5")) {
        hdf5_group(reader.root(), 3);
    }
}

/// Reads a group and what is in it, `depth` groups down. In a damaged file a group may be its own member,
/// so only some of each kind are entered.
fn hdf5_group(group: &GroupReader, depth: usize) {
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
            hdf5_group(member, depth - 1);
        }
    }
}

/// Sends `bytes` to the HTTP server, as all that comes on one connection. What comes back is
/// nothing, or answers, none of which is an internal error.
pub fn http(bytes: &[u8]) {
    let site = Site::new(Arc::new(Snapshot::default), Access::Loopback);
    let answer = site.answer(bytes);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{answer:?}");
    assert!(!answer.starts_with(b"HTTP/1.1 500"), "an internal error");
}

/// Prints `bytes` as the registers of LO|FA|MO, and takes them as the spare bits of credit words.
pub fn lofamo(bytes: &[u8]) {
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
pub fn record<R: Record + PartialEq + Display>(bytes: &[u8]) {
    let Ok(record) = R::parse(bytes) else { return };
    let mut copy = vec![0; R::LEN];
    record.emit(&mut copy);
    assert!(R::parse(&copy).is_ok_and(|again| again == record), "{record}");
}

/// Lets an end of a link receive `bytes`. The low bits of the first byte of each word say whether
/// it is a control word or has its check bits made right, so that all of the end is reached.
pub fn link(bytes: &[u8]) {
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
        end.take_header_only();
    }
}

/// Merges what eight streams tell: each 8 bytes are a claim with a primitive, or a release. What is
/// given out is in order until time begins anew, and every primitive is given out or refused.
pub fn merger(bytes: &[u8]) {
    const STREAMS: usize = 8;
    let config = MergeConfig { waiting_max: 64, ..MergeConfig::default() };
    let mut merger = TpMerger::new(&config, STREAMS).expect("valid");
    let (mut out, mut begin, mut offered) = (Merged::default(), 0, 0);
    let (mut now_ns, mut clocks) = (0u64, [1u64 << 40; STREAMS]);
    let in_order = |out: &Merged, begin: usize| {
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
