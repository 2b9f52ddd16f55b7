//! Tracks that a front end put in, and those of them that are in records.

use gannet_control::detector::Comparison;
use gannet_control::emulation::EmulationReport;
use gannet_control::snapshot::{Figure, Snapshot};
use gannet_emulate::InjectedEvent;
use gannet_log::{Kind, Reader};

/// Times of the tracks that were put in, in ticks.
#[derive(Debug, Default)]
pub(super) struct Tracks(Vec<u64>);

impl Comparison for Tracks {
    fn put_in(&mut self, event: &dyn InjectedEvent) {
        if event.kind() == "track" {
            self.0.push(event.time());
        }
    }

    fn compare(&self, _: &EmulationReport, found: &Snapshot) -> Result<Vec<Figure>, String> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        let mut windows = Vec::new();
        for file in &found.recorder.files {
            let mut reader = Reader::open(file).map_err(|error| error.to_string())?;
            while let Some(chunk) = reader.next_chunk().map_err(|error| error.to_string())? {
                let label = chunk.header.label;
                if label.kind == Kind::TRIGGER_RECORD {
                    windows.push(label.first_ticks..=label.last_ticks);
                }
            }
        }
        let is_recorded = |time: &&u64| windows.iter().any(|window| window.contains(time));
        let (all, recorded) = (self.0.len(), self.0.iter().filter(is_recorded).count());
        Ok(vec![
            Figure::count("tracks", all as u64),
            Figure::share("  in a record", recorded as u64, all as u64),
        ])
    }
}
