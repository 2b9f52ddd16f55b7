//! What only the operating system can do.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Nice value of threads that must not wait for others: far ahead of ordinary work, behind what
/// keeps the machine alive.
const NICE: i32 = -15;

/// Lets the calling thread run before ordinary ones.
///
/// # Errors
/// When the system refuses, as it does without `CAP_SYS_NICE`.
pub(crate) fn put_ahead() -> io::Result<()> {
    // SAFETY: the call takes no pointer; 0 stands for the calling thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Processors that a mask of the system has room for.
const CPUS_MAX: usize = 1024;

/// A set of processors, as the system takes it.
type CpuMask = [u64; CPUS_MAX / 64];

/// The processors that this process may run on; empty when the system does not tell.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    let mut mask: CpuMask = [0; CPUS_MAX / 64];
    let size = size_of_val(&mask);
    // SAFETY: `mask` has room for `size` bytes; 0 stands for the calling thread.
    let rc = unsafe { libc::sched_getaffinity(0, size, mask.as_mut_ptr().cast()) };
    let is_set = |cpu: &usize| mask[cpu / 64] >> (cpu % 64) & 1 == 1;
    if rc == 0 { (0..CPUS_MAX).filter(is_set).collect() } else { Vec::new() }
}

/// Keeps the calling thread on one processor.
///
/// # Errors
/// When the system refuses, as it does if this process may not run there.
pub(crate) fn keep_to(cpu: usize) -> io::Result<()> {
    let mut mask: CpuMask = [0; CPUS_MAX / 64];
    *mask.get_mut(cpu / 64).ok_or(io::ErrorKind::InvalidInput)? |= 1 << (cpu % 64);
    // SAFETY: `mask` is valid for its size and only read; 0 stands for the calling thread.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Processor time of the calling thread, in nanoseconds; 0 where the system does not tell.
pub(crate) fn thread_time_ns() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: `time` has room for the structure.
    let rc = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) };
    if rc != 0 {
        return 0;
    }
    // SAFETY: clock_gettime returned 0, so the kernel has filled the structure.
    let time = unsafe { time.assume_init() };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Whether this process may make files in `directory`.
pub(crate) fn is_writable(directory: &Path) -> bool {
    let Ok(path) = CString::new(directory.as_os_str().as_bytes()) else { return false };
    // SAFETY: the pointer is that of a text that ends in a zero byte and outlives the call.
    unsafe { libc::access(path.as_ptr(), libc::W_OK | libc::X_OK) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let begin = thread_time_ns();
        let work = (0..10_000_000_u64).fold(0, |a, b| std::hint::black_box(a ^ b));
        assert!(thread_time_ns() > begin, "{work}");
    }

    #[test]
    fn a_thread_can_be_kept_to_a_processor() {
        std::thread::spawn(|| {
            let last = *allowed_cpus().last().unwrap();
            keep_to(last).unwrap();
            assert_eq!(allowed_cpus(), [last]);
            assert!(keep_to(CPUS_MAX - 1).is_err() && keep_to(CPUS_MAX).is_err());
        })
        .join()
        .unwrap();
    }
}
