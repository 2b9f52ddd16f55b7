//! What a detector is to a run: the seam between what serves any detector and what knows one.
//!
//! A [`Detector`] reads its tables of a configuration and makes a [`Plan`], which carries a
//! [`PlannedDetector`]; both are objects, one for each process. A run is compiled for the
//! [`Pipeline`] of its detector: nothing that happens for each frame goes through an object.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gannet_emulate::InjectedEvent;
use gannet_log::Item;
use gannet_measure::ledger::Statement;
use gannet_readout::trigger::Trigger;
use gannet_trigger::Finder;
use gannet_trigger::merge::MergeCounters;
use gannet_wire::record::Record;
use gannet_wire::{AnyFormat, FrameFormat};

use crate::channels::{ChannelFigures, ChannelSummary};
use crate::config::{ChannelsConfig, Document, Plan, PlannedStream, Problem};
use crate::emulation::{EmulationError, EmulationReport, PlannedFrontEnd, Role};
use crate::event::{EventView, NoEvent, Recording};
use crate::export::{ExportConfig, ExportError, Exported};
use crate::finds::Looks;
use crate::run::{Run, RunError};
use crate::snapshot::{Figure, Flow, Snapshot, TriggerSnapshot};
use crate::waveform::Samples;

/// A kind of detector that the program can take data of.
pub trait Detector: Send + Sync {
    /// Its name in configurations, as `[pipeline] detector` gives it.
    fn name(&self) -> &'static str;

    /// Schema of a configuration for it.
    fn schema(&self) -> schemars::Schema;

    /// The configuration of its demonstration: one source on UDP, and a front end for it.
    fn demonstration(&self) -> &'static str;

    /// Which of its formats a frame has.
    fn format_of(&self, frame: &[u8]) -> &'static dyn AnyFormat;

    /// Tests a configuration and resolves what it refers to; paths in it start at `directory`.
    ///
    /// # Errors
    /// The first problem, placed in `document`.
    fn plan(&self, document: &Document<'_>, directory: &Path) -> Result<Plan, Problem>;

    /// Event `number` of a recording, from 0.
    ///
    /// # Errors
    /// Why it cannot be shown; for most detectors that they have no events.
    fn event(&self, recording: &Recording, number: u64) -> Result<EventView, NoEvent> {
        let (name, file) = (self.name(), recording.path.display());
        Err(NoEvent::NotKept(format!(
            "{file} has no event {number}: {name} knows no events; --chunk and --record show what was \
             recorded"
        )))
    }

    /// Makes files for other people's tools of a finished log. `progress` is called now and then with the bytes read so
    /// far, and those to be read in total.
    ///
    /// # Errors
    /// When the log is not as it was written, or an export cannot be made.
    fn export(
        &self,
        log: &Path,
        config: &ExportConfig,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Exported, ExportError>;
}

/// What a configuration says about its detector, tested and resolved.
pub trait PlannedDetector: fmt::Debug + Send + Sync {
    /// Sets up a run of `plan`, as [`Run::of`] does for the pipeline of this detector.
    ///
    /// # Errors
    /// As [`Run::configure`].
    fn configure(&self, plan: &Plan) -> Result<Run, RunError>;

    /// The streams of its front end, in their order.
    fn emulated(&self) -> Vec<PlannedStream>;

    /// Its front end, to be emulated.
    ///
    /// # Errors
    /// When the configuration cannot be emulated.
    fn front_end(&self) -> Result<Box<dyn PlannedFrontEnd>, EmulationError>;

    /// Who else around its readout can be played, by name, and where they listen.
    fn roles(&self) -> Vec<(&'static str, SocketAddr, Box<dyn Role>)> {
        Vec::new()
    }

    /// What compares what its front end put in with what a run found, if anything does.
    fn comparison(&self) -> Option<Box<dyn Comparison>> {
        None
    }

    /// The same plan for the first `streams` streams of the first source, with a front end for them at
    /// `rate_scale` times the true rate, and nothing recorded beside records.
    fn trial(&self, streams: usize, rate_scale: f64) -> Arc<dyn PlannedDetector>;

    /// What is allowed and will hardly be meant, each in a sentence that says what to do.
    fn doubts(&self) -> Vec<String>;

    /// Files that its configuration refers to.
    fn inputs(&self) -> Vec<PathBuf>;

    /// Itself, for whoever knows its type.
    fn as_any(&self) -> &dyn Any;
}

/// Compares what a front end put in with what a run found.
pub trait Comparison: Send {
    /// Whether it wants to know each event that is put in; otherwise their numbers are enough.
    fn wants_events(&self) -> bool {
        true
    }

    /// Takes an event that was put in.
    fn put_in(&mut self, event: &dyn InjectedEvent);

    /// What was put in and what of it was found in a run that has ended, and in its files.
    ///
    /// # Errors
    /// What cannot be read.
    fn compare(&self, sent: &EmulationReport, found: &Snapshot) -> Result<Vec<Figure>, String>;
}

/// The stages of one run of a detector, made in the order of these methods.
pub trait Pipeline {
    /// How its frames look.
    type Format: FrameFormat;
    /// What searches them.
    type Finder: Finder<Item: Record>;
    /// What decides on what was found.
    type Trigger: Trigger<Item = <Self::Finder as Finder>::Item>;

    /// Format of the frames of a source.
    fn format(&self, source: usize) -> Self::Format;

    /// What searches the frames of a stream, counted over all sources.
    ///
    /// # Errors
    /// Why there can be none.
    fn finder(&mut self, stream: usize) -> Result<Self::Finder, String>;

    /// What the parts of records are that come from a stream.
    fn origin(&self, stream: usize) -> <Self::Trigger as Trigger>::Origin;

    /// What decides in the run with this number, and what can be seen of it. The clock of the run
    /// showed 0 at `epoch_ns`, in nanoseconds since 1970.
    ///
    /// # Errors
    /// The key of the configuration and what is wrong with its value.
    fn trigger(
        &mut self,
        run_number: u32,
        epoch_ns: u64,
    ) -> Result<(Self::Trigger, Arc<dyn Stages>), String>;

    /// Who is answered, and whether at once, if anybody is.
    fn answering(&self) -> Option<Answering> {
        None
    }

    /// Work for threads of its own, which ends when the trigger is gone. Asked for after the trigger
    /// was made.
    fn workers(&mut self) -> Vec<Worker> {
        Vec::new()
    }

    /// Whether trigger and finders may be in two processes: they share nothing but items.
    ///
    /// # Errors
    /// What else they share.
    fn may_be_apart(&self) -> Result<(), String> {
        Ok(())
    }

    /// Decisions that may wait for their records at once.
    fn records_in_flight_max(&self) -> usize;

    /// What the log says of the run at its start: the payload of a chunk of kind `RUN_START`.
    fn run_start(&self, plan: &Plan, started_unix_ns: u64) -> Vec<u8>;

    /// What looks at the channels one by one, if they are looked at, and what is kept of them.
    fn survey(&mut self) -> Option<(Box<dyn ChannelSurvey>, ChannelsConfig)> {
        None
    }

    /// What knows the samples in frames, if there are any. Asked for after all finders were made, and before
    /// the survey.
    fn samples(&self) -> Option<Arc<dyn Samples>> {
        None
    }

    /// How its items and decisions look, if anybody may see them.
    fn looks(&self) -> Option<Looks<<Self::Finder as Finder>::Item>> {
        None
    }

    /// What makes files for other people's tools of finished logs, if any are to be made.
    fn export(&self) -> Option<Export> {
        None
    }

    /// Whether finished files of the run are listed with their digests in a manifest.
    fn manifest(&self) -> bool {
        false
    }
}

/// Work for a thread of its own, which is told whether it may spin instead of sleeping.
pub type Worker = Box<dyn FnOnce(bool) + Send>;

/// Where the answers of a trigger go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answering {
    /// Address that they are sent to; absent: they are made and go nowhere.
    pub to: Option<SocketAddr>,
    /// Whether one is due so soon that nothing waits to be handed on with more of its kind, and that the
    /// threads on its way spin instead of sleeping, where there are processors enough.
    pub at_once: bool,
}

/// Makes files of a finished log, and gives their names, or says why it cannot.
pub type Export = Box<dyn Fn(&Path) -> Result<Vec<PathBuf>, String> + Send>;

/// What can be seen of a detector's stages while they work.
pub trait Stages: Send + Sync {
    /// Account of the frames that were searched, if there is one.
    fn searched(&self) -> Option<Statement> {
        None
    }

    /// Accounts of its stages behind the items that were found, in the order of the data.
    fn statements(&self) -> Vec<Statement>;

    /// What of its items was handed to the recorder, beside records.
    fn recorded(&self) -> Vec<(Item, Statement)>;

    /// What goes from one of its stages to another, or between them and those that every run has. The way from the
    /// wire to the items that are found, and that from records and the like to the recorder, are known unless it is
    /// said here how `primitives` come about otherwise.
    fn flows(&self) -> Vec<Flow> {
        Vec::new()
    }

    /// Whether it asks for records. Others write what they find themselves, or only answer.
    fn asks_for_records(&self) -> bool {
        true
    }

    /// The times of the streams.
    fn times(&self) -> &Arc<MergeCounters>;

    /// What was found and decided; what the ledger tells of is filled in from there.
    fn figures(&self) -> TriggerSnapshot;

    /// What only this kind of detector has, in the order in which people want to see it. The threads that
    /// receive and decide have used `cpu_s` seconds of a core so far.
    fn specific(&self, cpu_s: f64) -> Vec<Figure> {
        let _ = cpu_s;
        Vec::new()
    }
}

/// Looks at the channels of all streams one by one.
pub trait ChannelSurvey: Send {
    /// The channels of all streams in their order, at the time `now` since the begin of the run.
    fn look(&mut self, now: Duration) -> Vec<ChannelFigures>;

    /// The summary of each stream, from what a look gave.
    fn summaries(&self, channels: &[ChannelFigures]) -> Vec<ChannelSummary>;
}
