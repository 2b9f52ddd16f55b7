//! Faults that people put into a run whose front end is emulated, while it takes frames.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gannet_emulate::{FaultSwitch, LiveFault};
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::{Plan, Role, nearest};
use crate::snapshot::Snapshot;

/// Times for which a fault may be on.
const TIME_MIN: Duration = Duration::from_millis(100);
const TIME_MAX: Duration = Duration::from_secs(60);
/// Injections that are remembered.
const REMEMBERED: usize = 32;
/// What stands for a stage where a figure of the streams tells, because nothing is dropped.
const STREAMS: &str = "streams";
/// Stage of the ledger in which chunks come to the disk.
const RECORDER: &str = "recorder";
/// What stands for a stage where a figure of the trigger tells.
const TRIGGER: &str = "trigger";

/// What a run counts of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    /// Drops of a stage for a reason.
    Drops,
    /// Frames that came late.
    Late,
    /// Primitives of the channels that were made noisy.
    Primitives,
    /// Times that the disk did not answer, or that writing failed.
    Silences,
    Outages,
    /// Times that the trigger decided nothing.
    Pauses,
}

/// A fault that can be put in, and what should come of it.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Injectable {
    /// Its name in commands.
    pub name: &'static str,
    /// What to call it.
    pub title: &'static str,
    /// What should happen, in a few sentences.
    pub expect: &'static str,
    /// Stage of the ledger at which it shows; or `streams`, `channels`, `recorder` or `trigger` where a figure of those
    /// tells.
    pub stage: &'static str,
    /// Reason for which that stage drops, or the figure that tells.
    pub reason: &'static str,
    /// What its truth is a number of, in words that come before the number.
    pub did: &'static str,
    #[serde(skip)]
    fault: LiveFault,
    #[serde(skip)]
    figure: Figure,
}

/// What frames suffer, before their number.
const FRAMES: &str = "frames that the front end did it to";

/// All of them.
const INJECTABLES: [Injectable; LiveFault::ALL.len()] = [
    Injectable {
        name: "loss",
        title: "Lose 1 % of the frames",
        expect: "One frame in a hundred never leaves the front end. The readout misses each by its place in the stream, \
                 and counts it as lost before the socket; the run is degraded from then on.",
        stage: "sent",
        reason: "before_socket",
        did: FRAMES,
        fault: LiveFault::Loss,
        figure: Figure::Drops,
    },
    Injectable {
        name: "burst-loss",
        title: "Lose bursts of 20 frames",
        expect: "Of every 400 frames of a stream, 20 in a row never leave. Each of them is counted as lost before the \
                 socket.",
        stage: "sent",
        reason: "before_socket",
        did: FRAMES,
        fault: LiveFault::BurstLoss,
        figure: Figure::Drops,
    },
    Injectable {
        name: "cut",
        title: "Cut a stream",
        expect: "One stream sends nothing. An alarm says that it is silent, and the frames that it owes are counted as \
                 lost before the socket; it recovers by itself.",
        stage: "sent",
        reason: "before_socket",
        did: FRAMES,
        fault: LiveFault::Cut,
        figure: Figure::Drops,
    },
    Injectable {
        name: "duplicate",
        title: "Send 1 % of the frames twice",
        expect: "The second copy of each is dropped as a duplicate. Nothing is lost.",
        stage: "frames",
        reason: "duplicate",
        did: FRAMES,
        fault: LiveFault::Duplicate,
        figure: Figure::Drops,
    },
    Injectable {
        name: "reorder",
        title: "Send 1 % of the frames late",
        expect: "One frame in a hundred comes after later ones. It is put in its place and counted as late; nothing is \
                 lost.",
        stage: STREAMS,
        reason: "late",
        did: FRAMES,
        fault: LiveFault::Reorder,
        figure: Figure::Late,
    },
    Injectable {
        name: "wrong-header",
        title: "Corrupt 1 % of the headers",
        expect: "One frame in a hundred names a stream that does not exist. It is dropped as one of an unknown stream, \
                 and the stream that it was taken from misses it.",
        stage: "frames",
        reason: "unknown_stream",
        did: FRAMES,
        fault: LiveFault::WrongId,
        figure: Figure::Drops,
    },
    Injectable {
        name: "noise",
        title: "Make a channel noisy",
        expect: "In every fourth frame of a stream one channel has a hit that no particle made. The search finds each, and \
                 within a second the channel is named as noisy, with its rate. Nothing is lost.",
        stage: "channels",
        reason: "primitives",
        did: "hits put into it",
        fault: LiveFault::Noise,
        figure: Figure::Primitives,
    },
    Injectable {
        name: "stalled-disk",
        title: "Stall the recorder",
        expect: "The disk does not answer. What is to be written waits in memory, and an alarm says since when. Once the disk \
                 answers all of it is written: nothing is lost as long as the memory lasts.",
        stage: RECORDER,
        reason: "silences",
        did: "times that the disk did not answer",
        fault: LiveFault::StalledDisk,
        figure: Figure::Silences,
    },
    Injectable {
        name: "full-disk",
        title: "Fill the disk",
        expect: "The disk has no space left. What is to be written waits in memory, and an alarm says why; what does not fit \
                 there is dropped for the full disk. Recording goes on by itself, at the latest a second after there is space.",
        stage: RECORDER,
        reason: "outages",
        did: "times that the disk was full",
        fault: LiveFault::FullDisk,
        figure: Figure::Outages,
    },
    Injectable {
        name: "stopped-trigger",
        title: "Stop the trigger",
        expect: "Nothing is decided. Frames are taken and searched as before; candidates are dropped as paused at the stage \
                 module level, and the log has the time as a busy interval. No frame is lost.",
        stage: TRIGGER,
        reason: "pauses",
        did: "times that the trigger was stopped",
        fault: LiveFault::StoppedTrigger,
        figure: Figure::Pauses,
    },
];

/// What came of a fault so far.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Fault")]
pub struct FaultAccount {
    /// The fault.
    #[serde(flatten)]
    pub what: &'static Injectable,
    /// How much suffered it since the run began, as known by who did it.
    pub truth: u64,
    /// What the run has counted at its stage for its reason, from whatever cause.
    pub counted: u64,
    /// Of a fault of the disk, what became of the chunks that are to be written.
    pub chunks: Option<Chunks>,
}

/// What became of the chunks that are to be written.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Chunks {
    /// So many wait now.
    pub waiting: u64,
    /// So many were dropped since the run began, for whatever reason.
    pub dropped: u64,
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
    /// Channel that it is for, where it is for one.
    pub channel: Option<u32>,
    /// For how long, in seconds.
    pub seconds: f64,
    /// How much has suffered it.
    pub suffered: u64,
    /// Whether it is still on.
    pub under_way: bool,
}

impl Injectable {
    /// What the run counts where this shows, from whatever cause.
    fn counted(&self, snapshot: &Snapshot, noisy: &[Noisy]) -> u64 {
        match self.figure {
            Figure::Drops => {
                let stage = snapshot.ledger.iter().find(|statement| statement.stage == self.stage);
                stage.map_or(0, |statement| statement.count(self.reason))
            }
            Figure::Late => snapshot.streams.iter().map(|stream| stream.late).sum(),
            Figure::Primitives => noisy.iter().map(|channel| channel.counted(snapshot)).sum(),
            Figure::Silences => snapshot.recorder.silences,
            Figure::Outages => snapshot.recorder.outages,
            Figure::Pauses => snapshot.trigger.pauses,
        }
    }
}

/// Primitives of a channel as of the last look at it.
fn primitives(snapshot: &Snapshot, channel: u32) -> u64 {
    let found = snapshot.channels.all.iter().find(|figures| figures.channel == channel);
    found.map_or(0, |figures| figures.tps)
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

/// Puts faults into a run whose front end is emulated: one at a time, each for a bounded time.
#[derive(Debug)]
pub struct Faults {
    switch: Arc<FaultSwitch>,
    streams: Vec<String>,
    breakable: Breakable,
    past: Mutex<Past>,
}

/// What beside the front end can get into trouble.
#[derive(Clone, Copy, Debug, Default)]
pub struct Breakable {
    /// The disk, where something is recorded.
    pub disk: bool,
    /// The trigger, where it can pause.
    pub trigger: bool,
}

#[derive(Debug, Default)]
struct Past {
    count: u64,
    injections: Vec<Kept>,
    /// Channels that were made noisy.
    noisy: Vec<Noisy>,
}

/// A channel that was made noisy.
#[derive(Debug)]
struct Noisy {
    channel: u32,
    /// Primitives that it had before, or that came while it was left alone.
    others: u64,
    /// Hits that were put into it, those of an injection under way left out.
    put_in: u64,
    is_over: bool,
    /// Its primitives, without those others, as of the first look after that.
    at_end: Option<u64>,
}

impl Noisy {
    fn new(channel: u32, others: u64) -> Self {
        Self { channel, others, put_in: 0, is_over: false, at_end: None }
    }

    /// Its primitives while it was made noisy: when that is over, those that come later count until all hits that were
    /// put in can have been found.
    fn counted(&self, snapshot: &Snapshot) -> u64 {
        let since = primitives(snapshot, self.channel).saturating_sub(self.others);
        self.at_end.map_or(since, |at_end| since.min(self.put_in.max(at_end)))
    }

    /// It is made noisy again.
    fn begin(&mut self, snapshot: &Snapshot) {
        let since = primitives(snapshot, self.channel).saturating_sub(self.others);
        self.others += since - self.counted(snapshot);
        (self.is_over, self.at_end) = (false, None);
    }

    /// So many hits were put into it, and no more are.
    fn end(&mut self, put_in: u64) {
        self.put_in += put_in;
        self.is_over = true;
    }

    /// Somebody looks.
    fn look(&mut self, snapshot: &Snapshot) {
        if self.is_over && self.at_end.is_none() {
            self.at_end = Some(self.counted(snapshot));
        }
    }
}

/// An injection, with what its fault had done before it.
#[derive(Debug)]
struct Kept {
    injection: Injection,
    what: &'static Injectable,
    before: u64,
}

impl Faults {
    /// Those of a run of `plan`, whose trigger may be one that `can_pause`.
    pub fn of(plan: &Plan, can_pause: bool) -> Self {
        let streams = plan.detector.emulated().into_iter().map(|stream| stream.name).collect();
        let trigger = can_pause && plan.role != Role::Readout;
        Self::new(streams, Breakable { disk: plan.settings.recorder.enabled, trigger })
    }

    /// Those of a run whose front end has these streams.
    pub fn new(streams: Vec<String>, breakable: Breakable) -> Self {
        Self { switch: Arc::default(), streams, breakable, past: Mutex::default() }
    }

    /// What those obey who do the faults.
    pub fn switch(&self) -> Arc<FaultSwitch> {
        Arc::clone(&self.switch)
    }

    /// The faults that this run can have.
    fn possible(&self) -> impl Iterator<Item = &'static Injectable> {
        INJECTABLES.iter().filter(|what| match what.figure {
            Figure::Primitives => self.switch.noisy_channel(0).is_some(),
            Figure::Silences | Figure::Outages => self.breakable.disk,
            Figure::Pauses => self.breakable.trigger,
            Figure::Drops | Figure::Late => true,
        })
    }

    /// What came of every fault so far, by the last `snapshot`.
    pub fn accounts(&self, snapshot: &Snapshot) -> Vec<FaultAccount> {
        let mut past = self.lock();
        self.renew(&mut past);
        past.noisy.iter_mut().for_each(|channel| channel.look(snapshot));
        let account = |what: &'static Injectable| {
            let recorder = snapshot.ledger.iter().find(|statement| statement.stage == RECORDER);
            let chunks = recorder.map(|statement| Chunks {
                waiting: statement.under_way,
                dropped: statement.dropped_total(),
            });
            FaultAccount {
                what,
                truth: self.switch.suffered(what.fault),
                counted: what.counted(snapshot, &past.noisy),
                chunks: chunks.filter(|_| what.stage == RECORDER),
            }
        };
        self.possible().map(account).collect()
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
        snapshot: &Snapshot,
    ) -> Result<Injection, Refused> {
        let what = self.possible().find(|what| what.name == name).ok_or_else(|| {
            let names: Vec<_> = self.possible().map(|what| what.name).collect();
            Refused::UnknownFault(nearest(name, &names).map(str::to_owned))
        })?;
        let is_of_one = what.fault.is_of_one_stream();
        let at = match stream {
            None => 0,
            Some(_) if !is_of_one => return Err(Refused::NoStream),
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
        let mut past = self.lock();
        self.renew(&mut past);
        past.noisy.iter_mut().for_each(|channel| channel.look(snapshot));
        let last = past.injections.last().map(|kept| &kept.injection);
        let before = self.switch.suffered(what.fault);
        if last.is_some_and(|last| last.under_way) || !self.switch.switch_on(what.fault, at, time) {
            return Err(Refused::Busy(last.cloned()));
        }
        let channel = self.switch.noisy_channel(at).filter(|_| what.fault == LiveFault::Noise);
        if let Some(channel) = channel {
            match past.noisy.iter_mut().find(|known| known.channel == channel) {
                Some(known) => known.begin(snapshot),
                None => {
                    let others = primitives(snapshot, channel);
                    past.noisy.push(Noisy::new(channel, others));
                }
            }
        }
        past.count += 1;
        let injection = Injection {
            number: past.count,
            fault: what.name,
            stream: self.streams.get(at).filter(|_| is_of_one).cloned(),
            channel,
            seconds: time.as_secs_f64(),
            suffered: 0,
            under_way: true,
        };
        let injections = &mut past.injections;
        if injections.len() == REMEMBERED {
            injections.remove(0);
        }
        injections.push(Kept { injection: injection.clone(), what, before });
        Ok(injection)
    }

    /// The last injections, oldest first.
    pub fn injections(&self) -> Vec<Injection> {
        let mut past = self.lock();
        self.renew(&mut past);
        past.injections.iter().map(|kept| kept.injection.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the last injection up to date: those before it are over, and were when it began.
    fn renew(&self, past: &mut Past) {
        let Past { injections, noisy, .. } = past;
        let Some(Kept { injection, what, before }) = injections.last_mut() else { return };
        if !injection.under_way {
            return;
        }
        // In this order: what is over suffers no more.
        injection.under_way = self.switch.order().is_some();
        injection.suffered = self.switch.suffered(what.fault) - *before;
        if !injection.under_way {
            let made = noisy.iter_mut().find(|known| Some(known.channel) == injection.channel);
            made.into_iter().for_each(|made| made.end(injection.suffered));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::ChannelFigures;

    const TIME: Duration = Duration::from_secs(5);

    fn faults() -> Faults {
        Faults::new(vec!["0".into(), "1".into()], Breakable { disk: true, trigger: true })
    }

    #[test]
    fn one_fault_is_on_at_a_time() {
        let (faults, now) = (faults(), Snapshot::default());
        let first = faults.inject("loss", None, TIME, &now).unwrap();
        assert_eq!((first.number, first.under_way, first.stream.as_deref()), (1, true, None));
        let Err(Refused::Busy(Some(other))) = faults.inject("cut", Some("1"), TIME, &now) else {
            panic!("two at once");
        };
        assert_eq!((other, faults.injections()), (first.clone(), vec![first]));
    }

    /// A run that has found so many primitives in channel 7.
    fn found(tps: u64) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let figures = ChannelFigures { channel: 7, tps, ..ChannelFigures::default() };
        snapshot.channels.all = vec![figures].into();
        snapshot
    }

    #[test]
    fn what_a_noisy_channel_finds_later_is_not_counted() {
        let mut noisy = Noisy::new(7, 10);
        assert_eq!(noisy.counted(&found(25)), 15);
        // The last 5 of 20 are still to be found.
        noisy.end(20);
        noisy.look(&found(25));
        assert_eq!([25, 28, 30, 1000].map(|tps| noisy.counted(&found(tps))), [15, 18, 20, 20]);
        noisy.begin(&found(1000));
        assert_eq!([1000, 1004].map(|tps| noisy.counted(&found(tps))), [20, 24]);
        // Particles were found in it too.
        noisy.end(3);
        noisy.look(&found(1004));
        assert_eq!(noisy.counted(&found(2000)), 24);
    }

    #[test]
    fn what_cannot_be_put_in_is_told_with_what_may_be_meant() {
        let (faults, now) = (faults(), Snapshot::default());
        let refused = |name, stream, time| faults.inject(name, stream, time, &now).unwrap_err();
        assert_eq!(refused("los", None, TIME), Refused::UnknownFault(Some("loss".into())));
        assert_eq!(refused("zzzzzzzzzzzz", None, TIME), Refused::UnknownFault(None));
        assert!(matches!(refused("cut", Some("17"), TIME), Refused::UnknownStream(_)));
        assert_eq!(refused("loss", Some("1"), TIME), Refused::NoStream);
        for time in [Duration::ZERO, Duration::from_secs(61)] {
            assert_eq!(refused("loss", None, time), Refused::Time);
        }
        assert_eq!(faults.injections(), []);
        let cut = faults.inject("cut", None, TIME, &now).unwrap();
        assert_eq!(cut.stream.as_deref(), Some("0"));
    }
}
