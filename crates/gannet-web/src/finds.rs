//! Primitives, decisions, and the event display of a decision.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array, UInt64Array};
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, VARY};
use gannet_control::finds::{
    Choice, Chosen, Decided, EventDisplay, Finds, Held, MARKS_MAX, Mark, NoFinds,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrow;
use crate::calls::{Ask, Reply};
use crate::limits::MARKS_PER_TURN;
use crate::negotiation::wants_arrow;
use crate::problem::Problem;
use crate::site::Shared;

/// Which primitives are to be shown.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Number of the channel; all where it is absent.
    channel: Option<u32>,
    /// First tick.
    from: Option<u64>,
    /// First tick after.
    to: Option<u64>,
    /// The newest of them, so many at most.
    #[serde(default = "last_primitives")]
    last: usize,
}

fn last_primitives() -> usize {
    1000
}

/// How many decisions are to be listed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedDecisions {
    /// So many at most.
    #[serde(default = "last_decisions")]
    last: usize,
}

fn last_decisions() -> usize {
    50
}

/// Primitives by columns: one is a number of each.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "PrimitiveColumns")]
pub(crate) struct Columns {
    /// First tick, after `from`.
    time: Vec<u64>,
    /// Number of the channel.
    channel: Vec<u32>,
    /// Ticks.
    length: Vec<u32>,
    /// ADC counts added up.
    charge: Vec<u32>,
}

impl Columns {
    fn of(marks: &[Mark], from: u64) -> Self {
        let mut columns = Self::default();
        for mark in marks {
            columns.time.push(mark.time - from);
            columns.channel.push(mark.channel);
            columns.length.push(mark.length);
            columns.charge.push(mark.charge);
        }
        columns
    }
}

/// Primitives.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Primitives {
    /// Tick from which the times count.
    from: u64,
    /// Ticks in a second.
    ticks_per_s: u64,
    /// Ticks that are held.
    held: Option<Held>,
    /// How many were kept of those that came in their time.
    kept: u64,
    /// How many came.
    seen: u64,
    /// Those that nobody fetched in time, since the start.
    missed: u64,
    /// The primitives.
    primitives: Columns,
}

impl Primitives {
    fn of(Chosen { held, marks, kept, seen, missed }: Chosen, from: u64, finds: &Finds) -> Self {
        let ticks_per_s = finds.ticks_per_s();
        let primitives = Columns::of(&marks, from);
        Self { from, ticks_per_s, held, kept, seen, missed, primitives }
    }
}

/// A decision.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Decision {
    /// Number of the decision, in the run.
    number: u64,
    /// What was found.
    kind: String,
    /// Tick of the decision.
    time: u64,
    /// First tick of its window.
    begin: u64,
    /// First tick after.
    end: u64,
}

impl Decision {
    fn of(decided: &Decided, finds: &Finds) -> Self {
        let (number, kind, time) = (decided.number, finds.kind(decided), decided.time);
        Self { number, kind, time, begin: decided.window.begin, end: decided.window.end }
    }
}

/// The newest decisions.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Decisions {
    /// Ticks in a second.
    ticks_per_s: u64,
    /// Ticks whose primitives are held.
    held: Option<Held>,
    /// The decisions, oldest first.
    decisions: Vec<Decision>,
}

/// An activity, its times as those of the primitives.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Activity {
    /// First tick.
    begin: i64,
    /// First tick after.
    end: i64,
    /// Lowest channel.
    channel_first: u32,
    /// Highest channel.
    channel_last: u32,
}

/// What is seen of a decision.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EventDisplay")]
pub(crate) struct Event {
    /// The decision.
    decision: Decision,
    /// Whether all of the window has come.
    is_complete: bool,
    /// Where activities lie.
    activities: Vec<Activity>,
    #[serde(flatten)]
    primitives: Primitives,
}

/// Which decision is to be shown.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedRecord {
    /// Number of the decision.
    number: u64,
}

/// Primitives of the last moments.
pub(crate) async fn primitives(ask: Ask<Wanted>) -> Result<Reply<Primitives>, Problem> {
    let Wanted { channel, from, to, last } = ask.wanted;
    let finds = finds(&ask.shared)?;
    ask.shared.pace.take(last.min(MARKS_MAX) / MARKS_PER_TURN).await;
    let chosen = finds.primitives(&Choice { channel, from, to, last }).map_err(refusal)?;
    let first = chosen.marks.first().map_or(0, |mark| mark.time);
    match wants_arrow(&ask.headers) {
        true => table(&chosen, &finds),
        false => {
            let primitives = Primitives::of(chosen, from.unwrap_or(first), &finds);
            Ok(Reply::json(primitives).with(VARY, HeaderValue::from_static("accept")))
        }
    }
}

/// Primitives as a table, with ticks as they are.
fn table(chosen: &Chosen, finds: &Finds) -> Result<Reply<Primitives>, Problem> {
    let numbers = |of: fn(&Mark) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(chosen.marks.iter().map(of)))
    };
    let times = UInt64Array::from_iter_values(chosen.marks.iter().map(|mark| mark.time));
    let columns = vec![
        ("time", Arc::new(times) as ArrayRef),
        ("channel", numbers(|mark| mark.channel)),
        ("length", numbers(|mark| mark.length)),
        ("charge", numbers(|mark| mark.charge)),
    ];
    let known = [
        ("ticks_per_s", finds.ticks_per_s()),
        ("kept", chosen.kept),
        ("seen", chosen.seen),
        ("missed", chosen.missed),
    ];
    let held = chosen.held.map(|held| [("held_begin", held.begin), ("held_end", held.end)]);
    let known = known.into_iter().chain(held.into_iter().flatten());
    arrow::table(columns, known.map(|(name, value)| (name, value.to_string())))
}

/// The newest decisions, oldest first.
pub(crate) async fn decisions(ask: Ask<WantedDecisions>) -> Result<Reply<Decisions>, Problem> {
    let finds = finds(&ask.shared)?;
    let (decided, held) = finds.decisions(ask.wanted.last).map_err(refusal)?;
    let decisions = decided.iter().map(|each| Decision::of(each, &finds)).collect();
    Ok(Reply::json(Decisions { ticks_per_s: finds.ticks_per_s(), held, decisions }))
}

/// A decision with the primitives and activities in its window.
pub(crate) async fn record(ask: Ask<WantedRecord>) -> Result<Reply<Event>, Problem> {
    let finds = finds(&ask.shared)?;
    ask.shared.pace.take(MARKS_MAX / MARKS_PER_TURN).await;
    let EventDisplay { decided, chosen, activities, is_complete } =
        finds.display(ask.wanted.number).map_err(refusal)?;
    let from = decided.window.begin;
    let after = |tick: u64| tick.wrapping_sub(from).cast_signed();
    let activities = activities.iter().map(|activity| Activity {
        begin: after(activity.begin),
        end: after(activity.end),
        channel_first: activity.channel_first,
        channel_last: activity.channel_last,
    });
    Ok(Reply::json(Event {
        decision: Decision::of(&decided, &finds),
        is_complete,
        activities: activities.collect(),
        primitives: Primitives::of(chosen, from, &finds),
    }))
}

fn refusal(no: NoFinds) -> Problem {
    let (status, code) = match no {
        NoFinds::TooMuch { asked: 0, .. } => (StatusCode::BAD_REQUEST, "too-little"),
        NoFinds::TooMuch { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too-much"),
        NoFinds::Reversed { .. } => (StatusCode::BAD_REQUEST, "reversed-window"),
        NoFinds::Nothing => (StatusCode::NOT_FOUND, "nothing-yet"),
        NoFinds::Overwritten { .. } | NoFinds::Gone { .. } => (StatusCode::GONE, "overwritten"),
        NoFinds::Unknown { .. } => (StatusCode::NOT_FOUND, "unknown-record"),
    };
    Problem::new(status, code, no.to_string())
}

fn finds(shared: &Shared) -> Result<Arc<Finds>, Problem> {
    shared.present.views().finds.ok_or_else(|| {
        let detail = "this detector shows no primitives, or another process decides: the builder";
        shared.without(Problem::new(StatusCode::NOT_FOUND, "no-primitives", detail))
    })
}
