//! What only the operating system can do.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

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

/// The interfaces of this machine that have addresses, one entry an address; empty when the system
/// does not tell.
pub(crate) fn interface_addresses() -> Vec<(String, IpAddr)> {
    let mut first = ptr::null_mut();
    // SAFETY: the pointer is written when the call succeeds, and only then used.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next: *const libc::ifaddrs = first;
    // SAFETY: the list ends in a null pointer and lives until it is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        if let Some(ip) = address(entry.ifa_addr) {
            // SAFETY: the name of an entry is a text that ends in a zero byte.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found.push((name.to_string_lossy().into_owned(), ip));
        }
        next = entry.ifa_next;
    }
    // SAFETY: the list is the one made above, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// The address behind a pointer of `getifaddrs`, if it is one of the Internet.
fn address(pointer: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the pointer is null or that of an address whose family can be read.
    let family = unsafe { pointer.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: an address of this family has this layout.
            let v4 = unsafe { pointer.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family has this layout.
            let v6 = unsafe { pointer.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
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

    #[test]
    fn every_address_of_an_interface_can_be_listened_on() {
        let found = interface_addresses();
        // Addresses of a link alone, fe80::, need the number of the interface with them.
        let everywhere = |ip: &IpAddr| !matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
        for (name, ip) in found.iter().filter(|(_, ip)| everywhere(ip)) {
            assert!(!name.is_empty());
            assert!(std::net::UdpSocket::bind((*ip, 0)).is_ok(), "{name} {ip}");
        }
        let loopback = |(_, ip): &(String, IpAddr)| *ip == Ipv4Addr::LOCALHOST;
        assert!(found.iter().any(loopback), "{found:?}");
    }
}
