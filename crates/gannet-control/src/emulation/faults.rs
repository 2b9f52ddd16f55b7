//! Faults that people put into an emulated front end while a run takes its frames.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gannet_emulate::{FaultSwitch, LiveFault};
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::{Plan, nearest};
use crate::snapshot::Snapshot;

/// Times for which a fault may be on.
const TIME_MIN: Duration = Duration::from_millis(100);
const TIME_MAX: Duration = Duration::from_secs(60);
/// Injections that are remembered.
const REMEMBERED: usize = 32;
/// What stands for a stage where a figure of the streams tells, because nothing is dropped.
const STREAMS: &str = "streams";

/// A fault that can be put in, and what should come of it.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Injectable {
    /// Its name in commands.
    pub name: &'static str,
    /// What to call it.
    pub title: &'static str,
    /// What should happen, in a sentence or two.
    pub expect: &'static str,
    /// Stage of the ledger at which it shows, or `streams`.
    pub stage: &'static str,
    /// Reason for which that stage drops, or the figure of the streams.
    pub reason: &'static str,
    #[serde(skip)]
    fault: LiveFault,
}

/// All of them.
const INJECTABLES: [Injectable; 6] = [
    Injectable {
        name: "loss",
        title: "Lose 1 % of the frames",
        expect: "One frame in a hundred never leaves the front end. The readout misses each by its place in the stream, \
                 and counts it as lost before the socket; the run is degraded from then on.",
        stage: "sent",
        reason: "before_socket",
        fault: LiveFault::Loss,
    },
    Injectable {
        name: "burst-loss",
        title: "Lose bursts of 20 frames",
        expect: "Of every 400 frames of a stream, 20 in a row never leave. Each of them is counted as lost before the \
                 socket.",
        stage: "sent",
        reason: "before_socket",
        fault: LiveFault::BurstLoss,
    },
    Injectable {
        name: "cut",
        title: "Cut a stream",
        expect: "One stream sends nothing. An alarm says that it is silent, and the frames that it owes are counted as \
                 lost before the socket; it recovers by itself.",
        stage: "sent",
        reason: "before_socket",
        fault: LiveFault::Cut,
    },
    Injectable {
        name: "duplicate",
        title: "Send 1 % of the frames twice",
        expect: "The second copy of each is dropped as a duplicate. Nothing is lost.",
        stage: "frames",
        reason: "duplicate",
        fault: LiveFault::Duplicate,
    },
    Injectable {
        name: "reorder",
        title: "Send 1 % of the frames late",
        expect: "One frame in a hundred comes after later ones. It is put in its place and counted as late; nothing is \
                 lost.",
        stage: STREAMS,
        reason: "late",
        fault: LiveFault::Reorder,
    },
    Injectable {
        name: "wrong-header",
        title: "Corrupt 1 % of the headers",
        expect: "One frame in a hundred names a stream that does not exist. It is dropped as one of an unknown stream, \
                 and the stream that it was taken from misses it.",
        stage: "frames",
        reason: "unknown_stream",
        fault: LiveFault::WrongId,
    },
];

impl Injectable {
    /// What the run counts where this shows, from whatever cause.
    pub fn counted(&self, snapshot: &Snapshot) -> u64 {
        if self.stage == STREAMS {
            return snapshot.streams.iter().map(|stream| stream.late).sum();
        }
        let stage = snapshot.ledger.iter().find(|statement| statement.stage == self.stage);
        stage.map_or(0, |statement| statement.count(self.reason))
    }
}

/// A fault that was put in.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Injection {
    /// Counted from 1 in a run.
    pub number: u64,
    /// Name of the fault.
    pub fault: &'static str,
    /// Stream that it is for, where it is for one.
    pub stream: Option<String>,
    /// For how long, in seconds.
    pub seconds: f64,
    /// Frames that have suffered it.
    pub frames: u64,
    /// Whether it is still on.
    pub under_way: bool,
}

/// Why a fault is not put in.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// There is no such fault.
    #[error("there is no such fault{}", meant(.0))]
    UnknownFault(Option<String>),
    /// There is no such stream.
    #[error("the front end has no such stream{}", meant(.0))]
    UnknownStream(Option<String>),
    /// The fault is not one of a single stream.
    #[error("this fault is for all streams: leave `stream` out")]
    NoStream,
    /// The time is too short or too long.
    #[error("`seconds` must be {} to {}", TIME_MIN.as_secs_f64(), TIME_MAX.as_secs_f64())]
    Time,
    /// Another one is on.
    #[error("a fault is on already; wait until it is over")]
    Busy(Option<Injection>),
}

fn meant(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// Puts faults into the emulated front end of a run: one at a time, each for a bounded time.
#[derive(Debug)]
pub struct Faults {
    switch: Arc<FaultSwitch>,
    streams: Vec<String>,
    past: Mutex<Past>,
}

#[derive(Debug, Default)]
struct Past {
    count: u64,
    injections: Vec<Kept>,
}

/// An injection, with what its fault had done before it.
#[derive(Debug)]
struct Kept {
    injection: Injection,
    what: Injectable,
    before: u64,
}

impl Faults {
    /// Those of the front end that `plan` emulates.
    pub fn of(plan: &Plan) -> Self {
        Self::new(plan.detector.emulated().into_iter().map(|stream| stream.name).collect())
    }

    /// Those of a front end with these streams.
    pub fn new(streams: Vec<String>) -> Self {
        Self { switch: Arc::default(), streams, past: Mutex::default() }
    }

    /// What the front end is to obey.
    pub fn switch(&self) -> Arc<FaultSwitch> {
        Arc::clone(&self.switch)
    }

    /// Every fault, with the frames that have suffered it so far.
    pub fn all(&self) -> impl Iterator<Item = (&'static Injectable, u64)> {
        INJECTABLES.iter().map(|what| (what, self.switch.suffered(what.fault)))
    }

    /// Puts the fault of this name in for `time`, as the front end sends; into `stream`, or the first, if it is for one.
    ///
    /// # Errors
    /// Why it is not put in.
    pub fn inject(
        &self,
        name: &str,
        stream: Option<&str>,
        time: Duration,
    ) -> Result<Injection, Refused> {
        let what = INJECTABLES.iter().find(|what| what.name == name).ok_or_else(|| {
            let names = INJECTABLES.map(|what| what.name);
            Refused::UnknownFault(nearest(name, &names).map(str::to_owned))
        })?;
        let at = match stream {
            None => 0,
            Some(_) if what.fault != LiveFault::Cut => return Err(Refused::NoStream),
            Some(stream) => {
                self.streams.iter().position(|known| known == stream).ok_or_else(|| {
                    let names: Vec<_> = self.streams.iter().map(String::as_str).collect();
                    Refused::UnknownStream(nearest(stream, &names).map(str::to_owned))
                })?
            }
        };
        if !(TIME_MIN..=TIME_MAX).contains(&time) {
            return Err(Refused::Time);
        }
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        self.renew(&mut past);
        let last = past.injections.last().map(|kept| &kept.injection);
        let before = self.switch.suffered(what.fault);
        if last.is_some_and(|last| last.under_way) || !self.switch.switch_on(what.fault, at, time) {
            return Err(Refused::Busy(last.cloned()));
        }
        past.count += 1;
        let injection = Injection {
            number: past.count,
            fault: what.name,
            stream: self.streams.get(at).filter(|_| what.fault == LiveFault::Cut).cloned(),
            seconds: time.as_secs_f64(),
            frames: 0,
            under_way: true,
        };
        let injections = &mut past.injections;
        if injections.len() == REMEMBERED {
            injections.remove(0);
        }
        injections.push(Kept { injection: injection.clone(), what: *what, before });
        Ok(injection)
    }

    /// The last injections, oldest first.
    pub fn injections(&self) -> Vec<Injection> {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        self.renew(&mut past);
        past.injections.iter().map(|kept| kept.injection.clone()).collect()
    }

    /// Brings the last injection up to date: those before it are over, and were when it began.
    fn renew(&self, past: &mut Past) {
        let Some(Kept { injection, what, before }) = past.injections.last_mut() else { return };
        if injection.under_way {
            // In this order: what is over suffers no more.
            injection.under_way = self.switch.under_way().is_some();
            injection.frames = self.switch.suffered(what.fault) - *before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(5);

    fn faults() -> Faults {
        Faults::new(vec!["0".into(), "1".into()])
    }

    #[test]
    fn one_fault_is_on_at_a_time() {
        let faults = faults();
        let first = faults.inject("loss", None, TIME).unwrap();
        assert_eq!((first.number, first.under_way, first.stream.as_deref()), (1, true, None));
        let Err(Refused::Busy(Some(other))) = faults.inject("cut", Some("1"), TIME) else {
            panic!("two at once");
        };
        assert_eq!((other, faults.injections()), (first.clone(), vec![first]));
    }

    #[test]
    fn what_cannot_be_put_in_is_told_with_what_may_be_meant() {
        let faults = faults();
        let refused = |name, stream, time| faults.inject(name, stream, time).unwrap_err();
        assert_eq!(refused("los", None, TIME), Refused::UnknownFault(Some("loss".into())));
        assert_eq!(refused("zzzzzzzzzzzz", None, TIME), Refused::UnknownFault(None));
        assert!(matches!(refused("cut", Some("17"), TIME), Refused::UnknownStream(_)));
        assert_eq!(refused("loss", Some("1"), TIME), Refused::NoStream);
        for time in [Duration::ZERO, Duration::from_secs(61)] {
            assert_eq!(refused("loss", None, time), Refused::Time);
        }
        assert_eq!(faults.injections(), []);
        let cut = faults.inject("cut", None, TIME).unwrap();
        assert_eq!(cut.stream.as_deref(), Some("0"));
    }
}
