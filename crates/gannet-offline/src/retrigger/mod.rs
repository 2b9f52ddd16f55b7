//! The trigger again, on primitives that were recorded.
//!
//! [`retrigger`] takes the primitives of logs, Parquet tables or time slices in HDF5 in the order in
//! which the merger of the run delivered them, and runs activities, candidates and the module-level
//! trigger over them. With the parameters of the run it makes the decisions of the run, and compares
//! them with the trigger records in the logs, record for record: time, type, window, each candidate with
//! its activities, and all activities of the window. Decisions of another number count as the same.
//!
//! What depended on the moment and not on the data cannot come again, and is told instead:
//!
//! * Primitives that were late for the trigger of the run, or of a stream that was set apart, are in
//!   its slices all the same. Those outside of the ticks of their slice are known by it and left
//!   out, as in the run; others are not.
//! * While as many records as allowed were in flight, or the trigger was paused, the run made no
//!   decisions. Here it does, and numbers are shifted from there on.
//!
//! Candidates at random and at intervals follow from data time alone. They begin and end where the
//! log says that the run's trigger did, or with the first and last primitive if it does not. Where most
//! clocks went back, slices do, and the trigger begins anew, as in the run.

mod compare;
mod error;
mod input;

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use gannet_control::config::{self, Document, Problem};
use gannet_control::detector::Detector;
use gannet_dune::export::{self, TriggerRow, trigger_table};
use gannet_dune::recent::RECENT_PRIMITIVES;
use gannet_dune::sampling::Sampling;
use gannet_dune::trigger_fragments::TriggerFragments;
use gannet_dune::{TriggerChain, TriggerConfig, TriggerOutput};
use gannet_log::files::{self, is_same_file, is_taken};
use gannet_log::name::part_path;
use gannet_readout::record::{BuildConfig, Part};
use gannet_record::Origin;
use gannet_table::Table;
use gannet_trigger::module_level::Decision;
use gannet_wire::trigger_candidate::TypeMask;
use serde::{Deserialize, Serialize};

pub use compare::Compared;
pub use error::RetriggerError;

use compare::Comparison;
use input::{Found, Recorded};

/// Longest step of data time without primitives. A source leaves out its candidates in one that is
/// longer than 10 s of a 62.5 MHz clock.
const STEP_TICKS: u64 = 312_500_000;
/// Longest time without primitives that is gone through in steps, an hour; beyond it time has leapt.
const LEAP_TICKS: u64 = 225_000_000_000;

/// What is to be triggered on, and how.
#[derive(Clone, Debug, Default)]
pub struct RetriggerConfig {
    /// Files of one run that hold primitives, in any order.
    pub files: Vec<PathBuf>,
    /// Configuration whose trigger takes the place of the run's.
    pub config: Option<PathBuf>,
    /// File for the table of triggers.
    pub output: Option<PathBuf>,
    /// Whether a file that is there already is replaced.
    pub overwrite: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RetriggerReport {
    /// Run number.
    pub run: u32,
    /// The trigger that was used.
    pub trigger: TriggerConfig,
    /// Primitives that the trigger took.
    pub primitives: u64,
    /// Primitives out of the order of time, by their slice or by those before them: they were late in
    /// the run, or of a stream with another time, and are left out.
    pub late: u64,
    /// Primitives that were late in the run, by its own account; absent where no log tells.
    pub late_in_run: Option<u64>,
    /// Activities made.
    pub activities: u64,
    /// Candidates made.
    pub candidates: u64,
    /// Decisions taken.
    pub triggers: u64,
    /// Decisions by their types.
    pub by_type: BTreeMap<String, u64>,
    /// First tick of data time; 0 without primitives.
    pub first_tick: u64,
    /// Length of data time, in seconds.
    pub span_s: f64,
    /// How the decisions compare with the records of the run; present where the trigger is that of
    /// the run and the files hold records.
    pub compared: Option<Compared>,
    /// Times at which the run could not decide because of records in flight or a pause.
    pub busy_in_run: u64,
    /// Chunks, slices and records that are damaged.
    pub damaged: u64,
    /// Chunks known to be lost from the logs.
    pub chunks_missing: u64,
    /// File written.
    pub file: Option<PathBuf>,
}

impl RetriggerReport {
    /// Whether anything is missing or damaged that the run took.
    pub fn is_lossy(&self) -> bool {
        self.damaged + self.chunks_missing > 0
    }
}

/// What shows how far the work is: bytes done, and of how many. It may break it off.
pub type Progress<'a> = dyn FnMut(u64, u64) -> ControlFlow<()> + 'a;

/// Triggers again; a configuration may be for any of `detectors`.
///
/// # Errors
/// When the files cannot be read or are not of one run, the trigger is not known or cannot be used,
/// or the table cannot be written.
pub fn retrigger(
    config: &RetriggerConfig,
    detectors: &[&dyn Detector],
    progress: &mut Progress<'_>,
) -> Result<RetriggerReport, RetriggerError> {
    check_output(config)?;
    let mut recorded = Recorded::open(&config.files, progress)?;
    let is_of_run = config.config.is_none();
    let trigger = match &config.config {
        Some(path) => trigger_of(path, detectors)?,
        None => recorded.trigger()?,
    };
    let mut work = Work::new(config, &recorded, &trigger)?;
    recorded.read(progress, &mut |found| work.take(found))?;
    let mut report = work.finish(&recorded)?;
    report.compared = report.compared.filter(|_| is_of_run);
    report.trigger = trigger;
    report.file = config.output.clone();
    Ok(report)
}

/// The trigger of a configuration, whichever of `detectors` it is for.
fn trigger_of(path: &Path, detectors: &[&dyn Detector]) -> Result<TriggerConfig, Problem> {
    #[derive(Deserialize)]
    struct Filled {
        pipeline: Pipeline,
    }
    #[derive(Deserialize)]
    struct Pipeline {
        trigger: TriggerConfig,
    }
    let plan = config::load(path, detectors)?;
    let filled: Filled = Document::new(&path.display().to_string(), &plan.filled).read()?;
    Ok(filled.pipeline.trigger)
}

/// Compares each decision when its fragments are there.
fn compare(
    waiting: &mut HashMap<u64, Decision>,
    comparison: &mut Comparison,
) -> impl FnMut(u64, Vec<Part<Origin>>) {
    |number, added| {
        waiting.remove(&number).into_iter().for_each(|it| comparison.decided(it, &added));
    }
}

fn check_output(config: &RetriggerConfig) -> Result<(), RetriggerError> {
    let Some(path) = &config.output else { return Ok(()) };
    if path.extension().is_none_or(|ending| ending != "parquet") {
        return Err(RetriggerError::Output(path.clone()));
    }
    if config.files.iter().chain(&config.config).any(|input| is_same_file(path, input)) {
        return Err(RetriggerError::OwnInput(path.clone()));
    }
    match [path.clone(), part_path(path)].into_iter().find(|path| is_taken(path)) {
        Some(there) if !config.overwrite => Err(RetriggerError::Exists(there)),
        _ => Ok(files::remove_own(&part_path(path)).map_err(export::Error::File)?),
    }
}

/// The trigger at work.
struct Work {
    chain: TriggerChain,
    out: TriggerOutput,
    table: Option<Table<TriggerRow>>,
    fragments: TriggerFragments,
    /// Decisions whose fragments are not complete yet.
    waiting: HashMap<u64, Decision>,
    comparison: Comparison,
    report: RetriggerReport,
    /// Data time.
    tick: u64,
    /// Start of the last primitive.
    newest: u64,
    /// First tick of the last slice.
    slice_begin: u64,
}

impl Work {
    fn new(
        config: &RetriggerConfig,
        recorded: &Recorded,
        trigger: &TriggerConfig,
    ) -> Result<Self, RetriggerError> {
        let run = recorded.run();
        let table = config.output.as_deref().map(|path| trigger_table(path, run));
        let any_window = BuildConfig { window_ticks_max: u64::MAX, ..BuildConfig::default() };
        Ok(Self {
            // All streams come merged.
            chain: TriggerChain::new(trigger, 1, run, Sampling::default())?,
            out: TriggerOutput::default(),
            table: table.transpose()?,
            fragments: TriggerFragments::new(any_window, RECENT_PRIMITIVES),
            waiting: HashMap::new(),
            comparison: Comparison::default(),
            report: RetriggerReport { run, ..RetriggerReport::default() },
            tick: recorded.first_tick().unwrap_or(0),
            newest: 0,
            slice_begin: 0,
        })
    }

    fn take(&mut self, found: Found) -> Result<(), RetriggerError> {
        match found {
            Found::Record(record) => self.comparison.recorded(record),
            Found::Busy(intervals) => self.report.busy_in_run += intervals,
            Found::Slice { window, primitives } => {
                if window.start < self.slice_begin {
                    self.begin_anew()?;
                }
                self.slice_begin = window.start;
                for tp in &primitives {
                    if !window.contains(&tp.time_start()) || tp.time_start() < self.newest {
                        self.report.late += 1;
                        continue;
                    }
                    self.newest = tp.time_start();
                    self.report.primitives += 1;
                    self.go_on(tp.time_start());
                    self.chain.push_merged(std::slice::from_ref(tp), 0, &mut self.out);
                    self.hand_on()?;
                }
            }
        }
        Ok(())
    }

    /// Makes all of what came so far; data time goes on from a point in the past.
    fn begin_anew(&mut self) -> Result<(), RetriggerError> {
        let complete_to = self.chain.complete_to();
        self.chain.begin_anew(0, &mut self.out);
        self.hand_on()?;
        let Self { fragments, waiting, comparison, .. } = self;
        fragments.end(complete_to, compare(waiting, comparison));
        (self.tick, self.newest) = (0, 0);
        Ok(())
    }

    /// Lets data time go on to `tick`.
    fn go_on(&mut self, tick: u64) {
        if self.tick == 0 {
            self.tick = tick;
        }
        if tick.saturating_sub(self.tick) <= LEAP_TICKS {
            while tick.saturating_sub(self.tick) > STEP_TICKS {
                self.chain.advance_to(self.tick, 0, &mut self.out);
                self.tick += STEP_TICKS;
            }
        }
        self.chain.advance_to(self.tick.min(tick), 0, &mut self.out);
        self.tick = self.tick.max(tick);
    }

    fn hand_on(&mut self) -> Result<(), RetriggerError> {
        self.fragments.remember(&[], self.out.activities.drain(..));
        for decision in std::mem::take(&mut self.out.decided.decisions) {
            let name = TypeMask(decision.trigger_type).to_string();
            *self.report.by_type.entry(name).or_default() += 1;
            if let Some(table) = &mut self.table {
                table.push(TriggerRow::of(&decision)).map_err(export::Error::from)?;
            }
            self.waiting.insert(decision.trigger_number, decision.clone());
            self.fragments.ask(decision, 0);
            // Nothing is in flight here.
            self.chain.records_done(1, &mut self.out);
        }
        self.out.clear();
        let Self { chain, fragments, waiting, comparison, .. } = self;
        fragments.answer(chain.complete_to(), 0, compare(waiting, comparison));
        Ok(())
    }

    fn finish(mut self, recorded: &Recorded) -> Result<RetriggerReport, RetriggerError> {
        if self.report.primitives == 0 {
            return Err(RetriggerError::NoPrimitives(recorded.first_file().to_owned()));
        }
        if let Some(end) = recorded.last_tick() {
            self.go_on(end);
            self.chain.advance_to(end, 0, &mut self.out);
        }
        self.chain.drain(0, &mut self.out);
        self.hand_on()?;
        let Self { chain, fragments, waiting, comparison, .. } = &mut self;
        fragments.end(chain.complete_to(), compare(waiting, comparison));
        self.table.take().map(Table::close).transpose().map_err(export::Error::from)?;
        let counters = self.chain.counters();
        let mut report = self.report;
        report.activities = counters.activities.iter().map(|stage| stage.made.delivered()).sum();
        report.candidates = counters.candidates.iter().map(|stage| stage.made.delivered()).sum();
        report.triggers = counters.module_level.decisions.get();
        report.first_tick = counters.data_time.begin.get();
        let ticks = counters.data_time.span.get();
        report.span_s = gannet_wire::daq_ethernet::CLOCK.ns(ticks) as f64 * 1e-9;
        report.compared = self.comparison.finish();
        report.late_in_run = recorded.late_in_run();
        report.damaged = recorded.damaged();
        report.chunks_missing = recorded.chunks_missing();
        Ok(report)
    }
}
