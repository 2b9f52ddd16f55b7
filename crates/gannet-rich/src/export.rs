//! The rings of a finished log as a Parquet table.
//!
//! Rings are not recorded: they are found again in the recorded events, as the run found them. What is found in an
//! event depends neither on those around it nor on the instruction set.

use std::path::{Path, PathBuf};

use gannet_control::event::Recording;
use gannet_control::export::{ExportConfig, ExportError, ExportFormat, Exported, target, verified};
use gannet_table::{Column, Error, Form, Table, Values, about_log};
use gannet_wire::na62::{FINE_CLOCK, m2egp};

use crate::recorded::{self, EventSink};
use crate::shown::Setting;

/// A ring of an event.
#[derive(Clone, Debug)]
pub struct Row {
    run: u32,
    event: u64,
    time: u64,
    ring: u8,
    found: gannet_kernels::rings::Ring,
    event_hits: u8,
    event_rings: u8,
    missing: u8,
    primitive: u16,
}

/// The columns of the table, in their order.
pub static COLUMNS: [Column<Row>; 13] = [
    Column::narrow("run", 32, "number of the run", |row| row.run),
    Column::wide("event", "number of the event in the log, from 0", |row| row.event),
    Column::wide(
        "time",
        "time of the event since the start of the burst, 1/256 tick of 24.95 ns",
        |row| row.time,
    ),
    Column {
        name: "time_ns",
        unit: "the same, ns",
        values: Values::Double(|row| row.time as f64 * 1e9 / FINE_CLOCK.per_s() as f64),
    },
    Column::narrow("ring", 8, "number of the ring in its event, from 0", |row| row.ring.into()),
    Column::real("x", "centre in the common plane, mm", |row| row.found.x),
    Column::real("y", "centre in the common plane, mm", |row| row.found.y),
    Column::real("radius", "mm", |row| row.found.radius),
    Column::narrow("hits", 16, "hits that the ring was fitted to", |row| row.found.hits.into()),
    Column::narrow("event_hits", 8, "hits of the event", |row| row.event_hits.into()),
    Column::narrow("event_rings", 8, "rings of the event", |row| row.event_rings.into()),
    Column::narrow(
        "missing_boards",
        8,
        "a bit for each board without data, board 0 the lowest",
        |row| row.missing.into(),
    ),
    Column::narrow("primitive", 16, "what the level-0 trigger is told of the event", |row| {
        row.primitive.into()
    }),
];

static FORM: Form<Row> =
    Form { name: "rings", columns: &COLUMNS, rising: Some("time"), rows_per_group: 1 << 17 };

/// Writes the rings of the events of `log` to `NAME_rings.parquet`.
///
/// # Errors
/// When the log does not verify, or something cannot be read or written.
pub fn export(
    log: &Path,
    config: &ExportConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Exported, ExportError> {
    let (header, chunks_missing) = verified(log, progress)?;
    let mut exported = Exported { chunks_missing, ..Exported::default() };
    if !config.formats.contains(&ExportFormat::Parquet) {
        return Ok(exported);
    }
    let recording = Recording::of_log(log).map_err(ExportError::failed)?;
    let mut setting = Setting::of(&recording).map_err(ExportError::failed)?;
    let window = setting.window;
    setting.run = Some(header.run);
    let mut writing = Writing {
        setting,
        path: target(log, config, "_rings.parquet")?,
        about: about_log(&header, chunks_missing),
        table: None,
        events: 0,
        rings: 0,
        error: None,
    };
    recorded::events(&recording, window, &mut writing).map_err(ExportError::failed)?;
    if let Some(error) = writing.error {
        return Err(ExportError::failed(error));
    }
    exported.counts = [("events", writing.events), ("rings", writing.rings)].into();
    if let Some(table) = writing.table {
        exported.files.push(table.close().map_err(ExportError::failed)?);
    }
    Ok(exported)
}

/// A table that is begun with its first ring.
struct Writing {
    setting: Setting,
    path: PathBuf,
    about: Vec<(String, String)>,
    table: Option<Table<Row>>,
    events: u64,
    rings: u64,
    error: Option<Error>,
}

impl Writing {
    fn push(&mut self, row: Row) -> Result<(), Error> {
        let table = match &mut self.table {
            Some(table) => table,
            none => {
                let finder = format!("{:?}", self.setting.finder).to_lowercase();
                let about = std::mem::take(&mut self.about).into_iter();
                let about = about.chain([("finder".to_owned(), finder)]);
                none.insert(Table::replace(&self.path, &FORM, about)?)
            }
        };
        table.push(row)
    }
}

impl EventSink for Writing {
    fn event(&mut self, time: u64, m2egp: &[u8]) {
        let Some(header) = m2egp.first_chunk::<{ m2egp::WORD_LEN }>() else { return };
        let header = m2egp::Header::new_unchecked(header);
        let (event_hits, missing) = (header.hits(), header.missing());
        let (rings, primitive) = self.setting.search.event(m2egp);
        let rings = rings.to_vec();
        let (run, event) = (self.setting.run.unwrap_or(0), self.events);
        let event_rings = rings.len() as u8;
        for (ring, found) in (0..).zip(rings) {
            let primitive = primitive.0;
            let row =
                Row { run, event, time, ring, found, event_hits, event_rings, missing, primitive };
            if let Err(error) = self.push(row) {
                self.error = Some(error);
                return;
            }
            self.rings += 1;
        }
        self.events += 1;
    }

    fn is_done(&self) -> bool {
        self.error.is_some()
    }
}
