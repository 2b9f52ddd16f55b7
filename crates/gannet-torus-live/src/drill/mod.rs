//! A drill: all hosts of a machine in one process, over sockets of their own, whose cables and hosts are harmed in all ways while
//! each sends to each other, and every byte is compared.
//!
//! A [`Drill`] is led by whoever calls [`Drill::step`]: it does what is due, and tells what has happened.

mod cable;
mod event;
mod ledger;
mod running;
mod shared;
mod traffic;

use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gannet_lattice::Lattice;
use gannet_measure::random::Random;

use crate::status::Status;
use cable::{Cable, Carries};
pub use event::{Event, Harm, Spread, Summary, Times};
pub use ledger::Totals;
use running::Running;
use shared::{Report, Shared};
pub(crate) use traffic::Traffic;

/// Most hosts of a drill.
pub const HOSTS_MAX: usize = 64;
/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(60);

/// What a drill is to be.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The lattice, of 2 to [`HOSTS_MAX`] hosts.
    pub lattice: Lattice,
    /// Within it every host is to know of a fault, ns.
    pub watchdog_ns: u64,
    /// From one fault to the next.
    pub every: Duration,
    /// PUTs a second of all hosts together, as far as they can.
    pub rate: NonZeroU64,
    /// What draws the faults.
    pub seed: u64,
}

/// What may break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Cable(usize),
    Host(usize),
}

/// What is done to a part.
#[derive(Clone, Copy, Debug)]
struct Fault {
    part: Part,
    harm: Harm,
}

/// Why a drill did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine did not do what it should.
    #[error("{0} within {limit} s; a busy machine needs a longer watchdog", limit = LIMIT.as_secs())]
    Stuck(String),
    /// The system has no sockets or threads.
    #[error(
        "cannot start a host: {0}; a host takes a thread, a socket for each cable and some 300 MB of address space (ulimit -u, -n, -v)"
    )]
    System(#[from] io::Error),
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Gathering,
    Quiet { until: Instant },
    Breaking { fault: Fault, known: Option<Duration> },
    Broken { fault: Fault, until: Instant },
    Mending { fault: Fault },
    Emptying,
}

/// A machine that is broken and mended.
#[derive(Debug)]
pub struct Drill {
    setup: Setup,
    shared: Arc<Shared>,
    cables: Vec<Cable>,
    /// The cables at the ports of each host.
    at: Vec<Vec<usize>>,
    hosts: Vec<Option<Running>>,
    lives: Vec<u64>,
    random: Random,
    phase: Phase,
    /// When it began.
    since: Instant,
    is_ending: bool,
    broken: usize,
    alarmed: BTreeSet<Part>,
    summary: Summary,
}

/// What people call a host.
fn host_name(host: usize) -> String {
    format!("n{host}")
}

impl Drill {
    /// Starts all hosts, which know nothing of each other yet.
    ///
    /// # Errors
    /// When the system has no sockets or threads for them.
    ///
    /// # Panics
    /// When there are too few or too many hosts.
    pub fn start(setup: Setup) -> Result<Self, Error> {
        let hosts = setup.lattice.nodes();
        assert!((2..=HOSTS_MAX).contains(&hosts), "{hosts} hosts");
        let pairs = (hosts * (hosts - 1)) as u64;
        let shared = Arc::new(Shared::new(hosts, pairs * 1_000_000_000 / setup.rate));
        let (cables, at) = cable::lay(setup.lattice);
        let mut drill = Self {
            random: Random::new(setup.seed),
            setup,
            shared,
            cables,
            at,
            hosts: (0..hosts).map(|_| None).collect(),
            lives: vec![0; hosts],
            phase: Phase::Gathering,
            since: Instant::now(),
            is_ending: false,
            broken: 0,
            alarmed: BTreeSet::new(),
            summary: Summary::default(),
        };
        (0..hosts).try_for_each(|host| drill.start_host(host))?;
        Ok(drill)
    }

    fn start_host(&mut self, host: usize) -> Result<(), Error> {
        self.lives[host] += 1;
        let cables = (&self.cables[..], &self.at[..]);
        let running = Running::start(host, self.lives[host], &self.setup, &self.shared, cables)?;
        self.hosts[host] = Some(running);
        Ok(())
    }

    /// What has become of the PUTs so far.
    pub fn totals(&self) -> Totals {
        self.shared.ledger().totals(false)
    }

    /// What a host that lives knew of the machine when this was called last.
    pub fn status(&self) -> Status {
        self.living()
            .next()
            .map(|(_, host)| {
                host.ask();
                host.report().status
            })
            .unwrap_or_default()
    }

    /// Breaks nothing more, mends what is broken, and lets all PUTs come to their end.
    pub fn end(&mut self) {
        self.is_ending = true;
    }

    /// Does what is due, and gives what has happened, if anything; to be called every few milliseconds, which the times that
    /// it tells are exact to.
    ///
    /// # Errors
    /// When something takes too long, or a host cannot be started.
    pub fn step(&mut self) -> Result<Option<Event>, Error> {
        let reports: Vec<(usize, Report)> =
            self.living().map(|(host, it)| (host, it.report())).collect();
        if let Some(event) = self.alarm(&reports) {
            return Ok(Some(event));
        }
        let since = self.since.elapsed();
        match self.phase {
            Phase::Gathering if self.is_ending => Ok(self.enter(Phase::Emptying, None)),
            Phase::Gathering if self.is_whole(&reports) => {
                let quiet = Phase::Quiet { until: Instant::now() + self.setup.every / 2 };
                Ok(self.enter(quiet, Some(Event::Whole(since))))
            }
            Phase::Quiet { .. } if self.is_ending => Ok(self.enter(Phase::Emptying, None)),
            Phase::Quiet { until } if Instant::now() >= until => Ok(self.break_one()),
            Phase::Quiet { .. } => Ok(None),
            Phase::Breaking { fault, known } => {
                let is_known = reports.iter().all(|(_, report)| report.dead.contains(&fault.part));
                let known = known.or(is_known.then_some(since));
                self.phase = Phase::Breaking { fault, known };
                match known.filter(|_| self.flows(&reports)) {
                    Some(known) => Ok(self.survive(fault, known, since)),
                    None => self.patience(|it| {
                        format!("not all knew and went round {}", it.words(fault.part))
                    }),
                }
            }
            Phase::Broken { fault, until } if self.is_ending || Instant::now() >= until => {
                self.mend(fault)
            }
            Phase::Broken { .. } => Ok(None),
            Phase::Mending { fault } if self.is_whole(&reports) => {
                let quiet = Phase::Quiet { until: Instant::now() + self.setup.every / 2 };
                let restored = Event::Restored(self.words(fault.part), since);
                if let Part::Host(host) = fault.part {
                    self.shared.ledger().revive(host);
                }
                Ok(self.enter(quiet, Some(restored)))
            }
            Phase::Mending { fault } => {
                self.patience(|it| format!("{} was not in use again", it.words(fault.part)))
            }
            Phase::Gathering => {
                // A host may change its place until all follow one order, and what it had posted is lost with its node.
                let orders: BTreeSet<_> = reports.iter().map(|(_, report)| report.order).collect();
                if orders.len() == 1 && orders.first().is_some_and(Option::is_some) {
                    self.shared.begin();
                }
                self.patience(|_| "the hosts did not make the machine".into())
            }
            Phase::Emptying => Ok(self.empty(since)),
        }
    }

    fn living(&self) -> impl Iterator<Item = (usize, &Running)> {
        let hosts = self.hosts.iter().enumerate();
        let hosts = hosts.filter_map(|(host, it)| Some((host, it.as_ref()?)));
        hosts.filter(|(_, it)| it.is_at_work())
    }

    fn flows(&self, reports: &[(usize, Report)]) -> bool {
        let hosts: Vec<usize> = reports.iter().map(|(host, _)| *host).collect();
        self.shared.flows_between(&hosts)
    }

    fn is_whole(&self, reports: &[(usize, Report)]) -> bool {
        let is_well = |(_, report): &(usize, Report)| report.has_place && report.dead.is_empty();
        reports.len() == self.hosts.len() && reports.iter().all(is_well) && self.flows(reports)
    }

    fn enter(&mut self, phase: Phase, event: Option<Event>) -> Option<Event> {
        (self.phase, self.since) = (phase, Instant::now());
        if matches!(phase, Phase::Emptying) {
            self.shared.end();
        }
        event
    }

    fn patience(&self, what: impl Fn(&Self) -> String) -> Result<Option<Event>, Error> {
        if self.since.elapsed() < LIMIT { Ok(None) } else { Err(Error::Stuck(what(self))) }
    }

    fn words(&self, part: Part) -> String {
        match part {
            Part::Host(host) => host_name(host),
            Part::Cable(cable) => {
                let [a, b] =
                    self.cables[cable].ends.map(|(host, port)| format!("n{host} port p{port}"));
                format!("the cable from {a} to {b}")
            }
        }
    }

    /// Whether a host that takes `other` for dead is right while `part` is broken.
    fn explains(&self, part: Part, other: Part) -> bool {
        match (part, other) {
            (Part::Host(host), Part::Cable(cable)) => {
                self.cables[cable].ends.iter().any(|(end, _)| *end == host)
            }
            _ => part == other,
        }
    }

    fn alarm(&mut self, reports: &[(usize, Report)]) -> Option<Event> {
        let fault = match self.phase {
            Phase::Gathering => return None,
            Phase::Quiet { .. } | Phase::Emptying => None,
            Phase::Breaking { fault, .. }
            | Phase::Broken { fault, .. }
            | Phase::Mending { fault } => Some(fault),
        };
        // Who was started again hears nobody yet.
        let newcomer = match self.phase {
            Phase::Mending { fault: Fault { part: Part::Host(host), .. } } => Some(host),
            _ => None,
        };
        let others = reports.iter().filter(|(host, _)| Some(*host) != newcomer);
        let told: BTreeSet<Part> = others.flat_map(|(_, it)| it.dead.iter().copied()).collect();
        self.alarmed.retain(|it| told.contains(it));
        let is_none = |it: &Part| !fault.is_some_and(|fault| self.explains(fault.part, *it));
        let new: Vec<Part> =
            told.into_iter().filter(is_none).filter(|it| !self.alarmed.contains(it)).collect();
        let first = *new.first()?;
        self.summary.false_alarms += new.len();
        let more = new.len() - 1;
        self.alarmed.extend(new);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        Some(Event::Alarm(self.words(first) + &more))
    }

    fn break_one(&mut self) -> Option<Event> {
        let harm = Harm::ALL[self.broken % Harm::ALL.len()];
        self.broken += 1;
        let mut any = |count: usize| self.random.below(count as u64) as usize;
        let part = match harm {
            Harm::Cut | Harm::OneWay | Harm::Lossy => Part::Cable(any(self.cables.len())),
            Harm::Killed | Harm::Halted => Part::Host(any(self.hosts.len())),
        };
        let fault = Fault { part, harm };
        let event = Event::Broken(self.words(part), harm);
        let event = self.enter(Phase::Breaking { fault, known: None }, Some(event));
        match (part, harm) {
            (Part::Cable(cable), Harm::OneWay) => self.cables[cable].set(Carries::OneWay),
            (Part::Cable(cable), Harm::Lossy) => self.cables[cable].set(Carries::Most),
            (Part::Cable(cable), _) => self.cables[cable].set(Carries::Nothing),
            (Part::Host(host), Harm::Halted) => {
                self.hosts[host].iter().for_each(|host| host.halt(true));
                self.shared.ledger().halt(host);
            }
            (Part::Host(host), _) => {
                self.hosts[host] = None;
                self.shared.ledger().die(host);
            }
        }
        self.shared.next_round();
        event
    }

    fn survive(&mut self, fault: Fault, known: Duration, flowing: Duration) -> Option<Event> {
        self.summary.faults.entry(fault.harm).or_default().add(known, flowing);
        let event = Event::Survived(self.words(fault.part), known, flowing);
        let until = Instant::now() + self.setup.every / 2;
        self.enter(Phase::Broken { fault, until }, Some(event))
    }

    fn mend(&mut self, fault: Fault) -> Result<Option<Event>, Error> {
        let event = Event::Mended(self.words(fault.part), fault.harm);
        let event = self.enter(Phase::Mending { fault }, Some(event));
        match fault.part {
            Part::Cable(cable) => self.cables[cable].set(Carries::All),
            Part::Host(host) => match &self.hosts[host] {
                Some(halted) => halted.halt(false),
                None => self.start_host(host)?,
            },
        }
        self.shared.next_round();
        Ok(event)
    }

    fn empty(&mut self, since: Duration) -> Option<Event> {
        if self.shared.ledger().open() > 0 && since < LIMIT {
            return None;
        }
        self.hosts.iter_mut().for_each(|host| *host = None);
        self.summary.puts = self.shared.ledger().totals(true);
        self.summary.packets = self.shared.packets().clone();
        Some(Event::Over(self.summary.clone()))
    }
}
