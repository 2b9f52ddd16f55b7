//! What the threads of a drill tell each other.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gannet_wire::neighbour::HostId;

use super::Part;
use super::ledger::Ledger;
use crate::status::{Packets, Status};

/// What a host says of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    /// Whether it has a place in the machine.
    pub(super) has_place: bool,
    /// Master and number of the order that it follows.
    pub(super) order: Option<(HostId, u64)>,
    /// What it knows to be dead.
    pub(super) dead: BTreeSet<Part>,
    /// What it knows of the machine, where that was asked for.
    pub(super) status: Status,
}

/// What all threads of a drill share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) hosts: usize,
    /// Time from one PUT of a host to another one to the next, ns.
    pub(super) pace_ns: u64,
    /// Number of the last change of the machine.
    round: AtomicU64,
    is_sending: AtomicBool,
    ledger: Mutex<Ledger>,
    /// What had become of packets at nodes that have ended.
    packets: Mutex<Packets>,
    /// For each host and each other one the last change after which a PUT has passed.
    flows: Vec<AtomicU64>,
}

impl Shared {
    pub(super) fn new(hosts: usize, pace_ns: u64) -> Self {
        Self {
            hosts,
            pace_ns,
            round: AtomicU64::new(1),
            is_sending: AtomicBool::new(false),
            ledger: Mutex::new(Ledger::new(hosts)),
            packets: Mutex::default(),
            flows: (0..hosts * hosts).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn packets(&self) -> MutexGuard<'_, Packets> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn round(&self) -> u64 {
        self.round.load(Ordering::Acquire)
    }

    /// The machine has been changed.
    pub(super) fn next_round(&self) {
        self.round.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether hosts are to post.
    pub(super) fn is_sending(&self) -> bool {
        self.is_sending.load(Ordering::Acquire)
    }

    pub(super) fn begin(&self) {
        self.is_sending.store(true, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.is_sending.store(false, Ordering::Release);
    }

    /// A PUT that was posted after this change has passed.
    pub(super) fn flows(&self, from: usize, to: usize, round: u64) {
        self.flows[from * self.hosts + to].fetch_max(round, Ordering::AcqRel);
    }

    /// Whether a PUT has passed from each of these hosts to each other since the last change.
    pub(super) fn flows_between(&self, hosts: &[usize]) -> bool {
        let round = self.round();
        let flows = |from: usize, to: usize| {
            from == to || self.flows[from * self.hosts + to].load(Ordering::Acquire) >= round
        };
        hosts.iter().all(|&from| hosts.iter().all(|&to| flows(from, to)))
    }
}
