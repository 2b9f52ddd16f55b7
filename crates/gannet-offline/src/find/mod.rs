//! Trigger primitives found again, in frames that were recorded.
//!
//! [`find`] runs the chain of a run over the frames of each stream in its files, with the chain and
//! the channels that the run had unless told otherwise, and writes what it finds in the order of
//! time, as a Parquet table or as time slices in DUNE's raw-file layout.
//!
//! | file | frames | their order |
//! | --- | --- | --- |
//! | log with raw frames, DUNE raw file of them | those | as they were recorded |
//! | other log, DUNE raw file | windows of trigger records | by time, each frame once |
//! | packet capture | UDP payloads of 7200 bytes | as they came; within 64 frames, by time |
//!
//! Raw frames that go back to the start of the run give the primitives that the run recorded. Their
//! order and their slices are the same, too, but for primitives that the run had to hand on late:
//! of a stream that was behind by more than `pipeline.trigger.merge.late_after`, of a hit longer than
//! `pipeline.trigger.merge.hold_ticks`, and after time stamps had jumped. When the run wrote those depends on
//! the moments at which datagrams came, which no file tells; here they stand where they start.
//!
//! In windows the search begins again and again: see [`PedestalStart`]. A hit that is open when
//! frames are missing is dropped, as in the run.
//!
//! Files are looked through once for what they hold, headers only, and then read part by part:
//! memory is that for some batches of frames and for the primitives of some 20 ms, and more only
//! as far as parts of the file are out of order.

mod chain;
mod config;
mod error;
mod input;
mod origin;
mod output;
mod report;
mod sequence;
mod streams;
mod workers;

use std::thread;
use std::time::Instant;

use gannet_dune::detector::SLICE_TICKS;
use gannet_dune::tpg::{IsaChoice, TpgConfig};
use gannet_kernels::tpg::CHANNELS;
use gannet_wire::channel_map::PLANES;
use gannet_wire::daq_ethernet::CLOCK;
use gannet_wire::tpc_frame::FRAME_LEN;

pub use config::{Changes, FindConfig, FrameSource, PedestalStart, Progress};
pub use error::FindError;
pub use report::{Break, FindReport, StreamReport, ThresholdReport, Totals};

use chain::{ChainSettings, StreamChain};
use input::Recording;
use origin::Origin;
use output::Output;
use streams::Streams;
use workers::Finished;

/// Most thresholds that are tried in one pass.
pub const THRESHOLDS_MAX: usize = 64;
/// Most searching threads.
pub const THREADS_MAX: usize = 256;

/// Searches the files of `config`.
///
/// # Errors
/// When a file cannot be read or written, the files do not belong together or hold no frames, the
/// chain cannot be set up, or `progress` asks for the end. Outputs that were not whole are removed
/// again.
pub fn find(config: &FindConfig, progress: &mut Progress<'_>) -> Result<FindReport, FindError> {
    let begin = Instant::now();
    output::check(config)?;
    let got = config.thresholds.len();
    if got > THRESHOLDS_MAX {
        return Err(FindError::Thresholds { got, max: THRESHOLDS_MAX });
    }
    let mut recording = Recording::open(config, progress)?;
    let origin = Origin::of(config, &recording.told())?;
    let settings = settings(config, &recording, &origin)?;
    let outputs = outputs(config, &recording, &origin)?;
    let mut streams = Streams::new(&origin, &settings);
    let threads = config.threads.or(thread::available_parallelism().ok().map(usize::from));
    let threads = threads.unwrap_or(1).clamp(1, THREADS_MAX);
    let finished = workers::search(&mut recording, &mut streams, threads, outputs, progress)?;
    if finished.chains.is_empty() {
        return Err(nothing_searched(&recording, &streams));
    }
    let mut report = report(&recording, &settings, &streams, &finished);
    report.masked_unread = origin.unread(&report.tpg.mask);
    report.files = config.outputs.clone();
    report.wall_s = begin.elapsed().as_secs_f64();
    report.frames_per_s = report.total.frames as f64 / report.wall_s;
    report.gbit_per_s = report.frames_per_s * (8 * FRAME_LEN) as f64 * 1e-9;
    Ok(report)
}

/// The chain of the run with what is to differ, tested.
fn settings(
    config: &FindConfig,
    recording: &Recording,
    origin: &Origin,
) -> Result<ChainSettings, FindError> {
    // The instruction set of the run need not be one of this machine.
    TpgConfig { isa: IsaChoice::Auto, ..origin.tpg.clone() }.check()?;
    let tpg = config.changes.apply(origin.tpg.clone());
    tpg.check().map_err(|error| FindError::option("", error))?;
    for &threshold in &config.thresholds {
        let tried = TpgConfig { threshold: [threshold; PLANES], ..tpg.clone() };
        tried.check().map_err(|error| FindError::option("scan-", error))?;
    }
    let of_kind = if recording.is_from_start() { PedestalStart::Run } else { PedestalStart::Data };
    Ok(ChainSettings {
        tpg,
        pedestals: config.pedestals.unwrap_or(of_kind),
        source: recording.source(),
        thresholds: config.thresholds.clone(),
    })
}

fn outputs(
    config: &FindConfig,
    recording: &Recording,
    origin: &Origin,
) -> Result<Vec<Output>, FindError> {
    // A run without slices has no length of them.
    let slice_ticks = match origin.slice_ticks {
        0 => SLICE_TICKS,
        ticks => ticks,
    };
    let begin = |path: &std::path::PathBuf| Output::begin(path, recording, origin, slice_ticks);
    config.outputs.iter().map(begin).collect()
}

fn nothing_searched(recording: &Recording, streams: &Streams<'_>) -> FindError {
    if let Some(stream) = streams.unmapped().first {
        return FindError::Unmapped { stream };
    }
    let skipped = recording.skipped();
    FindError::NoFrames {
        path: recording.first_file().to_owned(),
        holds: format!(
            "in its {} are no WIBEth or TDEEth frames, {} parts of other content and {} damaged",
            recording.source(),
            skipped.other,
            skipped.damaged
        ),
    }
}

fn report(
    recording: &Recording,
    settings: &ChainSettings,
    streams: &Streams<'_>,
    finished: &Finished,
) -> FindReport {
    let (unmapped, skipped) = (streams.unmapped(), recording.skipped());
    let reports: Vec<StreamReport> = finished.chains.iter().map(StreamChain::report).collect();
    FindReport {
        run: recording.header().run,
        source: recording.source(),
        pedestals: settings.pedestals,
        tpg: settings.tpg.clone(),
        isa: settings.tpg.isa.isa().name(),
        total: totals(&finished.chains, &reports),
        streams: reports,
        frames_unmapped: unmapped.frames,
        unmapped_stream: unmapped.first.map(|stream| stream.to_string()),
        damaged: skipped.damaged,
        other: skipped.other,
        chunks_missing: recording.chunks_missing(),
        unfinished: recording.unfinished().to_vec(),
        breaks: recording.breaks().to_vec(),
        masked_unread: Vec::new(),
        frames_missing: recording.frames_missing(),
        out_of_order: finished.out_of_order,
        thresholds: thresholds(settings, &finished.chains),
        files: Vec::new(),
        wall_s: 0.0,
        frames_per_s: 0.0,
        gbit_per_s: 0.0,
    }
}

fn totals(chains: &[StreamChain], reports: &[StreamReport]) -> Totals {
    let sum = |value: fn(&StreamReport) -> u64| reports.iter().map(value).sum();
    let spans = || chains.iter().filter_map(StreamChain::span);
    let first = spans().map(|(first, _)| first).min().unwrap_or(0);
    let last = spans().map(|(_, last)| last).max().unwrap_or(first);
    let live_s: f64 = chains.iter().map(StreamChain::live_s).sum();
    let tps = sum(|report| report.tps);
    Totals {
        frames: sum(|report| report.frames),
        gaps: sum(|report| report.gaps),
        missing: sum(|report| report.missing),
        hits_cut: sum(|report| report.hits_cut),
        sorted: sum(|report| report.sorted),
        late: sum(|report| report.late),
        repeated: sum(|report| report.repeated),
        tps,
        tps_by_plane: std::array::from_fn(|plane| {
            reports.iter().map(|report| report.tps_by_plane[plane]).sum()
        }),
        hz_per_channel: tps as f64 / channel_s(chains),
        first_ticks: first,
        span_s: CLOCK.ns(last.saturating_sub(first)) as f64 * 1e-9,
        live_s: live_s / chains.len().max(1) as f64,
    }
}

/// Time of all frames, times channels, in seconds; never 0.
fn channel_s(chains: &[StreamChain]) -> f64 {
    let channel_s: f64 = chains.iter().map(|chain| chain.live_s() * CHANNELS as f64).sum();
    channel_s.max(f64::MIN_POSITIVE)
}

/// What each threshold gave, if several were tried.
fn thresholds(settings: &ChainSettings, chains: &[StreamChain]) -> Vec<ThresholdReport> {
    let channel_s = channel_s(chains);
    let one = |(index, &threshold): (usize, &u16)| {
        let tps = chains.iter().filter_map(|chain| chain.tps().nth(index)).sum();
        ThresholdReport { threshold, tps, hz_per_channel: tps as f64 / channel_s }
    };
    settings.thresholds.iter().enumerate().map(one).collect()
}
