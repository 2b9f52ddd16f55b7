//! Slow control of a run: one thread with the socket to the modules, and with the one by which another
//! process asks.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gannet_measure::clock::Clock;
use gannet_measure::ledger::Account;
use gannet_wire::slow_control::LEN_MAX;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::RunError;
use super::connections::Connections;
use super::drain::DrainState;
use super::life::{Life, spawn};
use crate::config::{Batches, SlowControlPlan, check_command};
use crate::remote::{Answer, ControlSocket, Request, SOCKET};
use crate::slow_control::{CommandDrop, Commander, Counts, Ending, Outcome};
use crate::snapshot::{SlowControlSnapshot, SnapshotSource};

/// Longest time between two looks at the connections.
const LOOK_NS: u64 = 50_000_000;
/// Time between two looks at whether a drain is cut short.
const CUT_SHORT_LOOK: Duration = Duration::from_millis(20);
/// Most datagrams that are taken before commands are looked at again.
const DATAGRAMS_PER_TURN: usize = 1024;
/// Conditions of modules that are told at once.
const FAILURES_MAX: usize = 64;

/// What is seen of slow control.
#[derive(Debug, Default)]
pub(super) struct SlowControlStatus {
    /// Commands.
    pub account: Account<CommandDrop>,
    counts: Mutex<Counts>,
    /// The keys whose last command failed, by module.
    failed: Mutex<BTreeMap<(u32, String), Outcome>>,
    /// The commands at stop that failed.
    at_stop: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SlowControlStatus {
    fn note(&self, outcome: &Outcome) {
        let key = (outcome.module, outcome.key.clone());
        let Some(failure) = outcome.ending.failure() else {
            self.account.deliver(1);
            lock(&self.failed).remove(&key);
            return;
        };
        self.account.discard(failure, 1);
        tracing::warn!("{outcome}");
        let mut failed = lock(&self.failed);
        // A key that a module does not have leaves it as it was.
        let is_condition = !matches!(outcome.ending, Ending::UnknownKey | Ending::NotSent);
        if is_condition && (failed.len() < FAILURES_MAX || failed.contains_key(&key)) {
            failed.insert(key, outcome.clone());
        }
    }

    pub fn snapshot(&self) -> SlowControlSnapshot {
        let statement = self.account.statement("slow_control");
        SlowControlSnapshot {
            commands: statement.offered,
            applied: statement.delivered,
            failed: statement.dropped_total(),
            datagrams: *lock(&self.counts),
            failures: lock(&self.failed).values().cloned().collect(),
            failures_at_stop: lock(&self.at_stop).clone(),
        }
    }
}

/// The commander with its socket.
pub(super) struct Link {
    commander: Commander,
    socket: UdpSocket,
    clock: Arc<dyn Clock>,
    status: Arc<SlowControlStatus>,
    /// Whether it was said that the network does not take datagrams.
    has_failed: bool,
}

impl Link {
    /// A link to the modules of `plan`, in a session of its own.
    pub fn open(plan: &SlowControlPlan, clock: Arc<dyn Clock>) -> Result<Self, RunError> {
        let is_ipv6 = plan.modules.first().is_some_and(|module| module.address.is_ipv6());
        let any = match is_ipv6 {
            true => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            false => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        };
        let socket = UdpSocket::bind(any).map_err(RunError::SlowControlSocket)?;
        socket.set_nonblocking(true).map_err(RunError::SlowControlSocket)?;
        let commander = Commander::new(session(), &plan.modules, plan.timing);
        Ok(Self { commander, socket, clock, status: Arc::default(), has_failed: false })
    }

    /// What is seen of it.
    pub fn status(&self) -> Arc<SlowControlStatus> {
        Arc::clone(&self.status)
    }

    /// Sends what is due, takes what came, and gives what has ended.
    fn turn(&mut self) -> Vec<Outcome> {
        let mut bytes = [0; LEN_MAX + 1];
        // Whoever sends faster than this takes holds up neither commands nor an end.
        for _ in 0..DATAGRAMS_PER_TURN {
            match self.socket.recv_from(&mut bytes) {
                Ok((len, sender)) => {
                    self.commander.take(sender, &bytes[..len], self.clock.now_ns())
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // A refusal of the network, which belongs to an attempt that will be repeated.
                Err(_) => {}
            }
        }
        let (socket, has_failed) = (&self.socket, &mut self.has_failed);
        self.commander.due(self.clock.now_ns(), |to, bytes| {
            if let Err(error) = socket.send_to(bytes, to)
                && !std::mem::replace(has_failed, true)
            {
                tracing::warn!(%error, "a command cannot be sent to {to}");
            }
        });
        *lock(&self.status.counts) = self.commander.counts();
        let ended = self.commander.ended();
        ended.iter().for_each(|outcome| self.status.note(outcome));
        ended
    }

    /// Sends the commands of a list at once, module by module; what cannot wait any more is not taken.
    fn submit<'a>(
        &mut self,
        batches: impl Iterator<Item = (usize, &'a [(String, String)])>,
    ) -> Result<HashSet<(u32, u32)>, String> {
        let mut numbers = HashSet::new();
        for (place, set) in batches {
            let pairs = set.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            let own = self.commander.submit(place, pairs).map_err(|full| full.to_string())?;
            let module = self.commander.module(place);
            self.status.account.offer(own.len() as u64);
            numbers.extend(own.map(|number| (module, number)));
        }
        Ok(numbers)
    }

    /// Nanoseconds until something is due, `at_most` so many.
    fn wait_ns(&self, at_most: u64) -> u64 {
        let wake_ns = self.commander.wake_ns().unwrap_or(u64::MAX);
        wake_ns.saturating_sub(self.clock.now_ns()).min(at_most)
    }

    /// Sends the commands of a list and waits until all have ended.
    pub fn perform(&mut self, batches: &Batches) -> Performed {
        let mut outcomes = Vec::new();
        let mut pending = self.submit_list(batches)?;
        while !pending.is_empty() {
            let ended = self.turn();
            ended.iter().for_each(|outcome| _ = pending.remove(&(outcome.module, outcome.number)));
            outcomes.extend(ended);
            if !pending.is_empty() {
                wait(&mut [PollFd::new(&self.socket, PollFlags::IN)], self.wait_ns(LOOK_NS));
            }
        }
        Ok(outcomes)
    }

    fn submit_list(&mut self, batches: &Batches) -> Result<HashSet<(u32, u32)>, String> {
        self.submit(batches.iter().map(|(&place, set)| (place, set.as_slice())))
    }
}

/// How the commands of a list ended, or why none was sent.
pub(super) type Performed = Result<Vec<Outcome>, String>;

/// Waits until one of `fds` is ready, `ns` at most.
fn wait(fds: &mut [PollFd<'_>], ns: u64) {
    let timeout =
        Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    // What fails is looked at again; a signal has no meaning here.
    let _ready = poll(fds, Some(&timeout));
}

/// A number that no other run has.
fn session() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// What the failures of a list come to.
pub(super) fn failures(plan: &SlowControlPlan, performed: &Performed) -> Option<String> {
    let outcomes = match performed {
        Ok(outcomes) => outcomes,
        Err(error) => return Some(error.clone()),
    };
    let failed = |outcome: &&Outcome| outcome.ending.failure().is_some();
    let is_cause = |outcome: &&Outcome| outcome.ending != Ending::NotSent;
    let first = outcomes.iter().filter(failed).find(is_cause)?;
    let address = plan.modules.iter().find(|module| module.id == first.module);
    let address = address.map_or_else(String::new, |module| module.address.to_string());
    let advice = match &first.ending {
        Ending::UnknownKey => "correct the key".to_owned(),
        Ending::Refused(_) => "correct the value".to_owned(),
        _ => format!("check that the module is on and listens at {address}"),
    };
    let more = match outcomes.iter().filter(failed).count() {
        1 => String::new(),
        failed => format!("; {} more commands failed or were not sent", failed - 1),
    };
    Some(format!("{first}; {advice}{more}"))
}

/// What waits for commands to end.
struct Job {
    pending: HashSet<(u32, u32)>,
    outcomes: Vec<Outcome>,
    asked_by: AskedBy,
}

enum AskedBy {
    /// The run, at its start or stop.
    Run(Sender<Performed>),
    /// The connection with this number.
    Connection(u64),
}

/// What the run asks of the thread.
enum Order {
    /// To send the commands of a list.
    Perform(Batches, Sender<Performed>),
}

/// The thread of slow control, as the run has it. Dropping it ends it.
pub(super) struct SlowControl {
    plan: Arc<SlowControlPlan>,
    status: Arc<SlowControlStatus>,
    orders: Option<Sender<Order>>,
    /// Wakes the thread.
    waker: UnixStream,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
}

/// What the requests of other processes lead to.
pub(super) struct Served {
    /// Where they come from.
    pub socket: ControlSocket,
    /// What is told of the run.
    pub snapshot: SnapshotSource,
    /// What ends the run.
    pub stop: Box<dyn Fn() + Send>,
}

impl SlowControl {
    /// Starts the thread of a run that lives this `life`.
    pub fn start(
        plan: SlowControlPlan,
        link: Link,
        served: Served,
        life: &Arc<Life>,
    ) -> Result<Self, RunError> {
        let (orders, ordered) = channel();
        let (waker, woken) = UnixStream::pair().map_err(RunError::SlowControlSocket)?;
        for end in [&waker, &woken] {
            end.set_nonblocking(true).map_err(RunError::SlowControlSocket)?;
        }
        let (status, plan) = (link.status(), Arc::new(plan));
        let connections = Connections::default();
        let jobs = Vec::new();
        let (own, socket) = (Arc::clone(&plan), served.socket.path().to_owned());
        let mut work = Work { plan: own, link, served, connections, jobs, woken };
        let thread = spawn("slow-control", life, move || work.run(&ordered))?;
        let (orders, thread) = (Some(orders), Some(thread));
        Ok(Self { plan, status, orders, waker, thread, socket })
    }

    /// What is seen of it.
    pub fn status(&self) -> Arc<SlowControlStatus> {
        Arc::clone(&self.status)
    }

    /// Where other processes ask.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sends the commands at start. Tells what failed, if the run is not to go on then.
    pub fn at_start(&self) -> Option<String> {
        let performed = self.perform(&self.plan.start, &|| false);
        failures(&self.plan, &performed).filter(|_| self.plan.required)
    }

    /// Sends the commands at stop, unless the drain is cut short meanwhile.
    pub fn at_stop(&self, drain: &DrainState) {
        let performed = self.perform(&self.plan.stop, &|| drain.is_cut_short());
        let failed = match &performed {
            Ok(outcomes) => {
                let failed = outcomes.iter().filter(|outcome| outcome.ending.failure().is_some());
                failed.map(ToString::to_string).collect()
            }
            Err(error) => vec![error.clone()],
        };
        if self.plan.required {
            lock(&self.status.at_stop).extend::<Vec<_>>(failed);
        }
    }

    fn perform(&self, batches: &Batches, is_cut_short: &dyn Fn() -> bool) -> Performed {
        let Some(orders) = self.orders.as_ref().filter(|_| !batches.is_empty()) else {
            return Ok(Vec::new());
        };
        let (done, ended) = channel();
        // A thread that is gone hangs up.
        let _sent = orders.send(Order::Perform(batches.clone(), done));
        self.wake();
        loop {
            match ended.recv_timeout(CUT_SHORT_LOOK) {
                Ok(performed) => return performed,
                Err(RecvTimeoutError::Timeout) if !is_cut_short() => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(
                        "the commands at stop were cut short: what they set is not known".into()
                    );
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("the thread of slow control is gone".into());
                }
            }
        }
    }

    fn wake(&self) {
        use std::io::Write;
        // Where it is full the thread is awake.
        let _woken = (&self.waker).write(&[0]);
    }

    /// Ends the thread: nobody is answered any more.
    pub fn finish(&mut self) {
        self.orders = None;
        self.wake();
        // A thread that panicked has said so: the run has failed.
        self.thread.take().into_iter().for_each(|thread| _ = thread.join());
    }
}

impl Drop for SlowControl {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The state of the thread.
struct Work {
    plan: Arc<SlowControlPlan>,
    link: Link,
    served: Served,
    connections: Connections,
    jobs: Vec<Job>,
    woken: UnixStream,
}

impl Work {
    fn run(&mut self, orders: &Receiver<Order>) {
        while self.take_orders(orders) {
            let ended = self.link.turn();
            self.settle(&ended);
            let now_ns = self.link.clock.now_ns();
            let requests = self.connections.turn(&self.served.socket, now_ns);
            requests.into_iter().for_each(|(connection, request)| self.answer(connection, request));
            self.wait();
        }
    }

    /// Takes what the run asks; false when it asks no more.
    fn take_orders(&mut self, orders: &Receiver<Order>) -> bool {
        use std::io::Read;
        use std::sync::mpsc::TryRecvError;
        let mut bytes = [0; 64];
        while self.woken.read(&mut bytes).is_ok_and(|len| len == bytes.len()) {}
        loop {
            match orders.try_recv() {
                Ok(Order::Perform(batches, done)) => match self.link.submit_list(&batches) {
                    Ok(pending) => {
                        let asked_by = AskedBy::Run(done);
                        self.jobs.push(Job { pending, outcomes: Vec::new(), asked_by });
                    }
                    // Who waits no more has been cut short.
                    Err(full) => _ = done.send(Err(full)),
                },
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Tells whoever waits for them of commands that have ended.
    fn settle(&mut self, ended: &[Outcome]) {
        for outcome in ended {
            let id = (outcome.module, outcome.number);
            let asks = |job: &&mut Job| job.pending.contains(&id);
            if let Some(job) = self.jobs.iter_mut().find(asks) {
                job.pending.remove(&id);
                job.outcomes.push(outcome.clone());
            }
        }
        for job in self.jobs.extract_if(.., |job| job.pending.is_empty()) {
            match job.asked_by {
                // Who waits no more has been cut short.
                AskedBy::Run(done) => _ = done.send(Ok(job.outcomes)),
                AskedBy::Connection(connection) => {
                    self.connections.answer(connection, &Answer::Outcomes(job.outcomes));
                }
            }
        }
    }

    /// Answers a request, or begins what will be answered.
    fn answer(&mut self, connection: u64, request: Result<Request, String>) {
        let served = &self.served;
        let answer = match request {
            Err(error) => Answer::Error(error),
            Ok(Request::Status) => match serde_json::to_value((served.snapshot)()) {
                Ok(snapshot) => Answer::Snapshot(snapshot),
                Err(error) => Answer::Error(error.to_string()),
            },
            Ok(Request::Stop) => {
                (served.stop)();
                Answer::Stopping
            }
            Ok(Request::Send { module, set }) => match self.send(&module, &set) {
                Ok(pending) => {
                    let asked_by = AskedBy::Connection(connection);
                    self.jobs.push(Job { pending, outcomes: Vec::new(), asked_by });
                    return;
                }
                Err(error) => Answer::Error(error),
            },
        };
        self.connections.answer(connection, &answer);
    }

    fn send(
        &mut self,
        module: &str,
        set: &[(String, String)],
    ) -> Result<HashSet<(u32, u32)>, String> {
        let places = self.plan.choose(module)?;
        for (key, value) in set {
            check_command(key, value).map_err(|(cause, advice)| format!("{cause}: {advice}"))?;
        }
        self.link.has_room(&places, set.len())?;
        self.link.submit(places.into_iter().map(|place| (place, set)))
    }

    fn wait(&self) {
        // What was just submitted is due at once.
        let ns = self.link.wait_ns(LOOK_NS);
        let fixed: [BorrowedFd<'_>; 2] = [self.link.socket.as_fd(), self.woken.as_fd()];
        let mut fds: Vec<_> =
            fixed.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        self.connections.poll_on(&self.served.socket, &mut fds);
        wait(&mut fds, ns);
    }
}

impl Link {
    /// Tests whether so many more commands to each of `places` can wait.
    fn has_room(&self, places: &[usize], commands: usize) -> Result<(), String> {
        let full = places.iter().find_map(|&place| self.commander.has_room(place, commands).err());
        full.map_or(Ok(()), |full| Err(full.to_string()))
    }
}

/// The socket of a run, where it is to have one.
pub(super) fn control_socket(
    plan: &SlowControlPlan,
    directory: &Path,
) -> Result<Option<ControlSocket>, RunError> {
    let path = match &plan.socket {
        Some(path) => path.clone(),
        None if plan.modules.is_empty() => return Ok(None),
        None => directory.join(SOCKET),
    };
    let refused = |cause: io::Error| RunError::ControlSocket { path: path.clone(), cause };
    ControlSocket::bind(&path).map(Some).map_err(refused)
}
