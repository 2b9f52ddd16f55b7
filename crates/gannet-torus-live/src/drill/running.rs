//! A host of a drill on a thread of its own.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gannet_lattice::{DIMENSIONS, Direction};
use gannet_wire::neighbour::{Name, Order};

use super::cable::Cable;
use super::shared::{Report, Shared};
use super::traffic::{Traffic, host, id};
use super::{Part, Setup, host_name};
use crate::driver::Driver;
use crate::host::Host;
use crate::identity::Key;
use crate::member::{self, Member};
use crate::patience::Patience;
use crate::port::Port;
use crate::status::{Memory, Packets, Status};

/// How often a host looks whether something is wanted of it, at least.
const LOOK: Duration = Duration::from_millis(10);

/// What a host and who runs it tell each other.
#[derive(Debug, Default)]
struct Line {
    is_over: AtomicBool,
    /// Whether the host is to do nothing for now.
    is_halted: AtomicBool,
    /// Whether a status is wanted.
    is_asked: AtomicBool,
    report: Mutex<Report>,
}

impl Line {
    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A host that runs until this is dropped, and then is gone without a word.
#[derive(Debug)]
pub(super) struct Running {
    line: Arc<Line>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.line.is_over.store(true, Ordering::Release);
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Running {
    /// Starts a host, in this life of it, with the `cables` that are at its ports.
    ///
    /// # Errors
    /// When the system has no sockets or threads for it.
    pub(super) fn start(
        number: usize,
        life: u64,
        setup: &Setup,
        shared: &Arc<Shared>,
        (cables, at): (&[Cable], &[Vec<usize>]),
    ) -> io::Result<Self> {
        let open = |(port, &cable): (usize, &usize)| cables[cable].open((number, port));
        let ports = at[number].iter().enumerate().map(open).collect::<io::Result<Vec<_>>>()?;
        let patience = Patience { watchdog_ns: setup.watchdog_ns, ..Patience::default() };
        let named = ports.iter().enumerate();
        let named = named.map(|(at, port)| (Name::of(&format!("p{at}")), port.frame_bytes()));
        let member = Member::new(member::Setup {
            host: id(number),
            life,
            name: Name::of(&host_name(number)),
            ports: named.collect(),
            services: Vec::new(),
            key: Key([7; 32]),
            protects: true,
            watchdog_ns: setup.watchdog_ns,
            lattice: Some(setup.lattice),
            settle_ns: 2 * setup.watchdog_ns,
        });
        let window = ports.iter().map(Port::window_bytes).min().unwrap_or(0);
        let traffic = Traffic::new(number, life, Arc::clone(shared));
        let host = Host::new(member, patience, window).with_traffic(traffic);
        let mut driver = Driver::new(host, patience.spin_ns);
        for (at, port) in ports.into_iter().enumerate() {
            driver.plug(at, Box::new(port));
        }
        let line = Arc::new(Line::default());
        let (own, at, shared) = (Arc::clone(&line), at.to_vec(), Arc::clone(shared));
        let run = move || {
            let packets = drive(driver, &own, &at);
            *shared.packets() += packets;
        };
        let thread = thread::Builder::new().name(host_name(number)).spawn(run)?;
        Ok(Self { line, thread: Some(thread) })
    }

    /// What it has said last, and with it a status if one had been asked for by the call before.
    pub(super) fn report(&self) -> Report {
        self.line.report().clone()
    }

    /// Lets it do nothing, as a process that was stopped by SIGSTOP, or go on.
    pub(super) fn halt(&self, is_halted: bool) {
        self.line.is_halted.store(is_halted, Ordering::Release);
    }

    /// Whether it does anything.
    pub(super) fn is_at_work(&self) -> bool {
        !self.line.is_halted.load(Ordering::Acquire)
    }

    /// Asks for a status.
    pub(super) fn ask(&self) {
        self.line.is_asked.store(true, Ordering::Release);
    }
}

/// Drives a host until it is over; gives what has become of the packets at its node.
fn drive(mut driver: Driver<Host>, line: &Line, at: &[Vec<usize>]) -> Packets {
    let (mut memory, mut changes) = (Memory::default(), None);
    while !line.is_over.load(Ordering::Acquire) {
        if line.is_halted.load(Ordering::Acquire) {
            thread::sleep(LOOK);
            continue;
        }
        // A system that cannot wait is asked again.
        if !driver.step() && driver.wait(LOOK).is_err() {
            thread::sleep(LOOK);
        }
        let member = driver.node().member();
        if changes.replace(member.changes()) != Some(member.changes()) {
            let dead = member.order().map(|order| dead(order, at)).unwrap_or_default();
            let mut report = line.report();
            (report.has_place, report.dead) = (member.node().is_some(), dead);
            report.order = member.order().map(|order| (order.master, order.number));
        }
        if line.is_asked.swap(false, Ordering::AcqRel) {
            let status = Status::of(&driver, &mut memory);
            line.report().status = status;
        }
    }
    // What has arrived, and was perhaps acknowledged, is looked at before its memory is gone.
    let now = driver.now();
    driver.node_mut().take_completions(now);
    driver.node().node().map(Packets::of).unwrap_or_default()
}

/// What an order says to be dead, where `at` are the cables at the ports of each host.
fn dead(order: &Order, at: &[Vec<usize>]) -> BTreeSet<Part> {
    let mut dead = BTreeSet::new();
    for node in &order.nodes {
        let Some(host) = host(node.host) else { continue };
        if node.dead >> DIMENSIONS & 1 == 1 {
            dead.insert(Part::Host(host));
        }
        for dimension in (0..DIMENSIONS).filter(|dimension| node.dead >> dimension & 1 == 1) {
            let port = node.ports[Direction::of(dimension, true).index()];
            let cable = port.and_then(|port| at.get(host)?.get(usize::from(port)));
            dead.extend(cable.map(|&cable| Part::Cable(cable)));
        }
    }
    dead
}
