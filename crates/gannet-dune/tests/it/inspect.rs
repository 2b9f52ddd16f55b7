//! What logs and raw files are listed and described as.

use std::fs;
use std::path::{Path, PathBuf};

use crate::raw_file_records::{BUILDER, RUN, readout, slice, trigger_record};
use gannet_dune::inspect::{
    ChunkEntry, Entry, Error, FileKind, chunk_detail, describe_chunk, describe_record, list,
    record_details,
};
use gannet_dune::raw_file::{Catalogue, FileInfo, RawFileWriter, RecordKind, TakenAt};
use gannet_log::format::{BLOCK_BYTES, encode_chunk};
use gannet_log::{Chunk, EndCause, EndOfFile, FileHeader, Kind, Label, RunInfo};
use gannet_wire::{SourceId, Subsystem, TriggerPrimitive};

/// Data chunks of every sort.
fn chunks() -> Vec<Chunk> {
    let text = |kind, text: &str| Chunk::new(Label::new(kind), text.into());
    let primitives = slice(1).fragment.payload;
    vec![
        text(Kind::RUN_START, "{\"run\":27980,\"streams\":[\"3/1/0/0\"]}"),
        trigger_record(1).into_chunk(),
        slice(2).into_chunk(),
        text(Kind::BUSY, "{\"begin\":1}\n{\"begin\":2}\n"),
        Chunk::new(Label::new(Kind(777)), primitives),
        Chunk::new(Label::new(Kind(778)), vec![0xff, 0, 0xfe]),
        Chunk::new(Label::new(Kind::TRIGGER_RECORD), vec![1; 200]),
    ]
}

/// The bytes of a finished log of the chunks, and where each chunk begins.
fn log_bytes() -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut offsets) = (Vec::new(), Vec::new());
    let info = RunInfo { run: RUN, application: "test 1".into(), ..RunInfo::default() };
    let header = Label::new(Kind::FILE_HEADER);
    offsets.push(0);
    encode_chunk(&header, RUN, 0, &[FileHeader::new(&info, 0, 1).encode()], &mut bytes);
    let chunks = chunks();
    for (chunk, sequence) in chunks.iter().zip(0..) {
        offsets.push(bytes.len());
        encode_chunk(&chunk.label, RUN, sequence, &chunk.parts, &mut bytes);
    }
    let data_chunks = chunks.len() as u64;
    let end = EndOfFile {
        cause: EndCause::Closed,
        data_chunks,
        chunks_missing: 0,
        closed_unix_ns: 2,
        error: None,
        account: Vec::new(),
    };
    offsets.push(bytes.len());
    encode_chunk(&Label::new(Kind::END_OF_FILE), RUN, data_chunks, &[end.encode()], &mut bytes);
    (bytes, offsets)
}

fn write(directory: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn entries(path: &Path) -> Vec<Entry> {
    let kind = FileKind::of(path).unwrap().unwrap();
    list(path, kind).unwrap().map(Result::unwrap).collect()
}

fn chunk(entry: &Entry) -> &ChunkEntry {
    match entry {
        Entry::Chunk(chunk) => chunk,
        other => panic!("{other:?}"),
    }
}

fn chunk_text(path: &Path, index: u64) -> String {
    let mut text = String::new();
    describe_chunk(path, index, &mut text).unwrap();
    text
}

#[test]
fn files_are_told_by_their_first_bytes_and_logs_by_their_names_too() {
    let directory = tempfile::tempdir().unwrap();
    let kind =
        |name: &str, bytes: &[u8]| FileKind::of(&write(directory.path(), name, bytes)).unwrap();
    assert_eq!(kind("a", b"GnLg and more"), Some(FileKind::Log));
    assert_eq!(kind("a", b"\x89HDF\r\n\x1a\n and more"), Some(FileKind::RawFile));
    assert_eq!(kind("a", b"\x89HDF\r\n"), None);
    assert_eq!(kind("a.glog", b""), Some(FileKind::Log));
    assert_eq!(kind("a.glog.part", b"?"), Some(FileKind::Log));
    assert_eq!(kind("a.part", b"?"), None);
    assert!(matches!(FileKind::of(Path::new("/no/such/file")), Err(Error::Io { .. })));
}

#[test]
fn a_log_is_listed_chunk_by_chunk_with_or_without_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let (bytes, offsets) = log_bytes();
    let path = write(directory.path(), "a.glog", &bytes);
    let listed = entries(&path);
    assert_eq!(listed.len(), offsets.len());
    for ((entry, index), offset) in listed.iter().zip(0..).zip(&offsets) {
        assert_eq!((chunk(entry).chunk, chunk(entry).offset), (index, *offset as u64));
    }
    let record = chunk(&listed[2]);
    assert_eq!((record.sequence, record.items, &record.kind[..]), (Some(1), 3, "trigger record"));
    assert_eq!((record.first_ticks, record.last_ticks), (990, 1010));
    assert_eq!(
        listed[2].to_string(),
        "chunk      2  trigger record  seq      1       29440 bytes        3 items  \
         ticks 990 to 1010"
    );
    assert_eq!(chunk(&listed[0]).header.as_ref().unwrap().run, RUN);
    assert!(listed[0].to_string().contains("\"application\":\"test 1\""));
    assert_eq!(chunk(&listed[8]).end.as_ref().unwrap().data_chunks, 7);
    let document = serde_json::to_value(&listed[2]).unwrap();
    assert_eq!((&document["entry"], &document["payload_bytes"]), (&"chunk".into(), &29440.into()));

    let part = write(directory.path(), "b.glog.part", &bytes[..offsets[8]]);
    assert_eq!(entries(&part), listed[..8]);
    assert_eq!(entries(&write(directory.path(), "c.glog.part", b"")), []);
}

#[test]
fn damage_is_listed_and_so_is_what_is_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let (mut bytes, offsets) = log_bytes();
    bytes[offsets[2] + 1000] ^= 1;
    bytes[offsets[8]] ^= 1;
    let path = write(directory.path(), "a.glog", &bytes);
    let listed = entries(&path);
    assert_eq!(listed.len(), 9);
    let damage = |entry: &Entry| match entry {
        Entry::Damage(damage) => (damage.offset as usize, damage.bytes as usize),
        other => panic!("{other:?}"),
    };
    assert_eq!(damage(&listed[2]), (offsets[2], offsets[3] - offsets[2]));
    assert_eq!(damage(&listed[8]), (offsets[8], BLOCK_BYTES));
    assert!(listed[2].to_string().contains("payload CRC"), "{}", listed[2]);
    assert_eq!((chunk(&listed[3]).chunk, chunk(&listed[3]).sequence), (2, Some(2)));
    assert!(chunk_text(&path, 2).starts_with("chunk      2  TP slice"));
    let missing = describe_chunk(&path, 8, &mut String::new());
    assert!(matches!(missing, Err(Error::NoChunk { wanted: 8, chunks: 7, .. })), "{missing:?}");
}

#[test]
fn a_chunk_is_printed_with_all_that_is_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), "a.glog", &log_bytes().0);
    assert!(chunk_text(&path, 1).contains("\n  \"run\": 27980,\n"));
    let record = chunk_text(&path, 2);
    assert!(record.contains("3 component requests"), "{record}");
    assert_eq!(record.matches("\nfragment\n").count(), 3);
    assert!(record.contains("  fragment_type          WIBEth"), "{record}");
    let slice = chunk_text(&path, 3);
    assert!(slice.contains("time slice header"), "{slice}");
    assert!(slice.contains("  0: channel 0, detector HD_TPC"), "{slice}");
    assert!(chunk_text(&path, 4).ends_with("\n{\"begin\":1}\n{\"begin\":2}\n"));
    assert!(chunk_text(&path, 5).contains("\n0: channel 0, "), "{}", chunk_text(&path, 5));
    assert!(chunk_text(&path, 6).ends_with("\npayload of no known format, 3 bytes\n"));
    assert!(chunk_text(&path, 7).contains("\nWRONG: trigger record header: marker"));
    assert_eq!(chunk_text(&path, 8).lines().count(), 2);
}

/// A raw file of two records.
fn raw_file(path: &Path) -> PathBuf {
    let info = FileInfo {
        kind: RecordKind::TriggerRecord,
        run_number: RUN,
        file_index: 3,
        application_name: "gannet".into(),
        geo_ids: Default::default(),
        catalogue: Catalogue::default(),
        taken_at: TakenAt::default(),
        run_start: None,
    };
    let mut file = RawFileWriter::create(path, &info).unwrap();
    file.write_trigger_record(&trigger_record(7)).unwrap();
    file.write_trigger_record(&trigger_record(8)).unwrap();
    file.close().unwrap()
}

#[test]
fn a_raw_file_is_listed_record_by_record() {
    let directory = tempfile::tempdir().unwrap();
    let listed = entries(&raw_file(&directory.path().join("a.hdf5")));
    let [Entry::File(file), Entry::Record(first), Entry::Record(second)] = &listed[..] else {
        panic!("{listed:?}")
    };
    assert_eq!((file.record_type, file.records), ("TriggerRecord", 2));
    assert_eq!(file.attributes["run_number"], RUN);
    assert!(file.to_string().contains("\n  offline_data_stream          cosmics"), "{file}");
    assert_eq!((&first.name[..], second.number), ("TriggerRecord000007.0000", 8));
    let sizes: Vec<_> = first.data_sets.iter().map(|data_set| data_set.bytes).collect();
    assert_eq!(sizes, [160, 72 + 14400, 72 + 14400, 72 + 12 * TriggerPrimitive::LEN as u64]);
    let names: Vec<_> = first.data_sets.iter().map(|data_set| &data_set.name[..]).collect();
    assert_eq!(names[0], format!("{BUILDER}_TriggerRecordHeader"));
    assert_eq!(names[1], format!("{}_WIBEth", readout(0)));
    let primitives = SourceId::new(Subsystem::Trigger, 0);
    assert_eq!(names[3], format!("{primitives}_Trigger_Primitive"));
    assert_eq!(serde_json::to_value(&listed[1]).unwrap()["entry"], "record");
}

#[test]
fn a_record_of_a_raw_file_is_printed_in_full() {
    let directory = tempfile::tempdir().unwrap();
    let path = raw_file(&directory.path().join("a.hdf5"));
    let mut text = String::new();
    describe_record(&path, 8, &mut text).unwrap();
    assert!(text.starts_with("TriggerRecord000008.0000\n"), "{text}");
    for part in ["source_id_path_map", "3 component requests", "  0: channel 0, detector HD_TPC"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert_eq!(text.matches("\nfragment\n").count(), 3);
    let missing = describe_record(&path, 9, &mut text);
    assert!(matches!(missing, Err(Error::NoRecord { wanted: 9, .. })));
    assert!(list(&write(directory.path(), "x", b"\x89HDF\r\n\x1a\n"), FileKind::RawFile).is_err());
}

#[test]
fn a_chunk_in_full_is_json_for_other_programs() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), "a.glog", &log_bytes().0);
    let chunk = |index| serde_json::to_value(chunk_detail(&path, index).unwrap()).unwrap();
    assert_eq!(
        (&chunk(0)["kind"], &chunk(0)["header"]["run"]),
        (&"file header".into(), &RUN.into())
    );
    assert_eq!(chunk(1)["document"]["streams"][0], "3/1/0/0");

    let record = chunk(2);
    assert_eq!((&record["sequence"], &record["payload_bytes"]), (&1.into(), &29440.into()));
    let header = &record["record"]["header"];
    assert_eq!((&header["trigger_number"], &header["run_number"]), (&1.into(), &RUN.into()));
    assert_eq!(header["component_requests"][1]["component"], readout(1).to_string());
    let fragments = record["record"]["fragments"].as_array().unwrap();
    let items: Vec<_> = fragments.iter().map(|f| (&f["item_format"], &f["items"])).collect();
    let (frames, primitives) = ("wibeth".into(), "trigger-primitive".into());
    let counts = [2.into(), 2.into(), 11.into()];
    assert_eq!(items, [(&frames, &counts[0]), (&frames, &counts[1]), (&primitives, &counts[2])]);
    assert_eq!(
        (&fragments[0]["window_begin"], &fragments[0]["window_end"]),
        (&990.into(), &1010.into())
    );
    assert_eq!(
        (&fragments[0]["size"], &fragments[0]["payload_bytes"]),
        (&14472.into(), &14400.into())
    );
    assert_eq!(fragments[1]["source_id"], readout(1).to_string());

    assert_eq!(chunk(3)["record"]["header"]["timeslice_number"], 2);
    assert_eq!(chunk(4)["document"][1]["begin"], 2);
    assert_eq!(chunk(5)["format"], "trigger-primitive");
    assert_eq!(chunk(6).get("format"), None);
    let problem = &chunk(7)["record"]["problems"][0];
    assert!(problem.as_str().unwrap().starts_with("trigger record header: marker"), "{problem}");
    assert!(matches!(chunk_detail(&path, 9), Err(Error::NoChunk { .. })));
}

#[test]
fn a_record_in_full_is_json_for_other_programs() {
    let directory = tempfile::tempdir().unwrap();
    let path = raw_file(&directory.path().join("a.hdf5"));
    let records = serde_json::to_value(record_details(&path, 8).unwrap()).unwrap();
    let record = &records[0];
    assert_eq!(records.as_array().unwrap().len(), 1);
    assert_eq!(
        (&record["name"], &record["number"]),
        (&"TriggerRecord000008.0000".into(), &8.into())
    );
    assert_eq!(record["header"]["trigger_timestamp"], 8000);
    assert_eq!(record["fragments"].as_array().unwrap().len(), 3);
    let last = &record["fragments"][2];
    assert_eq!((&last["fragment_type"], &last["items"]), (&"Trigger_Primitive".into(), &13.into()));
    assert_eq!(last["errors"], serde_json::json!([]));
    assert_eq!(record["problems"], serde_json::json!([]));
    assert!(matches!(record_details(&path, 9), Err(Error::NoRecord { wanted: 9, .. })));
}
