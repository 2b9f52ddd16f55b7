//! No flipped bit and no missing byte goes unnoticed.

use std::io::Cursor;

use proptest::prelude::*;

use super::format::HEADER_BYTES;
use super::*;

fn report_of(bytes: &[u8]) -> Report {
    verify_source(Reader::new(Cursor::new(bytes), "memory").unwrap(), Path::new("memory")).unwrap()
}

#[test]
fn a_sound_file_has_nothing_to_report() {
    let (bytes, _) = file_of(40..60, 5000);
    let report = report_of(&bytes);
    assert!(report.is_complete(), "{report}");
    assert_eq!((report.data_chunks, report.sequence), (20, Some((40, 60))));
    assert_eq!(report.times, Some((41_000, 60_999)));
    let slices = &report.kinds[&Kind::TP_SLICE.0];
    assert_eq!((slices.chunks, slices.items, slices.items_missing), (5, 25, 5));
    assert_eq!(slices.payload_bytes, 25_000);
    assert_eq!(report.header.unwrap().config_digest, digest(""));
}

#[test]
fn every_single_bit_of_a_small_file_is_under_a_check() {
    // Header, one data chunk and end: 3 blocks, 98304 bits.
    let (mut bytes, _) = file_of(0..1, 600);
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(!report_of(&bytes).is_sound(), "bit {bit} went unnoticed");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn ten_thousand_flips_in_a_larger_file_are_found() {
    let (mut bytes, _) = file_of(0..30, 3000);
    let mut random = Random::new(11);
    for _ in 0..10_000 {
        let bit = random.below(bytes.len() as u64 * 8) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        let report = report_of(&bytes);
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(!report.is_sound(), "bit {bit} went unnoticed");
        // All other chunks are still found.
        assert!(report.data_chunks + report.chunks_missing <= 30);
        assert!(report.data_chunks >= 29, "{report}");
    }
}

#[test]
fn every_truncation_is_found() {
    let (bytes, offsets) = file_of(0..3, 600);
    for len in 0..bytes.len() {
        let report = report_of(&bytes[..len]);
        assert!(!report.is_sound(), "{len}");
        let whole = offsets[1..].iter().filter(|&&offset| offset + 4096 <= len).count();
        assert_eq!(report.data_chunks, whole.min(3) as u64, "{len}");
    }
}

#[test]
fn errors_say_file_offset_chunk_and_what() {
    let (mut bytes, offsets) = file_of(0..3, 600);
    bytes[offsets[2] + 100] ^= 1;
    let mut reader = Reader::new(Cursor::new(&bytes), "/data/run.glog").unwrap();
    assert!(reader.next_chunk().is_ok());
    assert!(reader.next_chunk().is_ok());
    let error = reader.next_chunk().unwrap_err().to_string();
    assert!(
        error.starts_with("/data/run.glog: chunk 2 at byte 8192: payload CRC is 0x"),
        "{error}"
    );
    // The error repeats until the reader is led past it.
    assert!(reader.next_chunk().is_err());
    assert_eq!(reader.resync().unwrap(), Some(8192..12_288));
    assert_eq!(reader.next_chunk().unwrap().unwrap().header.sequence, 2);
}

/// The first defect of a file that is changed before it is read.
fn defect_after(change: impl FnOnce(&mut Vec<u8>, &[usize])) -> Defect {
    let (mut bytes, offsets) = file_of(0..3, 600);
    change(&mut bytes, &offsets);
    let mut reader = Reader::new(Cursor::new(&bytes), "memory").unwrap();
    loop {
        match reader.next_chunk() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("no defect"),
            Err(Error::Damaged { defect, .. }) => return defect,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn whole_chunks_in_the_wrong_place_are_found() {
    let missing = defect_after(|bytes, at| drop(bytes.drain(at[1]..at[2])));
    assert_eq!(missing, Defect::Sequence { expected: 0, got: 1 });
    let repeated = defect_after(|bytes, at| bytes.copy_within(at[1]..at[2], at[2]));
    assert_eq!(repeated, Defect::Sequence { expected: 1, got: 0 });
    let no_header = defect_after(|bytes, at| drop(bytes.drain(..at[1])));
    assert_eq!(no_header, Defect::Misplaced(label(0).kind));
    let two_headers = defect_after(|bytes, at| bytes.copy_within(..at[1], at[1]));
    assert_eq!(two_headers, Defect::Misplaced(Kind::FILE_HEADER));
    let after_end = defect_after(|bytes, _| bytes.push(0));
    assert_eq!(after_end, Defect::Truncated { expected: 64, got: 1 });
    let chunk_after_end = defect_after(|bytes, at| bytes.extend_from_within(at[1]..at[2]));
    assert_eq!(chunk_after_end, Defect::AfterEnd(4096));
    let other_run = defect_after(|bytes, at| {
        let mut chunk = Vec::new();
        encode_chunk(&label(0), 124, 0, &[vec![1; 600]], &mut chunk);
        bytes[at[1]..at[2]].copy_from_slice(&chunk);
    });
    assert_eq!(other_run, Defect::Run { expected: 123, got: 124 });
}

#[test]
fn an_end_chunk_that_counts_wrong_is_found() {
    let (mut bytes, offsets) = file_of(0..3, 600);
    bytes.truncate(offsets[4]);
    let end = EndOfFile {
        cause: EndCause::Closed,
        data_chunks: 4,
        chunks_missing: 0,
        closed_unix_ns: 2,
        error: None,
        account: Vec::new(),
    };
    encode_chunk(&Label::new(Kind::END_OF_FILE), 123, 3, &[end.encode()], &mut bytes);
    let report = report_of(&bytes);
    assert!(
        report.problems[0]
            .contains("3 data chunks found and 0 missing, the end chunk counts 4 and 0"),
        "{report}"
    );
}

#[test]
fn a_log_inside_a_log_is_never_taken_for_chunks() {
    let (inner, _) = file_of(1..9, 600);
    let mut bytes = Vec::new();
    let header = FileHeader::new(&info(), 0, 1).encode();
    encode_chunk(&Label::new(Kind::FILE_HEADER), 123, 0, &[header], &mut bytes);
    let start = bytes.len();
    encode_chunk(&label(0), 123, 0, &[inner], &mut bytes);
    bytes[start] ^= 1;
    assert_eq!(report_of(&bytes).data_chunks, 0);
}

#[test]
fn a_reader_never_allocates_more_than_the_file_has() {
    // A forged header with a sound CRC claims 256 MiB.
    let (mut bytes, offsets) = file_of(0..1, 600);
    let header = format::Header {
        label: label(0),
        run: 123,
        sequence: 0,
        payload_len: format::PAYLOAD_BYTES_MAX as u32,
        payload_crc: 0,
    };
    bytes[offsets[1]..offsets[1] + 64].copy_from_slice(&header.encode());
    let report = report_of(&bytes);
    assert!(report.problems[0].contains("the file ends after 8192 of 268439552 bytes"), "{report}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn mutated_files_are_read_without_panic_and_only_sound_chunks_come_out(
        edits in prop::collection::vec((0usize..100_000, any::<u8>()), 1..20),
        cuts in prop::collection::vec((0usize..20, 0usize..20), 0..4),
    ) {
        let (mut bytes, _) = file_of(0..10, 1500);
        let blocks = bytes.len() / 4096;
        for (from, to) in cuts {
            let (from, to) = (from % blocks * 4096, to % blocks * 4096);
            bytes.copy_within(from..from + 4096, to);
        }
        let len = bytes.len();
        for (at, value) in edits {
            bytes[at % len] = value;
        }
        let mut reader = Reader::new(Cursor::new(&bytes), "memory").unwrap();
        let mut last = None;
        loop {
            match reader.next_chunk() {
                Ok(Some(chunk)) if chunk.header.label.kind.is_data() => {
                    let number = chunk.header.sequence;
                    prop_assert!(last.is_none_or(|last| last < number));
                    last = Some(number);
                    prop_assert_eq!(chunk.payload, &vec![number as u8 + 1; 1500][..]);
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => if reader.resync().unwrap().is_none() { break },
            }
        }
    }

    #[test]
    fn any_bytes_are_verified_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..20_000)) {
        prop_assert!(!report_of(&bytes).is_sound());
    }
}

#[test]
fn headers_alone_tell_of_the_same_chunks_which_are_then_read_one_by_one() {
    let (bytes, offsets) = file_of(40..44, 5000);
    let open = || Reader::new(Cursor::new(&bytes[..]), "memory").unwrap();
    let (mut whole, mut skimmed, mut chunk) = (open(), open(), Vec::new());
    for expected in &offsets[..6] {
        let (offset, header) = skimmed.next_header().unwrap().unwrap();
        let view = whole.next_chunk().unwrap().unwrap();
        assert_eq!((offset, header), (*expected as u64, view.header));
        assert_eq!(skimmed.read_chunk(offset, &mut chunk).unwrap(), header);
        assert_eq!(&chunk[HEADER_BYTES..], view.payload);
    }
    assert_eq!(skimmed.next_header().unwrap(), None);
    assert_eq!((skimmed.file_header(), skimmed.end()), (whole.file_header(), whole.end()));
}

#[test]
fn a_damaged_payload_is_found_when_its_chunk_is_read() {
    let (mut bytes, offsets) = file_of(0..2, 5000);
    bytes[offsets[1] + 4500] ^= 1;
    let mut reader = Reader::new(Cursor::new(bytes), "memory").unwrap();
    let mut headers = 0;
    while reader.next_header().unwrap().is_some() {
        headers += 1;
    }
    assert_eq!(headers, 4);
    for (offset, is_sound) in [(offsets[1], false), (offsets[2], true), (1 << 30, false)] {
        assert_eq!(reader.read_chunk(offset as u64, &mut Vec::new()).is_ok(), is_sound);
    }
}
