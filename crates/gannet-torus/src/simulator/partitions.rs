//! The partitions of a simulation on several threads, in step.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use gannet_lattice::{Direction, Node};

use super::partition::{Mail, Partition, PartitionSetup, exchange};
use super::rules::Rules;
use super::setup::Setup;
use super::tally::Tally;
use super::traffic::Traffic;
use crate::routes::Routes;

/// Turns that a thread spins at a barrier before it offers its core to others.
const SPINS: u32 = 2000;

/// The partitions of a simulation, whatever the number of virtual channels.
pub(super) trait Network {
    fn advance(&mut self, cycles: Range<u32>);
    fn set_window(&mut self, window: Range<u32>);
    fn forget(&mut self);
    fn has_backlog(&self, cycle: u32) -> bool;
    fn unfinished(&self) -> u64;
    fn waiting_again(&self) -> u64;
    fn is_empty(&self) -> bool;
    fn set_paused(&mut self, paused: bool);
    fn set_routes(&mut self, setup: &Setup, routes: Arc<Routes>);
    fn fail_cable(&mut self, ends: [(Node, Direction); 2], now: u32);
    fn repair_cable(&mut self, ends: [(Node, Direction); 2]);
    fn fail_node(&mut self, node: Node, now: u32);
    fn hang_host(&mut self, node: Node);
    fn set_flaky(&mut self, ends: [(Node, Direction); 2], loss: f64);
    fn tally(&self) -> Tally;
    fn bytes(&self) -> usize;
}

pub(super) struct Partitions<const V: usize> {
    partitions: Vec<Partition<V>>,
    /// Cycles after which the partitions exchange messages: none is due sooner than that.
    stretch: u32,
}

impl<const V: usize> Partitions<V> {
    pub fn new(setup: &Setup, routes: Arc<Routes>, traffic: Traffic, places: u16) -> Self {
        let (nodes, count) = (setup.lattice.nodes() as u32, setup.threads as u32);
        let border =
            |partition| (u64::from(nodes) * u64::from(partition) / u64::from(count)) as u32;
        let rules = Rules::new(setup, routes, V);
        let stretch = rules.delays.lookahead().min(setup.replay_after.unwrap_or(u32::MAX));
        let plan = PartitionSetup {
            rules: Arc::new(rules),
            traffic: Arc::new(traffic),
            borders: (0..=count).map(border).collect(),
            places,
            seed: setup.seed,
            replay_after: setup.replay_after,
        };
        Self {
            partitions: (0..setup.threads).map(|index| Partition::new(index, &plan)).collect(),
            stretch,
        }
    }
}

impl<const V: usize> Network for Partitions<V> {
    fn advance(&mut self, cycles: Range<u32>) {
        advance(&mut self.partitions, cycles, self.stretch);
    }

    fn set_window(&mut self, window: Range<u32>) {
        for partition in &mut self.partitions {
            partition.set_window(window.clone());
        }
    }

    fn forget(&mut self) {
        self.partitions.iter_mut().for_each(|partition| partition.tally.forget());
    }

    fn has_backlog(&self, cycle: u32) -> bool {
        self.partitions.iter().any(|partition| partition.has_backlog(cycle))
    }

    fn unfinished(&self) -> u64 {
        self.partitions
            .iter()
            .map(|partition| partition.tally.marked.wrapping_sub(partition.tally.marked_done))
            .fold(0, u64::wrapping_add)
    }

    fn waiting_again(&self) -> u64 {
        self.partitions.iter().map(Partition::waiting_again).sum()
    }

    fn is_empty(&self) -> bool {
        self.partitions.iter().all(Partition::is_empty)
    }

    fn set_paused(&mut self, paused: bool) {
        self.partitions.iter_mut().for_each(|partition| partition.set_paused(paused));
    }

    fn set_routes(&mut self, setup: &Setup, routes: Arc<Routes>) {
        let rules = Arc::new(Rules::new(setup, routes, V));
        self.partitions.iter_mut().for_each(|partition| partition.set_rules(rules.clone()));
    }

    fn fail_cable(&mut self, ends: [(Node, Direction); 2], now: u32) {
        for partition in &mut self.partitions {
            ends.iter().for_each(|&(node, direction)| partition.fail_link(node, direction, now));
        }
        exchange(&mut self.partitions);
    }

    fn repair_cable(&mut self, ends: [(Node, Direction); 2]) {
        for (end, far) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            let held =
                self.partitions.iter().find_map(|partition| partition.occupancy(far.0, far.1));
            let held = held.expect("every node is in one of the partitions");
            self.partitions
                .iter_mut()
                .for_each(|partition| partition.repair_link(end.0, end.1, held));
        }
    }

    fn fail_node(&mut self, node: Node, now: u32) {
        self.partitions.iter_mut().for_each(|partition| partition.fail_node(node, now));
        exchange(&mut self.partitions);
    }

    fn hang_host(&mut self, node: Node) {
        self.partitions.iter_mut().for_each(|partition| partition.hang_host(node));
    }

    fn set_flaky(&mut self, ends: [(Node, Direction); 2], loss: f64) {
        for partition in &mut self.partitions {
            ends.iter().for_each(|&(node, direction)| partition.set_flaky(node, direction, loss));
        }
    }

    fn tally(&self) -> Tally {
        let mut all = Tally::default();
        for partition in &self.partitions {
            all.append(&partition.tally);
        }
        all
    }

    fn bytes(&self) -> usize {
        self.partitions.iter().map(Partition::bytes).sum()
    }
}

/// Simulates `cycles` on one thread per partition. The partitions exchange what passes between them every
/// `stretch` cycles, of which nothing arrives sooner than that; so the result does not depend on
/// the number of partitions.
fn advance<const V: usize>(partitions: &mut [Partition<V>], cycles: Range<u32>, stretch: u32) {
    if let [partition] = partitions {
        partition.advance(cycles);
        return;
    }
    let count = partitions.len();
    let mail = Mail::new(count);
    let barrier = Barrier::new(count as u32);
    thread::scope(|scope| {
        for (index, partition) in partitions.iter_mut().enumerate() {
            let (mail, barrier, cycles) = (&mail, &barrier, cycles.clone());
            scope.spawn(move || {
                let _guard = barrier.guard();
                for (round, from) in cycles.clone().step_by(stretch as usize).enumerate() {
                    partition.advance(from..(from + stretch).min(cycles.end));
                    mail.send(partition, index, round % 2);
                    barrier.wait();
                    mail.receive(partition, index, round % 2);
                }
            });
        }
    });
}

/// A barrier that is passed many thousand times a second: it spins before it yields.
struct Barrier {
    count: u32,
    waiting: AtomicU32,
    round: AtomicU32,
    failed: AtomicU32,
}

impl Barrier {
    fn new(count: u32) -> Self {
        let zero = || AtomicU32::new(0);
        Self { count, waiting: zero(), round: zero(), failed: zero() }
    }

    /// Waits until all threads have come.
    ///
    /// # Panics
    ///
    /// When another thread has panicked, and so will never come.
    fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            self.waiting.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut turns = 0;
        while self.round.load(Ordering::Acquire) == round {
            assert!(
                self.failed.load(Ordering::Relaxed) == 0,
                "another thread of the simulation failed"
            );
            turns += 1;
            if turns < SPINS { std::hint::spin_loop() } else { thread::yield_now() }
        }
    }

    /// Tells the others when this thread panics.
    fn guard(&self) -> Guard<'_> {
        Guard(self)
    }
}

struct Guard<'a>(&'a Barrier);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.failed.store(1, Ordering::Relaxed);
        }
    }
}
