//! Sources and streams of a run, as far as they are made before any thread is.

use std::sync::Arc;

use gannet_fabric::clop;
use gannet_ingest::roce::RoceSource;
use gannet_ingest::udp;
use gannet_ingest::xdp::XdpSource;
use gannet_ingest::{Datagrams, Landing, MemorySource, PcapConfig, PcapSource, Source};
use gannet_measure::clock::Clock;
use gannet_readout::latency::{IntakeLag, IntakeReader, IntakeWriter, StreamBuffer, index, intake};
use gannet_readout::receiver::{StreamPool, StreamSetup, StreamStatus};
use gannet_readout::trigger::Trigger;
use gannet_trigger::Finder;

use super::apart::{Listening, Meeting};
use super::lag::ObservedRing;
use super::observe::ObservedStream;
use super::{RunError, placement};
use crate::config::{Plan, PlannedSource, PlannedStream, Role, SourceInput};
use crate::detector::Pipeline;
use crate::doctor::System;
use crate::emulation::{Faults, FrontEndTruth};
use crate::sys;

/// What is found in the frames of a pipeline.
pub(super) type ItemOf<P> = <<P as Pipeline>::Finder as Finder>::Item;
/// What parts of its records are.
pub(super) type OriginOf<P> = <<P as Pipeline>::Trigger as Trigger>::Origin;
/// The streams of one of its sources.
pub(super) type PoolOf<P> = Arc<StreamPool<<P as Pipeline>::Finder>>;

/// What joins this process to the other one of the run.
pub(super) enum Apart {
    Nothing,
    Readout(Meeting),
    Builder(Meeting, Listening),
}

impl Apart {
    pub fn new<P: Pipeline>(plan: &Plan) -> Result<Self, RunError> {
        let meeting = || Meeting::new::<ItemOf<P>>(plan, P::Finder::ITEMS_MAX);
        Ok(match plan.role {
            Role::All => Self::Nothing,
            Role::Readout => Self::Readout(meeting()?.prepared()?),
            Role::Builder => Self::Builder(meeting()?, Listening::at(&plan.settings.builder)?),
        })
    }
}

/// Sources and streams, as far as they are made.
pub(super) struct Parts<P: Pipeline> {
    pub sources: Vec<PartSource<P>>,
    pub origins: Vec<OriginOf<P>>,
    pub buffers: Vec<StreamBuffer>,
    /// The same buffers, for those who look on.
    pub views: Vec<StreamBuffer>,
    pub observed: Vec<ObservedStream>,
    /// Streams that are recorded as they come.
    pub raw: Vec<(P::Format, IntakeReader)>,
    /// How far whoever records them is behind, by the place of the stream.
    pub raw_lags: Vec<(usize, IntakeLag)>,
    /// What the front end made that is played in this process.
    pub front_end: FrontEndTruth,
    /// What puts faults into a run whose front end is emulated.
    pub faults: Option<Arc<Faults>>,
    /// What joins this process to the other one of the run.
    pub apart: Apart,
}

/// A socket or file, not yet joined to its thread.
pub(super) struct PartSource<P: Pipeline> {
    pub name: String,
    pub format: P::Format,
    pub source: Box<dyn Source>,
    pub pool: PoolOf<P>,
    /// Whether it is the first of its pool.
    pub watcher: bool,
    /// Processor that its thread keeps to.
    pub cpu: Option<usize>,
    pub ring: ObservedRing,
}

impl<P: Pipeline> Parts<P> {
    pub fn new(faults: Option<Arc<Faults>>) -> Self {
        Self {
            sources: Vec::new(),
            origins: Vec::new(),
            buffers: Vec::new(),
            views: Vec::new(),
            observed: Vec::new(),
            raw: Vec::new(),
            raw_lags: Vec::new(),
            front_end: FrontEndTruth::default(),
            faults,
            apart: Apart::Nothing,
        }
    }

    pub fn add_source(
        &mut self,
        plan: &Plan,
        (place, planned): (usize, &PlannedSource),
        pipeline: &mut P,
        clock: &Arc<dyn Clock>,
    ) -> Result<(), RunError> {
        let first = self.origins.len();
        let numbers = first..first + planned.streams.len();
        self.origins.extend(numbers.clone().map(|number| pipeline.origin(number)));
        let streams = numbers.zip(&planned.streams);
        if plan.role == Role::Builder {
            streams.for_each(|stream| _ = self.observe_stream(planned, stream));
            return Ok(());
        }
        if !plan.takes(planned) {
            return Ok(());
        }
        let format = pipeline.format(place);
        let first = self.observed.len();
        let setups = streams
            .map(|stream| self.add_stream(plan, planned, stream, &format, pipeline))
            .collect::<Result<_, _>>()?;
        let pool = Arc::new(StreamPool::new(setups));
        let datagrams = match (&planned.input, &self.faults) {
            (SourceInput::Emulated, Some(faults)) => {
                let truth = Arc::clone(&self.front_end);
                Some(plan.detector.front_end()?.in_process(truth, faults.switch())?)
            }
            _ => None,
        };
        let opened = open(planned, datagrams, clock)
            .map_err(|cause| RunError::Source { source_name: planned.name.clone(), cause })?;
        for (index, (source, name)) in opened.into_iter().zip(planned.receivers()).enumerate() {
            self.sources.push(PartSource {
                name,
                format: format.clone(),
                source,
                pool: Arc::clone(&pool),
                watcher: index == 0,
                cpu: None,
                ring: ObservedRing {
                    streams: first..self.observed.len(),
                    depth_ticks: planned.depth_ticks(),
                },
            });
        }
        Ok(())
    }

    /// Gives every receiving thread its processor, if it is to have one.
    pub fn place(&mut self, plan: &Plan) -> Result<(), RunError> {
        if self.sources.is_empty() {
            return Ok(());
        }
        let own = || plan.sources.iter().filter(|source| plan.takes(source));
        let listen: Vec<_> = own().flat_map(PlannedSource::listen).collect();
        let (wanted, system) = (&plan.receive_cpus(), System::default());
        let (allowed, interfaces) = (sys::allowed_cpus(), gannet_ingest::interface_addresses());
        let placement = placement::place(wanted, &listen, &system, &allowed, &interfaces);
        let placed = self.sources.iter_mut().zip(placement.map_err(RunError::Cpus)?);
        placed.for_each(|(part, cpu)| part.cpu = cpu);
        Ok(())
    }

    /// Gives every socket its port.
    pub fn bind(&mut self) -> Result<(), RunError> {
        self.sources.iter_mut().try_for_each(|part| {
            let source_name = || part.name.clone();
            part.source
                .bind()
                .map_err(|cause| RunError::Source { source_name: source_name(), cause })
        })
    }

    fn add_stream(
        &mut self,
        plan: &Plan,
        planned: &PlannedSource,
        (number, stream): (usize, &PlannedStream),
        format: &P::Format,
        pipeline: &mut P,
    ) -> Result<StreamSetup<P::Finder>, RunError> {
        let finder = pipeline.finder(number);
        let finder =
            finder.map_err(|cause| RunError::Finder { stream: stream.name.clone(), cause })?;
        let (writer, [buffer, view]) = index(planned.index_frames(), planned.rhythm.step);
        let is_one_length = planned.lengths.start() == planned.lengths.end();
        let buffer = if is_one_length { buffer } else { buffer.with_lengths() };
        self.buffers.push(buffer);
        self.views.push(view);
        let status = self.observe_stream(planned, (number, stream));
        let raw = plan.settings.recorder.raw_streams.contains(&stream.name);
        let intake = raw.then(|| self.add_raw(format.clone(), planned.index_frames()));
        Ok(StreamSetup {
            key: stream.key,
            number: number as u32,
            rhythm: planned.rhythm,
            frame_len_max: *planned.lengths.end(),
            index: writer,
            intake,
            finder,
            status,
        })
    }

    /// Takes note of a stream, and gives where its figures are to be told.
    fn observe_stream(
        &mut self,
        planned: &PlannedSource,
        (number, stream): (usize, &PlannedStream),
    ) -> Arc<StreamStatus> {
        let status = Arc::<StreamStatus>::default();
        self.observed.push(ObservedStream {
            number,
            name: stream.name.clone(),
            status: Arc::clone(&status),
            rhythm: planned.rhythm,
            is_live: !matches!(planned.input, SourceInput::Capture(_)),
        });
        status
    }

    /// Lets the last stream, which keeps `frames` frames, be recorded as it comes.
    fn add_raw(&mut self, format: P::Format, frames: usize) -> IntakeWriter {
        let (writer, reader) = intake(frames);
        self.raw_lags.push((self.observed.len() - 1, reader.lag()));
        self.raw.push((format, reader));
        writer
    }
}

/// Opens every socket of a source, UDP sockets yet without a port, or its file; `datagrams` are those of a
/// front end in this process.
fn open(
    planned: &PlannedSource,
    datagrams: Option<Box<dyn Datagrams>>,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<Box<dyn Source>>, gannet_ingest::Error> {
    let landing = |sockets: usize| Landing {
        lengths: planned.lengths.clone(),
        cells: planned.cells.div_ceil(sockets as u64),
    };
    match &planned.input {
        SourceInput::Udp(config) => {
            let sockets = config.listen.len() * config.sockets as usize;
            let sources = udp::prepare(config, landing(sockets), planned.spread.as_ref(), clock)?;
            Ok(sources.into_iter().map(|source| Box::new(source) as Box<dyn Source>).collect())
        }
        SourceInput::Xdp(config) => {
            Ok(vec![Box::new(XdpSource::open(config, landing(1), Arc::clone(clock))?)])
        }
        SourceInput::Roce(config) => {
            Ok(vec![Box::new(RoceSource::open(config, landing(1), clock)?)])
        }
        SourceInput::Fabric(config) => Ok(vec![clop::open(config, landing(1), clock)?]),
        SourceInput::Capture(path) => {
            let config = PcapConfig {
                path: path.clone(),
                ports: Vec::new(),
                allow: Vec::new(),
                verify_checksums: false,
            };
            Ok(vec![Box::new(PcapSource::open(&config, landing(1), Arc::clone(clock))?)])
        }
        SourceInput::Emulated => datagrams
            .into_iter()
            .map(|datagrams| {
                let source = MemorySource::new(landing(1), Arc::clone(clock), datagrams)?;
                Ok(Box::new(source) as Box<dyn Source>)
            })
            .collect(),
    }
}
