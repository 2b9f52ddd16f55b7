//! Whoever else stands around a readout, played: takes datagrams at an address and counts what came.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use gannet_ingest::udp::{self, UdpConfig};
use gannet_ingest::{BATCH_FRAMES, Landing, Source, SourceDrop};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::ledger::{Account, Reason};
use serde::Serialize;

use super::{EmulationError, Progress, Running};

/// How long one look for datagrams waits.
const WAIT: Duration = Duration::from_millis(5);
/// How long datagrams gather before the next look. To be woken for each would take the processor from those
/// who send them.
const GATHER: Duration = Duration::from_micros(200);
/// Datagrams that have landed and were not looked at yet, at most.
const CELLS: u64 = 4096;

/// Somebody who takes datagrams, as a state machine without clock or socket.
pub trait Role: Send + 'static {
    /// Bytes that a datagram may have.
    fn lengths(&self) -> RangeInclusive<usize>;

    /// Takes a datagram that arrived at `arrival_ns`.
    fn take(&mut self, datagram: &[u8], arrival_ns: u64);

    /// What came, each figure with its name, and whether nothing was missing.
    fn figures(&self) -> (Vec<(String, u64)>, bool);
}

/// What a role was sent.
#[derive(Clone, Debug, Serialize)]
pub struct RoleReport {
    /// What came, each figure with its name.
    pub figures: Vec<(String, u64)>,
    /// Whether nothing was missing, doubled or damaged.
    pub is_sound: bool,
}

/// Somebody being played.
pub type Playing = Running<RoleReport>;

impl Playing {
    /// Plays `role` at the address `listen`.
    ///
    /// # Errors
    /// When the socket cannot be had.
    pub fn start(listen: SocketAddr, mut role: Box<dyn Role>) -> Result<Self, EmulationError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let config = UdpConfig { listen: vec![listen], ..UdpConfig::default() };
        let landing = Landing { lengths: role.lengths(), cells: CELLS };
        let mut sources = udp::open(&config, landing, &clock)?;
        let progress = Arc::new(Progress::default());
        let seen = Arc::clone(&progress);
        Running::spawn("role", progress, move |stop| {
            for source in &mut sources {
                source.start()?;
                receive(source, &mut *role, &seen, stop)?;
            }
            let (mut figures, is_sound) = role.figures();
            let dropped = sources.iter().map(|source| lost(&source.landed().account())).sum();
            figures.push(("dropped on the way".into(), dropped));
            Ok(RoleReport { figures, is_sound: is_sound && dropped == 0 })
        })
    }
}

/// Datagrams that came and were not seen.
fn lost(account: &Account<SourceDrop>) -> u64 {
    let harmless = [SourceDrop::BeforeStart, SourceDrop::Empty];
    let reasons = SourceDrop::ALL.iter().filter(|reason| !harmless.contains(reason));
    reasons.map(|reason| account.dropped(*reason)).sum()
}

/// Takes what comes until `stop` is set and nothing is left.
fn receive(
    source: &mut dyn Source,
    role: &mut dyn Role,
    progress: &Progress,
    stop: &AtomicBool,
) -> Result<(), EmulationError> {
    let mut stopping = false;
    while !source.is_exhausted() {
        if !stopping && stop.load(Ordering::Relaxed) {
            source.stop()?;
            stopping = true;
        }
        let arrived = source.poll(WAIT)?;
        let landed = source.landed();
        for arrival in landed.arrivals() {
            let bytes = landed.producer().bytes(arrival.cell, arrival.len as usize);
            role.take(bytes, landed.arrival_ns());
            progress.datagrams.add(1);
            progress.bytes.add(bytes.len() as u64);
        }
        // As many as a look takes: others may wait.
        if (1..BATCH_FRAMES).contains(&arrived) {
            thread::sleep(GATHER);
        }
    }
    Ok(())
}
