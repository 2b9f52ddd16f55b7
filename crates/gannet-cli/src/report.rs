//! The report of a run that has ended, for people and for programs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gannet_control::alarm::brief;
use gannet_control::config::Role;
use gannet_control::run_control::State;
use gannet_control::snapshot::{ChannelsSnapshot, FigureValue, Snapshot};
use gannet_control::station::Verified;
use gannet_dune::raw_file;
use serde::Serialize;

use crate::channel_table;
use crate::exit::Outcome;
use crate::output::{self, grouped};

/// Channels that are listed for their rate, if no more of them are noisy.
const LOUDEST: usize = 3;
/// Alarms of one kind that are listed; of more, their number.
const ALARMS_SHOWN: usize = 8;

/// What a run came to.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The last snapshot.
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// Files that were read back, each with whether every byte was as written.
    pub verified: Vec<Verified>,
}

impl Report {
    /// A report of files that nobody has read back.
    pub fn unread(snapshot: Snapshot) -> Self {
        Self { snapshot, verified: Vec::new() }
    }

    /// Reads the files of the run back.
    pub fn new(snapshot: Snapshot) -> Self {
        let recorder = &snapshot.recorder;
        if recorder.stuck {
            // The disk would not answer now either.
            return Self { snapshot, verified: Vec::new() };
        }
        let logs = recorder.files.iter().map(|file| verify_log(file));
        let is_raw_file = |file: &&PathBuf| file.extension().is_some_and(|e| e == "hdf5");
        let raw_files = recorder.exports.iter().filter(is_raw_file).map(|file| verify_raw(file));
        let verified = logs.chain(raw_files).collect();
        Self { snapshot, verified }
    }

    /// How the run went.
    pub fn outcome(&self) -> anyhow::Result<Outcome> {
        if let (State::Error, Some(failure)) = (self.snapshot.state, &self.snapshot.failure) {
            anyhow::bail!("the run failed: {failure}");
        }
        // What lacks in the data weighs more than what can be done later; the report has both.
        if self.verified.iter().any(|file| file.problem.is_some()) {
            return Ok(Outcome::NotVerified);
        }
        if self.snapshot.degraded {
            return Ok(Outcome::Degraded);
        }
        if let Some(why) = self.snapshot.recorder.export_failures.first() {
            anyhow::bail!("no exports of a log file: {why}; `gannet export` makes them later");
        }
        let control = self.snapshot.slow_control.iter();
        let failures = control.flat_map(|control| &control.failures_at_stop).collect::<Vec<_>>();
        if let Some(first) = failures.first() {
            let all = failures.len();
            anyhow::bail!(
                "slow control at stop: {first} ({all} failed); the data are not concerned"
            );
        }
        Ok(Outcome::Ok)
    }

    /// Prints the report for people.
    ///
    /// # Errors
    /// When standard output cannot be written.
    pub fn print(&self) -> anyhow::Result<()> {
        output::print(|out| self.write(out))
    }

    fn write(&self, mut out: &mut impl Write) -> io::Result<()> {
        let snapshot = &self.snapshot;
        let (title, verdict) = (snapshot.title(), verdict(snapshot));
        writeln!(out, "{title} {verdict}, {:.1} s", snapshot.elapsed_s)?;
        // What follows on the primitives is the builder's to tell.
        let decides = snapshot.role != Role::Readout;
        figure(&mut out, "frames in", snapshot.frames())?;
        self.print_lost(&mut out)?;
        if snapshot.specific.is_empty() {
            figure(&mut out, "trigger primitives", snapshot.trigger.primitives)?;
            if decides {
                figure(&mut out, "trigger activities", snapshot.trigger.activities)?;
            }
        }
        for own in &snapshot.specific {
            writeln!(out, "  {}", output::figure(own, 22, 15))?;
            if let FigureValue::Ns(times) = &own.value {
                output::bars(times).try_for_each(|bar| writeln!(out, "    {bar}"))?;
            }
        }
        if let Some(truth) = &snapshot.front_end {
            writeln!(out, "  of the front end       {}", output::kinds(&truth.events))?;
        }
        if decides {
            figure(&mut out, "trigger decisions", snapshot.trigger.decisions)?;
        }
        self.print_recorded(&mut out)?;
        if let Some(control) = &snapshot.slow_control {
            figure(&mut out, "commands applied", control.applied)?;
            figure(&mut out, "  failed", control.failed)?;
            figure(&mut out, "  sent again", control.datagrams.repeated)?;
        }
        self.print_latencies(&mut out)?;
        let alarms = brief(&snapshot.alarms, ALARMS_SHOWN);
        alarms.iter().try_for_each(|line| writeln!(out, "alarm: {line}"))?;
        writeln!(out, "ledger")?;
        snapshot.ledger.iter().try_for_each(|statement| writeln!(out, "  {statement}"))?;
        self.print_streams(&mut out)?;
        self.print_channels(&mut out)?;
        self.print_files(&mut out)
    }

    /// What is in the log, and what is not.
    fn print_recorded(&self, out: &mut impl Write) -> io::Result<()> {
        let recorder = &self.snapshot.recorder;
        if self.snapshot.role != Role::Readout {
            figure(out, "trigger records", recorder.records)?;
        }
        if recorder.incomplete > 0 {
            figure(out, "  incomplete", recorder.incomplete)?;
            figure(out, "  incomplete for missing data", recorder.damaged)?;
            if recorder.unreachable > 0 {
                figure(out, "    of absent readouts", recorder.unreachable)?;
            }
            let at_edges = recorder.incomplete.saturating_sub(recorder.damaged);
            figure(out, "  reach beyond the data", at_edges)?;
        }
        lost(out, recorder.records_dropped)?;
        if recorder.primitives_dropped > 0 {
            figure(out, "recorded primitives", recorder.primitives)?;
            lost(out, recorder.primitives_dropped)?;
        }
        if recorder.raw_frames + recorder.raw_dropped > 0 {
            figure(out, "raw frames", recorder.raw_frames)?;
            lost(out, recorder.raw_dropped)?;
        }
        Ok(())
    }

    /// The frames lost, by cause; bounds where there is no number.
    fn print_lost(&self, out: &mut impl Write) -> io::Result<()> {
        let snapshot = &self.snapshot;
        figure(out, "frames lost", snapshot.frames_lost)?;
        let sent = snapshot.ledger.iter().filter(|statement| statement.stage == "sent");
        for drop in sent.flat_map(|sent| &sent.dropped).filter(|drop| drop.count > 0) {
            writeln!(out, "  {:<22} {:>15}  {}", "", grouped(drop.count), drop.meaning)?;
        }
        if snapshot.frames_lost_max > snapshot.frames_lost {
            let bounds = bounds(snapshot.frames_lost, snapshot.frames_lost_max);
            let is_unsure = snapshot.streams.iter().any(|s| s.missing_max > s.missing);
            let why = match is_unsure {
                true => "in the place of some came frames with another time",
                false => "some were dropped before the socket that no stream lacks",
            };
            writeln!(out, "    {bounds}: {why}")?;
        }
        for source in &snapshot.sources {
            if source.kernel_drops_max > source.kernel_drops {
                let bounds = bounds(source.kernel_drops, source.kernel_drops_max);
                let aid = "CAP_BPF makes it count them";
                writeln!(out, "  {}: the kernel dropped {bounds} datagrams; {aid}", source.name)?;
            }
        }
        Ok(())
    }

    fn print_latencies(&self, out: &mut impl Write) -> io::Result<()> {
        let latency = &self.snapshot.latency;
        let steps = [
            ("arrival to primitives", latency.arrival_to_primitive),
            ("arrival to decision", latency.arrival_to_decision),
            ("decision to record", latency.decision_to_record),
        ];
        for (step, summary) in steps.iter().filter(|(_, summary)| summary.count > 0) {
            let ms = |ns: u64| ns as f64 * 1e-6;
            let (p50, p99) = (ms(summary.p50), ms(summary.p99));
            writeln!(out, "  {step:<22} p50 {p50:.3} ms, p99 {p99:.3} ms")?;
        }
        let search = (self.snapshot.tpg_share, self.snapshot.tpg_ns_per_frame());
        if let (Some(share), Some(ns)) = search {
            let percent = share * 100.0;
            let step = "search for primitives";
            writeln!(out, "  {step:<22} {percent:.1} % of receiving, {ns:.0} ns a frame")?;
        }
        Ok(())
    }

    fn is_verified(&self, export: &Path) -> bool {
        self.verified.iter().any(|verified| verified.file == export)
    }

    /// Streams that have something to tell.
    fn print_streams(&self, out: &mut impl Write) -> io::Result<()> {
        for stream in &self.snapshot.streams {
            let figures = [
                ("missing", stream.missing),
                ("late", stream.late),
                ("duplicate", stream.duplicate),
                ("out of step", stream.out_of_step),
                ("strange", stream.strange),
                ("wrong sequence numbers", stream.sequence_errors),
                ("restarts", stream.restarts),
            ];
            let mut words: Vec<_> = figures
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|(what, count)| format!("{what} {}", grouped(*count)))
                .collect();
            if stream.missing_max > stream.missing {
                words.push(format!("missing at most {}", grouped(stream.missing_max)));
            }
            if stream.set_apart {
                words.push(format!("set apart, {:+.1} s", stream.time_offset_s));
            }
            if stream.frames == 0 {
                words.push("no frame came".into());
            }
            if !words.is_empty() {
                writeln!(out, "stream {}: {}", stream.name, words.join(", "))?;
            }
        }
        Ok(())
    }

    /// How many channels are noisy or dead, and those that made most primitives.
    fn print_channels(&self, out: &mut impl Write) -> io::Result<()> {
        let ChannelsSnapshot { noisy, dead, masked, loudest, .. } = &self.snapshot.channels;
        writeln!(out, "channels: {noisy} noisy, {dead} dead, {masked} masked")?;
        let listed: Vec<_> = loudest.iter().take(LOUDEST.max(*noisy as usize)).collect();
        if listed.is_empty() { Ok(()) } else { channel_table::write(out, &listed) }
    }

    fn print_files(&self, out: &mut impl Write) -> io::Result<()> {
        for Verified { file, items, missing, problem } in &self.verified {
            let file = file.display();
            match problem {
                None if *missing > 0 => {
                    let (items, missing) = (grouped(*items), grouped(*missing));
                    writeln!(out, "{file}: sound, {items} items, {missing} were lost from it")?;
                }
                None => writeln!(out, "{file}: verified, {} items", grouped(*items))?,
                Some(problem) => writeln!(out, "{file}: NOT VERIFIED: {problem}")?,
            }
        }
        let recorder = &self.snapshot.recorder;
        let mut tables = recorder.exports.iter().filter(|export| !self.is_verified(export));
        tables.try_for_each(|export| writeln!(out, "{}", export.display()))?;
        let channels = &self.snapshot.channels;
        channels.file.iter().try_for_each(|file| writeln!(out, "{}", file.display()))?;
        for file in &recorder.unfinished {
            writeln!(out, "{}: unfinished; run `gannet recover` on it", file.display())?;
        }
        Ok(())
    }
}

fn verify_raw(file: &Path) -> Verified {
    let (items, problem) = match raw_file::verify(file) {
        Ok(summary) => (summary.records, None),
        Err(error) => (0, Some(error.to_string())),
    };
    Verified { file: file.to_owned(), items, missing: 0, problem }
}

fn verify_log(file: &Path) -> Verified {
    let (items, missing, problem) = match gannet_log::verify(file) {
        // The ledger has what is missing from a sound file.
        Ok(report) if report.is_sound() => (report.data_chunks, report.chunks_missing, None),
        Ok(report) => (report.data_chunks, report.chunks_missing, Some(report.to_string())),
        Err(error) => (0, 0, Some(error.to_string())),
    };
    Verified { file: file.to_owned(), items, missing, problem }
}

fn verdict(snapshot: &Snapshot) -> String {
    let degraded = match snapshot.degraded {
        false => "",
        true if snapshot.frames_taken() == 0 => ", DEGRADED: no frame came",
        true => ", DEGRADED: data were lost",
    };
    format!("{}{degraded}", snapshot.state)
}

/// What is not in the log of the figure before.
fn lost(out: &mut impl Write, value: u64) -> io::Result<()> {
    if value == 0 { Ok(()) } else { figure(out, "  not in the log", value) }
}

fn bounds(least: u64, most: u64) -> String {
    format!("at least {}, at most {}", grouped(least), grouped(most))
}

fn figure(out: &mut impl Write, name: &str, value: u64) -> io::Result<()> {
    writeln!(out, "  {name:<22} {:>15}", grouped(value))
}
