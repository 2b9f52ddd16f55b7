//! The payloads of the log's own chunks: file header and end of file, as one line of JSON each.
//!
//! JSON, so that `head -c 600 FILE` tells a person what the file is. Every text is clipped such that
//! either chunk is exactly one block: the end chunk of a finished file is its last 4096 bytes.

use std::collections::BTreeMap;
use std::fmt;

use gannet_measure::ledger::{Reason, Statement};
use serde::{Deserialize, Serialize};

use super::account::{Item, Tally};
use super::defect::Defect;
use super::format::{BLOCK_BYTES, Kind, chunk_len};
use super::queue::ChunkDrop;

/// Longest text of the caller that is stored in a file header, in bytes.
pub const TEXT_BYTES_MAX: usize = 128;
/// Longest error text that is stored in an end chunk, in bytes.
pub const ERROR_BYTES_MAX: usize = 512;

/// What a run is: given by who records, the same in all files of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunInfo {
    /// Run number.
    pub run: u32,
    /// Name and version of the recording program.
    pub application: String,
    /// Name of the machine.
    pub host: String,
    /// Digest of the configuration text; see [`digest`].
    pub config_digest: String,
    /// Frequency of the detector clock that all time stamps count, hertz.
    pub ticks_hz: u64,
    /// Start of the run, nanoseconds since 1970-01-01 UTC, which tells it from another run of the
    /// same number; 0: the time at which its recorder is made.
    pub started_unix_ns: u64,
}

/// Digest of a configuration text: CRC-32C and length. It tells texts apart; it is no protection
/// against forgery.
pub fn digest(text: &str) -> String {
    format!("crc32c:{:08x}:{}", crc_fast::crc32_iscsi(text.as_bytes()), text.len())
}

/// Payload of the first chunk of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHeader {
    /// Always "gannet chunk log".
    pub format: String,
    /// Version of the chunk format.
    pub version: u16,
    /// Run number.
    pub run: u32,
    /// Number of this file in its run.
    pub file_index: u32,
    /// Time of creation, nanoseconds since 1970-01-01 UTC.
    pub created_unix_ns: u64,
    /// Name and version of the recording program.
    pub application: String,
    /// Name of the machine.
    pub host: String,
    /// Digest of the configuration text.
    pub config_digest: String,
    /// Frequency of the detector clock, hertz; 0 when unknown.
    pub ticks_hz: u64,
    /// Start of the run, nanoseconds since 1970-01-01 UTC; 0 when unknown, as in older logs.
    #[serde(default)]
    pub run_started_unix_ns: u64,
    /// The header was damaged and `recover` wrote this one from what the chunks tell.
    #[serde(default)]
    pub rebuilt: bool,
}

/// The text in [`FileHeader::format`].
pub const FORMAT_NAME: &str = "gannet chunk log";

impl FileHeader {
    /// Header of file `file_index` of the run `info`.
    pub fn new(info: &RunInfo, file_index: u32, created_unix_ns: u64) -> Self {
        Self {
            format: FORMAT_NAME.into(),
            version: super::format::VERSION,
            run: info.run,
            file_index,
            created_unix_ns,
            application: clip(&info.application, TEXT_BYTES_MAX).into(),
            host: clip(&info.host, TEXT_BYTES_MAX).into(),
            config_digest: clip(&info.config_digest, TEXT_BYTES_MAX).into(),
            ticks_hz: info.ticks_hz,
            run_started_unix_ns: info.started_unix_ns,
            rebuilt: false,
        }
    }

    /// The chunk's payload.
    pub fn encode(&self) -> Vec<u8> {
        encode_line(self)
    }

    /// Reads the payload of a file header chunk.
    ///
    /// # Errors
    /// The text is not that of a file header.
    pub fn decode(payload: &[u8]) -> Result<Self, Defect> {
        serde_json::from_slice::<Self>(payload)
            .ok()
            .filter(|header| header.format == FORMAT_NAME)
            .ok_or(Defect::Text(Kind::FILE_HEADER))
    }
}

/// Why a file ends where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// The run ended.
    Closed,
    /// The file had reached its size; the run goes on in the next one.
    Rotated,
    /// Writing failed; the run goes on in the next file as soon as it can.
    Failed,
    /// The recording program did not end the file; `recover` did.
    Recovered,
}

/// Payload of the last chunk of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndOfFile {
    /// Why the file ends.
    pub cause: EndCause,
    /// Data chunks in the file.
    pub data_chunks: u64,
    /// Data chunks known to have been lost from the middle of the file.
    #[serde(default)]
    pub chunks_missing: u64,
    /// When the file was ended, nanoseconds since 1970-01-01 UTC; 0 when `recover` ended it, and in
    /// older logs.
    #[serde(default)]
    pub closed_unix_ns: u64,
    /// The error after which the file was ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What became of the items of the run, over all of its files, up to the end of this one: final
    /// where the cause is `closed`. Empty where it is not known, as after `recover`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub account: Vec<ItemAccount>,
}

/// What became of the items of one kind: what was offered and is neither recorded nor missing was
/// still on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemAccount {
    /// Name of the stage of the ledger; see [`Item::stage`](super::Item::stage).
    pub stage: String,
    /// Items that there were to record.
    pub offered: u64,
    /// Items in the files of the run.
    pub recorded: u64,
    /// Items that are in no file, by the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, u64>,
}

impl ItemAccount {
    /// The same with one reason instead of all.
    fn without_reasons(&self) -> Self {
        let missing = [("any".to_owned(), self.missing_total())].into_iter();
        Self { missing: missing.filter(|(_, count)| *count > 0).collect(), ..self.clone() }
    }

    /// Takes `items`, which were recorded, out of the accounts of their stages, for `reason`.
    pub(super) fn lose(accounts: &mut [Self], items: &Tally, reason: ChunkDrop) {
        for account in accounts {
            let item = Item::ALL.into_iter().find(|item| item.stage() == account.stage);
            let count = item.map_or(0, |item| items.get(item)).min(account.recorded);
            if count > 0 {
                account.recorded -= count;
                *account.missing.entry(reason.name().into()).or_default() += count;
            }
        }
    }

    /// Items that are in no file, for any reason.
    pub fn missing_total(&self) -> u64 {
        self.missing.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

impl From<&Statement> for ItemAccount {
    fn from(statement: &Statement) -> Self {
        let lost = statement.dropped.iter().filter(|drop| drop.count > 0);
        Self {
            stage: statement.stage.clone(),
            offered: statement.offered,
            recorded: statement.delivered,
            missing: lost.map(|drop| (drop.reason.clone(), drop.count)).collect(),
        }
    }
}

/// What is missing, in words.
impl fmt::Display for ItemAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, offered, missing, .. } = self;
        let what = match stage.as_str() {
            "recorder" => "chunks",
            "recorded_primitives" => "trigger primitives",
            other => &other.replace('_', " "),
        };
        write!(f, "{} of {offered} {what} are missing:", self.missing_total())?;
        missing.iter().try_for_each(|(reason, count)| write!(f, " {reason} {count}"))
    }
}

impl EndOfFile {
    /// The chunk's payload, of one block. Where a long error leaves too little room, the account
    /// comes without reasons, and at worst not at all.
    pub fn encode(&self) -> Vec<u8> {
        let without_reasons = || self.account.iter().map(ItemAccount::without_reasons).collect();
        let with = |account| encode_line(&Self { account, ..self.clone() });
        [encode_line(self), with(without_reasons())]
            .into_iter()
            .find(|line| chunk_len(line.len()) <= BLOCK_BYTES as u64)
            .unwrap_or_else(|| with(Vec::new()))
    }

    /// Reads the payload of an end chunk.
    ///
    /// # Errors
    /// The text is not that of an end chunk.
    pub fn decode(payload: &[u8]) -> Result<Self, Defect> {
        serde_json::from_slice(payload).map_err(|_| Defect::Text(Kind::END_OF_FILE))
    }
}

/// `value` as JSON and a line end.
fn encode_line<T: Serialize>(value: &T) -> Vec<u8> {
    // Plain structs of numbers and texts have no way to fail.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

/// At most the first `bytes_max` bytes of `text`, cut at a character.
pub(super) fn clip(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use gannet_measure::ledger::Drop;

    use super::*;

    #[test]
    fn is_read_back_and_fits_one_block_whatever_the_texts() {
        // A control character takes six bytes in JSON: the worst case.
        let long = "\u{1}".repeat(1000);
        let info = RunInfo {
            run: 7,
            application: long.clone(),
            host: long.clone(),
            config_digest: long.clone(),
            ticks_hz: 62_500_000,
            started_unix_ns: u64::MAX,
        };
        let header = FileHeader::new(&info, u32::MAX, u64::MAX);
        assert_eq!(chunk_len(header.encode().len()), BLOCK_BYTES as u64);
        assert_eq!(FileHeader::decode(&header.encode()), Ok(header));

        let end = EndOfFile {
            cause: EndCause::Recovered,
            data_chunks: u64::MAX,
            chunks_missing: u64::MAX,
            closed_unix_ns: u64::MAX,
            error: Some(clip(&long, ERROR_BYTES_MAX).into()),
            account: Vec::new(),
        };
        assert_eq!(chunk_len(end.encode().len()), BLOCK_BYTES as u64);
        assert_eq!(EndOfFile::decode(&end.encode()), Ok(end));
    }

    /// The account of each stage with every reason that there is, at the largest numbers.
    fn full_account() -> Vec<ItemAccount> {
        let statement = |item: &Item| Statement {
            stage: item.stage().into(),
            offered: u64::MAX,
            delivered: u64::MAX,
            under_way: 0,
            dropped: ChunkDrop::ALL.iter().map(|reason| Drop::of(*reason, u64::MAX)).collect(),
        };
        Item::ALL.iter().map(|item| ItemAccount::from(&statement(item))).collect()
    }

    #[test]
    fn the_account_fits_the_end_chunk_in_full_or_without_reasons() {
        let end = |account, error: Option<String>| EndOfFile {
            cause: EndCause::Closed,
            data_chunks: u64::MAX,
            chunks_missing: 0,
            closed_unix_ns: u64::MAX,
            error,
            account,
        };
        let ordinary = end(full_account(), None);
        assert_eq!(chunk_len(ordinary.encode().len()), BLOCK_BYTES as u64);
        assert_eq!(EndOfFile::decode(&ordinary.encode()), Ok(ordinary));

        let crowded = end(full_account(), Some("é".repeat(ERROR_BYTES_MAX / 2)));
        assert_eq!(chunk_len(crowded.encode().len()), BLOCK_BYTES as u64);
        let read = EndOfFile::decode(&crowded.encode()).unwrap();
        assert_eq!(read.account.len(), Item::ALL.len());
        assert!(read.account.iter().all(|item| item.missing_total() == u64::MAX));

        let hopeless = end(full_account(), Some("\u{1}".repeat(ERROR_BYTES_MAX)));
        assert_eq!(chunk_len(hopeless.encode().len()), BLOCK_BYTES as u64);
    }

    #[test]
    fn refuses_other_texts() {
        assert_eq!(FileHeader::decode(b"{}"), Err(Defect::Text(Kind::FILE_HEADER)));
        assert_eq!(EndOfFile::decode(b"\xff"), Err(Defect::Text(Kind::END_OF_FILE)));
        let mut alien = FileHeader::new(&RunInfo::default(), 0, 0);
        alien.format = "something else".into();
        assert!(FileHeader::decode(&alien.encode()).is_err());
    }

    #[test]
    fn texts_are_cut_at_a_character() {
        assert_eq!(clip(&"ü".repeat(100), 128).len(), 128);
        assert_eq!(clip(&format!("a{}", "ü".repeat(100)), 128).len(), 127);
    }

    #[test]
    fn digest_tells_texts_apart() {
        assert_eq!(digest("123456789"), "crc32c:e3069283:9");
        assert_ne!(digest("a = 1"), digest("a = 2"));
    }
}
