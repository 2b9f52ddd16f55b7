//! What the writer wrote, read back by an independent implementation of the format.

use std::path::Path;

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
    let found = Reader::open(&path)?.root().groups()?;
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
