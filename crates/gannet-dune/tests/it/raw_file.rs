//! Raw files: written and read back, read when made elsewhere, judged by plain h5py.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::raw_file_records::{BUILDER, RUN, readout, slice, trigger_record};
use gannet_dune::raw_file::{
    Catalogue, Error, FileInfo, RawFileReader, RawFileWriter, RecordKind, RecordNumber, Result,
    Role, Summary, TakenAt, verify,
};
use gannet_wire::{Fragment, FragmentType, GeoId, SourceId, Subsystem};
use proptest::prelude::*;

const MADE_BY_H5PY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/made_by_h5py.h5");

fn info(kind: RecordKind) -> FileInfo {
    let streams = (0..2).map(|stream| (readout(stream), vec![GeoId::new(3, 1, 0, stream)]));
    FileInfo {
        kind,
        run_number: RUN,
        file_index: 3,
        application_name: "gannet".into(),
        geo_ids: streams.collect(),
        catalogue: Catalogue { operational_environment: "np04hd".into(), ..Catalogue::default() },
        taken_at: TakenAt { start_unix_ms: 1_720_714_015_000, end_unix_ms: 1_720_714_016_000 },
        run_start: None,
    }
}

fn write_trigger_records(path: &Path, records: u64) -> Result<PathBuf> {
    let mut file = RawFileWriter::create(path, &info(RecordKind::TriggerRecord))?;
    for number in 1..=records {
        file.write_trigger_record(&trigger_record(number))?;
    }
    file.close()
}

fn write_time_slices(path: &Path, slices: u64) -> Result<PathBuf> {
    let mut file = RawFileWriter::create(path, &info(RecordKind::TimeSlice))?;
    for number in 1..=slices {
        file.write_time_slice(&slice(number))?;
    }
    file.close()
}

#[test]
fn trigger_records_come_back() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = write_trigger_records(&folder.path().join("run.hdf5"), 12)?;
    let summary = verify(&path)?;
    assert_eq!((summary.records, summary.fragments, summary.wrong_sizes), (12, 36, 0));

    let file = RawFileReader::open(&path)?;
    assert_eq!(file.kind(), RecordKind::TriggerRecord);
    assert_eq!(file.number("run_number")?, 27980);
    assert_eq!(file.number("file_index")?, 3);
    assert_eq!(file.number("recorded_size")?, summary.bytes);
    assert!(file.number("creation_timestamp")? <= file.number("closing_timestamp")?);
    assert_eq!(file.text("application_name")?, "gannet");
    assert_eq!(file.text("run_was_for_test_purposes")?, "true");
    assert_eq!(file.geo_ids()?[&readout(1)], [GeoId::new(3, 1, 0, 1)]);
    assert_eq!(file.attributes().len(), 13);

    let record = &file.records()[6];
    assert_eq!(record.number(), RecordNumber { number: 7, sequence: 0 });
    assert_eq!(record.name(), "TriggerRecord000007.0000");
    let written = trigger_record(7);
    assert_eq!(record.header()?, written.header_bytes());
    let entries = record.entries()?;
    assert_eq!(entries[0].role, Role::Header(BUILDER));
    assert_eq!(entries[1].role, Role::Fragment(readout(0), "WIBEth".into()));
    for (entry, fragment) in entries[1..].iter().zip(&written.fragments) {
        let bytes = entry.bytes()?;
        let read = Fragment::new_checked(&bytes).unwrap();
        assert_eq!(read.header(), fragment.header);
        assert_eq!(read.payload(), fragment.payload);
    }
    Ok(())
}

#[test]
fn the_stored_form_of_a_record_gives_the_same_file() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let mut file =
        RawFileWriter::create(&folder.path().join("a.hdf5"), &info(RecordKind::TriggerRecord))?;
    let record = trigger_record(7);
    let headers = record.fragment_header_bytes();
    let fragments = headers.iter().zip(&record.fragments);
    let stored: Vec<u8> = record
        .header_bytes()
        .into_iter()
        .chain(fragments.flat_map(|(header, fragment)| [&header[..], &fragment.payload].concat()))
        .collect();
    // Lengths at which no part ends: header 160 bytes, then 14472 twice and 360.
    for len in [0, 159, 161, 160 + 71, 160 + 14_471, 160 + 2 * 14_472 + 1, stored.len() - 1] {
        assert!(matches!(file.write_stored(&stored[..len]), Err(Error::Header { .. })), "{len}");
    }
    file.write_stored(&stored)?;
    let path = file.close()?;
    let other = write_trigger_records(&folder.path().join("b.hdf5"), 7)?;
    let (file, other) = (RawFileReader::open(&path)?, RawFileReader::open(&other)?);
    let (record, expected) = (&file.records()[0], &other.records()[6]);
    assert_eq!(record.maps()?, expected.maps()?);
    for (entry, expected) in record.entries()?.iter().zip(expected.entries()?) {
        assert_eq!((&entry.name, entry.bytes()?), (&expected.name, expected.bytes()?));
    }
    Ok(())
}

#[test]
fn time_slices_come_back() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = write_time_slices(&folder.path().join("tp.hdf5"), 5)?;
    assert_eq!(verify(&path)?.fragments, 5);
    let file = RawFileReader::open(&path)?;
    assert_eq!(file.kind(), RecordKind::TimeSlice);
    let record = &file.records()[4];
    assert_eq!(record.name(), "TimeSlice000005");
    let maps = record.maps()?;
    assert_eq!(maps.header, BUILDER);
    assert!(maps.fragment_types.contains_key(&FragmentType::TriggerPrimitive));
    Ok(())
}

#[test]
fn a_file_made_elsewhere_is_read() -> Result<()> {
    let path = Path::new(MADE_BY_H5PY);
    let summary = verify(path)?;
    let expected =
        Summary { records: 1, fragments: 2, bytes: 128 + 2 * 7272, wrong_sizes: 1, digest: false };
    assert_eq!(summary, expected);
    let file = RawFileReader::open(path)?;
    assert_eq!(file.number("run_number")?, 27980);
    assert_eq!(file.number("creation_timestamp")?, 1_720_714_015_000);
    assert_eq!(file.number("closing_timestamp")?, 1_720_714_016_000);
    assert_eq!(file.records()[0].name(), "TriggerRecord00001.0000");
    // The second fragment tells 7000 bytes; what counts is what is there.
    let entries = file.records()[0].entries()?;
    let source = SourceId::new(Subsystem::DetectorReadout, 101);
    let fragment = entries.iter().find(|e| e.role == Role::Fragment(source, "WIBEth".into()));
    let bytes = fragment.unwrap().bytes()?;
    let fragment = Fragment::new_checked(&bytes).unwrap();
    assert_eq!(fragment.header().size, 7000);
    assert!(fragment.payload().iter().zip(1 + 101..).all(|(&byte, i)| byte == (i % 256) as u8));
    assert_eq!(fragment.frames(7200).unwrap().len(), 1);
    Ok(())
}

#[test]
fn the_name_is_given_at_the_end_and_files_are_never_overwritten() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let (path, part) = (folder.path().join("a.hdf5"), folder.path().join("a.hdf5.part"));
    let mut file = RawFileWriter::create(&path, &info(RecordKind::TriggerRecord))?;
    file.write_trigger_record(&trigger_record(1))?;
    assert!(part.exists() && !path.exists());
    assert_eq!(file.file_len(), part.metadata().unwrap().len());
    // A file that its writer left is whole, but for the two attributes of the end.
    assert_eq!(verify(&part)?.records, 1);
    assert_eq!(RawFileReader::open(&part)?.attributes().len(), 11);
    let again = RawFileWriter::create(&path, &info(RecordKind::TriggerRecord));
    assert!(matches!(again, Err(Error::File(_))));
    assert_eq!(file.records(), 1);
    file.close()?;
    assert!(path.exists() && !part.exists());
    let again = RawFileWriter::create(&path, &info(RecordKind::TriggerRecord));
    assert!(matches!(again, Err(Error::File(_))));
    Ok(())
}

#[test]
fn records_that_do_not_fit_are_refused_and_leave_the_file_as_it_was() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.hdf5");
    let mut file = RawFileWriter::create(&path, &info(RecordKind::TriggerRecord))?;
    file.write_trigger_record(&trigger_record(1))?;
    let same_number = file.write_trigger_record(&trigger_record(1));
    assert!(matches!(same_number, Err(Error::Hdf5(gannet_hdf5::Error::Duplicate { .. }))));
    let mut twice = trigger_record(2);
    twice.fragments[1].header.source_id = readout(0);
    let same_source = file.write_trigger_record(&twice);
    assert!(matches!(same_source, Err(Error::DuplicateSource { .. })));
    assert!(matches!(file.write_time_slice(&slice(3)), Err(Error::Header { .. })));
    let short = file.write_record(&trigger_record(4).header_bytes()[..63], &[]);
    assert!(matches!(short, Err(Error::Header { .. })));
    assert_eq!(verify(&file.close()?)?.records, 1);
    Ok(())
}

#[test]
fn what_contradicts_itself_is_found() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = write_trigger_records(&folder.path().join("a.hdf5"), 1)?;
    let whole = std::fs::read(&path).unwrap();
    // Another trigger number in a fragment; another source in a map. Neither has a checksum.
    let header = [0x22, 0x22, 0x11, 0x11, 5, 0, 0, 0];
    let fragment = whole.windows(8).position(|window| window == header).unwrap();
    let source = br#""subsys":1,"id":101,"path""#;
    let entry = whole.windows(source.len()).position(|window| window == source).unwrap();
    for (at, byte) in [(fragment + 16, 9), (fragment + 64 + 4, 9), (entry + 16, b'7')] {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        std::fs::write(&path, bytes).unwrap();
        let error = verify(&path).unwrap_err();
        assert!(matches!(error, Error::Contradiction { .. }), "{error}");
    }
    Ok(())
}

#[test]
fn h5py_finds_everything_in_what_we_write() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let records = write_trigger_records(&folder.path().join("records.hdf5"), 150)?;
    let slices = write_time_slices(&folder.path().join("slices.hdf5"), 150)?;
    let files = [records.as_os_str(), slices.as_os_str()];
    let Some(said) = crate::judge::accepts("raw_file.py", &files) else { return Ok(()) };
    assert!(said.contains("150 records, 450 fragments"), "{said}");
    assert!(said.contains("150 records, 150 fragments"), "{said}");
    Ok(())
}

#[test]
fn h5py_finds_the_last_of_many_records_as_soon_as_the_first() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = write_time_slices(&folder.path().join("slices.hdf5"), 10_000)?;
    let names = ["TimeSlice000001", "TimeSlice010000"].map(OsStr::new);
    let arguments = [path.as_os_str(), names[0], names[1]];
    let Some(said) = crate::judge::accepts("record_by_name.py", &arguments) else { return Ok(()) };
    let reads = |line: &str| line.split(' ').next().and_then(|reads| reads.parse::<u32>().ok());
    let reads: Vec<_> = said.lines().filter_map(reads).collect();
    assert!(reads.len() == 2 && reads[0].abs_diff(reads[1]) < 5 && reads[1] < 50, "{said}");
    Ok(())
}

#[test]
fn the_judge_does_find_faults() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = write_trigger_records(&folder.path().join("a.hdf5"), 1)?;
    let whole = std::fs::read(&path).unwrap();
    let marker = 0x1111_2222_u32.to_le_bytes();
    let at = whole.windows(4).position(|window| window == marker).unwrap();
    for offset in [0, 4, 8, 16, 48, 56, 60, 62, 64, 68] {
        let mut bytes = whole.clone();
        bytes[at + offset] ^= 0x40;
        std::fs::write(&path, bytes).unwrap();
        let Some(output) = crate::judge::run("raw_file.py", &[path.as_os_str()]) else {
            return Ok(());
        };
        assert_eq!(output.status.code(), Some(1), "byte {offset} of the fragment header");
    }
    Ok(())
}

#[test]
fn files_of_every_form_that_h5py_makes_are_read() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    for form in ["earliest", "v108", "v110", "latest"] {
        let path = folder.path().join(form);
        // 40 records make the root dense in the newer forms and split its tree in the oldest.
        let arguments = [path.as_os_str(), OsStr::new("40"), OsStr::new(form)];
        let Some(output) = crate::judge::run("make_raw_file.py", &arguments) else {
            return Ok(());
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(verify(&path)?.records, 40, "{form}");
        assert_eq!(RawFileReader::open(&path)?.attributes().len(), 13, "{form}");
        // The newest form of chunks, which HDF5 2.0 brought, is written only where it is asked for.
        for filter in ["gzip", "lzf"].into_iter().filter(|_| form != "latest") {
            let path = folder.path().join(format!("{form} {filter}"));
            let arguments = [path.as_os_str(), "3".as_ref(), form.as_ref(), filter.as_ref()];
            let output = crate::judge::run("make_raw_file.py", &arguments).unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(verify(&path)?.fragments, 6, "{form} {filter}");
        }
    }
    Ok(())
}

/// A raw file of h5py whose frames are shuffled, packed and have check sums.
const PACKED_BY_H5PY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/packed_by_h5py.h5");

/// The sample of packed frames with one place changed, wherever it is.
fn packed_but(path: &Path, from: &[u8], to: &[u8]) -> usize {
    let mut bytes = std::fs::read(PACKED_BY_H5PY).unwrap();
    let is_there = |at: &usize| bytes[*at..].starts_with(from);
    let places: Vec<_> = (0..bytes.len()).filter(is_there).collect();
    for at in &places {
        bytes[*at..][..to.len()].copy_from_slice(to);
    }
    std::fs::write(path, bytes).unwrap();
    places.len()
}

#[test]
fn packed_frames_are_read() -> Result<()> {
    let summary = verify(Path::new(PACKED_BY_H5PY))?;
    assert_eq!((summary.records, summary.fragments), (1, 2));
    let (packed, plain) = (Path::new(PACKED_BY_H5PY), Path::new(MADE_BY_H5PY));
    let (packed, plain) = (RawFileReader::open(packed)?, RawFileReader::open(plain)?);
    let entries = packed.records()[0].entries()?;
    for (entry, expected) in entries.iter().zip(plain.records()[0].entries()?) {
        let bytes = expected.bytes()?;
        assert!(entry.bytes()? == bytes, "{}", entry.name);
        for len in [0, 1, 72, 128, 1001, usize::MAX] {
            assert!(entry.head(len)? == bytes[..len.min(bytes.len())], "{len}");
        }
    }
    Ok(())
}

#[test]
fn a_filter_that_is_missing_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zstd.hdf5");
    let deflate = b"\x01\0\x08\0\x01\0\x01\0deflate\0";
    assert_eq!(packed_but(&path, deflate, b"\x0f\x7d\x08\0\x01\0\x01\0zstd\0\0\0\0"), 2);
    let error = verify(&path).unwrap_err();
    assert!(error.is_unsupported());
    let said = error.to_string();
    for words in ["zstd.hdf5", "filter 32015 (zstd)", "h5repack -f NONE"] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn what_packed_bytes_claim_to_become_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.hdf5");
    let fragment = 7272_u64.to_le_bytes();
    assert!(packed_but(&path, &fragment, &(1_u64 << 40).to_le_bytes()) >= 2);
    let said = verify(&path).unwrap_err().to_string();
    assert!(said.contains("1099511627776 bytes, where the file has room for"), "{said}");
}

/// Opens and reads everything that can be read, whatever is wrong with it.
fn read_all(path: &Path) -> Result<()> {
    let file = RawFileReader::open(path)?;
    let _ = file.geo_ids();
    for record in file.records() {
        let _ = record.maps();
        for entry in record.entries()? {
            let _ = entry.bytes();
        }
    }
    let _ = verify(path);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_files_are_errors_never_panics(
        ours: bool,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        thread_local!(static OURS: Vec<u8> = {
            let folder = tempfile::tempdir().unwrap();
            std::fs::read(write_trigger_records(&folder.path().join("a"), 2).unwrap()).unwrap()
        });
        let mut bytes =
            if ours { OURS.with(Clone::clone) } else { std::fs::read(MADE_BY_H5PY).unwrap() };
        for (index, byte) in flips {
            *index.get_mut(&mut bytes) = byte;
        }
        if let Some(index) = cut {
            bytes.truncate(index.index(bytes.len()));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged");
        std::fs::write(&path, &bytes).unwrap();
        let _ = read_all(&path);
    }
}
