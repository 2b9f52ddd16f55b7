//! Single events, as text, as values, and as a picture.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::ops::Range;

use gannet_control::event::{EventView, NoEvent, Recording};
use gannet_log::name::utc;
use gannet_plot::{
    Axis, COLOURS, Chart, Colour, Document as Page, HEIGHT, INK, Key, Mark, Paint, Radius, Stroke,
};
use gannet_wire::km3net::daq::{Event, SnapshotHit, TriggeredHit, Triggers};
use serde_json::json;

use crate::recorded::{Places, Seen, events};

/// Nanoseconds of a second.
const NS_PER_S: u64 = 1_000_000_000;
/// Least room around hits, in ns and in m.
const NEAR_NS: f64 = 50.0;
const NEAR_M: f64 = 10.0;

/// Event `number` of a recording, from 0.
///
/// # Errors
/// As [`events`], and when there are fewer.
pub fn event(recording: &Recording, number: u64) -> Result<EventView, NoEvent> {
    let (mut seen, mut view) = (0, None);
    events(recording, |event| {
        if seen == number {
            view = Some(shown(recording, number, event));
        }
        seen += 1;
        view.is_none()
    })?;
    view.ok_or(NoEvent::Number { wanted: number, events: seen })
}

fn shown(recording: &Recording, number: u64, event: &Event<'_>) -> EventView {
    let places = Places::of(recording);
    let picture = places.and_then(|places| picture(number, event, &places));
    EventView { text: text(number, event), values: values(number, event), picture }
}

fn text(number: u64, event: &Event<'_>) -> String {
    let mut text = format!("{number}: {event}\n  triggered hits\n");
    for hit in event.triggered_hits() {
        let _ = writeln!(text, "    {hit}");
    }
    text.push_str("  all hits around them\n");
    for hit in event.snapshot_hits() {
        let _ = writeln!(text, "    {hit}");
    }
    text
}

fn values(number: u64, event: &Event<'_>) -> serde_json::Value {
    let header = event.header();
    let hit = |SnapshotHit { module, hit }: SnapshotHit| {
        json!({
            "module": module,
            "channel": hit.channel,
            "time": hit.time,
            "time_over_threshold": hit.time_over_threshold,
        })
    };
    let triggered = |TriggeredHit { snapshot, trigger_mask }| {
        let mut value = hit(snapshot);
        value["trigger_mask"] = json!(trigger_mask);
        value
    };
    json!({
        "event": number,
        "run": header.header.run,
        "slice_begin_ns": header.header.begin_ns(),
        "trigger_counter": header.trigger_counter,
        "trigger_mask": header.trigger_mask,
        "triggered_hits": event.triggered_hits().map(triggered).collect::<Vec<_>>(),
        "snapshot_hits": event.snapshot_hits().map(hit).collect::<Vec<_>>(),
    })
}

/// Height against time, near the triggered hits and of the whole event: hits that made the trigger filled and in the
/// colour of their string, all others hollow, the larger the longer they were over threshold.
fn picture(number: u64, event: &Event<'_>, places: &Places) -> Result<String, String> {
    let all: HashSet<SnapshotHit> = event.triggered_hits().map(|hit| hit.snapshot).collect();
    let seen = |hit: SnapshotHit| places.of_hit(&hit).map(|seen| (hit, seen));
    let others = event.snapshot_hits().filter(|hit| !all.contains(hit));
    let others: Vec<_> = others.map(seen).collect::<Result<_, _>>()?;
    let triggered = event.triggered_hits().map(|hit| seen(hit.snapshot));
    let triggered: Vec<_> = triggered.collect::<Result<_, _>>()?;
    let strings = brightest(&triggered);
    let colour = |seen: &Seen| {
        let place = strings.iter().position(|string| *string == seen.string);
        place.map_or(INK, |place| COLOURS[place])
    };
    let begin = triggered.iter().map(|(_, seen)| seen.time).fold(f64::INFINITY, f64::min);
    let circle = |paint, colour, (hit, seen): &(SnapshotHit, Seen)| {
        let ns = f64::from(hit.hit.time_over_threshold);
        let radius = Radius::Pixels((2.0 + 0.6 * ns.sqrt()).round() as u32);
        Mark::Circle(paint, colour, (seen.time - begin, seen.height), radius)
    };
    let mut marks: Vec<_> = others.iter().map(|hit| circle(Paint::Faint, INK, hit)).collect();
    let filled = |hit: &(SnapshotHit, Seen)| circle(Paint::Filled, colour(&hit.1), hit);
    marks.extend(triggered.iter().map(filled));
    let all = || others.iter().chain(&triggered).map(|(_, seen)| seen);
    let times = |seen: &Seen| seen.time - begin;
    let near = around(triggered.iter().map(|(_, seen)| times(seen)), NEAR_NS);
    let whole = around(all().map(times), NEAR_NS);
    let heights = around(all().map(|seen| seen.height), NEAR_M);
    let chart = |times: Range<f64>| {
        let across = Axis::new("time since the first triggered hit, ns", times.clone());
        let mut chart = Chart::new(across, Axis::new("height of the module, m", heights.clone()));
        let is_within = |mark: &&Mark| match mark {
            Mark::Circle(_, _, (time, _), _) => times.contains(time),
            _ => true,
        };
        chart.marks = marks.iter().filter(is_within).cloned().collect();
        chart
    };
    let columns = vec![vec![chart(near)], vec![chart(whole)]];
    let dots = |colour, name: String| Key { stroke: Stroke::Dots, ..Key::new(colour, name) };
    let of_string =
        |(string, colour): (&u32, &Colour)| dots(*colour, format!("triggered, string {string}"));
    let mut legend: Vec<Key> = strings.iter().zip(&COLOURS).map(of_string).collect();
    if triggered.iter().any(|(_, seen)| !strings.contains(&seen.string)) {
        legend.push(dots(INK, "triggered, other strings".to_owned()));
    }
    let other = "not triggered; larger: longer over threshold";
    legend.push(Key { stroke: Stroke::Circles, ..Key::new(INK, other) });
    let page =
        Page { title: title(number, event), width: 1320, height: HEIGHT + 80, legend, columns };
    page.svg().map_err(|error| error.to_string())
}

/// The strings with most of these hits, as many as there are colours, in the order of their numbers.
fn brightest(hits: &[(SnapshotHit, Seen)]) -> Vec<u32> {
    let mut counts = BTreeMap::new();
    hits.iter().for_each(|(_, seen)| *counts.entry(seen.string).or_insert(0) += 1);
    let mut strings: Vec<_> = counts.into_iter().collect();
    strings.sort_by_key(|(_, hits)| Reverse(*hits));
    let mut strings: Vec<u32> = strings.into_iter().map(|(string, _)| string).collect();
    strings.truncate(COLOURS.len());
    strings.sort_unstable();
    strings
}

/// A range with all of `values`, and a little more: a tenth, or `least`.
fn around(values: impl Iterator<Item = f64>, least: f64) -> Range<f64> {
    let (mut start, mut end) = (f64::INFINITY, f64::NEG_INFINITY);
    values.for_each(|value| (start, end) = (start.min(value), end.max(value)));
    if start > end {
        return -least..least;
    }
    let more = least.max((end - start) / 10.0);
    start - more..end + more
}

fn title(number: u64, event: &Event<'_>) -> String {
    let header = event.header();
    let first = event.triggered_hits().map(|hit| hit.snapshot.hit.time).min().unwrap_or(0);
    let ns = header.header.begin_ns() + u64::from(first);
    let second = utc(ns / NS_PER_S);
    let second = second.trim_end_matches('Z');
    format!(
        "KM3NeT, run {}, event {number} at {second}.{:09} UTC: {}, {} triggered hits of {}",
        header.header.run,
        ns % NS_PER_S,
        Triggers(header.trigger_mask),
        event.triggered_hits().len(),
        event.snapshot_hits().len(),
    )
}
