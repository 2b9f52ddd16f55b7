//! Slabs on several threads, in step.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::slab::{Mail, Slab};

/// Turns that a thread spins at a barrier before it offers its core to others.
const SPINS: u32 = 2000;

/// Simulates `cycles` on one thread per slab. The slabs exchange what passes between them every
/// `stretch` cycles, of which nothing arrives sooner than that; so the result does not depend on
/// the number of slabs.
pub(super) fn advance<const V: usize>(slabs: &mut [Slab<V>], cycles: Range<u32>, stretch: u32) {
    if let [slab] = slabs {
        slab.advance(cycles);
        return;
    }
    let count = slabs.len();
    let mail = Mail::new(count);
    let barrier = Barrier::new(count as u32);
    thread::scope(|scope| {
        for (index, slab) in slabs.iter_mut().enumerate() {
            let (mail, barrier, cycles) = (&mail, &barrier, cycles.clone());
            scope.spawn(move || {
                let _guard = barrier.guard();
                for (round, from) in cycles.clone().step_by(stretch as usize).enumerate() {
                    slab.advance(from..(from + stretch).min(cycles.end));
                    mail.send(slab, index, round % 2);
                    barrier.wait();
                    mail.receive(slab, index, round % 2);
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
