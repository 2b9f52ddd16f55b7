//! What a run will need and make, as far as its configuration tells.

use gannet_trigger::source::SourceConfig as CandidateSource;
use gannet_wire::daq_ethernet::CLOCK;
use gannet_wire::{TriggerPrimitive, tpc_frame};
use serde::Serialize;

use super::model::Config;
use super::plan::PlannedSource;

/// Time of a core that a frame takes, from the socket to its primitives, in seconds, as measured on
/// the reference machine; `gannet doctor` measures it where it runs.
const RECEIVE_S_PER_FRAME: f64 = 1.5e-6;
/// Primitives of a channel a second that disk space is foreseen for.
const PRIMITIVES_PER_S: f64 = 100.0;
/// Records a second that disk space is foreseen for where activities are looked for.
const ACTIVITY_RECORDS_PER_S: f64 = 1.0;
/// Threads behind the receiving ones: they decide, build and record. One more copies streams that
/// are recorded as they come.
const THREADS_BEHIND: usize = 3;
/// Bytes of a frame.
const FRAME_BYTES: u64 = tpc_frame::FRAME_LEN as u64;
/// Bytes of the place of a frame in the index of its stream.
const INDEX_ENTRY_BYTES: u64 = 16;

/// What a run will need and make, at the true rate of all streams.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// Streams.
    pub streams: usize,
    /// Frames per second.
    pub frames_per_s: f64,
    /// Payload bandwidth, in Gbit/s.
    pub gbit_per_s: f64,
    /// Memory of the rings and indices, in bytes.
    pub memory_bytes: u64,
    /// Threads that are busy while frames come: the receiving ones, and three behind them, or four
    /// where streams are recorded as they come.
    pub threads: usize,
    /// Time that the latency buffer covers, in seconds.
    pub depth_s: f64,
    /// Threads that receive: one a socket.
    pub receive_threads: usize,
    /// Part of a core that all of them keep busy, at 2 microseconds a frame.
    pub receive_cores: f64,
    /// Frames per second that the busiest of them takes, if the senders of a source are spread
    /// evenly over its sockets.
    pub busiest_frames_per_s: f64,
    /// Part of a core that it needs, at 2 microseconds a frame; above 1 it cannot keep up.
    pub receive_busiest: f64,
    /// Size of a trigger record of all streams, with the readout window that the module-level
    /// trigger gives candidates of no special type, in bytes.
    pub record_bytes: u64,
    /// Streams that are recorded as they come.
    pub raw_streams: usize,
    /// What is written a second of those.
    pub raw_bytes_per_s: f64,
    /// What is written a second: the streams that are recorded as they come; primitives of 24 bytes
    /// at 100 per second and channel; a record for every candidate of the random and periodic
    /// sources; one record more if any activity algorithm is configured.
    pub disk_bytes_per_s: f64,
    /// Time after which the disk of the recorder is full at that rate, in seconds; absent when
    /// its directory is not there.
    pub disk_time_s: Option<f64>,
}

impl Forecast {
    /// What `sources` need together; looks how much space the recorder's disk has.
    pub(super) fn of(config: &Config, sources: &[PlannedSource]) -> Self {
        let free = gannet_log::free_bytes(&config.recorder.directory).ok();
        Self::with_free_disk(config, sources, free)
    }

    /// The same with `free` bytes on the recorder's disk; `None` where there is no directory.
    fn with_free_disk(config: &Config, sources: &[PlannedSource], free: Option<u64>) -> Self {
        let streams = sources.iter().map(|source| source.streams.len()).sum();
        // Of nothing, the sum of floating-point numbers is -0.
        let frames_per_s = sources.iter().map(PlannedSource::frames_per_s).sum::<f64>() + 0.0;
        let receive_threads = sources.iter().map(PlannedSource::inputs).sum();
        let busiest_frames_per_s = sources.iter().map(frames_per_thread).fold(0.0, f64::max);
        let depth_s =
            |source: &PlannedSource| source.cells as f64 / source.frames_per_s().max(1e-9);
        let record_bytes = record_bytes(config, streams, frames_per_s);
        let raw = |source: &PlannedSource| source.raw_streams(&config.recorder.raw_streams);
        let raw_frames_per_s =
            |source: &PlannedSource| raw(source) as f64 * source.format.frames_per_s();
        let raw_streams = sources.iter().map(raw).sum();
        let raw_bytes_per_s =
            sources.iter().map(raw_frames_per_s).sum::<f64>() * FRAME_BYTES as f64 + 0.0;
        let disk_bytes_per_s = raw_bytes_per_s
            + primitive_bytes_per_s(config, streams)
            + records_per_s(config) * record_bytes as f64;
        Self {
            streams,
            frames_per_s,
            gbit_per_s: frames_per_s * FRAME_BYTES as f64 * 8e-9,
            memory_bytes: sources.iter().map(memory_bytes).sum(),
            threads: receive_threads + THREADS_BEHIND + usize::from(raw_streams > 0),
            depth_s: sources.iter().map(depth_s).reduce(f64::min).unwrap_or(0.0),
            receive_threads,
            receive_cores: frames_per_s * RECEIVE_S_PER_FRAME,
            busiest_frames_per_s,
            receive_busiest: busiest_frames_per_s * RECEIVE_S_PER_FRAME,
            record_bytes,
            raw_streams,
            raw_bytes_per_s,
            disk_bytes_per_s,
            disk_time_s: free.map(|free| free as f64 / disk_bytes_per_s.max(1.0)),
        }
    }

    /// That the disk must keep up with the streams that are recorded as they come, if there are any.
    pub(super) fn raw_doubt(&self) -> Option<String> {
        let Self { raw_streams, raw_bytes_per_s, disk_time_s, .. } = self;
        let lasts = match disk_time_s {
            Some(seconds) => format!("its free space lasts {:.0} s", seconds),
            None => "its free space is not known".to_owned(),
        };
        (*raw_streams > 0).then(|| {
            format!(
                "{raw_streams} streams are recorded as they come: at the true rate the disk must \
                 write {:.0} MB/s ({:.2} Gbit/s) without a pause longer than the buffers are deep, \
                 and {lasts}; list fewer in `raw_streams` if it does not",
                raw_bytes_per_s * 1e-6,
                raw_bytes_per_s * 8e-9,
            )
        })
    }
}

/// Frames per second of each receiving thread of `source`.
fn frames_per_thread(source: &PlannedSource) -> f64 {
    source.frames_per_s() / source.inputs().max(1) as f64
}

/// Memory of the ring of `source` and the indices of its streams.
fn memory_bytes(source: &PlannedSource) -> u64 {
    let entries = (source.index_frames() as u64).next_power_of_two();
    source.cells * FRAME_BYTES + source.streams.len() as u64 * entries * INDEX_ENTRY_BYTES
}

/// Length of the window that is read out around a candidate without a window of its type.
fn window_s(config: &Config) -> f64 {
    let module_level = &config.trigger.module_level;
    let ticks = module_level.time_before.saturating_add(module_level.time_after);
    ticks as f64 / CLOCK.per_s() as f64
}

/// Length of the longest window that is read out around one candidate.
pub(super) fn longest_window_s(config: &Config) -> f64 {
    let by_type = config.trigger.module_level.readout.values();
    let ticks = by_type.map(|window| window.time_before.saturating_add(window.time_after));
    ticks.max().map_or(0.0, |ticks| ticks as f64 / CLOCK.per_s() as f64).max(window_s(config))
}

fn record_bytes(config: &Config, streams: usize, frames_per_s: f64) -> u64 {
    let in_window = frames_per_s * window_s(config);
    // Whole frames are read out: one more of each stream than fills the window.
    (in_window.ceil() as u64).saturating_add(streams as u64).saturating_mul(FRAME_BYTES)
}

fn primitive_bytes_per_s(config: &Config, streams: usize) -> f64 {
    match config.record.slice_ticks {
        0 => 0.0,
        _ => (streams * tpc_frame::CHANNELS * TriggerPrimitive::LEN) as f64 * PRIMITIVES_PER_S,
    }
}

/// Records a second that can be foreseen.
fn records_per_s(config: &Config) -> f64 {
    let interval_ticks = |source: &CandidateSource| match source {
        CandidateSource::Periodic(periodic) => periodic.interval_ticks,
        CandidateSource::Random(poisson) => poisson.mean_interval_ticks,
    };
    let rate = |source| CLOCK.per_s() as f64 / interval_ticks(source).max(1) as f64;
    let found = if config.trigger.activity.is_empty() { 0.0 } else { ACTIVITY_RECORDS_PER_S };
    config.trigger.source.iter().map(rate).sum::<f64>() + found
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Plan, parse};

    /// Two sources: one with two sockets for 8 streams, one with one for 3.
    const SOURCES: &str = r#"
        [[source]]
        streams = { count = 8 }
        udp = { listen = ["127.0.0.1:7000", "127.0.0.1:7001"] }
        depth = "100 ms"
        [[source]]
        streams = { count = 3, crate = 2 }
        udp = { listen = ["127.0.0.1:7002"] }
    "#;

    fn plan(trigger: &str) -> Plan {
        parse("test.toml", &format!("{trigger}\n{SOURCES}"), Path::new(".")).unwrap()
    }

    fn forecast(trigger: &str, free: Option<u64>) -> Forecast {
        let plan = plan(trigger);
        Forecast::with_free_disk(&plan.config, &plan.sources, free)
    }

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6 * expected, "{value}, {expected} expected");
    }

    #[test]
    fn rates_and_memory_are_those_of_all_streams() {
        // A WIBEth frame has 64 samples of 32 ticks of a 62.5 MHz clock.
        let per_stream = 62.5e6 / (64.0 * 32.0);
        let forecast = forecast("", None);
        assert_eq!(forecast.streams, 11);
        assert_near(forecast.frames_per_s, 11.0 * per_stream);
        assert_near(forecast.gbit_per_s, 11.0 * per_stream * 7200.0 * 8e-9);
        assert_near(forecast.depth_s, 3052.0 / per_stream);
        // 100 ms are 3052 frames of each stream, 1 s 30518; an index has the next power of two.
        let cells = 8 * 3052 + 3 * 30518;
        let entries = 8 * 4096 + 3 * 32768;
        assert_eq!(forecast.memory_bytes, cells * 7200 + entries * 16);
    }

    #[test]
    fn the_busiest_receiving_thread_has_the_most_frames() {
        let forecast = forecast("", None);
        let per_stream = 62.5e6 / 2048.0 * RECEIVE_S_PER_FRAME;
        assert_eq!((forecast.receive_threads, forecast.threads), (3, 6));
        assert_near(forecast.receive_cores, 11.0 * per_stream);
        assert_near(forecast.busiest_frames_per_s, 4.0 * 62.5e6 / 2048.0);
        assert_near(forecast.receive_busiest, 4.0 * per_stream);
    }

    #[test]
    fn a_record_has_the_frames_of_the_window_and_one_of_each_stream() {
        let window = "[trigger.module_level]\ntime_before = 2048\ntime_after = 4096\n";
        assert_eq!(forecast(window, None).record_bytes, 11 * (3 + 1) * 7200);
    }

    #[test]
    fn disk_is_primitives_and_records_of_sources_and_activities() {
        let primitives = 11.0 * 64.0 * 100.0 * 24.0;
        let trigger = "[trigger]\nactivity = []\nsource = [\
             { kind = \"periodic\", interval_ticks = 6250000 },\
             { kind = \"random\", mean_interval_ticks = 31250000 }]\n";
        let sources = forecast(trigger, Some(1 << 40));
        let record = sources.record_bytes as f64;
        assert_near(sources.disk_bytes_per_s, primitives + (10.0 + 2.0) * record);
        assert_near(sources.disk_time_s.unwrap(), (1_u64 << 40) as f64 / sources.disk_bytes_per_s);
        let activity = forecast("", None);
        assert_near(activity.disk_bytes_per_s, primitives + record);
        assert_eq!(activity.disk_time_s, None);
        let raw = forecast("recorder = { raw_streams = [\"3/1/0/0\", \"3/2/0/1\"] }\n", None);
        assert_eq!((raw.raw_streams, raw.threads), (2, 7));
        assert_near(raw.raw_bytes_per_s, 2.0 * 62.5e6 / 2048.0 * 7200.0);
        assert_near(raw.disk_bytes_per_s, activity.disk_bytes_per_s + raw.raw_bytes_per_s);
        let nothing = "record = { slice_ticks = 0 }\ntrigger = { activity = [] }\n";
        assert_eq!(forecast(nothing, None).disk_bytes_per_s, 0.0);
    }
}
