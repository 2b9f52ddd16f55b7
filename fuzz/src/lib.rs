//! What the fuzz targets do with arbitrary bytes: print them, or refuse them.

use std::io::Cursor;
use std::path::Path;

use gannet_control::config;
use gannet_readout::log;
use gannet_wire::ChannelMap;
use gannet_wire::inspect::{Format, describe, identify};
use gannet_wire::lofamo::{Assembler, FaultDescriptorRepr, HostWatchdogRepr, NicWatchdogRepr};
use gannet_wire::tpc_frame::FRAME_LEN;

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
