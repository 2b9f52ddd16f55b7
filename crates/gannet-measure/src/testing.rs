//! What the tests of every room say in one way.

use std::fmt::Display;
use std::io::Write;

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
