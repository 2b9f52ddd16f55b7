//! What the standard library does not offer: clocks of the thread and the processor, options of
//! sockets, network namespaces, ways to read memory, and locks of its pages.
#![allow(unsafe_code)]

pub(crate) mod namespace;
pub mod read;
pub(crate) mod receive;

use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use gannet_memory::SharedRegion;

/// Time for which the cycle counter is compared with the clock.
const CALIBRATION: Duration = Duration::from_millis(50);

/// Processor time of the calling thread.
pub(crate) fn thread_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` has room for the structure.
    let rc = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) };
    if rc != 0 {
        return Duration::ZERO;
    }
    // SAFETY: clock_gettime returned 0, so the kernel has filled the structure.
    let time = unsafe { time.assume_init() };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Ticks per second of the processor's cycle counter; `None` where there is none to be read.
///
/// On processors of today it runs at a constant rate, the nominal one, whatever the core does.
pub(crate) fn cycles_per_s() -> Option<f64> {
    let (clock, first) = (Instant::now(), cycles()?);
    std::thread::sleep(CALIBRATION);
    let ticks = cycles()?.wrapping_sub(first);
    Some(ticks as f64 / clock.elapsed().as_secs_f64())
}

#[cfg(target_arch = "x86_64")]
fn cycles() -> Option<u64> {
    // SAFETY: every x86-64 processor has the instruction, and Linux lets processes use it.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn cycles() -> Option<u64> {
    None
}

/// Locks the pages of a region in memory, and lets them go again.
pub(crate) fn lock_and_unlock(region: &SharedRegion) -> io::Result<()> {
    let words = region.words(0, region.len() / size_of::<u64>());
    let (start, len) = (words.as_ptr().cast(), size_of_val(words));
    // SAFETY: both calls are about pages that `region` has mapped, and change none of their bytes.
    let is_done = unsafe { libc::mlock(start, len) == 0 && libc::munlock(start, len) == 0 };
    if is_done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let begin = thread_time();
        let work = (0..10_000_000_u64).fold(0, |a, b| std::hint::black_box(a ^ b));
        assert!(thread_time() > begin, "{work}");
    }

    #[test]
    fn the_cycle_counter_counts() {
        assert!(cycles_per_s().is_none_or(|rate| rate > 1e6));
    }
}
