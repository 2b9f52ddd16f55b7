//! Cables of a drill, which can be cut where they meet the socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gannet_lattice::{Direction, Lattice};

use crate::port::Port;
use crate::udp::UdpPort;

/// Longest frame of the cables, bytes: that of cards with an MTU of 9000.
const FRAME_BYTES: usize = 8972;
/// First UDP port of the cables.
const PORT: u16 = 4700;

/// A cable between two ports of hosts, by their numbers.
#[derive(Clone, Debug)]
pub(super) struct Cable {
    pub(super) ends: [(usize, usize); 2],
    is_cut: Arc<AtomicBool>,
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
        Cable { ends, is_cut: Arc::default() }
    });
    (cables.collect(), at)
}

/// Where a port is: addresses that loop back, which no other drill on this machine has.
fn address((host, port): (usize, usize)) -> SocketAddr {
    let [low, high, ..] = std::process::id().to_le_bytes();
    (Ipv4Addr::new(127, high, low, host as u8 + 1), PORT + port as u16).into()
}

impl Cable {
    /// Cuts it, or mends it.
    pub(super) fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Release);
    }

    /// Its end at a host and port.
    ///
    /// # Errors
    /// When the system gives no socket.
    pub(super) fn open(&self, end: (usize, usize)) -> io::Result<CutPort> {
        let other = if self.ends[0] == end { self.ends[1] } else { self.ends[0] };
        let port = UdpPort::open(address(end), address(other))?.with_frames_of(FRAME_BYTES);
        Ok(CutPort { port, is_cut: Arc::clone(&self.is_cut), lost: vec![0; FRAME_BYTES].into() })
    }
}

/// A port whose cable may be cut: then what it sends is lost, and what comes is not heard.
#[derive(Debug)]
pub(super) struct CutPort {
    port: UdpPort,
    is_cut: Arc<AtomicBool>,
    lost: Box<[u8]>,
}

impl Port for CutPort {
    fn frame_bytes(&self) -> usize {
        self.port.frame_bytes()
    }

    fn window_bytes(&self) -> usize {
        self.port.window_bytes()
    }

    fn send(&mut self, next: &mut dyn FnMut(&mut [u8]) -> usize) -> io::Result<bool> {
        if !self.is_cut.load(Ordering::Acquire) {
            return self.port.send(next);
        }
        while next(&mut self.lost) > 0 {}
        Ok(true)
    }

    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        if self.is_cut.load(Ordering::Acquire) {
            self.port.receive(&mut |_| {})
        } else {
            self.port.receive(take)
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
