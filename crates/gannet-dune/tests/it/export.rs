//! Logs exported to DUNE raw files and Parquet: read back here, and by plain h5py and pyarrow.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::raw_file_records::{RUN, readout, slice, trigger_record};
use gannet_dune::export::{
    COLUMNS, Error, ExportConfig, ExportFormat, Exported, ROWS_PER_GROUP_MAX, export,
};
use gannet_dune::raw_file::{RawFileReader, RecordKind, Role, verify};
use gannet_dune::time_slice::TimeSlice;
use gannet_dune::trigger_fragments::TriggerFragments;
use gannet_log::name::run_stem;
use gannet_log::{
    self, Chunk, Kind, Label, Offer, Recorder, RecorderConfig, RunInfo, format, recover,
};
use gannet_measure::quantity::Bytes;
use gannet_measure::random::Random;
use gannet_record::TriggerRecord;
use gannet_wire::record::Record;
use gannet_wire::{
    ComponentRequest, FragmentRepr, FragmentType, GeoId, SourceId, TimeSliceHeader,
    TriggerActivityData, TriggerCandidateData, TriggerPrimitive, daq_ethernet, overlay,
    trigger_activity, trigger_candidate, trigger_primitive,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

const RECORDS: u64 = 20;
const SLICES: u64 = 30;

/// Where the frames of a stream say that they come from.
fn place(stream: u16) -> GeoId {
    GeoId::new(3, 5, 6, 40 + stream)
}

/// A record whose frames carry their place; the second stream has frames from record 3 on.
fn record(number: u64) -> TriggerRecord {
    let mut record = trigger_record(number);
    for (stream, fragment) in record.fragments[..2].iter_mut().enumerate() {
        for frame in fragment.payload.chunks_exact_mut(7200) {
            daq_ethernet::Header::new_unchecked(frame).set_geo_id(place(stream as u16));
        }
    }
    if number < 3 {
        record.fragments[1].payload.clear();
        record.fragments[1].header.size = FragmentRepr::LEN as u64;
    }
    record
}

/// A finished log in `directory` that holds these chunks.
fn log_of(directory: &Path, chunks: impl IntoIterator<Item = Chunk>) -> PathBuf {
    let config = RecorderConfig {
        directory: directory.into(),
        disk_reserve: Bytes(0),
        ..RecorderConfig::default()
    };
    let info = RunInfo {
        run: RUN,
        application: "test 1".into(),
        ticks_hz: 62_500_000,
        ..RunInfo::default()
    };
    let recorder = Recorder::start(config, info).unwrap();
    for chunk in chunks {
        assert!(matches!(recorder.handle().offer(chunk), Offer::Accepted(_)));
    }
    recorder.stop();
    the_log(directory)
}

fn the_log(directory: &Path) -> PathBuf {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|e| e == "glog")).unwrap()
}

/// A log as a run leaves it.
fn usual_log(directory: &Path) -> PathBuf {
    let text = |kind| Chunk::new(Label::new(kind), b"{}".to_vec());
    let records = (1..=RECORDS).map(|number| record(number).into_chunk());
    let slices = (1..=SLICES).map(|number| slice(number).into_chunk());
    let ends = [Kind::RUN_END, Kind::BUSY, Kind(777)].map(text);
    log_of(directory, [run_start()].into_iter().chain(records).chain(slices).chain(ends))
}

/// Plane and stream of channels, as JSON for the judge: what [`run_start`] tells.
const PLACES: &str = r#"{"0": [2, "3/5/6/40"], "1": [1, "3/5/6/41"]}"#;

/// The start of a run of two streams of one channel each.
fn run_start() -> Chunk {
    let start = r#"{
        "catalogue": { "operational_environment": "np04hd", "run_was_for_test_purposes": false },
        "streams": [
            { "geo_id": "3/5/6/40", "source_id": "Detector_Readout_0x00000064",
              "format": "wibeth", "offline": [0], "plane": [2] },
            { "geo_id": "3/5/6/41", "source_id": "Detector_Readout_0x00000065",
              "format": "tdeeth", "offline": [1, 0], "plane": [1, 1] }
        ]
    }"#;
    Chunk::new(Label::new(Kind::RUN_START), start.as_bytes().to_vec())
}

/// A chunk of `frames` frames of a stream from frame `first` on, after `missing` lost ones.
fn raw_frames(stream: u16, first: u64, frames: u64, missing: u32) -> Chunk {
    let frame = |number: u64| {
        let mut random = gannet_measure::random::Random::stream(number, stream.into());
        let mut frame: Vec<u8> = (0..7200).map(|_| random.bits() as u8).collect();
        let mut header = daq_ethernet::Header::new_unchecked(&mut frame[..]);
        header.set_geo_id(place(stream));
        header.set_timestamp(2048 * number);
        frame
    };
    let label = Label::new(Kind::RAW_FRAMES).times(2048 * first, 2048 * (first + frames - 1));
    let frames: Vec<Vec<u8>> = (first..first + frames).map(frame).collect();
    Chunk::new(label.counts(frames.len() as u32, missing), frames.concat())
}

fn export_all(log: &Path) -> Result<Exported, Error> {
    export(log, &ExportConfig::default(), &mut |_, _| ())
}

/// The primitives of slices `1..=SLICES`, in the order of the file.
fn expected_primitives() -> Vec<TriggerPrimitive> {
    let parse = |bytes: &[u8]| TriggerPrimitive::parse(bytes).unwrap();
    let payloads = (1..=SLICES).map(|number| slice(number).fragment.payload);
    payloads.flat_map(|bytes| bytes.chunks_exact(24).map(parse).collect::<Vec<_>>()).collect()
}

/// Names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn with_ending(log: &Path, ending: &str) -> PathBuf {
    let stem = log.file_stem().unwrap().to_str().unwrap();
    log.with_file_name(format!("{stem}{ending}"))
}

/// When the data of a log were taken, as the log itself tells.
fn taken(log: &Path) -> (u64, u64) {
    let report = gannet_log::verify(log).unwrap();
    let (created, closed) = (report.header.unwrap().created_unix_ns, report.end.unwrap());
    (created / 1_000_000, closed.closed_unix_ns / 1_000_000)
}

#[test]
fn times_of_raw_files_are_those_of_the_data() {
    let directory = tempfile::tempdir().unwrap();
    let log = usual_log(directory.path());
    let (start, end) = taken(&log);
    assert!(start > 0 && start <= end);
    // An export at another time.
    std::thread::sleep(std::time::Duration::from_millis(20));
    for path in &export_all(&log).unwrap().files[..2] {
        let file = RawFileReader::open(path).unwrap();
        assert_eq!(file.number("creation_timestamp").unwrap(), start);
        assert_eq!(file.number("closing_timestamp").unwrap(), end);
    }
}

#[test]
fn a_recovered_log_ends_with_its_last_time_stamp() {
    let directory = tempfile::tempdir().unwrap();
    let chunks = [raw_frames(0, 1, 2, 0), raw_frames(0, 1 + 62_500_000 / 2048 * 5, 1, 0)];
    let log = log_of(directory.path(), chunks);
    let part = PathBuf::from(format!("{}.part", log.display()));
    let bytes = fs::read(&log).unwrap();
    fs::write(&part, &bytes[..bytes.len() - format::BLOCK_BYTES]).unwrap();
    fs::remove_file(&log).unwrap();
    recover(&part).unwrap();
    let file = RawFileReader::open(&export_all(&log).unwrap().files[0]).unwrap();
    let (start, closed) = taken(&log);
    assert_eq!((file.number("creation_timestamp").unwrap(), closed), (start, 0));
    assert_eq!(file.number("closing_timestamp").unwrap(), start + 4999);
}

#[test]
fn raw_streams_leave_the_log_byte_for_byte() {
    let directory = tempfile::tempdir().unwrap();
    let chunks =
        [run_start(), raw_frames(0, 5, 3, 0), raw_frames(1, 5, 2, 7), raw_frames(0, 8, 1, 0)];
    let log = log_of(directory.path(), chunks.clone());
    let exported = export_all(&log).unwrap();
    let path = &with_ending(&log, "_raw.hdf5");
    assert_eq!(exported.files, std::slice::from_ref(path));
    assert_eq!((exported.raw_frames, exported.raw_frames_kept), (6, 0));
    assert_eq!(verify(path).unwrap().fragments, 3);
    let file = RawFileReader::open(path).unwrap();
    assert_eq!(file.kind(), RecordKind::TimeSlice);
    let places: Vec<_> = (0..2).map(|stream| (readout(stream), vec![place(stream)])).collect();
    assert_eq!(file.geo_ids().unwrap().into_iter().collect::<Vec<_>>(), places);
    let expected = [(0, "WIBEth", 2048, 0), (1, "TDEEth", 2000, 2), (0, "WIBEth", 2048, 0)];
    assert_eq!(file.records().len(), 3);
    for ((record, chunk), expected) in file.records().iter().zip(&chunks[1..]).zip(expected) {
        let (stream, kind, frame_ticks, error_bits) = expected;
        let entries = record.entries().unwrap();
        let role = Role::Fragment(readout(stream), kind.into());
        let fragment = entries.iter().find(|entry| entry.role == role).unwrap().bytes().unwrap();
        assert!(fragment[FragmentRepr::LEN..] == chunk.parts[0]);
        let header = FragmentRepr::parse(&fragment).unwrap();
        assert_eq!((header.detector_id, header.error_bits), (3, error_bits));
        assert_eq!(header.window_begin, chunk.label.first_ticks);
        assert_eq!(header.window_end, chunk.label.last_ticks + frame_ticks);
    }
    // By plain h5py, against frames that it takes from the log by itself.
    let arguments = [path.as_os_str(), log.as_os_str()];
    if let Some(said) = crate::judge::accepts("raw_streams.py", &arguments) {
        assert!(said.contains("right: 6 frames of 2 streams"), "{said}");
    }
    crate::judge::accepts("raw_file.py", &[path.as_os_str()]);
}

#[test]
fn raw_streams_stay_in_the_log_if_not_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), [raw_frames(0, 5, 3, 0)]);
    let formats = vec![ExportFormat::Hdf5, ExportFormat::Parquet];
    let config = ExportConfig { formats, ..ExportConfig::default() };
    let exported = export(&log, &config, &mut |_, _| ()).unwrap();
    assert_eq!((exported.files.len(), exported.raw_frames, exported.raw_frames_kept), (0, 0, 3));
}

#[test]
fn what_the_run_says_is_found_from_its_later_files() {
    let directory = tempfile::tempdir().unwrap();
    let config = RecorderConfig {
        directory: directory.path().into(),
        disk_reserve: Bytes(0),
        file_size_max: Bytes(1 << 20),
        ..RecorderConfig::default()
    };
    // A run that began an hour ago, whose next file begins now.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let started_unix_ns = now - 3_600_000_000_000;
    let info = RunInfo { run: RUN, started_unix_ns, ..RunInfo::default() };
    let recorder = Recorder::start(config, info).unwrap();
    let frames = (0..4).map(|i| raw_frames(1, 128 * i, 128, 0));
    for chunk in [run_start()].into_iter().chain(frames).chain([slice(1).into_chunk()]) {
        while let Offer::Busy(_) = recorder.handle().offer(chunk.clone()) {}
    }
    recorder.stop();
    let last = names(directory.path()).pop().unwrap();
    assert!(!last.ends_with("_f0000.glog"), "{last}");
    let log = directory.path().join(last);
    let files = export_all(&log).unwrap().files;
    let table = files.last().unwrap();
    judge_table(&log, table, PLACES);
    assert_eq!(
        RawFileReader::open(&files[0]).unwrap().text("operational_environment").unwrap(),
        "np04hd"
    );
    // DUNE's tests look for the time of a file's data in its name.
    let first = names(directory.path())[0].clone();
    assert!(
        first.starts_with(&run_stem("gannet", RUN, started_unix_ns / 1_000_000_000)),
        "{first}"
    );
    let first = export_all(&directory.path().join(first)).unwrap().files;
    for path in first.iter().chain(&files).filter(|path| path.extension() == Some("hdf5".as_ref()))
    {
        let file = RawFileReader::open(path).unwrap();
        let created_unix_s = file.number("creation_timestamp").unwrap() / 1000;
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(&run_stem("gannet", RUN, created_unix_s)), "{name}");
    }
}

/// Reads a Parquet file of primitives.
fn rows(path: &Path) -> Vec<TriggerPrimitive> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let row = |row: parquet::record::Row| {
        assert_eq!(row.get_ubyte(0).unwrap(), TriggerPrimitive::VERSION);
        TriggerPrimitive::new(gannet_wire::TriggerPrimitiveRepr {
            flag: row.get_ubyte(1).unwrap(),
            detid: row.get_ubyte(2).unwrap(),
            channel: row.get_uint(3).unwrap(),
            time_start: row.get_ulong(4).unwrap(),
            samples_over_threshold: row.get_ushort(5).unwrap(),
            samples_to_peak: row.get_ushort(6).unwrap(),
            adc_integral: row.get_uint(7).unwrap(),
            adc_peak: row.get_ushort(8).unwrap(),
        })
    };
    reader.get_row_iter(None).unwrap().map(|next| row(next.unwrap())).collect()
}

#[test]
fn trigger_records_come_back_from_the_raw_file() {
    let directory = tempfile::tempdir().unwrap();
    let log = usual_log(directory.path());
    let exported = export_all(&log).unwrap();
    let path = with_ending(&log, ".hdf5");
    assert_eq!(exported.files[0], path);
    assert_eq!((exported.records, exported.slices), (RECORDS, SLICES));
    let summary = verify(&path).unwrap();
    assert_eq!((summary.records, summary.fragments, summary.wrong_sizes), (RECORDS, 60, 0));

    let file = RawFileReader::open(&path).unwrap();
    assert_eq!(file.kind(), RecordKind::TriggerRecord);
    assert_eq!(file.number("run_number").unwrap(), u64::from(RUN));
    assert_eq!(file.text("application_name").unwrap(), "test 1");
    let geo_ids = file.geo_ids().unwrap();
    let places: Vec<_> = (0..2).map(|stream| (readout(stream), vec![place(stream)])).collect();
    assert_eq!(geo_ids.into_iter().collect::<Vec<_>>(), places);
    assert_eq!(file.text("operational_environment").unwrap(), "np04hd");
    assert_eq!(file.text("offline_data_stream").unwrap(), "cosmics");
    assert_eq!(file.text("run_was_for_test_purposes").unwrap(), "false");
    for (read, number) in file.records().iter().zip(1..) {
        let written = record(number);
        assert_eq!(read.header().unwrap(), written.header_bytes());
        let entries = read.entries().unwrap();
        let fragments = entries.iter().filter(|entry| matches!(entry.role, Role::Fragment(..)));
        for (read, written) in fragments.zip(&written.fragments) {
            let mut expected = vec![0; FragmentRepr::LEN];
            written.header.emit(&mut expected);
            expected.extend(&written.payload);
            assert!(read.bytes().unwrap() == expected, "{} of {number}", read.name);
        }
    }
}

#[test]
fn time_slices_come_back_from_the_raw_file() {
    let directory = tempfile::tempdir().unwrap();
    let log = usual_log(directory.path());
    let exported = export_all(&log).unwrap();
    let path = with_ending(&log, "_tps.hdf5");
    assert_eq!(exported.files[1], path);
    assert_eq!(verify(&path).unwrap().records, SLICES);
    let file = RawFileReader::open(&path).unwrap();
    assert_eq!(file.kind(), RecordKind::TimeSlice);
    for (read, number) in file.records().iter().zip(1..) {
        let TimeSlice { header, fragment, .. } = slice(number);
        assert_eq!(TimeSliceHeader::parse(&read.header().unwrap()), Ok(header));
        let entries = read.entries().unwrap();
        let stored = entries.iter().find(|entry| matches!(entry.role, Role::Fragment(..)));
        assert_eq!(stored.unwrap().bytes().unwrap()[FragmentRepr::LEN..], fragment.payload);
    }
}

#[test]
fn primitives_come_back_from_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let log = usual_log(directory.path());
    let exported = export_all(&log).unwrap();
    let path = with_ending(&log, "_tps.parquet");
    assert_eq!(exported.files[2], path);
    let expected = expected_primitives();
    assert_eq!(exported.primitives, expected.len() as u64);
    assert_eq!(rows(&path), expected);

    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata();
    let about = metadata.key_value_metadata().unwrap();
    let value = |key: &str| about.iter().find(|entry| entry.key == key).unwrap().value.as_deref();
    assert_eq!(value("run"), Some("27980"));
    assert_eq!(value("ticks_hz"), Some("62500000"));
    assert_eq!(value("log_chunks_missing"), Some("0"));
    assert!(COLUMNS.iter().all(|column| value(&format!("unit.{}", column.name)).is_some()));
}

/// A slice of `len` primitives whose fields reach the ends of their types.
fn wide_slice(number: u64, len: u64) -> TimeSlice {
    let primitive = |i: u64| {
        let mut random = gannet_measure::random::Random::stream(number, i);
        let edge = [0, u64::MAX, random.bits()][(i % 3) as usize];
        [edge & !0xff | 2, edge, edge]
    };
    let payload: Vec<u8> = (0..len).flat_map(primitive).flat_map(u64::to_le_bytes).collect();
    let mut slice = slice(number);
    slice.primitives = len as usize;
    slice.fragment.header.size = (FragmentRepr::LEN + payload.len()) as u64;
    slice.fragment.payload = payload;
    slice
}

#[test]
fn row_groups_are_bounded_and_every_value_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let len = ROWS_PER_GROUP_MAX as u64 / 2 + 1;
    let slices: Vec<_> = (1..=4).map(|number| wide_slice(number, len)).collect();
    let log = log_of(directory.path(), slices.iter().map(|slice| slice.clone().into_chunk()));
    let config = ExportConfig { formats: vec![ExportFormat::Parquet], ..ExportConfig::default() };
    let exported = export(&log, &config, &mut |_, _| ()).unwrap();
    assert_eq!((exported.files.len(), exported.primitives), (1, 4 * len));
    let reader = SerializedFileReader::new(File::open(&exported.files[0]).unwrap()).unwrap();
    let groups = reader.metadata().row_groups();
    let sizes: Vec<_> = groups.iter().map(|group| group.num_rows()).collect();
    assert_eq!(sizes, [ROWS_PER_GROUP_MAX as i64, ROWS_PER_GROUP_MAX as i64, 4]);
    let parse = |bytes: &[u8]| TriggerPrimitive::parse(bytes).unwrap();
    let expected = slices.iter().flat_map(|slice| slice.fragment.payload.chunks_exact(24));
    let read = rows(&exported.files[0]);
    assert!(read.into_iter().eq(expected.map(parse)));
    judge_table(&log, &exported.files[0], "{}");
}

#[test]
fn no_file_is_made_for_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), [record(1).into_chunk()]);
    let exported = export_all(&log).unwrap();
    assert_eq!(exported.files, [with_ending(&log, ".hdf5")]);
    assert_eq!(names(directory.path()).len(), 2);

    let directory = tempfile::tempdir().unwrap();
    let log = log_of(directory.path(), []);
    assert_eq!(export_all(&log).unwrap().files, [] as [PathBuf; 0]);
    assert_eq!(names(directory.path()).len(), 1);
}

#[test]
fn views_are_replaced_only_on_demand() {
    let directory = tempfile::tempdir().unwrap();
    let log = usual_log(directory.path());
    let table = with_ending(&log, "_tps.parquet");
    for stale in [table.clone(), with_ending(&log, "_tps.hdf5.part")] {
        fs::write(&stale, "old").unwrap();
        let error = export_all(&log).unwrap_err();
        assert!(matches!(&error, Error::Exists(path) if *path == stale), "{error}");
        assert!(error.to_string().contains("--overwrite"), "{error}");
        assert_eq!(fs::read(&stale).unwrap(), b"old");
        assert_eq!(names(directory.path()).len(), 2, "nothing was begun");
        let config = ExportConfig { overwrite: true, ..ExportConfig::default() };
        assert_eq!(export(&log, &config, &mut |_, _| ()).unwrap().files.len(), 3);
        assert_eq!(rows(&table), expected_primitives());
        for file in export(&log, &config, &mut |_, _| ()).unwrap().files {
            fs::remove_file(file).unwrap();
        }
        assert_eq!(names(directory.path()).len(), 1);
    }
}

#[test]
fn views_go_where_they_are_asked_for_and_progress_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let log = usual_log(directory.path());
    let config =
        ExportConfig { directory: Some(elsewhere.path().into()), ..ExportConfig::default() };
    let mut steps = Vec::new();
    export(&log, &config, &mut |done, total| steps.push((done, total))).unwrap();
    assert_eq!(names(elsewhere.path()).len(), 3);
    assert_eq!(names(directory.path()).len(), 1);
    assert!(steps.is_sorted());
    let total = 2 * log.metadata().unwrap().len();
    assert_eq!(steps.last(), Some(&(total, total)));

    let config = ExportConfig { directory: Some("/no/such/place".into()), ..config };
    assert!(export(&log, &config, &mut |_, _| ()).is_err());
}

#[test]
fn a_log_without_its_end_is_refused_until_it_is_recovered() {
    let directory = tempfile::tempdir().unwrap();
    let log = usual_log(directory.path());
    // As a killed program leaves it: without end chunk, under the name of unfinished files.
    let part = PathBuf::from(format!("{}.part", log.display()));
    let bytes = fs::read(&log).unwrap();
    fs::write(&part, &bytes[..bytes.len() - format::BLOCK_BYTES]).unwrap();
    fs::remove_file(&log).unwrap();
    for name in [&part, &log] {
        let error = export_all(name).unwrap_err();
        assert!(matches!(&error, Error::Unfinished(path) if *path == part), "{error}");
        assert!(error.to_string().contains("gannet recover"), "{error}");
    }
    recover(&part).unwrap();
    assert_eq!(export_all(&log).unwrap().records, RECORDS);
}

#[test]
fn what_is_known_to_be_lost_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let log = usual_log(directory.path());
    let mut bytes = fs::read(&log).unwrap();
    // Before record 2 stand the file header, the run start and record 1.
    let second = 2 * format::BLOCK_BYTES + format::chunk_len(record(1).len_bytes()) as usize;
    bytes[second + 100] ^= 1;
    let part = PathBuf::from(format!("{}.part", log.display()));
    fs::write(&part, &bytes).unwrap();
    fs::remove_file(&log).unwrap();
    recover(&part).unwrap();
    let exported = export_all(&log).unwrap();
    assert_eq!((exported.records, exported.chunks_missing), (RECORDS - 1, 1));
}

#[test]
fn a_damaged_log_is_refused_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let log = usual_log(directory.path());
    let whole = fs::read(&log).unwrap();
    let (middle, end) = (whole.len() / 2, whole.len() - format::BLOCK_BYTES);
    for (len, flipped) in [(whole.len(), 0), (whole.len(), middle), (end, middle), (end, 0)] {
        let mut bytes = whole[..len].to_vec();
        bytes[flipped] ^= 4;
        fs::write(&log, bytes).unwrap();
        let error = export_all(&log).unwrap_err();
        assert!(matches!(error, Error::NotVerified { .. }), "{error}");
        assert!(error.is_of_verification());
        assert_eq!(names(directory.path()).len(), 1);
    }
    fs::write(&log, &whole[..end]).unwrap();
    assert!(export_all(&log).unwrap_err().to_string().contains("no end chunk"));
}

#[test]
fn a_chunk_that_does_not_hold_what_it_says_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let wrong = [
        Chunk::new(Label::new(Kind::TP_SLICE), vec![7; 100]),
        Chunk::new(Label::new(Kind::TRIGGER_RECORD), record(1).header_bytes()[..63].to_vec()),
        {
            let mut chunk = slice(2).into_chunk();
            chunk.parts[2][24] = 1;
            chunk
        },
    ];
    for chunk in wrong {
        let log = log_of(directory.path(), [record(1).into_chunk(), chunk]);
        let error = export_all(&log).unwrap_err();
        assert!(matches!(error, Error::Content { sequence: 1, .. }), "{error}");
        assert!(!error.is_of_verification());
        assert_eq!(names(directory.path()).len(), 1);
        fs::remove_file(log).unwrap();
    }
}

#[test]
fn a_view_that_cannot_be_written_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    // Two records of one number have one name in a raw file.
    let twice = [record(1).into_chunk(), record(1).into_chunk(), slice(1).into_chunk()];
    let log = log_of(directory.path(), twice);
    assert!(matches!(export_all(&log), Err(Error::RawFile(_))));
    assert_eq!(names(directory.path()).len(), 1);
}

/// Writes the primitives of a log as their stored bytes, for the judge to compare with a table.
fn judge_table(log: &Path, table: &Path, places: &str) {
    let mut reader = gannet_log::Reader::open(log).unwrap();
    let mut stored = Vec::new();
    while let Some(chunk) = reader.next_chunk().unwrap() {
        if chunk.header.label.kind == Kind::TP_SLICE {
            stored.extend(&chunk.payload[TimeSliceHeader::LEN + FragmentRepr::LEN..]);
        }
    }
    let raw = table.with_extension("raw");
    fs::write(&raw, stored).unwrap();
    let arguments = [table.as_os_str(), raw.as_os_str(), OsStr::new(places)];
    crate::judge::accepts("primitive_table.py", &arguments);
}

#[test]
fn h5py_and_pyarrow_find_everything_in_what_we_export() {
    let directory = tempfile::tempdir().unwrap();
    let log = usual_log(directory.path());
    let files = export_all(&log).unwrap().files;
    if let Some(said) =
        crate::judge::accepts("raw_file.py", &[files[0].as_os_str(), files[1].as_os_str()])
    {
        assert!(said.contains("20 records, 60 fragments"), "{said}");
        assert!(said.contains("30 records, 30 fragments"), "{said}");
    }
    judge_table(&log, &files[2], PLACES);
}

#[test]
fn the_judge_of_tables_does_find_faults() {
    let directory = tempfile::tempdir().unwrap();
    let log = usual_log(directory.path());
    let table = export_all(&log).unwrap().files.remove(2);
    let mut stored: Vec<u8> =
        expected_primitives().iter().flat_map(|primitive| primitive.to_le_bytes()).collect();
    let raw = directory.path().join("raw");
    for byte in [1, 2, 3, 6, 8, 16, 18, 22] {
        stored[24 * 100 + byte] ^= 1;
        fs::write(&raw, &stored).unwrap();
        stored[24 * 100 + byte] ^= 1;
        let arguments = [table.as_os_str(), raw.as_os_str(), OsStr::new(PLACES)];
        let Some(output) = crate::judge::run("primitive_table.py", &arguments) else {
            return;
        };
        assert_eq!(output.status.code(), Some(1), "byte {byte}");
    }
    fs::write(&raw, &stored).unwrap();
    for wrong in [&PLACES.replace('2', "1"), &PLACES.replace("41", "40"), "{}"] {
        let arguments = [table.as_os_str(), raw.as_os_str(), OsStr::new(wrong)];
        let Some(output) = crate::judge::run("primitive_table.py", &arguments) else {
            return;
        };
        assert_eq!(output.status.code(), Some(1), "{wrong}");
    }
}

/// Flips single bits of a file at random, each alone, and asks `is_sound` each time.
fn flip_bits(path: &Path, flips: u64, is_sound: impl Fn(&Path) -> bool) {
    assert!(is_sound(path), "{}", path.display());
    let mut bytes = fs::read(path).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    let mut random = Random::new(flips);
    for _ in 0..flips {
        let (at, bit) = (random.below(bytes.len() as u64), random.below(8));
        let byte = &mut bytes[at as usize];
        file.write_all_at(&[*byte ^ 1 << bit], at).unwrap();
        assert!(!is_sound(path), "bit {bit} of byte {at} of {}", path.display());
        file.write_all_at(&[*byte], at).unwrap();
    }
    assert!(is_sound(path), "{}", path.display());
}

#[test]
fn no_flipped_bit_is_silent() {
    let long = std::env::var_os("GANNET_LONG").is_some();
    let flips = |short| if long { 10_000 } else { short };
    let directory = tempfile::tempdir().unwrap();
    let log = usual_log(directory.path());
    let exported = export_all(&log).unwrap();
    let [records, slices, table] = &exported.files[..] else { panic!("{exported:?}") };
    let is_raw_file = |path: &Path| verify(path).is_ok_and(|summary| summary.digest);
    flip_bits(records, flips(1000), is_raw_file);
    flip_bits(slices, flips(3000), is_raw_file);
    flip_bits(table, flips(10_000), |path| gannet_table::verify(path).is_ok());
    flip_bits(&log, flips(3000), |path| {
        gannet_log::verify(path).is_ok_and(|report| report.is_sound())
    });
}

/// What libhdf5 does to a file that it opens for writing.
#[test]
fn an_export_without_its_digest_is_not_verified() {
    let directory = tempfile::tempdir().unwrap();
    let exported = export_all(&usual_log(directory.path())).unwrap();
    let path = &exported.files[0];
    assert!(verify(path).unwrap().digest);
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - 24).unwrap();
    let error = verify(path).unwrap_err();
    assert!(error.to_string().contains("its digest is gone"), "{error}");
}

/// Record `number` with the candidate that made it, which is of type `candidate_type`, and an
/// activity of two of its primitives.
fn record_of_candidate(number: u64, candidate_type: trigger_candidate::Type) -> TriggerRecord {
    let mut record = record(number);
    let data = TriggerCandidateData {
        time_start: 1000 * number - 10,
        time_end: 1000 * number + 10,
        time_candidate: 1000 * number,
        detid: 3,
        candidate_type,
        algorithm: trigger_candidate::Algorithm::Custom,
    };
    let mut payload = vec![0; TriggerCandidateData::LEN + 8];
    overlay::emit::<_, TriggerActivityData>(&data, &[], &mut payload);
    add(&mut record, TriggerFragments::CANDIDATES, FragmentType::TriggerCandidate, payload);
    let inputs = trigger_primitive::primitives(&record.fragments[2].payload[..48]).unwrap();
    let inputs: Vec<_> = inputs.collect();
    let mut payload = vec![0; overlay::buffer_len::<TriggerActivityData, TriggerPrimitive>(2)];
    let data = TriggerActivityData {
        time_start: 1000 * number,
        time_end: 1000 * number + 1,
        time_peak: 1000 * number,
        time_activity: 1000 * number,
        channel_start: 0,
        channel_end: 1,
        channel_peak: 0,
        adc_integral: 10,
        adc_peak: 5,
        detid: 3,
        sensor: trigger_activity::Type::Tpc,
        algorithm: trigger_activity::Algorithm::Bundle,
    };
    overlay::emit(&data, &inputs, &mut payload);
    add(&mut record, TriggerFragments::ACTIVITIES, FragmentType::TriggerActivity, payload);
    record
}

/// Adds a fragment of the trigger to a record.
fn add(record: &mut TriggerRecord, source: SourceId, kind: FragmentType, payload: Vec<u8>) {
    let mut fragment = record.fragments[2].clone();
    fragment.header = fragment.header.with_payload_len(payload.len());
    (fragment.header.source_id, fragment.header.fragment_type) = (source, kind);
    fragment.payload = payload;
    record.requests.push(ComponentRequest { component: source, ..record.requests[2] });
    record.fragments.push(fragment);
}

/// Whether the judge that knows the rules of DUNE's tests finds them kept.
fn keeps_dune_rules(path: &Path, test_run: &str, frames: &str) -> Option<bool> {
    let of_trigger = ["Trigger_Primitive=1", "Trigger_Candidate=1", "Trigger_Activity=1"];
    let rules: Vec<_> = [test_run, frames].into_iter().chain(of_trigger).map(OsStr::new).collect();
    let arguments = [&[path.as_os_str()], &rules[..]].concat();
    Some(crate::judge::run("dune_checks.py", &arguments)?.status.success())
}

#[test]
fn an_exported_file_keeps_the_rules_of_dunes_tests() {
    let directory = tempfile::tempdir().unwrap();
    // The trigger type of the records is bit 5.
    let records = (3..8).map(|number| record_of_candidate(number, trigger_candidate::Type::ALL[5]));
    let records = records.map(TriggerRecord::into_chunk);
    let log = log_of(directory.path(), [run_start()].into_iter().chain(records));
    let path = export_all(&log).unwrap().files.remove(0);
    let Some(kept) = keeps_dune_rules(&path, "false", "WIBEth=2") else { return };
    assert!(kept);
    let broken = |path: &Path, test_run, frames| {
        assert_eq!(keeps_dune_rules(path, test_run, frames), Some(false), "{}", path.display());
    };
    broken(&path, "true", "WIBEth=2");
    broken(&path, "false", "WIBEth=3");
    let name = path.file_name().unwrap().to_str().unwrap();
    for name in [name.replace("_run0", "_run1"), name.replace("_2", "_1")] {
        let renamed = path.with_file_name(name);
        fs::copy(&path, &renamed).unwrap();
        broken(&renamed, "false", "WIBEth=2");
    }
    let of_type = |number: usize| record_of_candidate(3, trigger_candidate::Type::ALL[number]);
    let breaks_a_rule = |record: TriggerRecord| {
        let directory = tempfile::tempdir().unwrap();
        let log = log_of(directory.path(), [run_start(), record.into_chunk()]);
        broken(&export_all(&log).unwrap().files[0], "false", "WIBEth=2");
    };
    breaks_a_rule(of_type(6));
    let changes: [fn(&mut TriggerRecord); 7] = [
        |record| record.fragments[2].payload.rotate_left(24 * 5),
        |record| record.fragments[2].header.window_end -= 8,
        |record| record.fragments[4].header.window_begin += 11,
        |record| record.fragments[2].header.detector_id = 3,
        |record| record.fragments[4].payload[8] += 1,
        |record| record.fragments[4].header.error_bits = 2,
        |record| {
            record.fragments[4].payload.pop();
            record.fragments[4].header.size -= 1;
        },
    ];
    for change in changes {
        let mut record = of_type(5);
        change(&mut record);
        breaks_a_rule(record);
    }
}
