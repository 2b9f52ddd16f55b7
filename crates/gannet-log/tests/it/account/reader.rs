//! A reader of logs after `docs/reference/formats.md` alone: it shares no code with the program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

const BLOCK: usize = 4096;
const END_OF_FILE: u16 = 2;
const RUN_END: u16 = 17;
const BUSY: u16 = 19;
const RECORD: u16 = 32;
const SLICE: u16 = 33;
const RAW_FRAMES: u16 = 34;

/// A chunk of data.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    pub kind: u16,
    pub items: u64,
    pub payload: Vec<u8>,
}

/// A file as it lies on the disk.
#[derive(Debug)]
pub struct File {
    pub path: PathBuf,
    /// Chunks of data by their number in the run.
    pub chunks: BTreeMap<u64, Chunk>,
    /// The text of the end chunk; none in a file that was not ended.
    pub end: Option<Value>,
    /// Bytes behind the last sound chunk.
    pub rest: usize,
}

/// CRC-32C bit by bit: polynomial 0x1EDC6F41, reflected.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 }
        })
    })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The chunk at the begin of `bytes`, with kind, number, items and payload, and its size on the disk.
fn chunk(bytes: &[u8]) -> Option<(u64, Chunk, usize)> {
    if bytes.len() < BLOCK || &bytes[..4] != b"GnLg" || u16_at(bytes, 4) != 1 {
        return None;
    }
    let len = u32_at(bytes, 12) as usize;
    let size = (64 + len).div_ceil(BLOCK) * BLOCK;
    let sound = u32_at(bytes, 60) == crc32c(&bytes[..60])
        && bytes.len() >= size
        && u32_at(bytes, 56) == crc32c(&bytes[64..64 + len])
        && bytes[64 + len..size].iter().all(|byte| *byte == 0);
    let payload = bytes.get(64..64 + len)?.to_vec();
    let items = u64::from(u32_at(bytes, 40));
    sound.then(|| (u64_at(bytes, 16), Chunk { kind: u16_at(bytes, 6), items, payload }, size))
}

impl File {
    /// Reads a file up to its end chunk, or to its last sound chunk.
    pub fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let (mut chunks, mut end, mut at, mut next) = (BTreeMap::new(), None, 0, 0);
        while next < bytes.len() {
            let Some((number, chunk, size)) = chunk(&bytes[next..]) else {
                next += BLOCK;
                continue;
            };
            next += size;
            at = next;
            if chunk.kind == END_OF_FILE {
                end = Some(serde_json::from_slice(&chunk.payload).unwrap());
                break;
            }
            if chunk.kind >= 16 {
                assert!(chunks.insert(number, chunk).is_none(), "{number} twice in {path:?}");
            }
        }
        Self { path: path.to_owned(), chunks, end, rest: bytes.len() - at }
    }
}

/// What the files of a run hold.
#[derive(Debug)]
pub struct Run {
    pub files: Vec<File>,
    /// Chunks of all files; one that stands in two files is the same in both.
    pub chunks: BTreeMap<u64, Chunk>,
}

impl Run {
    /// Reads every log in `directory`, ended or not.
    pub fn read(directory: &Path) -> Self {
        let entries = fs::read_dir(directory).into_iter().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.to_str().unwrap().contains(".glog"));
        paths.sort();
        let files: Vec<_> = paths.iter().map(|path| File::read(path)).collect();
        let mut chunks = BTreeMap::new();
        for (number, chunk) in files.iter().flat_map(|file| &file.chunks) {
            let other = chunks.insert(*number, chunk.clone());
            assert!(other.is_none_or(|other| other == *chunk), "two chunks {number}");
        }
        Self { files, chunks }
    }

    /// Items in the files, by the stage of the ledger that counts them.
    pub fn items(&self, stage: &str) -> u64 {
        let count = |chunk: &Chunk| match (stage, chunk.kind) {
            ("recorder", _) | ("records", RECORD) => 1,
            ("recorded_primitives", SLICE) | ("raw_frames", RAW_FRAMES) => chunk.items,
            ("busy_intervals", BUSY) => chunk.items,
            _ => 0,
        };
        self.chunks.values().map(count).sum()
    }

    /// The account at the end of the run: `(offered, recorded, missing)` of a stage.
    pub fn told(&self, stage: &str) -> Option<(u64, u64, u64)> {
        let ends = self.files.iter().filter_map(|file| file.end.as_ref());
        let last = ends.rev().find(|end| end["cause"] == "closed")?;
        let item = last["account"].as_array()?.iter().find(|item| item["stage"] == stage)?;
        let missing = item["missing"].as_object().into_iter().flat_map(|missing| missing.values());
        let missing = missing.map(|count| count.as_u64().unwrap()).sum();
        Some((item["offered"].as_u64()?, item["recorded"].as_u64()?, missing))
    }

    /// The totals of the run, as its last chunk of data tells them.
    pub fn totals(&self) -> Option<Value> {
        let last = self.chunks.values().rfind(|chunk| chunk.kind == RUN_END)?;
        serde_json::from_slice(&last.payload).ok()
    }
}
