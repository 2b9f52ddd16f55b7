//! A cable with a rate of its own, as a line in hardware has.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use gannet_measure::clock::{Clock, SystemClock};
use gannet_torus_live::Port;

/// Within this time after a frame another one follows it at once.
const AT_ONCE_NS: u64 = 10_000;

/// An end of a cable that takes a time for each frame, and brings it to the other end after that.
///
/// It refuses a frame until it would have left the line, so one that grows meanwhile leaves later.
#[derive(Debug)]
pub(super) struct PacedPort<P> {
    port: P,
    ns_per_byte: f64,
    clock: SystemClock,
    /// When the frame that was offered first came on the line, and when it leaves it.
    begins_at: Option<u64>,
    leaves_at: u64,
    /// When the one before was sent, and by how much that was later than it left the line: for one that follows at once the line was not idle just
    /// because nobody was there.
    sent_at: u64,
    late_ns: u64,
}

impl<P: Port> PacedPort<P> {
    pub(super) fn new(port: P, ns_per_byte: f64) -> Self {
        let clock = SystemClock::start();
        Self { port, ns_per_byte, clock, begins_at: None, leaves_at: 0, sent_at: 0, late_ns: 0 }
    }
}

impl<P: Port> Port for PacedPort<P> {
    fn frame_bytes(&self) -> usize {
        self.port.frame_bytes()
    }

    fn window_bytes(&self) -> usize {
        self.port.window_bytes()
    }

    fn send(&mut self, frames: &[u8], frame: usize) -> io::Result<bool> {
        let now = self.clock.now_ns();
        let late_ns = if now < self.sent_at + AT_ONCE_NS { self.late_ns } else { 0 };
        let begins_at = *self.begins_at.get_or_insert(now - late_ns.min(now));
        self.leaves_at = begins_at + (frames.len() as f64 * self.ns_per_byte) as u64;
        if now < self.leaves_at {
            return Ok(false);
        }
        let sent = self.port.send(frames, frame);
        if let Ok(false) = sent {
            return sent;
        }
        (self.begins_at, self.sent_at, self.late_ns) = (None, now, now - self.leaves_at);
        sent
    }

    fn asked_again_after(&self) -> Duration {
        Duration::from_nanos(self.leaves_at.saturating_sub(self.clock.now_ns()))
    }

    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        self.port.receive(take)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.port.descriptor()
    }
}

#[cfg(test)]
mod tests {
    use gannet_torus_live::memory;

    use super::*;

    /// Bytes of a frame, and how long it is on the line.
    const BYTES: usize = 100;
    const FRAME_NS: u64 = 500_000;

    #[test]
    fn each_frame_takes_its_time_and_none_is_lost() {
        let (near, mut far) = memory::cable(BYTES, 64).unwrap();
        let mut near = PacedPort::new(near, FRAME_NS as f64 / BYTES as f64);
        let (clock, mut sent, mut came) = (SystemClock::start(), 0, Vec::new());
        while came.len() < 10 {
            if sent < 10 && near.send(&[sent; BYTES], BYTES).unwrap() {
                sent += 1;
            }
            far.receive(&mut |frame| {
                came.push(frame[0]);
                assert!(clock.now_ns() >= FRAME_NS * came.len() as u64, "frame {}", came.len());
                assert_eq!(frame, [frame[0]; BYTES]);
            })
            .unwrap();
        }
        assert_eq!(came, Vec::from_iter(0..10));
    }
}
