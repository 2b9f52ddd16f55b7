//! The least that receiving can cost: a loop that takes messages from a socket and does nothing
//! else, or reads their bytes and does nothing else.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use gannet_ingest::udp::UdpConfig;
use gannet_measure::clock::{Clock, SystemClock};
use gannet_memory::Region;
use gannet_wire::tpc_frame::FRAME_LEN;

use super::receive::{Take, Taken, WAIT};
use super::{Error, RING_FRAMES};
use crate::limits::sum;
use crate::sys::receive::{coalesce, set_receive_buffer};

/// Longest message, of as many frames as one holds.
const MESSAGE_LEN_MAX: usize = u16::MAX as usize / FRAME_LEN * FRAME_LEN;
/// Bytes of the ring, as many as those of the real path.
const RING_LEN: usize = RING_FRAMES as usize * FRAME_LEN;

/// Takes coalesced messages from one socket, one by one, into a ring like that of the real path.
pub(super) struct Bare {
    socket: UdpSocket,
    ring: Region,
    /// Whether it reads the bytes of every frame.
    reads: bool,
    clock: SystemClock,
}

/// A socket with the options of the real path that nobody reads from yet.
pub(super) fn socket() -> Result<UdpSocket, Error> {
    let open = || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        coalesce(&socket)?;
        set_receive_buffer(&socket, UdpConfig::default().kernel_buffer.bytes())?;
        socket.set_read_timeout(Some(WAIT))?;
        Ok(socket)
    };
    open().map_err(Error::Bare)
}

impl Bare {
    pub fn new(reads: bool, clock: SystemClock) -> Result<Self, Error> {
        Ok(Self { socket: socket()?, ring: Region::map(RING_LEN)?, reads, clock })
    }
}

impl Take for Bare {
    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap_or_else(|_| (Ipv4Addr::LOCALHOST, 0).into())
    }

    fn start(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn take(&mut self, stop: &AtomicBool) -> Result<Taken, Error> {
        let (mut taken, mut total, mut at) = (Taken::default(), 0_u64, 0);
        loop {
            let is_last = stop.load(Ordering::Acquire);
            let room = &mut self.ring.bytes_mut()[at..at + MESSAGE_LEN_MAX];
            let len = match self.socket.recv(room) {
                Ok(len) => len,
                Err(error) if is_empty(error.kind()) && is_last => break,
                Err(error) if is_empty(error.kind()) => continue,
                Err(error) => return Err(Error::Bare(error)),
            };
            if self.reads {
                total = total.wrapping_add(sum(&room[..len]));
            }
            taken.note((len / FRAME_LEN) as u64, self.clock.now_ns());
            at += len;
            if at + MESSAGE_LEN_MAX > RING_LEN {
                at = 0;
            }
        }
        Ok(Taken { sum: self.reads.then_some(total), ..taken })
    }
}

/// Whether nothing was there to be received, for as long as the loop waits.
fn is_empty(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
