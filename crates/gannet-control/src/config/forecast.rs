//! What a run will need and make, as far as its configuration tells.

use std::collections::BTreeMap;

use gannet_readout::latency::ENTRY_BYTES;
use serde::Serialize;

use super::model::Settings;
use super::planned_source::PlannedSource;

/// Threads behind the receiving ones: they decide, build and record. One more copies streams that
/// are recorded as they come.
const THREADS_BEHIND: usize = 3;

/// What a detector expects of its front ends and will make of their frames, as far as its
/// configuration tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// What the front ends send, and who says so, in words; empty where the format of the frames says it.
    pub front_end: String,
    /// What comes a second at the true rate, by its name; such as events, and hits.
    pub per_s: BTreeMap<&'static str, f64>,
    /// Time of a core that a frame takes, from the socket to what is found in it, in seconds, as measured
    /// on a reference machine; `gannet doctor` measures it where it runs.
    pub receive_s_per_frame: f64,
    /// What is written, in words.
    pub written: String,
    /// What is recorded a second beside records, in bytes.
    pub product_bytes_per_s: f64,
    /// Records a second that can be foreseen.
    pub records_per_s: f64,
    /// Length of the window that is read out around an ordinary decision, in seconds.
    pub window_s: f64,
    /// Length of the longest window that is read out around one.
    pub longest_window_s: f64,
}

/// What a run will need and make, at the true rate of all streams.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// Streams.
    pub streams: usize,
    /// What the front ends send, and who says so, in words; empty where the format of the frames says it.
    pub front_end: String,
    /// What comes a second, by its name.
    pub per_s: BTreeMap<&'static str, f64>,
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
    /// Part of a core that all of them keep busy, as on the reference machine.
    pub receive_cores: f64,
    /// Frames per second that the busiest of them takes, if the senders of a source are spread
    /// evenly over its sockets.
    pub busiest_frames_per_s: f64,
    /// Part of a core that it needs there; above 1 it cannot keep up.
    pub receive_busiest: f64,
    /// Size of a trigger record of all streams, with the readout window that the module-level
    /// trigger gives candidates of no special type, in bytes.
    pub record_bytes: u64,
    /// Length of the longest window that is read out around one decision, in seconds.
    #[serde(skip)]
    pub longest_window_s: f64,
    /// Streams that are recorded as they come.
    pub raw_streams: usize,
    /// What is written a second of those.
    pub raw_bytes_per_s: f64,
    /// What is written a second: the streams that are recorded as they come, and what the detector
    /// foresees of records and of what is recorded beside them.
    pub disk_bytes_per_s: f64,
    /// What that is, in words.
    pub written: String,
    /// Time after which the disk of the recorder is full at that rate, in seconds; absent when
    /// its directory is not there.
    pub disk_time_s: Option<f64>,
}

impl Forecast {
    /// What `sources` need together; looks how much space the recorder's disk has.
    pub(super) fn of(settings: &Settings, sources: &[PlannedSource], load: &Load) -> Self {
        let free = gannet_log::free_bytes(&settings.recorder.directory).ok();
        Self::with_free_disk(settings, sources, load, free)
    }

    /// The same with `free` bytes on the recorder's disk; `None` where there is no directory.
    fn with_free_disk(
        settings: &Settings,
        sources: &[PlannedSource],
        load: &Load,
        free: Option<u64>,
    ) -> Self {
        let sum = |value: &dyn Fn(&PlannedSource) -> f64| {
            // Of nothing, the sum of floating-point numbers is -0.
            sources.iter().map(value).sum::<f64>() + 0.0
        };
        let raw = |source: &PlannedSource| source.raw_streams(&settings.recorder.raw_streams);
        let frames_per_s = sum(&PlannedSource::frames_per_s);
        let receive_threads = sources.iter().map(PlannedSource::inputs).sum();
        let busiest_frames_per_s = sources.iter().map(frames_per_thread).fold(0.0, f64::max);
        let depth_s =
            |source: &PlannedSource| source.cells as f64 / source.frames_per_s().max(1e-9);
        let record_bytes = record_bytes(sources, load.window_s);
        let raw_streams = sources.iter().map(raw).sum();
        let raw_bytes = |source: &PlannedSource| {
            raw(source) as f64 * source.traffic.frames_per_s * source.traffic.frame_bytes
        };
        let raw_bytes_per_s = sum(&raw_bytes);
        let disk_bytes_per_s =
            raw_bytes_per_s + load.product_bytes_per_s + load.records_per_s * record_bytes as f64;
        Self {
            streams: sources.iter().map(|source| source.streams.len()).sum(),
            front_end: load.front_end.clone(),
            per_s: load.per_s.clone(),
            frames_per_s,
            gbit_per_s: sum(&PlannedSource::bytes_per_s) * 8e-9,
            memory_bytes: sources.iter().map(memory_bytes).sum(),
            threads: receive_threads + THREADS_BEHIND + usize::from(raw_streams > 0),
            depth_s: sources.iter().map(depth_s).reduce(f64::min).unwrap_or(0.0),
            receive_threads,
            receive_cores: frames_per_s * load.receive_s_per_frame,
            busiest_frames_per_s,
            receive_busiest: busiest_frames_per_s * load.receive_s_per_frame,
            record_bytes,
            longest_window_s: load.longest_window_s.max(load.window_s),
            raw_streams,
            raw_bytes_per_s,
            disk_bytes_per_s,
            written: load.written.clone(),
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
    let ring = source.cells * source.frame_bytes() + source.queue_bytes();
    ring + source.streams.len() as u64 * entries * ENTRY_BYTES as u64
}

/// Bytes of a record with a window of so many seconds, none if there is no window. Whole frames are
/// read out: one more of each stream than fills the window.
fn record_bytes(sources: &[PlannedSource], window_s: f64) -> u64 {
    if window_s <= 0.0 {
        return 0;
    }
    let bytes = |source: &PlannedSource| {
        let in_window = (source.frames_per_s() * window_s).ceil() as u64;
        let frames = in_window.saturating_add(source.streams.len() as u64);
        (frames as f64 * source.traffic.frame_bytes) as u64
    };
    sources.iter().map(bytes).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Plan;
    use crate::fixture::parse;

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

    fn plan(tables: &str) -> Plan {
        parse(&format!("{tables}\n{SOURCES}")).unwrap()
    }

    /// A run whose detector makes what `load` says.
    fn forecast(tables: &str, load: &Load, free: Option<u64>) -> Forecast {
        let plan = plan(tables);
        Forecast::with_free_disk(&plan.settings, &plan.sources, load, free)
    }

    fn nothing() -> Load {
        Load { receive_s_per_frame: 1.5e-6, ..Load::default() }
    }

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6 * expected, "{value}, {expected} expected");
    }

    #[test]
    fn rates_and_memory_are_those_of_all_streams() {
        // A WIBEth frame has 64 samples of 32 ticks of a 62.5 MHz clock.
        let per_stream = 62.5e6 / (64.0 * 32.0);
        let forecast = forecast("", &nothing(), None);
        assert_eq!(forecast.streams, 11);
        assert_near(forecast.frames_per_s, 11.0 * per_stream);
        assert_near(forecast.gbit_per_s, 11.0 * per_stream * 7200.0 * 8e-9);
        assert_near(forecast.depth_s, 3052.0 / per_stream);
        // 100 ms are 3052 frames of each stream, 1 s 30518; an index has the next power of two.
        let cells = 8 * 3052 + 3 * 30518;
        let entries = 8 * 4096 + 3 * 32768;
        assert_eq!(forecast.memory_bytes, cells * 7200 + entries * ENTRY_BYTES as u64);
    }

    #[test]
    fn the_busiest_receiving_thread_has_the_most_frames() {
        let forecast = forecast("", &nothing(), None);
        let per_stream = 62.5e6 / 2048.0 * 1.5e-6;
        assert_eq!((forecast.receive_threads, forecast.threads), (3, 6));
        assert_near(forecast.receive_cores, 11.0 * per_stream);
        assert_near(forecast.busiest_frames_per_s, 4.0 * 62.5e6 / 2048.0);
        assert_near(forecast.receive_busiest, 4.0 * per_stream);
    }

    #[test]
    fn a_record_has_the_frames_of_the_window_and_one_of_each_stream() {
        // Three frames of each of the 11 streams.
        let window_s = 3.0 * 2048.0 / 62.5e6;
        let record = |load: &Load| forecast("", load, None).record_bytes;
        assert_eq!(record(&Load { window_s, ..nothing() }), 11 * (3 + 1) * 7200);
    }

    #[test]
    fn disk_is_products_records_and_raw_frames() {
        let load =
            Load { product_bytes_per_s: 1e6, records_per_s: 12.0, window_s: 1e-3, ..nothing() };
        let found = forecast("", &load, Some(1 << 40));
        assert_near(found.disk_bytes_per_s, 1e6 + 12.0 * found.record_bytes as f64);
        assert_near(found.disk_time_s.unwrap(), (1_u64 << 40) as f64 / found.disk_bytes_per_s);
        assert_near(found.longest_window_s, 1e-3);
        let raw = forecast("recorder = { raw_streams = [\"0\", \"201\"] }\n", &load, None);
        assert_eq!((raw.raw_streams, raw.threads, raw.disk_time_s), (2, 7, None));
        assert_near(raw.raw_bytes_per_s, 2.0 * 62.5e6 / 2048.0 * 7200.0);
        assert_near(raw.disk_bytes_per_s, found.disk_bytes_per_s + raw.raw_bytes_per_s);
        assert_eq!(forecast("", &nothing(), None).disk_bytes_per_s, 0.0);
    }
}
