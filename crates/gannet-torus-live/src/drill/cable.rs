//! Cables of a drill, which can be harmed where they meet the socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use gannet_lattice::{Direction, Lattice};
use gannet_measure::random::Random;
use gannet_torus::link::Most;

use crate::port::Port;
use crate::udp::UdpPort;

/// Longest frame of the cables, bytes: that of cards with an MTU of 9000.
const FRAME_BYTES: usize = 8972;
/// First UDP port of the cables.
const PORT: u16 = 4700;
/// What is lost of a cable that loses frames.
const LOSS: f64 = 0.05;

/// A cable between two ports of hosts, by their numbers.
#[derive(Clone, Debug)]
pub(super) struct Cable {
    pub(super) ends: [(usize, usize); 2],
    state: Arc<AtomicU8>,
}

/// What a cable carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Carries {
    /// All.
    All,
    /// Nothing.
    Nothing,
    /// Nothing to its second end.
    OneWay,
    /// Nineteen of twenty frames.
    Most,
}

impl Carries {
    fn of(state: u8) -> Self {
        [Self::All, Self::Nothing, Self::OneWay, Self::Most][usize::from(state)]
    }
}

/// The cables of a lattice, and those at the ports of each host, by their numbers.
pub(super) fn lay(lattice: Lattice) -> (Vec<Cable>, Vec<Vec<usize>>) {
    let mut at = vec![Vec::new(); lattice.nodes()];
    let mut plug = |host: usize, cable: usize| {
        at[host].push(cable);
        (host, at[host].len() - 1)
    };
    let cables = lattice.cables().enumerate().map(|(number, it)| {
        let other = lattice.neighbour(it.from, Direction::of(it.dimension, true));
        let ends = [it.from, other].map(|node| plug(node.index(), number));
        Cable { ends, state: Arc::default() }
    });
    (cables.collect(), at)
}

/// Where a port is: addresses that loop back, which no other drill on this machine has.
fn address((host, port): (usize, usize)) -> SocketAddr {
    let [low, high, ..] = std::process::id().to_le_bytes();
    (Ipv4Addr::new(127, high, low, host as u8 + 1), PORT + port as u16).into()
}

impl Cable {
    /// Breaks it, or mends it.
    pub(super) fn set(&self, state: Carries) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Its end at a host and port.
    ///
    /// # Errors
    /// When the system gives no socket.
    pub(super) fn open(&self, end: (usize, usize)) -> io::Result<FrailPort> {
        let is_second = self.ends[1] == end;
        let other = self.ends[usize::from(!is_second)];
        let port = UdpPort::open(address(end), address(other))?.with_frames_of(FRAME_BYTES);
        let random = Random::stream(end.0 as u64, end.1 as u64);
        Ok(FrailPort { port, is_second, state: Arc::clone(&self.state), random })
    }
}

/// A port to which not all comes that its cable was given.
#[derive(Debug)]
pub(super) struct FrailPort {
    port: UdpPort,
    is_second: bool,
    state: Arc<AtomicU8>,
    random: Random,
}

impl Port for FrailPort {
    fn frame_bytes(&self) -> usize {
        self.port.frame_bytes()
    }

    fn window_bytes(&self) -> usize {
        self.port.window_bytes()
    }

    fn at_once(&self) -> Most {
        self.port.at_once()
    }

    fn send(&mut self, frames: &[u8], frame: usize) -> io::Result<bool> {
        self.port.send(frames, frame)
    }

    fn may_send(&self) -> bool {
        self.port.may_send()
    }

    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        let Self { port, is_second, random, .. } = self;
        match Carries::of(self.state.load(Ordering::Acquire)) {
            Carries::OneWay if !*is_second => port.receive(take),
            Carries::All => port.receive(take),
            Carries::Nothing | Carries::OneWay => port.receive(&mut |_| {}),
            Carries::Most => port.receive(&mut |frame| {
                if !random.chance(LOSS) {
                    take(frame);
                }
            }),
        }
    }

    fn strangers(&self) -> u64 {
        self.port.strangers()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.port.descriptor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_its_ports_and_rings_of_two_have_two_cables() {
        let (cables, at) = lay("2x2x2".parse().unwrap());
        assert_eq!(cables.len(), 24);
        assert!(at.iter().all(|cables| cables.len() == 6));
        for (number, cable) in cables.iter().enumerate() {
            assert!(cable.ends.iter().all(|&(host, port)| at[host][port] == number));
            assert_ne!(cable.ends[0].0, cable.ends[1].0);
        }
    }
}
