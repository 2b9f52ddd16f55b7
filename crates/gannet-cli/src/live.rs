//! Watching a run until it is to end, and draining it.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use gannet_control::run::Run;
use gannet_control::run_control::State;
use gannet_control::snapshot::Snapshot;

use crate::display::LiveDisplay;
use crate::report::{End, Report};
use crate::signals::Signals;
use crate::{log, ready};

/// Time between two looks at the run.
const LOOK: Duration = Duration::from_millis(20);

/// Shows the run until `is_over`, a signal, or its own end.
pub fn watch(
    run: &Run,
    display: &mut LiveDisplay,
    signals: &Signals,
    mut is_over: impl FnMut(&mut LiveDisplay) -> bool,
) -> End {
    let mut next_show = Instant::now();
    let (mut primitive_seen, mut joined, mut read_out) = (false, Some(false), HashSet::new());
    let figures = run.figures();
    loop {
        let now = Instant::now();
        let snapshot = figures.latest();
        if !primitive_seen && snapshot.trigger.latest_primitive.is_some() {
            primitive_seen = true;
            display.note(&first_primitive(&snapshot));
        }
        note_readouts(&snapshot, &mut read_out, display);
        let joined_before = std::mem::replace(&mut joined, run.joined());
        if joined_before == Some(false) && joined == Some(true) {
            display.note("readouts and builder are joined");
        }
        if let Some(signal) = signals.received() {
            return End::Signal(signal);
        }
        if is_over(display) || run.is_exhausted() || run.state() == State::Error {
            return End::Over;
        }
        if now >= next_show {
            next_show = now + display.interval();
            display.show(&snapshot);
        }
        thread::sleep(LOOK);
    }
}

/// Notes of which sources a readout has joined, or joined again; `read_out` are those that had one.
fn note_readouts(snapshot: &Snapshot, read_out: &mut HashSet<String>, display: &mut LiveDisplay) {
    for source in &snapshot.sources {
        match source.has_readout {
            Some(true) if read_out.insert(source.name.clone()) => {
                display.note(&format!("{}: its readout has joined", source.name));
            }
            Some(false) => _ = read_out.remove(&source.name),
            _ => {}
        }
    }
}

/// Drains the run, which may take long when much waits to be written, shows how it goes, and reads
/// the files back. A further signal says what it waits for; one more cuts it short.
pub fn drain(run: Run, mut display: LiveDisplay, signals: &Signals) -> Report {
    ready::announce_stop();
    display.note("draining: what was taken is processed to the end, and the files are exported");
    let (figures, drain) = (run.figures(), run.watch_drain());
    let drained = thread::spawn(move || run.drain());
    let mut patience = Patience::new(signals);
    let mut next_show = Instant::now() + display.interval();
    while !drained.is_finished() {
        thread::sleep(LOOK);
        match patience.turn() {
            Turn::Patient => (),
            Turn::Asks => display.note(&asked(&drain.waits_for())),
            Turn::GivesUp => {
                display.note("cutting the drain short: what is not written is counted as lost");
                drain.cut_short();
            }
        }
        if Instant::now() >= next_show {
            next_show += display.interval();
            display.show(&figures.latest());
        }
    }
    let snapshot = drained.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    display.show(&snapshot);
    display.close();
    read_back(snapshot, patience)
}

/// Makes the report. The files are left unread when somebody has no patience for it.
fn read_back(snapshot: Snapshot, mut patience: Patience<'_>) -> Report {
    let unread = Report::unread(snapshot.clone());
    if patience.is_over() {
        return unread;
    }
    let reading = thread::spawn(move || Report::new(snapshot));
    while !reading.is_finished() {
        thread::sleep(LOOK);
        match patience.turn() {
            Turn::Patient => (),
            Turn::Asks => log::say(asked("reading the files back")),
            Turn::GivesUp => {
                log::say("the files are not read back; `gannet verify` does it");
                return unread;
            }
        }
    }
    reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn asked(what: &str) -> String {
    format!("still draining, waiting for {what}; the next signal cuts this short")
}

/// What whoever sent the signals wants now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Patient,
    /// The second signal: to know what is waited for.
    Asks,
    /// The third: the end.
    GivesUp,
}

/// Counts the signals that come during a drain.
struct Patience<'a> {
    signals: &'a Signals,
    /// Requests before the drain: none if the time of the run was over.
    before: u32,
    heard: u32,
}

impl<'a> Patience<'a> {
    fn new(signals: &'a Signals) -> Self {
        Self { signals, before: signals.requests(), heard: 0 }
    }

    fn turn(&mut self) -> Turn {
        let requests = self.signals.requests() - self.before;
        if requests == self.heard {
            return Turn::Patient;
        }
        self.heard = requests;
        if self.is_over() { Turn::GivesUp } else { Turn::Asks }
    }

    fn is_over(&self) -> bool {
        self.heard > 1
    }
}

fn first_primitive(snapshot: &Snapshot) -> String {
    let Some(tp) = snapshot.trigger.latest_primitive else { return String::new() };
    format!(
        "first trigger primitives after {:.2} s: channel {} at tick {}, {} samples over threshold, \
         peak {} counts",
        snapshot.elapsed_s, tp.channel, tp.time_start, tp.samples_over_threshold, tp.adc_peak
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::{SIGINT, SIGTERM};

    #[test]
    fn the_second_signal_of_a_drain_asks_and_the_third_gives_up() {
        for begun_by_signal in [true, false] {
            let signals = Signals::none();
            if begun_by_signal {
                signals.simulate(SIGINT);
            }
            let mut patience = Patience::new(&signals);
            assert_eq!(patience.turn(), Turn::Patient);
            for (signal, turn) in [(SIGINT, Turn::Asks), (SIGTERM, Turn::GivesUp)] {
                signals.simulate(signal);
                assert_eq!((patience.turn(), patience.turn()), (turn, Turn::Patient));
            }
            assert!(patience.is_over());
        }
    }
}
