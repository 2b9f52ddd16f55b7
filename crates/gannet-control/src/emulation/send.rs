//! Sockets that frames leave by, and waiting until the next is due.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gannet_ingest::udp::{UdpSink, UdpSinkConfig};
use gannet_ingest::{Datagram, Sink};
use gannet_measure::clock::Clock;

use super::{EmulationError, Progress};

/// Below this wait the thread spins, because the kernel would wake it too late.
const SPIN_NS: u64 = 100_000;
/// Longest sleep, so that a request to stop is seen soon.
const SLEEP_MAX_NS: u64 = 20_000_000;

/// One socket for each address, and the account of what left by them.
pub struct Outlets {
    sinks: Vec<UdpSink>,
    progress: Arc<Progress>,
    refused: u64,
}

impl Outlets {
    /// A socket for each of `addresses` that differs, and the outlet of each address.
    ///
    /// # Errors
    /// When a socket cannot be had.
    pub fn connect(
        addresses: &[SocketAddr],
        progress: Arc<Progress>,
    ) -> Result<(Self, Vec<usize>), EmulationError> {
        let (mut sinks, mut known) = (Vec::new(), HashMap::new());
        let mut outlets = Vec::with_capacity(addresses.len());
        for address in addresses {
            let outlet = *known.entry(*address).or_insert(sinks.len());
            if outlet == sinks.len() {
                sinks.push(UdpSink::connect(*address, &UdpSinkConfig::default())?);
            }
            outlets.push(outlet);
        }
        Ok((Self { sinks, progress, refused: 0 }, outlets))
    }

    /// Sends datagrams and returns how many of them, the last ones, the network did not take.
    ///
    /// # Errors
    /// When the system refuses for a reason that waiting does not cure.
    pub fn send(
        &mut self,
        outlet: usize,
        datagrams: &[Datagram<'_>],
    ) -> Result<u64, EmulationError> {
        let sent = self.sinks[outlet].send(datagrams)?;
        let unsent = datagrams.len() as u64 - sent.datagrams;
        self.refused += sent.refused;
        self.progress.datagrams.add(sent.datagrams);
        self.progress.bytes.add(sent.bytes);
        self.progress.unsent.add(unsent);
        Ok(unsent)
    }

    /// The account of what left.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Reports of the network that nobody listens.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

/// Waits until `wake_ns`, or a part of that time: sleeps while it is far, spins when it is near.
pub fn wait(clock: &impl Clock, wake_ns: u64) {
    let ahead_ns = wake_ns.saturating_sub(clock.now_ns());
    if ahead_ns > SPIN_NS {
        thread::sleep(Duration::from_nanos((ahead_ns - SPIN_NS / 2).min(SLEEP_MAX_NS)));
    } else {
        std::hint::spin_loop();
    }
}
