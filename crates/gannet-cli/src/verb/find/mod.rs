//! `gannet find`: find trigger primitives in recorded frames.

mod values;

use std::ops::ControlFlow;
use std::path::PathBuf;

use gannet_dune::channels::mask;
use gannet_dune::tpg::{Chain, InitialPedestal, IsaChoice, TpgConfig};
use gannet_offline::find::{
    Break, Changes, FindConfig, FindError, FindReport, FrameSource, PedestalStart, THREADS_MAX,
    find,
};

use crate::exit::Outcome;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::{log, output};
use values::{ByPlane, Channels, Thresholds};

/// Finds trigger primitives in recorded frames, and counts or writes them.
///
/// Chain and channels are those of the run that recorded the files, unless options say otherwise. Logs
/// and the raw files that `gannet export` makes tell them; raw files of other programs and captures do
/// not: give --config or --channel-map. Raw frames that go back to the start of the run
/// give exactly the primitives that the run recorded. They
/// are written in the order of their start. The run does so too, but for those that came too late:
/// of a stream that was behind by more than trigger.merge.late_after, of a hit longer than
/// trigger.merge.hold_ticks, and after time stamps had jumped; it wrote those when they came, and
/// its time slices are cut differently there.
///
/// In the windows of trigger records pedestals start from the data, at the median of each channel in
/// the first frame, and again when no frames came for 0.1 s; hits that are open at the end of a window
/// are dropped. Frames that stand behind a later one by fewer than 64 frames are put in their place;
/// those that come twice are searched once. Exit code 3 when something is damaged or missing, frames
/// of a stream by their time stamps included: what is left is searched.
///
/// Example: gannet find gannet_run000001_20261121T021000Z_f0000.glog --threshold 60 --out tps.parquet
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Files of one run: logs, or DUNE raw files (HDF5) of trigger records or of streams recorded as
    /// they came, or pcap and pcapng.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write the primitives to this file: a table (.parquet), or time slices in DUNE's raw-file
    /// layout (.hdf5). May be repeated.
    #[arg(long, value_name = "FILE", conflicts_with = "scan_threshold")]
    out: Vec<PathBuf>,
    /// Overwrite existing files.
    #[arg(long)]
    overwrite: bool,
    /// Use this configuration instead of the one recorded in the files.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// DUNE channel map, instead of that of the run.
    #[arg(long, value_name = "FILE")]
    channel_map: Option<PathBuf>,
    /// Steps before the threshold: simple-threshold, abs-rs, running-sum, fixed-pedestal,
    /// abs-rs-feedback, running-sum-feedback, fir.
    #[arg(long, value_parser = values::named::<Chain>)]
    chain: Option<Chain>,
    /// Threshold in ADC counts, of all planes or of planes 0, 1 and 2: 60 or 60,60,80. For chain fir
    /// in interquartile ranges.
    #[arg(long, value_name = "N[,N,N]")]
    threshold: Option<ByPlane<u16>>,
    /// Count primitives for many thresholds of all planes in one pass: 40..120:20, or a list.
    #[arg(long, value_name = "RANGE", conflicts_with = "threshold")]
    scan_threshold: Option<Thresholds>,
    /// Fewest samples of a hit, of all planes or by plane.
    #[arg(long, value_name = "N[,N,N]")]
    sot_minimum: Option<ByPlane<u16>>,
    /// Part of the running sum that is kept from sample to sample, tenths; of all planes or by plane.
    #[arg(long, value_name = "N[,N,N]")]
    memory_factor: Option<ByPlane<u8>>,
    /// Part of a sample that is added to the running sum, tenths; of all planes or by plane.
    #[arg(long, value_name = "N[,N,N]")]
    scale_factor: Option<ByPlane<u8>>,
    /// Net counts beyond which the pedestal moves.
    #[arg(long, value_name = "N")]
    accum_limit: Option<u16>,
    /// Pedestals before the first sample: run (what its configuration says), data (the median of the
    /// first frame, by channel), or ADC counts. When absent: run for raw frames from the start of the
    /// run, data for all else.
    #[arg(long, value_name = "WHAT")]
    initial_pedestal: Option<PedestalStart>,
    /// Channels without primitives, instead of those of the run: offline numbers such as
    /// 7,100-163, or a file of them, such as `gannet channels --mask` prints.
    #[arg(long, value_name = "LIST|FILE")]
    mask: Option<Channels>,
    /// Which frames of logs: raw or records. When absent: raw where there are any.
    #[arg(long, value_name = "WHICH", value_parser = values::frames)]
    frames: Option<FrameSource>,
    /// Instruction set: auto, scalar, avx2, avx512.
    #[arg(long, default_value = "auto", value_parser = values::named::<IsaChoice>)]
    isa: IsaChoice,
    /// Threads that search; all cores when absent.
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX as i64))]
    threads: Option<u16>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn config(&self) -> FindConfig {
        let changes = Changes {
            chain: self.chain,
            threshold: self.threshold.map(|by_plane| by_plane.0),
            sot_minimum: self.sot_minimum.map(|by_plane| by_plane.0),
            memory_factor: self.memory_factor.map(|by_plane| by_plane.0),
            scale_factor: self.scale_factor.map(|by_plane| by_plane.0),
            accum_limit: self.accum_limit,
            mask: self.mask.as_ref().map(|channels| channels.0.clone()),
            isa: self.isa,
        };
        FindConfig {
            files: self.files.clone(),
            config: self.config.clone(),
            channel_map: self.channel_map.clone(),
            changes,
            pedestals: self.initial_pedestal,
            frames: self.frames,
            threads: self.threads.map(usize::from),
            outputs: self.out.clone(),
            overwrite: self.overwrite,
            thresholds: self.scan_threshold.iter().flat_map(|scan| scan.0.clone()).collect(),
        }
    }
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let mut progress = Progress::new("find");
    let report = find(&arguments.config(), &mut |done, total| {
        progress.show(done, total);
        if signals.received().is_none() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    drop(progress);
    if let (Err(FindError::Interrupted), Some(signal)) = (&report, signals.received()) {
        log::say(FindError::Interrupted);
        return Ok(Outcome::Interrupted(signal));
    }
    let report = report?;
    warn(&report);
    match arguments.json {
        true => output::json(&report)?,
        false => output::text(&text(&report))?,
    }
    Ok(if report.is_lossy() { Outcome::Degraded } else { Outcome::Ok })
}

/// Says what the figures alone do not.
fn warn(report: &FindReport) {
    let warn = |text: String| log::say(format_args!("warning: {text}"));
    let initial_pedestal = match report.pedestals {
        PedestalStart::Run => report.tpg.initial_pedestal,
        PedestalStart::Counts(counts) => InitialPedestal::Counts(counts),
        PedestalStart::Data => InitialPedestal::Data,
    };
    TpgConfig { initial_pedestal, ..report.tpg.clone() }.doubt().into_iter().for_each(warn);
    mask::doubt(&report.masked_unread).into_iter().for_each(warn);
    for file in &report.unfinished {
        let file = file.display();
        warn(format!("{file} has no end: what stood there is lost; `gannet recover` ends it"));
    }
    for Break { after, before, chunks } in &report.breaks {
        let (after, before) = (after.display(), before.display());
        warn(format!(
            "{chunks} chunks of the run are missing between {after} and {before}: name the files \
             between them, too"
        ));
    }
    if let Some(stream) = &report.unmapped_stream {
        let frames = report.frames_unmapped;
        warn(format!(
            "{frames} frames of stream {stream} and others like it are not searched: their channels \
             are not known; give --channel-map"
        ));
    }
    if report.chunks_missing > 0 {
        let missing = report.chunks_missing;
        warn(format!("{missing} chunks had been lost before the logs were recovered"));
    }
    if report.frames_missing > 0 {
        let missing = report.frames_missing;
        warn(format!("{missing} frames were searched by the run, but not recorded"));
    }
    if report.total.missing > 0 {
        let missing = report.total.missing;
        warn(format!("{missing} frames are missing in the files, by the time stamps"));
    }
    if report.total.late > 0 {
        let late = report.total.late;
        warn(format!("{late} frames come too late or do not fit in time, and are not searched"));
    }
    if report.damaged > 0 {
        warn(format!("{} parts are damaged and not searched", report.damaged));
    }
    if report.out_of_order > 0 {
        let (late, files) = (report.out_of_order, "the files are far out of the order of time");
        warn(format!("{late} primitives are written behind later ones: {files}"));
    }
}

/// The report for people.
fn text(report: &FindReport) -> String {
    let (total, tpg, grouped) = (&report.total, &report.tpg, output::grouped);
    let planes = |values: &[u64]| values.iter().map(|&n| grouped(n)).collect::<Vec<_>>().join(", ");
    let pedestals = match report.pedestals {
        PedestalStart::Run => format!("as in the run, {}", start_of(tpg.initial_pedestal)),
        PedestalStart::Data => start_of(InitialPedestal::Data),
        PedestalStart::Counts(counts) => start_of(InitialPedestal::Counts(counts)),
    };
    let mut text = format!("run         {}: {}\n", report.run, report.source);
    let chain = serde_json::to_value(tpg.chain).unwrap_or_default();
    text += &format!("chain       {}, {}\n", chain.as_str().unwrap_or_default(), report.isa);
    if report.thresholds.is_empty() {
        let counts = tpg.threshold.map(u64::from);
        text += &format!("thresholds  {} by plane\n", planes(&counts));
    }
    text += &format!("pedestals   start {pedestals}\n");
    text += &format!(
        "frames      {} of {} streams in {:.6} s, {} gaps\n",
        grouped(total.frames),
        report.streams.len(),
        total.span_s,
        grouped(total.gaps)
    );
    if total.missing > 0 {
        text += &format!("missing     {} frames in the gaps\n", grouped(total.missing));
    }
    if total.sorted > 0 {
        text +=
            &format!("sorted      {} frames that stood behind later ones\n", grouped(total.sorted));
    }
    if total.late + total.repeated + total.hits_cut > 0 {
        text += &format!(
            "left out    {} frames out of order, {} repeated, {} open hits at gaps\n",
            grouped(total.late),
            grouped(total.repeated),
            grouped(total.hits_cut)
        );
    }
    text += &format!(
        "speed       {:.2} Gbit/s, {} frames/s, {:.3} s\n",
        report.gbit_per_s,
        grouped(report.frames_per_s as u64),
        report.wall_s
    );
    if report.thresholds.is_empty() {
        let (tps, by_plane) = (grouped(total.tps), planes(&total.tps_by_plane));
        let rate = total.hz_per_channel;
        text += &format!("primitives  {tps}: {by_plane} by plane; {rate:.2} Hz per channel\n\n");
        text += &streams(report);
    } else {
        text += "\n";
        text += &thresholds(report);
    }
    report.files.iter().for_each(|file| text += &format!("{}\n", file.display()));
    text
}

/// Where pedestals start, in words.
fn start_of(pedestal: InitialPedestal) -> String {
    match pedestal {
        InitialPedestal::Data => "at the median of the first frame".to_owned(),
        InitialPedestal::Counts(counts) => format!("at {counts}"),
    }
}

/// A line for each stream.
fn streams(report: &FindReport) -> String {
    let mut text = format!(
        "{:<14} {:>12} {:>8} {:>14} {:>14} {:>14} {:>14}\n",
        "stream", "frames", "gaps", "primitives", "plane 0", "plane 1", "plane 2"
    );
    for stream in &report.streams {
        let [u, v, w] = stream.tps_by_plane;
        text += &format!(
            "{:<14} {:>12} {:>8} {:>14} {u:>14} {v:>14} {w:>14}\n",
            stream.stream, stream.frames, stream.gaps, stream.tps
        );
    }
    text
}

/// A line for each threshold.
fn thresholds(report: &FindReport) -> String {
    let mut text = format!("{:>9} {:>14} {:>16}\n", "threshold", "primitives", "Hz per channel");
    for tried in &report.thresholds {
        let (threshold, tps, rate) = (tried.threshold, tried.tps, tried.hz_per_channel);
        text += &format!("{threshold:>9} {tps:>14} {rate:>16.2}\n");
    }
    text
}
