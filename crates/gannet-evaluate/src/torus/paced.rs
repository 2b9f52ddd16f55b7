//! A cable with a rate of its own, as a line in hardware has.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use gannet_measure::clock::{Clock, SystemClock};
use gannet_torus_live::Port;

/// An end of a cable that takes a time for each frame, and brings it to the other end after that.
#[derive(Debug)]
pub(super) struct PacedPort<P> {
    port: P,
    ns_per_byte: f64,
    clock: SystemClock,
    /// The frame on the line, which has left it at this time.
    frame: Box<[u8]>,
    len: usize,
    leaves_at: u64,
}

impl<P: Port> PacedPort<P> {
    pub(super) fn new(port: P, ns_per_byte: f64) -> Self {
        let frame = vec![0; port.frame_bytes()].into_boxed_slice();
        Self { port, ns_per_byte, clock: SystemClock::start(), frame, len: 0, leaves_at: 0 }
    }
}

impl<P: Port> Port for PacedPort<P> {
    fn frame_bytes(&self) -> usize {
        self.port.frame_bytes()
    }

    fn window_bytes(&self) -> usize {
        self.port.window_bytes()
    }

    fn send(&mut self, next: &mut dyn FnMut(&mut [u8]) -> usize) -> io::Result<bool> {
        let Self { port, frame, len, .. } = self;
        loop {
            let now = self.clock.now_ns();
            let mut begins_at = now;
            if *len > 0 {
                if now < self.leaves_at {
                    return Ok(false);
                }
                let mut left = Some(std::mem::take(len));
                let sent = port.send(&mut |room| {
                    let len = left.take().unwrap_or(0);
                    room[..len].copy_from_slice(&frame[..len]);
                    len
                })?;
                if !sent {
                    return Ok(false);
                }
                // The line was not idle just because nobody was there when it became free.
                begins_at = self.leaves_at;
            }
            *len = next(frame);
            if *len == 0 {
                return Ok(true);
            }
            self.leaves_at = begins_at + (*len as f64 * self.ns_per_byte) as u64;
        }
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
            let taken = near.send(&mut |room| {
                if sent == 10 {
                    return 0;
                }
                room.fill(sent);
                sent += 1;
                room.len()
            });
            assert_eq!(taken.unwrap(), sent == 10 && near.len == 0);
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
