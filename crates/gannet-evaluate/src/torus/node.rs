//! A node of the machine on a thread of its own, and what it sends and takes.

use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gannet_lattice::{Direction, Lattice, Node};
use gannet_memory::Registration;
use gannet_rdma::{Completion, Put};
use gannet_torus::Routes;
use gannet_torus::link::State;
use gannet_torus::node::{Configuration, TorusNode};
use gannet_torus::simulator::{Generator, Traffic};
use gannet_torus_live::Driver;
use gannet_torus_live::udp::UdpPort;

use super::paced::PacedPort;
use super::{Error, Schedule};
use crate::sys::thread_time;

/// Where nodes have registered the place of PUTs.
const ADDRESS: u64 = 1 << 40;
const PAGE_BYTES: u64 = 4096;
/// How long the links may take to come up.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Longest sleep of a node that has nothing to send.
const LOOK: Duration = Duration::from_millis(10);

/// A node with its cables, by the direction that they lead in.
pub(super) struct RunningNode {
    driver: Driver<TorusNode<Vec<u8>>>,
    lattice: Lattice,
    node: Node,
    /// Bytes of a PUT, which fills a packet.
    bytes: u32,
    generator: Generator,
    traffic: Arc<Traffic>,
}

/// Latencies of packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latencies {
    pub(super) packets: u64,
    /// All of them together.
    pub(super) cycles: f64,
}

impl Latencies {
    pub(super) fn mean(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.cycles / self.packets as f64)
    }
}

impl AddAssign for Latencies {
    fn add_assign(&mut self, more: Self) {
        self.packets += more.packets;
        self.cycles += more.cycles;
    }
}

/// What a node has taken in the window.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    /// By the links that packets have gone over.
    pub(super) by_hops: Vec<Latencies>,
    /// Packets that the engine sent again.
    pub(super) resent: u64,
    /// Time that it had a processor.
    pub(super) busy: Duration,
}

impl RunningNode {
    pub(super) fn new(
        configuration: Configuration,
        routes: &Arc<Routes>,
        cables: Vec<(Direction, PacedPort<UdpPort>)>,
        (traffic, seed): (&Arc<Traffic>, u64),
    ) -> Result<Self, Error> {
        let node = configuration.engine.node;
        let bytes = configuration.engine.limits.data_bytes as u64;
        let length = bytes.next_multiple_of(PAGE_BYTES);
        let pages: Vec<u64> = (0..length).step_by(PAGE_BYTES as usize).collect();
        let mut torus_node =
            TorusNode::new(configuration, vec![0; length as usize], Arc::clone(routes), 1)?;
        let place =
            Registration { process: 0, start: ADDRESS, length, writable: true, pages: &pages };
        torus_node.engine_mut().register(&place).expect("the memory has these pages");
        let mut driver = Driver::new(torus_node, 0);
        for (direction, port) in cables {
            driver.plug(direction.index(), Box::new(port));
        }
        let generator = traffic.generator(node, seed);
        let (lattice, bytes, traffic) = (routes.lattice(), bytes as u32, Arc::clone(traffic));
        Ok(Self { driver, lattice, node, bytes, generator, traffic })
    }

    /// Lets the links come up, until those of all `nodes` are, of which `up` has the number.
    pub(super) fn come_up(&mut self, up: &AtomicUsize, nodes: usize) -> Result<(), Error> {
        let (begin, mut is_counted) = (Instant::now(), false);
        let is_up = |driver: &Driver<TorusNode<Vec<u8>>>| {
            let mut links = Direction::ALL.into_iter().filter_map(|way| driver.node().link(way));
            links.all(|link| link.state() == State::Up)
        };
        while up.load(Ordering::Acquire) < nodes {
            if !is_counted && is_up(&self.driver) {
                up.fetch_add(1, Ordering::AcqRel);
                is_counted = true;
            }
            if begin.elapsed() > READY_WITHIN {
                return Err(Error::Down);
            }
            self.step(LOOK)?;
        }
        Ok(())
    }

    fn step(&mut self, most: Duration) -> Result<(), Error> {
        if !self.driver.step() {
            self.driver.wait(most)?;
        }
        Ok(())
    }

    /// Sends what the traffic asks for, and takes what comes, until the schedule is over.
    pub(super) fn run(&mut self, schedule: &Schedule) -> Result<Taken, Error> {
        let busy = thread_time();
        let by_hops = vec![Latencies::default(); self.lattice.diameter() as usize + 1];
        let mut taken = Taken { by_hops, ..Taken::default() };
        loop {
            let now = schedule.cycle();
            if now >= schedule.end {
                break;
            }
            while f64::from(self.generator.next_at()) <= now && self.post() {}
            let next = f64::from(self.generator.next_at()) - now;
            self.step(schedule.time_of(next.max(0.0)).min(LOOK))?;
            self.take(schedule, &mut taken)?;
        }
        let counters = self.driver.node().engine().counters();
        taken.resent = counters.timeouts + counters.overtaken;
        taken.busy = thread_time().saturating_sub(busy);
        Ok(taken)
    }

    /// Posts the packet that is next; `false` where the engine has no room for it yet.
    fn post(&mut self) -> bool {
        let now = self.driver.now();
        let mut ahead = self.generator.clone();
        let made = ahead.make(self.node, &self.traffic);
        let put = Put {
            source: 0,
            destination: made.destination,
            process: 0,
            address: ADDRESS,
            length: self.bytes,
            tag: made.born,
        };
        let is_posted = self.driver.node_mut().engine_mut().post_put(now, &put).is_ok();
        if is_posted {
            self.generator = ahead;
        }
        is_posted
    }

    fn take(&mut self, schedule: &Schedule, taken: &mut Taken) -> Result<(), Error> {
        while let Some(completion) = self.driver.node_mut().engine_mut().poll_completion() {
            match completion {
                Completion::TxDone { outcome: Err(failure), .. } => {
                    return Err(Error::Failed(failure));
                }
                Completion::RxDone { source, tag, .. } => {
                    let now = schedule.cycle();
                    if !(schedule.begin..schedule.end).contains(&now) {
                        continue;
                    }
                    let hops = self.lattice.distance(source, self.node) as usize;
                    let cycles = now - f64::from(tag);
                    taken.by_hops[hops] += Latencies { packets: 1, cycles };
                }
                _ => {}
            }
        }
        Ok(())
    }
}
