//! Watching a run until it is to end, and bringing it to its end.

use std::thread;
use std::time::{Duration, Instant};

use gannet_control::run::Run;
use gannet_control::run_control::State;
use gannet_control::snapshot::Snapshot;

use crate::signals::Signals;
use crate::view::View;

/// Time between two looks at the run.
const LOOK: Duration = Duration::from_millis(20);

/// Why watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The time was over, or every source had ended.
    Over,
    /// A signal asked for it.
    Signal(i32),
}

/// Shows the run until `until`, a signal, or its own end.
pub fn watch(run: &Run, view: &mut View, signals: &Signals, until: Option<Instant>) -> End {
    let mut next_show = Instant::now();
    let mut primitive_seen = false;
    loop {
        let now = Instant::now();
        let snapshot = run.snapshot();
        if !primitive_seen && snapshot.trigger.latest_primitive.is_some() {
            primitive_seen = true;
            view.note(&first_primitive(&snapshot));
        }
        if let Some(signal) = signals.received() {
            return End::Signal(signal);
        }
        let over = until.is_some_and(|until| now >= until);
        if over || run.is_exhausted() || snapshot.state == State::Error {
            return End::Over;
        }
        if now >= next_show {
            next_show = now + view.interval();
            view.show(&snapshot);
        }
        thread::sleep(LOOK);
    }
}

/// Drains the run, which may take long when much waits to be written, and shows how it goes.
pub fn drain(run: Run, mut view: View) -> Snapshot {
    view.note("draining: what was taken is processed to the end, and views of the files are made");
    let now = run.snapshot_source();
    let drained = thread::spawn(move || run.drain());
    let mut next_show = Instant::now() + view.interval();
    while !drained.is_finished() {
        thread::sleep(LOOK);
        if Instant::now() >= next_show {
            next_show += view.interval();
            view.show(&now());
        }
    }
    let snapshot = drained.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    view.show(&snapshot);
    view.close();
    snapshot
}

fn first_primitive(snapshot: &Snapshot) -> String {
    let Some(tp) = snapshot.trigger.latest_primitive else { return String::new() };
    format!(
        "first trigger primitives after {:.2} s: channel {} at tick {}, {} samples over threshold, \
         peak {} counts",
        snapshot.elapsed_s, tp.channel, tp.time_start, tp.samples_over_threshold, tp.adc_peak
    )
}
