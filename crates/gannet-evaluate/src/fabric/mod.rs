//! What a path of the fabric gives between two processes, beside what the machine would allow.
//!
//! The process that measures drives another one, its partner, which answers when it is asked to
//! ([`Serving`]). Operations as in the benches of APEnet+ and its successors:
//!
//! * one way: PUTs with notifications, until the partner says that the last one has come; half of a round
//!   trip is taken off;
//! * flush: the same, until the last one is done for the side that posted it;
//! * round trip: a PUT with a notification, and one of as many bytes back; half of it is told;
//! * GET: until the last one is done.
//!
//! Whatever was moved is compared with what was sent.
//!
//! In virtual time both are of this process, and what is between them is described ([`Simulation`]).

mod backend;
mod comparison;
pub(crate) mod datagrams;
mod driver;
mod floors;
mod page;
mod partner;
mod place;
mod simulated;
mod writes;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

pub use gannet_fabric::Trust;
use gannet_fabric::endpoint::{Failure, OpenError, PostError};
use gannet_fabric::ofi::CallError;
use gannet_fabric::ofi::provider::ChooseError;
use gannet_fabric::{JoinError, OverOfi, OverShm, OverTorus, OverUdp, Peer};
use gannet_measure::clock::SystemClock;
use gannet_memory::{RegionError, SharedRegion};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use self::backend::Backend;
use self::backend::{Measured, limits};
pub use self::comparison::{Change, EarlierRow, changes};
use self::driver::Driver;
use self::floors::Floors;
pub use self::partner::Serving;
pub use self::place::{Place, Placing, SimulatedPath};
pub use self::simulated::Simulation;
use crate::cores::Cores;

/// Bytes of a cache line.
const LINE: u64 = 64;
/// Bytes from which on copying counts, and below which the cache lines that pass between processors do.
const COPIED_FROM: u64 = 4096;
/// Time that a partner has to start.
const START_WITHIN: Duration = Duration::from_secs(10);
/// Time that it has to end by itself.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Why the experiment cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The other process cannot be reached.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// It is not where it is looked for.
    #[error(
        "nobody listens at {0}; start the other process there first, with --listen and the same sizes"
    )]
    Absent(String),
    /// It does not let this one join.
    #[error("cannot join the other process at {place}: {cause}")]
    Refused {
        /// The path or address.
        place: String,
        /// Why.
        #[source]
        cause: JoinError,
    },
    /// The other process cannot be started.
    #[error("cannot start the other process: {0}")]
    Start(#[source] io::Error),
    /// The other process cannot be found where it was to be.
    #[error(
        "cannot listen at {place}: {cause}; choose a place that no other process has, and no file"
    )]
    Listen {
        /// The path or address.
        place: String,
        /// What the system says.
        #[source]
        cause: io::Error,
    },
    /// What sockets allow cannot be measured.
    #[error("cannot measure what sockets allow: {0}")]
    Sockets(#[source] io::Error),
    /// No provider of libfabric can be used.
    #[error(transparent)]
    Provider(#[from] ChooseError),
    /// A provider of libfabric refuses.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Nobody has connected.
    #[error("nobody connected within {} s", .0.as_secs())]
    Nobody(Duration),
    /// Memory cannot be had.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A file cannot be the memory of the other process.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        cause: io::Error,
    },
    /// A file is too short for the operations.
    #[error("{} has {there} bytes, and {here} are needed; measure shorter operations", path.display())]
    ShortFile {
        /// The file.
        path: PathBuf,
        /// Bytes needed.
        here: u64,
        /// Bytes there.
        there: u64,
    },
    /// A window cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An operation is refused.
    #[error(transparent)]
    Post(#[from] PostError),
    /// The other process is gone.
    #[error("the other process left: {0}")]
    Left(#[from] Failure),
    /// The other process does not answer.
    #[error("the other process has not answered within {} s", .0.as_secs())]
    Silent(Duration),
    /// The window of the other process is too short.
    #[error(
        "the other process lets {there} bytes be reached, and {here} are asked for; give both the same sizes"
    )]
    Short {
        /// Bytes needed.
        here: u64,
        /// Bytes there.
        there: u64,
    },
    /// There is nothing to simulate.
    #[error("the backend sim needs a path, and no other process")]
    NoPath,
    /// A hop of a path has no rate.
    #[error("nothing is known of the rate of {0}; describe the path in a topology file")]
    UnknownHop(String),
    /// What came is not what was sent.
    #[error("{operation:?} of {bytes} bytes: what is there is not what was sent")]
    Corrupt {
        /// The operation.
        operation: Operation,
        /// Bytes of one.
        bytes: u64,
    },
}

impl Error {
    fn listen(place: &str) -> impl FnOnce(io::Error) -> Self {
        let place = place.to_owned();
        move |cause| Self::Listen { place, cause }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// PUTs until the other process has been told of all.
    OneWay,
    /// PUTs until all are done here.
    Flush,
    /// PUTs there and back, one at a time.
    RoundTrip,
    /// GETs until all are done.
    Get,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::OneWay, Self::Flush, Self::RoundTrip, Self::Get];
}

/// What is to be measured.
pub struct FabricPlan<'a> {
    /// What carries the operations.
    pub backend: Backend,
    /// Which provider of libfabric, for that backend; the best one that can be used without one.
    pub provider: Option<String>,
    /// The operations.
    pub operations: Vec<Operation>,
    /// Bytes of an operation, for each measurement.
    pub sizes: Vec<u64>,
    /// Whether each operation has other bytes than the one before, so that no cache holds them.
    pub streaming: bool,
    /// The file that is the memory of the other process, on this host: of a PCI device, or ordinary.
    pub memory: Option<PathBuf>,
    /// How often all is measured.
    pub repeats: usize,
    /// Length of one measurement.
    pub time: Duration,
    /// The other process.
    pub partner: Partner<'a>,
    /// How endpoints know that they may join.
    pub trust: Trust,
}

/// The other process.
pub enum Partner<'a> {
    /// It listens here: at the path of a socket, or an address.
    At(String),
    /// It is started, on the second processor, and told where to listen.
    Started(&'a dyn Fn(&str) -> io::Result<Child>),
    /// It is simulated, and so is what leads to it.
    Simulated(&'a Simulation),
}

/// A measurement.
#[derive(Clone, Debug, Serialize)]
pub struct FabricRow {
    /// Backend of the fabric.
    pub backend: Backend,
    /// What carries it, where the backend has a choice.
    pub provider: Option<String>,
    /// What it is called, where it is simulated.
    pub path: Option<String>,
    /// What was measured.
    pub operation: Operation,
    /// Bytes of an operation.
    pub bytes: u64,
    /// Bytes of data in a packet, where there are packets.
    pub packet_bytes: Option<usize>,
    /// Whether the bytes were others each time.
    pub streaming: bool,
    /// Operations a second: the median of the repeats.
    pub per_s: f64,
    /// The least and the most of the repeats.
    pub per_s_range: [f64; 2],
    /// Bytes a second, 10^9.
    pub gbyte_per_s: f64,
    /// Half a round trip, in ns, of which half take less; of round trips only.
    pub latency_ns_p50: Option<f64>,
    /// The same of which 99 % take less.
    pub latency_ns_p99: Option<f64>,
    /// What the machine would allow, measured in the same run, or the path: of a round trip half of it in ns, else
    /// operations a second.
    pub limit: f64,
    /// What bounds it.
    pub limit_is: &'static str,
    /// The rate by its limit; the time of half a round trip by its limit.
    pub ratio: f64,
    /// How often it was measured.
    pub repeats: usize,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct FabricReport {
    /// A row for each size and operation.
    pub rows: Vec<FabricRow>,
    /// Where.
    pub place: Place,
}

/// One repeat of one measurement.
#[derive(Clone, Copy, Debug)]
struct Sample {
    per_s: f64,
    latency_ns: Option<[f64; 2]>,
    limit: f64,
    limit_is: &'static str,
}

/// Memory of `bytes` bytes that others reach: of the file at `path`, if there is one.
fn memory(path: Option<&Path>, bytes: u64) -> Result<SharedRegion, Error> {
    let Some(path) = path else { return Ok(SharedRegion::new(bytes as usize)?) };
    let of_path = |cause| Error::File { path: path.to_owned(), cause };
    let region = SharedRegion::map_file(path).map_err(of_path)?;
    let there = region.len() as u64;
    if there < bytes {
        return Err(Error::ShortFile { path: path.to_owned(), here: bytes, there });
    }
    Ok(region)
}

/// A secret for a process that is started.
///
/// # Errors
/// When the system has no random numbers.
pub fn drawn_secret() -> io::Result<Trust> {
    let mut bytes = [0u8; 32];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Ok(Trust::Secret(hex.into_bytes()))
}

/// Measures; `told` is called before each repeat.
///
/// # Errors
/// When the other process cannot be had, leaves or does not answer, or when bytes come otherwise than
/// they were sent.
///
/// # Panics
/// When there is no size, no repeat, or a size is 0.
pub fn measure(plan: &FabricPlan<'_>, told: impl FnMut(usize)) -> Result<FabricReport, Error> {
    if let Partner::Simulated(simulation) = plan.partner {
        return simulated::measure(plan, simulation, told);
    }
    match plan.backend {
        Backend::Shm => measure_over(|place| OverShm(place.into()), plan, told),
        Backend::Udp => measure_over(OverUdp, plan, told),
        Backend::Ofi => {
            let provider = &plan.provider;
            measure_over(|place| OverOfi { place, provider: provider.clone() }, plan, told)
        }
        Backend::Torus => measure_over(|place| OverTorus { place, node: None }, plan, told),
        Backend::Sim => Err(Error::NoPath),
    }
}

fn measure_over<M: Measured>(
    at: impl Fn(String) -> M,
    plan: &FabricPlan<'_>,
    mut told: impl FnMut(usize),
) -> Result<FabricReport, Error> {
    let cores = Cores::usable();
    let (points, longest) = plan.points();
    let mut samples = vec![Vec::new(); points.len()];
    let (mut lines, mut packet_bytes, mut provider) = (Vec::new(), None, None);
    if let Partner::At(place) = &plan.partner {
        // It takes this for a stranger. Joined, it would take its processor from what the machine allows.
        let is_there = at(place.clone()).is_listening();
        let refused =
            |cause: io::Error| Error::Refused { place: place.clone(), cause: cause.into() };
        is_there.map_err(refused)?.then_some(()).ok_or_else(|| Error::Absent(place.clone()))?;
    }
    for repeat in 0..plan.repeats {
        told(repeat);
        cores.pin(0);
        let floors = Floors::measure(plan, &cores)?;
        lines.push((floors.line_ns, floors.lines_per_s));
        // Who starts a process keeps it on its own processor.
        cores.unpin();
        let mut started = Started::new(&at, plan)?;
        cores.pin(0);
        let (mut endpoint, peer) = started.connect(&plan.trust)?;
        packet_bytes = M::packet_bytes(&mut endpoint, peer);
        provider = M::provider(&endpoint);
        let clock = SystemClock::start();
        let mut driver = Driver::new((endpoint, peer), clock, longest, plan.streaming)?;
        let half_trip_s = driver.round_trips(8, plan.time)?[0] * 1e-9;
        for (&(operation, bytes), samples) in points.iter().zip(&mut samples) {
            let sample = driver.measure(operation, bytes, plan.time, half_trip_s)?;
            let (limit, limit_is) = floors.limit(operation, bytes);
            samples.push(Sample { limit, limit_is, ..sample });
        }
    }
    let (line_ns, lines_per_s): (Vec<_>, Vec<_>) = lines.into_iter().unzip();
    let rows = points.iter().zip(&samples).map(|(&of, samples)| FabricRow {
        provider: provider.clone(),
        packet_bytes,
        ..row(of, plan, samples)
    });
    Ok(FabricReport {
        rows: rows.collect(),
        place: Place::Processors(Placing {
            processors: cores.first_two(),
            line_ns: median(line_ns),
            lines_per_s: median(lines_per_s),
        }),
    })
}

impl FabricPlan<'_> {
    /// What is measured, one after the other, and the longest operation.
    fn points(&self) -> (Vec<(Operation, u64)>, u64) {
        assert!(self.repeats > 0 && self.sizes.iter().all(|&bytes| bytes > 0));
        let of = |&operation| self.sizes.iter().map(move |&bytes| (operation, bytes));
        let points = self.operations.iter().flat_map(of).collect();
        (points, self.sizes.iter().copied().max().expect("a size"))
    }
}

/// The middle of some values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn row(
    (operation, bytes): (Operation, u64),
    plan: &FabricPlan<'_>,
    samples: &[Sample],
) -> FabricRow {
    let each = |value: &dyn Fn(&Sample) -> f64| samples.iter().map(value).collect::<Vec<_>>();
    let rates = each(&|sample| sample.per_s);
    let (least, most) =
        (rates.iter().copied().fold(f64::MAX, f64::min), rates.iter().copied().fold(0.0, f64::max));
    let (per_s, limit) = (median(rates), median(each(&|sample| sample.limit)));
    let percentile = |which: usize| {
        let of = |sample: &Sample| sample.latency_ns.map(|latency| latency[which]);
        samples.iter().map(of).collect::<Option<Vec<_>>>().map(median)
    };
    let latency_ns_p50 = percentile(0);
    FabricRow {
        backend: plan.backend,
        provider: None,
        path: None,
        operation,
        bytes,
        packet_bytes: None,
        streaming: plan.streaming,
        per_s,
        per_s_range: [least, most],
        gbyte_per_s: per_s * bytes as f64 * 1e-9,
        latency_ns_p50,
        latency_ns_p99: percentile(1),
        limit,
        limit_is: samples[0].limit_is,
        ratio: latency_ns_p50.unwrap_or(per_s) / limit,
        repeats: samples.len(),
    }
}

/// The other process, ended with this.
struct Started<M: Measured> {
    meet: M,
    child: Option<Child>,
    place: String,
}

impl<M: Measured> Started<M> {
    fn new(at: impl Fn(String) -> M, plan: &FabricPlan<'_>) -> Result<Self, Error> {
        let (place, child) = match &plan.partner {
            Partner::At(place) => (place.clone(), None),
            Partner::Simulated(_) => return Err(Error::NoPath),
            Partner::Started(start) => {
                let place = M::free().map_err(Error::Start)?;
                let child = start(&place).map_err(Error::Start)?;
                (place, Some(child))
            }
        };
        Ok(Self { meet: at(place.clone()), child, place })
    }

    /// Joins it as soon as it listens.
    fn connect(&mut self, trust: &Trust) -> Result<(M::Endpoint, Peer), Error> {
        let begin = Instant::now();
        loop {
            match self.meet.connect(&limits(), trust) {
                Err(JoinError::System(error))
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                    ) && self.child.is_some()
                        && begin.elapsed() < START_WITHIN =>
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
                joined => {
                    let refused = |cause| Error::Refused { place: self.place.clone(), cause };
                    return joined.map_err(refused);
                }
            }
        }
    }
}

impl<M: Measured> Drop for Started<M> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It ends by itself when the endpoint here is gone, and says why if it had left before.
            let begin = Instant::now();
            while matches!(child.try_wait(), Ok(None)) && begin.elapsed() < END_WITHIN {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
            self.meet.clear();
        }
    }
}
