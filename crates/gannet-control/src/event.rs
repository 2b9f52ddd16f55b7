//! Events that recordings hold, one by one, as people and programs see them.
//!
//! What an event is, its detector knows: it is handed a [`Recording`] and gives an [`EventView`].

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A file that may hold events.
#[derive(Debug)]
pub struct Recording {
    /// The file.
    pub path: PathBuf,
    /// What it is.
    pub content: Content,
    /// What is known of the run that it is of.
    pub start: Option<RunStart>,
}

impl Recording {
    /// The log at `path`, and what is known of its run.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of_log(path: &Path) -> Result<Self, NoEvent> {
        let start = RunStart::of_log(path)?;
        Ok(Self { path: path.to_owned(), content: Content::Log, start })
    }
}

/// What a file is.
#[derive(Debug)]
pub enum Content {
    /// The log of a run.
    Log,
    /// Captured packets: the datagrams of them, in their order.
    Datagrams(Vec<Vec<u8>>),
    /// Other bytes.
    Bytes(Vec<u8>),
}

/// What a log tells of its run at the start, as far as all detectors do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RunStart {
    /// Number of the run.
    pub run: u32,
    /// Name of the detector.
    pub detector: String,
    /// Text of the configuration.
    pub configuration: String,
    /// All that is told, for the detector.
    #[serde(flatten)]
    pub told: serde_json::Map<String, serde_json::Value>,
}

impl RunStart {
    /// What the log at `path` tells of its run, or the first file of the run beside it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of_log(path: &Path) -> Result<Option<Self>, NoEvent> {
        let text = gannet_log::run_start(path);
        let text = text.map_err(|error| NoEvent::Unreadable(error.to_string()))?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }
}

/// An event.
#[derive(Clone, Debug)]
pub struct EventView {
    /// What it holds, line by line.
    pub text: String,
    /// The same for programs.
    pub values: serde_json::Value,
    /// Its picture, an SVG document; or why there can be none.
    pub picture: Result<String, String>,
}

/// Why an event cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoEvent {
    /// The recording holds none of the detector.
    #[error("{0}")]
    NotKept(String),
    /// It has fewer.
    #[error("there is no event {wanted}: the file has {}", numbers(*events))]
    Number {
        /// Number of the event, from 0.
        wanted: u64,
        /// How many events there are.
        events: u64,
    },
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

/// How many events there are, and how they are numbered.
fn numbers(events: u64) -> String {
    match events {
        0 => "none".to_owned(),
        1 => "one, number 0".to_owned(),
        _ => format!("{events}, numbered from 0 to {}", events - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_too_many_is_told_how_many_there_are() {
        let said = |events| NoEvent::Number { wanted: 7, events }.to_string();
        assert_eq!(said(0), "there is no event 7: the file has none");
        assert_eq!(said(1), "there is no event 7: the file has one, number 0");
        assert_eq!(said(3), "there is no event 7: the file has 3, numbered from 0 to 2");
    }
}
