//! The triggered hits of a finished log as a Parquet table.

use std::path::Path;

use gannet_control::event::Recording;
use gannet_control::export::{ExportConfig, ExportError, ExportFormat, Exported, target, verified};
use gannet_table::{Column, Error, Form, Table, Values, about_log};
use gannet_wire::km3net::daq::{Event, EventHeader, TriggeredHit, trigger_bit};

use crate::recorded::events;

/// A triggered hit of an event.
#[derive(Clone, Debug)]
pub struct Row {
    event: u64,
    header: EventHeader,
    hit: TriggeredHit,
}

impl Row {
    fn has(&self, bit: u32) -> bool {
        self.hit.trigger_mask >> bit & 1 == 1
    }
}

/// The columns of the table, in their order.
pub static COLUMNS: [Column<Row>; 11] = [
    Column::narrow("run", 32, "number of the run", |row| row.header.header.run),
    Column::wide("event", "number of the event in the log, from 0", |row| row.event),
    Column::wide("trigger_counter", "number of the trigger in the run, from 1", |row| {
        row.header.trigger_counter
    }),
    Column::wide("event_mask", "triggers of the event, a bit for each", |row| {
        row.header.trigger_mask
    }),
    Column::narrow("module", 32, "identifier of the module", |row| row.hit.snapshot.module),
    Column::narrow("channel", 8, "photomultiplier of the module", |row| {
        row.hit.snapshot.hit.channel.into()
    }),
    Column::wide("time", "time of the hit as the module sent it, ns since 1970", |row| {
        row.header.header.begin_ns() + u64::from(row.hit.snapshot.hit.time)
    }),
    Column::narrow("time_over_threshold", 8, "ns", |row| {
        row.hit.snapshot.hit.time_over_threshold.into()
    }),
    Column::wide("trigger_mask", "triggers that the hit made, a bit for each", |row| {
        row.hit.trigger_mask
    }),
    Column {
        name: "muon",
        unit: "whether it made a muon trigger",
        values: Values::Flag(|row| row.has(trigger_bit::MUON)),
    },
    Column {
        name: "shower",
        unit: "whether it made a shower trigger",
        values: Values::Flag(|row| row.has(trigger_bit::SHOWER)),
    },
];

static FORM: Form<Row> = Form {
    name: "triggered_hits",
    columns: &COLUMNS,
    rising: Some("time"),
    rows_per_group: 1 << 17,
};

/// Writes the triggered hits of `log` to `NAME_hits.parquet`.
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
    let path = target(log, config, "_hits.parquet")?;
    let recording = Recording::of_log(log).map_err(ExportError::failed)?;
    let (mut table, mut number, mut hits, mut error) = (None, 0, 0, None);
    let mut write = |event: u64, of: &Event<'_>| -> Result<(), Error> {
        for hit in of.triggered_hits() {
            let table = match &mut table {
                Some(table) => table,
                none => {
                    let about = about_log(&header, chunks_missing);
                    none.insert(Table::replace(&path, &FORM, about)?)
                }
            };
            table.push(Row { event, header: of.header(), hit })?;
            hits += 1;
        }
        Ok(())
    };
    events(&recording, |event| {
        error = write(number, event).err();
        number += 1;
        error.is_none()
    })
    .map_err(ExportError::failed)?;
    if let Some(error) = error {
        return Err(ExportError::failed(error));
    }
    exported.counts = [("events", number), ("hits", hits)].into();
    if let Some(table) = table {
        exported.files.push(table.close().map_err(ExportError::failed)?);
    }
    Ok(exported)
}
