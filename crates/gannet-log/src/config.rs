//! The recorder's table in the configuration.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use gannet_measure::quantity::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::raw_streams::RawStreams;

/// What an acknowledged chunk survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The end of any process: the data are with the kernel.
    #[default]
    Process,
    /// A power cut: the data are on the disk. Every commit waits for the disk.
    Power,
}

/// Where and how the run is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecorderConfig {
    /// Directory of the files. It must exist: the recorder never makes it, because a directory
    /// made in the place of a disk that is not mounted would fill the wrong disk.
    pub directory: PathBuf,
    /// First part of the file names: letters, digits, `-`, `_` and `.`.
    pub prefix: String,
    /// Size at which a new file is begun.
    pub file_size_max: Bytes,
    /// Memory for chunks that wait to be written. When it is full, chunks are refused.
    pub queue_bytes_max: Bytes,
    /// Longest time that a chunk waits for others, to be written together with them.
    pub commit_interval: Span,
    /// What an acknowledged chunk survives: the end of any process, or a power cut.
    pub durability: Durability,
    /// Space that is left free on the disk: recording pauses before the disk is full. Besides, each
    /// file keeps 1 MiB for the end of the run, which nobody else can take.
    pub disk_reserve: Bytes,
    /// Longest time that the end of a run waits for a disk that takes nothing; what is not written
    /// then is counted as lost.
    pub drain_within: Span,
    /// Whether the run is recorded; `gannet run --no-record` is the same as `false`.
    pub enabled: bool,
    /// Whether the run is refused when nothing can be recorded at its start. Otherwise it starts, is
    /// degraded, and records as soon as it can.
    pub required: bool,
    /// Streams whose frames are recorded as they come, from the first frame of the run on:
    /// `"none"`, `"all"`, or a list of the names of streams, such as `["3/1/0/0", "3/1/0/1"]`.
    pub raw_streams: RawStreams,
}

impl Default for RecorderConfig {
    fn default() -> Self {
        Self {
            directory: ".".into(),
            prefix: "gannet".into(),
            file_size_max: Bytes::mib(4096),
            queue_bytes_max: Bytes::mib(256),
            commit_interval: Span::ms(100),
            durability: Durability::Process,
            disk_reserve: Bytes::mib(256),
            drain_within: Span::s(10),
            enabled: true,
            required: true,
            raw_streams: RawStreams::None,
        }
    }
}

/// How long the end of a run may wait for a disk that takes nothing.
const DRAIN_WITHIN: RangeInclusive<Span> = Span::ms(100)..=Span::s(3600);
/// Longest prefix of a file name, in bytes.
const PREFIX_BYTES_MAX: usize = 64;

impl RecorderConfig {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// Names the first key whose value makes no sense, and what is allowed.
    pub fn check(&self) -> Result<(), Error> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let refuse = |key, what: String| Err(Error::Config { key, what });
        if self.prefix.is_empty()
            || self.prefix.len() > PREFIX_BYTES_MAX
            || self.prefix.starts_with('.')
            || !self.prefix.chars().all(allowed)
        {
            return refuse(
                "prefix",
                format!(
                    "\"{}\" must be 1 to {PREFIX_BYTES_MAX} letters, digits, '-', '_' or '.', \
                     not beginning with '.'",
                    self.prefix
                ),
            );
        }
        for (key, size) in
            [("file_size_max", self.file_size_max), ("queue_bytes_max", self.queue_bytes_max)]
        {
            if size < Bytes::mib(1) {
                return refuse(key, format!("{size} is too small; use at least 1 MiB"));
            }
        }
        if self.commit_interval > Span::s(1) {
            return refuse(
                "commit_interval",
                format!("{} is too long; use at most 1 s", self.commit_interval),
            );
        }
        if !DRAIN_WITHIN.contains(&self.drain_within) {
            return refuse(
                "drain_within",
                format!(
                    "{} must be {} to {}",
                    self.drain_within,
                    DRAIN_WITHIN.start(),
                    DRAIN_WITHIN.end()
                ),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_allowed_and_read_back() {
        let config = RecorderConfig::default();
        config.check().unwrap();
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<RecorderConfig>(&text).unwrap(), config);
        assert_eq!(serde_json::from_str::<RecorderConfig>("{}").unwrap(), config);
    }

    #[test]
    fn unknown_keys_and_bare_numbers_are_refused() {
        for bad in
            [r#"{"folder": "/data"}"#, r#"{"file_size_max": 4}"#, r#"{"durability": "forever"}"#]
        {
            assert!(serde_json::from_str::<RecorderConfig>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_without_sense_are_refused_by_key() {
        let refused = |change: fn(&mut RecorderConfig)| {
            let mut config = RecorderConfig::default();
            change(&mut config);
            match config.check() {
                Err(Error::Config { key, .. }) => key,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(|config| config.prefix.clear()), "prefix");
        assert_eq!(refused(|config| config.prefix = "../evil".into()), "prefix");
        assert_eq!(refused(|config| config.prefix = "..".into()), "prefix");
        assert_eq!(refused(|config| config.file_size_max = Bytes(1)), "file_size_max");
        assert_eq!(refused(|config| config.queue_bytes_max = Bytes(0)), "queue_bytes_max");
        assert_eq!(refused(|config| config.commit_interval = Span::s(2)), "commit_interval");
        assert_eq!(refused(|config| config.drain_within = Span(0)), "drain_within");
    }

    #[test]
    fn the_schema_describes_every_key() {
        let schema = schemars::schema_for!(RecorderConfig);
        let properties = schema.get("properties").unwrap().as_object().unwrap();
        assert_eq!(properties.len(), 11);
        assert!(properties.values().all(|property| property.get("description").is_some()));
    }
}
