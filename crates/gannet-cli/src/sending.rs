//! Watching frames being sent: until the end, a signal or a deadline, with a line a second.

use std::collections::HashSet;
use std::time::{Duration, Instant};
use std::{mem, thread};

use anyhow::Context;
use gannet_control::emulation::{Progress, Receiver, Running};
use gannet_measure::histogram::Summary;

use crate::exit::Outcome;
use crate::log;
use crate::signals::Signals;

/// Time between two looks at whether to stop.
const LOOK: Duration = Duration::from_millis(10);
/// Time between two lines.
const LINE: Duration = Duration::from_secs(1);

/// Prints a line a second to standard error until `running` has ended, was stopped by a signal,
/// or has run for `seconds`. It is asked to stop then; its report is still to be joined.
pub fn watch<R>(running: &Running<R>, signals: &Signals, seconds: Option<Duration>) {
    let progress = running.progress();
    let start = Instant::now();
    let mut last = Figures::of(&progress, start);
    while !running.is_finished()
        && signals.received().is_none()
        && seconds.is_none_or(|seconds| start.elapsed() < seconds)
    {
        thread::sleep(LOOK);
        if last.at.elapsed() >= LINE {
            let now = Figures::of(&progress, Instant::now());
            log::say(now.line(&last, start, &progress));
            last = now;
        }
    }
    running.stop();
}

/// How sending has ended: what was lost weighs more than the signal that ended it.
pub fn outcome(is_lost: bool, signals: &Signals) -> Outcome {
    match signals.received() {
        _ if is_lost => Outcome::Degraded,
        Some(signal) => Outcome::Interrupted(signal),
        None => Outcome::Ok,
    }
}

/// Waits until each of `receivers` listens; false when a signal came first.
///
/// # Errors
/// When one cannot be asked.
pub fn wait_for_listeners(receivers: &[Receiver], signals: &Signals) -> anyhow::Result<bool> {
    let mut asked = HashSet::new();
    for receiver in receivers.iter().filter(|receiver| asked.insert(*receiver)) {
        let mut said = false;
        let ask = || receiver.is_listening().with_context(|| format!("cannot ask {receiver}"));
        while !ask()? {
            if signals.received().is_some() {
                return Ok(false);
            }
            if !mem::replace(&mut said, true) {
                log::say(format_args!("waiting until somebody listens at {receiver}"));
            }
            thread::sleep(LOOK);
        }
    }
    Ok(true)
}

/// The figures at one time.
struct Figures {
    at: Instant,
    datagrams: u64,
    bytes: u64,
    late_ns: u64,
    late: u64,
}

impl Figures {
    fn of(progress: &Progress, at: Instant) -> Self {
        Self {
            at,
            datagrams: progress.datagrams.get(),
            bytes: progress.bytes.get(),
            late_ns: progress.lateness_ns.sum(),
            late: progress.lateness_ns.count(),
        }
    }

    /// What happened since `last`.
    fn line(&self, last: &Self, start: Instant, progress: &Progress) -> String {
        let seconds = (self.at - last.at).as_secs_f64();
        let rate = (self.datagrams - last.datagrams) as f64 / seconds;
        let gbit = (self.bytes - last.bytes) as f64 * 8e-9 / seconds;
        let late = match self.late - last.late {
            0 => String::new(),
            late => {
                let mean_us = (self.late_ns - last.late_ns) as f64 / late as f64 * 1e-3;
                format!(", {mean_us:.0} us late")
            }
        };
        let unsent = match progress.unsent.get() {
            0 => String::new(),
            unsent => format!(", {unsent} unsent"),
        };
        format!(
            "{:>4.0} s: {rate:.0} frames/s, {gbit:.3} Gbit/s{late}{unsent}",
            (self.at - start).as_secs_f64(),
        )
    }
}

/// The figures of a lateness in nanoseconds.
pub fn lateness(late: &Summary) -> String {
    if late.count == 0 {
        return "not measured: unpaced".into();
    }
    let [mean, p99, max] = [late.mean, late.p99 as f64, late.max as f64].map(|ns| ns * 1e-3);
    format!("mean {mean:.1} us, p99 {p99:.1} us, max {max:.1} us")
}
