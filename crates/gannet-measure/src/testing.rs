//! What the tests of every room have in common.

use std::fmt::Display;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

/// How the line of a test begins that cannot run here.
const PREFIX: &str = "skipped:";

/// Says that a test cannot run here: what is not tested, and why.
///
/// It is written past the capture of the test harness, so that it is seen. `cargo xtask test` collects
/// these lines, and does not count such a test as passed.
pub fn skipped(what: impl Display, why: impl Display) {
    // Where standard error is closed there is nobody to tell.
    let _closed = writeln!(std::io::stderr(), "{PREFIX} {what}, {why}");
}

/// An address that no other program has: its port is one of those that the system gives to nobody unasked.
pub fn free_address() -> SocketAddr {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    // Those of another run of the tests begin elsewhere.
    let first = 10_000 + (std::process::id() % 100) as u16 * 200;
    (Ipv4Addr::LOCALHOST, first + GIVEN.fetch_add(1, Ordering::Relaxed) % 2000).into()
}
