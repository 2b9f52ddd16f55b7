//! A snapshot as metrics, in the text formats that monitoring systems read.

use std::fmt;
use std::sync::Arc;

use gannet_measure::histogram::Summary;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::alarm::AlarmKind;
use crate::channels::{ChannelFigures, ChannelSummary};
use crate::run_control::State;
use crate::snapshot::{Snapshot, SourceSnapshot};

/// A snapshot as the library wants metrics: to be collected.
struct Exporter {
    snapshot: Arc<Snapshot>,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporter")
    }
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Writes one family of metrics: a value for each set of labels.
fn family<'a, M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (Labels<'a>, M)>,
) -> fmt::Result {
    let mut values = values.into_iter().peekable();
    let Some((_, first)) = values.peek() else { return Ok(()) };
    let kind = first.metric_type();
    let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
    values.try_for_each(|(labels, value)| value.encode(metric.encode_family(&labels)?))
}

/// A family of counters.
fn counters<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (Labels<'a>, u64)>,
) -> fmt::Result {
    let values = values.into_iter().map(|(labels, value)| (labels, ConstCounter::new(value)));
    family(encoder, name, help, values)
}

/// A family of gauges.
fn gauges<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (Labels<'a>, f64)>,
) -> fmt::Result {
    let values = values.into_iter().map(|(labels, value)| (labels, ConstGauge::new(value)));
    family(encoder, name, help, values)
}

impl Collector for Exporter {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = &self.snapshot;
        run(&mut encoder, snapshot)?;
        sources(&mut encoder, snapshot)?;
        streams(&mut encoder, snapshot)?;
        ledger(&mut encoder, snapshot)?;
        outcome(&mut encoder, snapshot)?;
        latencies(&mut encoder, snapshot)?;
        slow_control(&mut encoder, snapshot)?;
        channels(&mut encoder, snapshot)
    }
}

fn run(encoder: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let states = State::ALL
        .map(|state| (vec![("state", state.name())], f64::from(u8::from(state == snapshot.state))));
    gauges(encoder, "gannet_run_state", "1 for the state of the run", states)?;
    let degraded = f64::from(u8::from(snapshot.degraded));
    gauges(encoder, "gannet_run_degraded", "1 when anything was lost", [(vec![], degraded)])?;
    let elapsed = [(vec![], snapshot.elapsed_s)];
    gauges(encoder, "gannet_run_elapsed_seconds", "Time since frames are taken", elapsed)?;
    let lost = [(vec![], snapshot.frames_lost as f64)];
    gauges(encoder, "gannet_run_frames_lost", "Frames lost, at least", lost)?;
    let most = [(vec![], snapshot.frames_lost_max as f64)];
    gauges(encoder, "gannet_run_frames_lost_max", "Frames lost, at most", most)?;
    let active = |kind| snapshot.alarms.iter().filter(|alarm| alarm.kind == kind).count() as f64;
    let alarms = AlarmKind::ALL.map(|kind| (vec![("kind", kind.name())], active(kind)));
    gauges(encoder, "gannet_alarms", "Conditions that need attention", alarms)
}

fn sources(encoder: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let by_name = |value: fn(&SourceSnapshot) -> u64| {
        let pair = move |source: &'_ _| value(source);
        snapshot.sources.iter().map(move |s| (vec![("source", s.name.as_str())], pair(s)))
    };
    counters(encoder, "gannet_source_frames", "Frames that arrived", by_name(|s| s.frames))?;
    counters(encoder, "gannet_source_bytes", "Bytes of those frames", by_name(|s| s.bytes))?;
    let help = "Datagrams dropped by the kernel, at least";
    counters(encoder, "gannet_source_kernel_drops", help, by_name(|s| s.kernel_drops))?;
    let (name, help) =
        ("gannet_source_kernel_drops_max", "Datagrams dropped by the kernel, at most");
    counters(encoder, name, help, by_name(|s| s.kernel_drops_max))?;
    let seconds = |value: fn(&SourceSnapshot) -> f64| {
        let sources = snapshot.sources.iter();
        sources.map(move |s| (vec![("source", s.name.as_str())], ConstCounter::new(value(s))))
    };
    let (cpu, busy) = (seconds(|s| s.receive_cpu_s), seconds(|s| s.tpg_busy_s));
    let help = "Processor time of the receiving thread";
    family(encoder, "gannet_source_receive_cpu_seconds", help, cpu)?;
    let help = "Time of it in the search for primitives";
    family(encoder, "gannet_source_tpg_busy_seconds", help, busy)?;
    let fill = snapshot.sources.iter().map(|s| (vec![("source", s.name.as_str())], s.buffer_fill));
    gauges(
        encoder,
        "gannet_source_buffer_fill_ratio",
        "How far the slowest reader of the ring is behind",
        fill,
    )
}

fn streams(encoder: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    type Value = fn(&crate::snapshot::StreamSnapshot) -> u64;
    let figures: [(&str, &str, Value); 8] = [
        ("gannet_stream_frames", "Frames taken", |s| s.frames),
        ("gannet_stream_missing_frames", "Frames that never came", |s| s.missing),
        ("gannet_stream_duplicate_frames", "Frames that came twice", |s| s.duplicate),
        ("gannet_stream_late_frames", "Frames that came after a later one", |s| s.late),
        ("gannet_stream_out_of_step_frames", "Frames off the time grid", |s| s.out_of_step),
        ("gannet_stream_strange_frames", "Frames from elsewhere", |s| s.strange),
        ("gannet_stream_sequence_errors", "Wrong sequence numbers", |s| s.sequence_errors),
        ("gannet_stream_primitives", "Trigger primitives found", |s| s.primitives),
    ];
    for (name, help, value) in figures {
        let values = snapshot.streams.iter().map(|s| (vec![("stream", s.name.as_str())], value(s)));
        counters(encoder, name, help, values)?;
    }
    let stalled = snapshot
        .streams
        .iter()
        .map(|s| (vec![("stream", s.name.as_str())], f64::from(u8::from(s.stalled))));
    gauges(encoder, "gannet_stream_stalled", "1 when the stream is silent", stalled)?;
    let set_apart = snapshot
        .streams
        .iter()
        .map(|s| (vec![("stream", s.name.as_str())], f64::from(u8::from(s.set_apart))));
    gauges(encoder, "gannet_stream_set_apart", "1 when its time is wrong", set_apart)?;
    let offsets =
        snapshot.streams.iter().map(|s| (vec![("stream", s.name.as_str())], s.time_offset_s));
    gauges(encoder, "gannet_stream_time_offset_seconds", "Ahead of the agreed time", offsets)
}

fn ledger(encoder: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let stage = |value: fn(&gannet_measure::ledger::Statement) -> u64| {
        snapshot.ledger.iter().map(move |s| (vec![("stage", s.stage.as_str())], value(s)))
    };
    counters(encoder, "gannet_ledger_offered", "Items that came to a stage", stage(|s| s.offered))?;
    let help = "Items that left a stage as they should";
    counters(encoder, "gannet_ledger_delivered", help, stage(|s| s.delivered))?;
    let under_way =
        (snapshot.ledger.iter()).map(|s| (vec![("stage", s.stage.as_str())], s.under_way as f64));
    gauges(encoder, "gannet_ledger_under_way", "Items on their way through a stage", under_way)?;
    let dropped = snapshot.ledger.iter().flat_map(|s| {
        s.dropped.iter().map(|drop| {
            (vec![("stage", s.stage.as_str()), ("reason", drop.reason.as_str())], drop.count)
        })
    });
    counters(encoder, "gannet_ledger_dropped", "Items that a stage dropped", dropped)
}

fn outcome(encoder: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let (trigger, recorder) = (&snapshot.trigger, &snapshot.recorder);
    let figures = [
        ("gannet_trigger_activities", "Trigger activities", trigger.activities),
        ("gannet_trigger_candidates", "Trigger candidates", trigger.candidates),
        ("gannet_trigger_decisions", "Trigger decisions", trigger.decisions),
        ("gannet_trigger_pauses", "Times that nothing was decided for a while", trigger.pauses),
        ("gannet_trigger_dead_ticks", "Ticks without decisions", trigger.dead_ticks),
        ("gannet_recorder_records", "Trigger records written", recorder.records),
        ("gannet_recorder_incomplete_records", "Records that miss data", recorder.incomplete),
        ("gannet_recorder_damaged_records", "Records that miss data the run had", recorder.damaged),
        (
            "gannet_recorder_unreachable_records",
            "Records that miss a stream whose readout was away",
            recorder.unreachable,
        ),
        ("gannet_recorder_primitives", "Primitives written", recorder.primitives),
        ("gannet_recorder_raw_frames", "Raw frames written", recorder.raw_frames),
        ("gannet_recorder_raw_bytes", "Bytes of those frames", recorder.raw_bytes),
        ("gannet_recorder_raw_dropped_frames", "Raw frames dropped", recorder.raw_dropped),
        ("gannet_recorder_bytes", "Bytes written", recorder.bytes),
        ("gannet_recorder_outages", "Times that writing failed", recorder.outages),
        ("gannet_recorder_silences", "Times that the disk did not answer", recorder.silences),
    ];
    for (name, help, value) in figures {
        counters(encoder, name, help, [(vec![], value)])?;
    }
    let fill = [(vec![], recorder.queue_fill)];
    gauges(encoder, "gannet_recorder_queue_fill_ratio", "Recorder queue in use", fill)?;
    let trouble = f64::from(u8::from(recorder.trouble.is_some()));
    gauges(encoder, "gannet_recorder_trouble", "1 when it cannot write", [(vec![], trouble)])
}

/// Commands to modules, where there are any.
fn slow_control(encoder: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let Some(control) = &snapshot.slow_control else { return Ok(()) };
    let of = &control.datagrams;
    for (name, help, value) in [
        ("gannet_slow_control_commands", "Commands to modules", control.commands),
        ("gannet_slow_control_applied_commands", "Applied by the module", control.applied),
        ("gannet_slow_control_failed_commands", "Not applied, or not known", control.failed),
        ("gannet_slow_control_repeated_datagrams", "Sent again", of.repeated),
        ("gannet_slow_control_acknowledgements", "That ended a command", of.acknowledged),
    ] {
        counters(encoder, name, help, [(vec![], value)])?;
    }
    let unused = [
        ("doubled", of.doubled),
        ("late", of.late),
        ("foreign", of.foreign),
        ("damaged", of.damaged),
    ];
    let unused = unused.map(|(reason, count)| (vec![("reason", reason)], count));
    let (name, help) = ("gannet_slow_control_unused_datagrams", "That ended no command");
    counters(encoder, name, help, unused)?;
    let failing = [(vec![], control.failures.len() as f64)];
    let help = "Keys of modules whose last command failed";
    gauges(encoder, "gannet_slow_control_failing_keys", help, failing)
}

/// Streams, the channels with the highest rates, and each channel if that is asked for.
fn channels(encoder: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    type Value = fn(&ChannelSummary) -> Option<f64>;
    let figures: [(&str, &str, Value); 5] = [
        ("gannet_stream_pedestal_mean_adc", "Mean pedestal", |c| c.pedestal_mean),
        ("gannet_stream_pedestal_max_adc", "Largest pedestal", |c| {
            c.pedestal_max.map(|max| max as f64)
        }),
        ("gannet_stream_noise_median_adc", "Median noise of channels", |c| c.rms_median),
        ("gannet_stream_dead_channels", "Channels that never change", |c| Some(c.dead as f64)),
        ("gannet_stream_noisy_channels", "Channels far above others", |c| Some(c.noisy as f64)),
    ];
    for (name, help, value) in figures {
        let known = snapshot.streams.iter().filter_map(|stream| {
            Some((vec![("stream", stream.name.as_str())], value(&stream.channels)?))
        });
        gauges(encoder, name, help, known)?;
    }
    let loudest = Numbered::of(&snapshot.channels.loudest);
    let rates = loudest.iter().map(|channel| (channel.labels(), channel.of.highest_rate_hz()));
    gauges(encoder, "gannet_loudest_channel_rate_hertz", "Primitives a second", rates)?;
    if !snapshot.channels.in_metrics {
        return Ok(());
    }
    let all = Numbered::of(&snapshot.channels.all);
    let known = |value: fn(&ChannelFigures) -> Option<f64>| {
        all.iter().filter_map(move |channel| Some((channel.labels(), value(channel.of)?)))
    };
    let pedestal = known(|channel| channel.pedestal.map(|pedestal| pedestal as f64));
    gauges(encoder, "gannet_channel_pedestal_adc", "Pedestal", pedestal)?;
    gauges(encoder, "gannet_channel_noise_adc", "Noise", known(|channel| channel.rms))?;
    let tps = all.iter().map(|channel| (channel.labels(), channel.of.tps));
    counters(encoder, "gannet_channel_primitives", "Trigger primitives found", tps)
}

/// A channel with its number as text.
struct Numbered<'a> {
    number: String,
    of: &'a ChannelFigures,
}

impl<'a> Numbered<'a> {
    fn of(channels: &'a [ChannelFigures]) -> Vec<Self> {
        channels.iter().map(|of| Self { number: of.channel.to_string(), of }).collect()
    }

    fn labels(&self) -> Labels<'_> {
        vec![("channel", &self.number), ("stream", &self.of.stream)]
    }
}

fn latencies(encoder: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let steps = [
        ("arrival_to_primitive", snapshot.latency.arrival_to_primitive),
        ("arrival_to_decision", snapshot.latency.arrival_to_decision),
        ("decision_to_record", snapshot.latency.decision_to_record),
    ];
    // Not `quantile`: that label belongs to metrics of the type "summary".
    let percentiles = |(step, summary): &(&'static str, Summary)| {
        let figures = [
            ("50", summary.p50),
            ("99", summary.p99),
            ("99.9", summary.p999),
            ("100", summary.max),
        ];
        let step = *step;
        figures.map(|(part, ns)| (vec![("step", step), ("percentile", part)], ns as f64 * 1e-9))
    };
    let values: Vec<_> = steps.iter().flat_map(percentiles).collect();
    gauges(encoder, "gannet_latency_seconds", "How long a step takes", values)?;
    let counts = steps.iter().map(|(step, summary)| (vec![("step", *step)], summary.count));
    counters(encoder, "gannet_latency_samples", "Steps measured", counts)
}

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// The text format 0.0.4 of Prometheus, which every tool reads.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl TextFormat {
    /// The media type, for HTTP.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The metrics of a snapshot as text.
///
/// # Errors
/// Never in practice: a text can always be appended to.
pub fn render(snapshot: Arc<Snapshot>, format: TextFormat) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exporter { snapshot }));
    let mut out = String::new();
    text::encode(&mut out, &registry)?;
    Ok(match format {
        TextFormat::OpenMetrics => out,
        TextFormat::Prometheus => for_prometheus(&out),
    })
}

/// A text in OpenMetrics, in the text format of Prometheus: there a counter is described under the
/// name of its samples, which ends in `_total`, and nothing marks the end.
fn for_prometheus(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        // What a family is stands in one of the next two lines.
        let is_counter = |line: &str| line.starts_with("# TYPE ") && line.ends_with(" counter");
        let counts = is_counter(line) || lines.peek().is_some_and(|next| is_counter(next));
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => continue,
            (Some("#"), Some(word), Some(name), Some(rest)) if counts => {
                out.extend(["# ", word, " ", name, "_total ", rest, "\n"]);
            }
            _ => out.extend([line, "\n"]),
        }
    }
    out
}
