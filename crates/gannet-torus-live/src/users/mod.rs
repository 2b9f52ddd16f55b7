//! The processes of a host that use its node.
//!
//! A process connects to a socket, which only the user of the node and root can reach, and is given two rings: one for what
//! it wants done, one for what has happened ([`gannet_wire::torus_user`]). Memory that it registers, the node maps. The node
//! is never made to wait: who takes nothing is told less, and who does not listen is gone.

pub mod memory;
mod process;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use gannet_fabric::local::{Line, Listener};
use gannet_memory::{Access, SharedRegion};
use gannet_rdma::{Completion, Engine, Failure, Reason, Request};
use gannet_wire::torus_user::{Message, Outcome, Place, REGION_BYTES_MAX, Reach, Refused};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

use self::memory::NodeMemory;
use self::process::{Posted, Process};
use crate::tunnel::Carrier;

/// Most processes that use a node, and as many again that have not said hello.
const PROCESSES_MAX: usize = 16;
/// How long a process may take to say hello, ns.
const HELLO_NS: u64 = 1_000_000_000;
/// How often the node looks for messages while it is busy, ns.
const LOOK_NS: u64 = 1_000_000;
/// In the place of the time of the next look: none is due before the node is woken, or has been busy for a while.
const ASLEEP: u64 = u64::MAX;
/// For how long nobody is let in after the system had no descriptor for who came, ns.
const FULL_NS: u64 = 100_000_000;
/// Processes that ask for no number get one from here on.
const NUMBERS_FROM: u16 = 1024;
/// Messages of a process that are heard at a look.
const MESSAGES_AT_ONCE: usize = 4;

/// What processes are served with.
#[derive(Debug)]
pub enum Seat<'a> {
    /// The engine of a node.
    Node(&'a mut Engine<NodeMemory>),
    /// While there is no machine, the memory that its node will have.
    Idle(&'a mut NodeMemory),
}

impl Seat<'_> {
    fn memory(&mut self) -> &mut NodeMemory {
        match self {
            Self::Node(engine) => engine.memory_mut(),
            Self::Idle(memory) => memory,
        }
    }
}

/// Memory that a process has asked to register: whose, and what of it.
#[derive(Clone, Copy, Debug)]
struct Asked {
    process: u16,
    region: u32,
    reach: Reach,
    bytes: u64,
    address: u64,
}

/// Memory that was mapped, or not.
type Attached = (Asked, Option<SharedRegion>);

/// What processes do, since the node began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Processes that use the node.
    pub processes: usize,
    /// Posts that were taken.
    pub posts: u64,
    /// Posts that failed.
    pub failed: u64,
    /// PUTs of others that have arrived.
    pub arrived: u64,
}

/// The processes that use a node.
#[derive(Debug)]
pub struct Users {
    listener: Listener,
    /// Becomes readable when a process says, posts or ends something while the node sleeps.
    watch: OwnedFd,
    /// Those that have not said hello, and since when.
    callers: Vec<(Line<Message>, u64)>,
    processes: Vec<Process>,
    /// Posts under way: of whom, and by what number.
    posted: HashMap<Request, (u16, Posted)>,
    place: Option<Place>,
    /// Threads that map memory, which may take long, send it here.
    attach: Sender<Attached>,
    attached: Receiver<Attached>,
    attaching: Vec<u16>,
    wake: Arc<OwnedFd>,
    look_at: u64,
    /// When processes are let in again, while the system has no descriptor for them.
    accept_at: Option<u64>,
    next_number: u16,
    counters: Counters,
}

impl Users {
    /// Serves the processes that connect at `path`, where nothing may be. Each of their regions takes a descriptor, so the
    /// limit of this process on them is raised as far as it may be.
    ///
    /// # Errors
    /// When the path is taken or too long, or the system has not what it takes.
    pub fn listen(path: &Path) -> io::Result<Self> {
        raise_descriptors();
        let listener = Listener::bind(path)?;
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let nobody = epoll::EventData::new_u64(0);
        // By edges: who cannot be let in yet does not keep the node awake.
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&watch, &listener, nobody, edge)?;
        epoll::add(&watch, &wake, nobody, edge)?;
        let (attach, attached) = channel();
        Ok(Self {
            listener,
            watch,
            callers: Vec::new(),
            processes: Vec::new(),
            posted: HashMap::new(),
            place: None,
            attach,
            attached,
            attaching: Vec::new(),
            wake: Arc::new(wake),
            look_at: 0,
            accept_at: None,
            next_number: NUMBERS_FROM,
            counters: Counters::default(),
        })
    }

    /// What becomes readable when there is something to do.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    /// The device of a process, if a packet of it is to wake the node, as [`woken_by_device`](Self::woken_by_device) then says.
    pub fn device(&self) -> Option<BorrowedFd<'_>> {
        self.processes.iter().find_map(Process::device)
    }

    /// Takes note that the device has a packet.
    pub fn woken_by_device(&mut self) {
        self.processes.iter_mut().filter_map(Process::carrier).for_each(Carrier::woken);
    }

    /// What processes do.
    pub fn counters(&self) -> Counters {
        Counters { processes: self.processes.len(), ..self.counters }
    }

    /// Has the next [`serve`](Self::serve) look for messages.
    pub fn woken(&mut self) {
        self.look_at = 0;
    }

    /// Whether there is nothing to do before something wakes the node.
    pub fn may_sleep(&mut self) -> bool {
        let may_sleep = self.processes.iter_mut().all(Process::may_sleep);
        if may_sleep {
            // Messages that come meanwhile wake the node.
            self.look_at = ASLEEP;
        }
        may_sleep
    }

    /// When there is something to do at the latest.
    pub fn next_deadline(&self) -> Option<u64> {
        let carried = self.processes.iter().filter_map(Process::next_deadline);
        self.callers_deadline().into_iter().chain(carried).min()
    }

    /// When a process has to have said hello, or those who wait are let in again.
    fn callers_deadline(&self) -> Option<u64> {
        let hello = self.callers.iter().map(|(_, since)| since + HELLO_NS);
        hello.chain(self.accept_at).min()
    }

    /// Hears what processes say, takes what they post, and wakes those that were told something.
    pub fn serve(&mut self, mut seat: Seat<'_>, now: u64) {
        let is_due = now >= self.look_at || self.callers_deadline().is_some_and(|at| now >= at);
        if is_due || self.look_at == ASLEEP {
            self.look_at = now + LOOK_NS;
        }
        if is_due {
            self.look(&mut seat, now);
        }
        let (posted, counters) = (&mut self.posted, &mut self.counters);
        for process in &mut self.processes {
            let number = process.number;
            process.take_posts(&mut seat, now, |request, asked| {
                posted.insert(request, (number, asked));
                counters.posts += 1;
            });
            process.settle(&mut seat, now);
            process.report(seat.memory(), now);
            process.wake();
        }
    }

    /// Tells a process what has become of its posts, or what has arrived in `memory` for it; gives the completion back if it is of none.
    pub fn take(&mut self, completion: Completion, memory: &NodeMemory) -> Option<Completion> {
        match completion {
            Completion::TxDone { request, outcome, .. }
            | Completion::GetDone { request, outcome, .. } => {
                let Some((number, asked)) = self.posted.remove(&request) else {
                    return Some(completion);
                };
                self.counters.failed += u64::from(outcome.is_err());
                if let Some(process) = self.process(number) {
                    process.done(asked, outcome_of(outcome.err()));
                }
            }
            Completion::RxDone { source, process, address, length, tag } => {
                let Some(process) = self.process(process) else { return Some(completion) };
                process.arrived(source, (address, length, tag), memory);
                self.counters.arrived += 1;
            }
        }
        None
    }

    /// Goes on with another engine, or with none: what was under way has failed.
    pub fn begin(&mut self, mut seat: Seat<'_>) {
        for (_, (number, asked)) in std::mem::take(&mut self.posted) {
            self.counters.failed += 1;
            if let Some(process) = self.process(number) {
                process.done(asked, Outcome::Unreachable);
            }
        }
        self.processes.iter_mut().for_each(|process| process.begin(&mut seat));
    }

    /// Tells where the host is now, if that is new.
    pub fn tell_place(&mut self, place: Option<Place>, now: u64) {
        if self.place != place {
            self.place = place;
            for process in &mut self.processes {
                process.tell(Message::Place(place));
                // A device has the address of the place before.
                let lost = process.carrier().filter(|carrier| !carrier.is_at(place));
                lost.into_iter().for_each(|carrier| carrier.end(now));
            }
        }
    }

    fn process(&mut self, number: u16) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.number == number)
    }

    /// Hears who connects, what is said and who ends.
    fn look(&mut self, seat: &mut Seat<'_>, now: u64) {
        // Edges are taken here; what they mean is looked for everywhere.
        let mut events = Vec::with_capacity(2 * PROCESSES_MAX);
        let space = rustix::buffer::spare_capacity(&mut events);
        let _none = epoll::wait(&self.watch, space, Some(&rustix::event::Timespec::default()));
        for at in (0..self.callers.len()).rev() {
            self.hear_caller(at, now);
        }
        while let Ok((asked, region)) = self.attached.try_recv() {
            self.register(asked, region, seat);
        }
        for at in 0..self.processes.len() {
            self.hear(at, seat, now);
            let process = &mut self.processes[at];
            if process.is_gone {
                process.leave(seat, now);
            }
            process.settle(seat, now);
        }
        self.processes.retain(|process| !process.has_left());
        self.accept(now);
    }

    /// Lets processes in that want to connect.
    fn accept(&mut self, now: u64) {
        if self.accept_at.is_some_and(|at| now < at) {
            return;
        }
        self.accept_at = None;
        while self.callers.len() < PROCESSES_MAX {
            let socket = match self.listener.next() {
                Ok(Some(socket)) => socket,
                Ok(None) => return,
                Err(_) => return self.accept_at = Some(now + FULL_NS),
            };
            let Ok(line) = Line::new(socket, Duration::from_secs(1)) else { continue };
            let is_own = line.user().is_ok_and(|user| user == geteuid().as_raw() || user == 0);
            if is_own && self.watch(&line, false).is_ok() {
                self.callers.push((line, now));
            }
        }
    }

    fn watch(&self, what: &impl AsFd, is_edge: bool) -> io::Result<()> {
        let mut flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        flags.set(epoll::EventFlags::ET, is_edge);
        Ok(epoll::add(&self.watch, what, epoll::EventData::new_u64(0), flags)?)
    }

    /// Lets a process begin that has said hello.
    fn hear_caller(&mut self, at: usize, now: u64) {
        let (line, since) = &self.callers[at];
        let wanted = match line.receive(false) {
            Ok(Some((Message::Hello { process }, _))) => process,
            Err(error) if is_nothing(&error) && now < since + HELLO_NS => return,
            _ => return drop(self.callers.remove(at)),
        };
        let (line, _) = self.callers.remove(at);
        let refused = |reason| {
            let _told = line.send(&Message::Refused { reason, region: 0 }, None, false);
        };
        if self.processes.len() >= PROCESSES_MAX {
            return refused(Refused::Processes);
        }
        let Some(number) = self.number(wanted) else { return refused(Refused::Taken) };
        let Ok((mut process, wakes_node)) = Process::welcome(number, line) else { return };
        process.tell(Message::Place(self.place));
        if self.watch(&wakes_node, true).is_ok() {
            process.wakes_node = Some(wakes_node);
            self.processes.push(process);
        }
    }

    /// A number for a process, which it wants to be this one unless that is 0.
    fn number(&mut self, wanted: u16) -> Option<u16> {
        let is_free = |number: u16| {
            self.processes.iter().all(|it| it.number != number) && !self.attaching.contains(&number)
        };
        if wanted > 0 {
            return is_free(wanted).then_some(wanted);
        }
        // Numbers are not used again soon: others may still send to who had them.
        let number = (self.next_number..=u16::MAX)
            .chain(NUMBERS_FROM..self.next_number)
            .find(|&number| is_free(number))?;
        self.next_number = number.checked_add(1).unwrap_or(NUMBERS_FROM);
        Some(number)
    }

    /// Acts on what a process says.
    fn hear(&mut self, at: usize, seat: &mut Seat<'_>, now: u64) {
        for _ in 0..MESSAGES_AT_ONCE {
            let process = &mut self.processes[at];
            // One thing after the other: answers come in the order of what was asked.
            if process.is_gone || self.attaching.contains(&process.number) {
                return;
            }
            match process.line.receive(false) {
                Ok(Some((Message::Register { region, reach, bytes, address }, Some(file)))) => {
                    let process = process.number;
                    let asked = Asked { process, region, reach, bytes, address };
                    self.attach(at, asked, file);
                }
                // The system had no descriptor for it, or none came.
                Ok(Some((Message::Register { region, .. }, None))) => {
                    process.tell(Message::Refused { reason: Refused::Attach, region });
                }
                Ok(Some((Message::Carry { region, .. }, None))) => {
                    process.tell(Message::Refused { reason: Refused::Device, region });
                }
                Ok(Some((Message::Deregister { region }, _))) => process.release(region, seat, now),
                Ok(Some((Message::View { region, reach, bytes, address, offset, of }, _))) => {
                    let viewed = process.view((region, reach, address), (of, offset, bytes), seat);
                    process.tell(match viewed {
                        Ok(()) => Message::Registered { region },
                        Err(reason) => Message::Refused { reason, region },
                    });
                }
                Ok(Some((Message::Carry { region, rings, buffers, first }, Some(device)))) => {
                    let (device, place) = ((region, device), (self.place, first));
                    let carried = process.carry(device, (rings, buffers), place, seat.memory());
                    process.tell(match carried {
                        Ok(()) => Message::Registered { region },
                        Err(reason) => Message::Refused { reason, region },
                    });
                }
                Err(error) if is_nothing(&error) => return,
                _ => process.is_gone = true,
            }
        }
    }

    /// Has memory mapped by another thread: making a table of all its pages takes longer than neighbours wait.
    fn attach(&mut self, at: usize, asked: Asked, file: OwnedFd) {
        let process = &mut self.processes[at];
        // Threads of processes that have ended may still be at it.
        let is_much = asked.bytes > REGION_BYTES_MAX || self.attaching.len() >= 2 * PROCESSES_MAX;
        let refused = process.refuses(asked.region).or(is_much.then_some(Refused::Memory));
        if let Some(reason) = refused {
            return process.tell(Message::Refused { reason, region: asked.region });
        }
        let (attach, wake) = (self.attach.clone(), Arc::clone(&self.wake));
        let map = move || {
            let region = SharedRegion::attach(file, asked.bytes, Access::Write).ok();
            let _sent = attach.send((asked, region));
            let _woken = rustix::io::write(&wake, &1u64.to_ne_bytes());
        };
        match thread::Builder::new().name("attach".into()).spawn(map) {
            Ok(_) => self.attaching.push(asked.process),
            Err(_) => {
                process.tell(Message::Refused { reason: Refused::Attach, region: asked.region });
            }
        }
    }

    /// Registers memory that was mapped.
    fn register(&mut self, asked: Asked, region: Option<SharedRegion>, seat: &mut Seat<'_>) {
        let Asked { process, region: number, reach, bytes, address } = asked;
        self.attaching.retain(|it| *it != process);
        let Some(process) = self.process(process).filter(|it| !it.is_gone) else { return };
        let registered = region.ok_or(Refused::Attach).and_then(|region| {
            let slot = seat.memory().attach(region).ok_or(Refused::Memory)?;
            let registered = process.register((number, reach, bytes, address), slot, seat);
            registered.inspect_err(|_| seat.memory().detach(slot))
        });
        process.tell(match registered {
            Ok(()) => Message::Registered { region: number },
            Err(reason) => Message::Refused { reason, region: number },
        });
    }
}

/// Raises the limit on descriptors as far as this process may. If the system refuses, the old limit has to do.
fn raise_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn outcome_of(failure: Option<Failure>) -> Outcome {
    use gannet_memory::Refusal;
    match failure {
        None => Outcome::Done,
        Some(Failure::Unreachable) => Outcome::Unreachable,
        Some(Failure::Refused(Reason::Busy)) => Outcome::Busy,
        Some(Failure::Refused(Reason::Access(refusal))) => match refusal {
            Refusal::OutOfRange => Outcome::OutOfRange,
            Refusal::ReadOnly => Outcome::ReadOnly,
            _ => Outcome::Unknown,
        },
    }
}

fn is_nothing(error: &gannet_fabric::JoinError) -> bool {
    matches!(error, gannet_fabric::JoinError::System(error) if error.kind() == io::ErrorKind::WouldBlock)
}
