//! What the writer wrote, read back by an independent implementation of the format.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use gannet_hdf5::{Error, Group, GroupReader, Reader, Result, Value, Writer};
use proptest::prelude::*;

fn small_file(path: &Path) -> Result<()> {
    let mut writer = Writer::create(path, &[("run", Value::U32(7)), ("name", Value::from("äé"))])?;
    for number in 0..3 {
        let (name, first) = (format!("Record{number}"), [number; 100]);
        let parts: &[&[u8]] = &[&first, b"", b"tail"];
        let mut raw = Group::new();
        raw.data_set("data", parts);
        raw.data_set("empty", &[]);
        let mut record = Group::new();
        record.attribute("map", Value::from("{}"));
        record.attribute("size", Value::U64(u64::MAX));
        record.group("RawData", raw);
        writer.append(&name, &record)?;
    }
    writer.close(&[("closed", Value::from(""))])
}

/// Reads everything there is, to a small depth; returns the number of bytes in data sets.
fn walk(group: &GroupReader, depth: usize) -> Result<usize> {
    group.attributes()?;
    let mut bytes = 0;
    for (_, data_set) in group.data_sets()? {
        bytes += data_set.bytes()?.len();
    }
    for (_, sub_group) in group.groups()?.iter().take_while(|_| depth > 0) {
        bytes += walk(sub_group, depth - 1)?;
    }
    Ok(bytes)
}

#[test]
fn everything_comes_back() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    small_file(&path)?;
    let reader = Reader::open(&path)?;
    let root = reader.root().attributes()?;
    assert_eq!(root.len(), 3);
    assert_eq!(root["run"], Value::U32(7));
    assert_eq!(root["name"], Value::from("äé"));
    assert_eq!(root["closed"], Value::from(""));
    let names: Vec<_> = reader.root().groups()?.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Record0", "Record1", "Record2"]);
    let record = reader.root().group("Record2")?;
    assert_eq!(record.attributes()?["map"], Value::from("{}"));
    assert_eq!(record.attributes()?["size"], Value::U64(u64::MAX));
    let raw = record.group("RawData")?;
    assert_eq!(raw.data_set("data")?.shape()?, [104, 1]);
    assert_eq!(raw.data_set("data")?.bytes()?, [vec![2; 100], b"tail".to_vec()].concat());
    assert_eq!(raw.data_set("empty")?.bytes()?, []);
    Ok(())
}

#[test]
fn names_fill_many_blocks_to_every_last_byte() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let names: Vec<_> = (0..600).map(|n| format!("{n:0width$}", width = 3 + n % 60)).collect();
    let mut writer = Writer::create(&path, &[])?;
    for name in &names {
        writer.append(name, &Group::new())?;
    }
    writer.close(&[])?;
    let mut found: Vec<_> = Reader::open(&path)?.root().groups()?;
    // They are in the order of their names.
    assert!(found.is_sorted_by(|(name, _), (next, _)| name < next));
    found.sort_by_key(|(name, _)| name.parse::<usize>().unwrap());
    assert!(found.into_iter().map(|(name, _)| name).eq(names));
    Ok(())
}

#[test]
fn attributes_may_fill_many_blocks_too() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let names: Vec<_> = (0..200).map(|n| format!("attribute number {n}")).collect();
    let attributes: Vec<_> = names.iter().map(|name| (&name[..], Value::from(&name[..]))).collect();
    Writer::create(&path, &attributes[..150])?.close(&attributes[150..])?;
    let found = Reader::open(&path)?.root().attributes()?;
    assert_eq!(found.len(), 200);
    assert!(found.iter().all(|(name, value)| value.as_text() == Some(name)));
    Ok(())
}

/// A file that counts how often it is read.
struct Counting {
    file: File,
    reads: Arc<AtomicUsize>,
}

impl Read for Counting {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.reads.fetch_add(1, Relaxed);
        self.file.read(bytes)
    }
}

impl Seek for Counting {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// How many reads it takes to open a file and read a data set of one of its groups.
fn reads(path: &Path, group: &str) -> Result<usize> {
    let reads = Arc::new(AtomicUsize::new(0));
    let file = Counting { file: File::open(path).unwrap(), reads: Arc::clone(&reads) };
    let reader = Reader::new(file, path)?;
    assert_eq!(reader.root().group(group)?.data_set("data")?.bytes()?, group.as_bytes());
    Ok(reads.load(Relaxed))
}

#[test]
fn the_last_of_many_groups_is_found_as_soon_as_the_first() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for groups in [100, 10_000] {
        let path = folder.path().join(groups.to_string());
        let mut writer = Writer::create(&path, &[("run", Value::U32(7))])?;
        // In no order, as sequence numbers of more digits than planned make it.
        let name = |number: usize| format!("Record{:05}", number * 7919 % groups + 1);
        for name in (0..groups).map(name) {
            let parts: &[&[u8]] = &[name.as_bytes()];
            let mut group = Group::new();
            group.data_set("data", parts);
            writer.append(&name, &group)?;
        }
        writer.close(&[("closed", Value::U32(1))])?;
        let names: Vec<_> = (1..=groups).map(|number| format!("Record{number:05}")).collect();
        for name in names.iter().step_by(groups / 50).chain(names.last()) {
            all.push(reads(&path, name)?);
        }
        let (least, most) = (all.iter().min(), all.iter().max());
        assert!(most < least.map(|least| 2 * least).as_ref(), "reads: {all:?}");
        let reader = Reader::open(&path)?;
        for name in ["", "Record", "Record00000", "Record000011", "Record99999", "S"] {
            let error = reader.root().group(name).map(|_| ()).unwrap_err();
            assert!(matches!(error, Error::Format { .. }), "{name}: {error}");
        }
        assert_eq!(reader.root().attributes()?.len(), 2);
        assert!(reader.root().groups()?.into_iter().map(|(name, _)| name).eq(names));
    }
    Ok(())
}

#[test]
fn the_file_is_complete_after_each_append() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let mut writer = Writer::create(&path, &[("run", Value::U32(7))])?;
    for number in 0..300_usize {
        let parts: &[&[u8]] = &[&[1; 10]];
        let mut group = Group::new();
        group.data_set("data", parts);
        writer.append(&format!("Record{number}"), &group)?;
        if number.is_multiple_of(37) {
            // The writer is still there, as after a kill.
            let reader = Reader::open(&path)?;
            assert_eq!(walk(reader.root(), 1)?, 10 * (number + 1));
            assert_eq!(writer.file_len(), std::fs::metadata(&path).unwrap().len());
        }
    }
    Ok(())
}

#[test]
fn what_the_format_does_not_allow_is_refused() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let mut writer = Writer::create(&path, &[("run", Value::U32(7))])?;
    assert!(matches!(Writer::create(&path, &[]), Err(Error::Io { action: "create", .. })));
    for name in ["", ".", "a/b", "a\0b", &"x".repeat(256)] {
        assert!(matches!(writer.append(name, &Group::new()), Err(Error::Name { .. })), "{name}");
    }
    writer.append("a", &Group::new())?;
    assert!(matches!(writer.append("a", &Group::new()), Err(Error::Duplicate { .. })));
    let mut twins = Group::new();
    twins.data_set("b", &[]);
    twins.group("b", Group::new());
    assert!(matches!(writer.append("c", &twins), Err(Error::Duplicate { .. })));
    let mut cut = Group::new();
    cut.attribute("text", Value::from("a\0b"));
    assert!(matches!(writer.append("c", &cut), Err(Error::Text { .. })));
    assert!(matches!(writer.close(&[("run", Value::U32(8))]), Err(Error::Duplicate { .. })));
    assert_eq!(Reader::open(&path)?.root().groups()?.len(), 1);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_files_are_errors_never_panics(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        thread_local!(static FILE: Vec<u8> = {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.h5");
            small_file(&path).unwrap();
            std::fs::read(&path).unwrap()
        });
        let mut bytes = FILE.with(Clone::clone);
        for (index, byte) in flips {
            *index.get_mut(&mut bytes) = byte;
        }
        if let Some(index) = cut {
            bytes.truncate(index.index(bytes.len()));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged.h5");
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(reader) = Reader::open(&path) {
            let _ = walk(reader.root(), 3);
        }
    }
}
