//! Triggers as a Parquet table.

use std::collections::BTreeSet;
use std::path::Path;

use gannet_table::{Column, Form, Table, Values};
use gannet_trigger::module_level::Decision;

use super::error::Error;

/// Rows of a row group.
const ROWS_PER_GROUP_MAX: usize = 1 << 16;

/// A row of the table: a trigger decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerRow {
    /// Number in the run, from 1.
    pub number: u64,
    /// Time of the earliest candidate, ticks.
    pub time: u64,
    /// First tick that is read out.
    pub window_begin: u64,
    /// First tick that is not.
    pub window_end: u64,
    /// Bit `n` is set for candidates of type number `n`.
    pub trigger_type: u64,
    /// Candidates.
    pub candidates: u64,
    /// Activities of all candidates.
    pub activities: u64,
    /// Charge of all activities, ADC counts summed over samples.
    pub charge: u64,
    /// Least offline channel number; absent without activities.
    pub channel_first: Option<u64>,
    /// Greatest offline channel number; absent without activities.
    pub channel_last: Option<u64>,
    /// Names of the candidates' types, with commas.
    pub kind: String,
    /// Names of the algorithms that made the candidates, with commas.
    pub algorithm: String,
}

impl TriggerRow {
    /// The row of a decision.
    pub fn of(decision: &Decision) -> Self {
        let candidates = || decision.candidates.iter().map(|candidate| &candidate.data);
        let activities = || decision.candidates.iter().flat_map(|candidate| &candidate.inputs);
        let names = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(",");
        Self {
            number: decision.trigger_number,
            time: decision.timestamp,
            window_begin: decision.window_begin,
            window_end: decision.window_end,
            trigger_type: decision.trigger_type,
            candidates: decision.candidates.len() as u64,
            activities: activities().count() as u64,
            charge: activities().map(|activity| activity.adc_integral).sum(),
            channel_first: activities().map(|activity| activity.channel_start.into()).min(),
            channel_last: activities().map(|activity| activity.channel_end.into()).max(),
            kind: names(candidates().map(|data| data.candidate_type.name()).collect()),
            algorithm: names(candidates().map(|data| data.algorithm.name()).collect()),
        }
    }
}

/// The columns, in their order.
static COLUMNS: [Column<TriggerRow>; 12] = [
    Column::wide("number", "number of the trigger in the run, from 1", |row| row.number),
    Column::wide("time", "ticks of the detector clock: earliest candidate", |row| row.time),
    Column::wide("window_begin", "ticks: first that is read out", |row| row.window_begin),
    Column::wide("window_end", "ticks: first that is not read out", |row| row.window_end),
    Column::wide("trigger_type", "bit n is set for candidates of type number n", |row| {
        row.trigger_type
    }),
    Column {
        name: "type",
        unit: "names of the candidates' types, with commas",
        values: Values::Text(|row| row.kind.as_str().into()),
    },
    Column {
        name: "algorithm",
        unit: "names of the algorithms that made the candidates, with commas",
        values: Values::Text(|row| row.algorithm.as_str().into()),
    },
    Column::wide("candidates", "number", |row| row.candidates),
    Column::wide("activities", "number", |row| row.activities),
    Column {
        name: "channel_first",
        unit: "least offline channel number; absent without activities",
        values: Values::Optional(|row| row.channel_first),
    },
    Column {
        name: "channel_last",
        unit: "greatest offline channel number; absent without activities",
        values: Values::Optional(|row| row.channel_last),
    },
    Column::wide(
        "charge",
        "ADC counts above pedestal, summed over the samples of all activities",
        |row| row.charge,
    ),
];

static FORM: Form<TriggerRow> =
    Form { name: "triggers", columns: &COLUMNS, rising: None, rows_per_group: ROWS_PER_GROUP_MAX };

/// Begins the table of the triggers of run `run`, which takes the place of `path` when it is closed.
///
/// # Errors
/// As [`Table::replace`].
pub fn trigger_table(path: &Path, run: u32) -> Result<Table<TriggerRow>, Error> {
    Ok(Table::replace(path, &FORM, [("run".to_owned(), run.to_string())])?)
}
