//! The events that were put in, as a file of JSON lines.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use gannet_emulate::{Event, Hit};
use serde::Serialize;

use super::EventSink;

/// Writes one line of JSON for each event: `{"event": .., "hits": [..]}`.
#[derive(Clone, Debug)]
pub struct EventFile {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    out: BufWriter<File>,
    failure: Option<io::Error>,
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'a Event,
    hits: &'a [Hit],
}

impl EventFile {
    /// Makes the file, or empties it.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> io::Result<Self> {
        let state = State { out: BufWriter::new(File::create(path)?), failure: None };
        Ok(Self { state: Arc::new(Mutex::new(state)) })
    }

    /// The callback that writes. After an error it writes no more; [`finish`](Self::finish)
    /// gives the error.
    pub fn sink(&self) -> EventSink {
        let state = Arc::clone(&self.state);
        Box::new(move |event, hits| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.failure.is_none() {
                state.failure = state.write(&Line { event, hits }).err();
            }
        })
    }

    /// Brings all lines to the file.
    ///
    /// # Errors
    /// The first error of this or of an earlier write.
    pub fn finish(self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.failure.take() {
            Some(failure) => Err(failure),
            None => state.out.flush(),
        }
    }
}

impl State {
    fn write(&mut self, line: &Line<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        self.out.write_all(b"\n")
    }
}
