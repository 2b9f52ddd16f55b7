//! Conditions of a run that need somebody's attention now.
//!
//! A run derives some from its snapshot (`Snapshot::alarms_now`); [`rule`]s raise others from its figures. Display, log,
//! metrics and pages show the same list; the [`board`] knows since when, and who has seen them.

pub mod action;
pub mod board;
pub mod rule;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Serialize;

/// Most lines that are logged at once about one kind of alarm.
const LINES_MAX: usize = 4;

/// What an alarm is about; its [`name`](Self::name) is a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlarmKind {
    /// No frames come from a stream.
    StreamSilent,
    /// The time of a stream is far from that of the others.
    StreamSetApart,
    /// No readout is there for a source, where readouts are processes of their own.
    NoReadout,
    /// The run has ended without a frame.
    NoFrames,
    /// The recorder cannot write, or what it had written is gone.
    Recorder,
    /// A finished log has no exports.
    Exports,
    /// The table of channels cannot be written.
    ChannelTable,
    /// A command to a module failed, and no later one has set the value.
    SlowControl,
    /// A figure is beyond the limit of a rule.
    Rule,
}

impl AlarmKind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::StreamSilent,
        Self::StreamSetApart,
        Self::NoReadout,
        Self::NoFrames,
        Self::Recorder,
        Self::Exports,
        Self::ChannelTable,
        Self::SlowControl,
        Self::Rule,
    ];

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::StreamSilent => "stream_silent",
            Self::StreamSetApart => "stream_set_apart",
            Self::NoReadout => "no_readout",
            Self::NoFrames => "no_frames",
            Self::Recorder => "recorder",
            Self::Exports => "exports",
            Self::ChannelTable => "channel_table",
            Self::SlowControl => "slow_control",
            Self::Rule => "rule",
        }
    }

    /// What it means, for those on shift; a rule says so itself.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::StreamSilent => {
                "No frames come from a part of the detector: its data are missing."
            }
            Self::StreamSetApart => {
                "The clock of a stream is wrong: what is found in it cannot be combined with the others."
            }
            Self::NoReadout => {
                "Nothing is read out of a part of the detector: its data are missing."
            }
            Self::NoFrames => "The run has no data.",
            Self::Recorder => "What the run decides to keep does not reach the disk.",
            Self::Exports => {
                "The data are safe in the log, but files for other tools were not made of it."
            }
            Self::ChannelTable => {
                "Pedestals, noise and rates of the channels are not written; data are."
            }
            Self::SlowControl => "A front-end module may not be set as the configuration says.",
            Self::Rule => "",
        }
    }

    /// What to do about it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::StreamSilent => {
                "Check power and link of its front end, and that it sends to the address of its source."
            }
            Self::StreamSetApart => "Check the clock source of its front end.",
            Self::NoReadout => {
                "Start its readout again, and check that it reaches the builder over the network."
            }
            Self::NoFrames => {
                "Check that the front ends send to the addresses of the sources, and no firewall is between."
            }
            Self::Recorder => {
                "Check that the disk is there, writable and not full: `gannet doctor` looks at it."
            }
            Self::Exports => "Make them by `gannet export` once the cause is gone.",
            Self::ChannelTable => "Check that the directory is writable and the disk not full.",
            Self::SlowControl => "Check the module, and set it anew by `gannet ctl`.",
            Self::Rule => "",
        }
    }
}

/// One condition that needs attention, as long as it lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Alarm {
    /// What it is about.
    pub kind: AlarmKind,
    /// Which part of the run it is about, such as `stream 3/1/0/2`.
    pub subject: String,
    /// A sentence that begins with the subject: what is wrong, and what to do.
    pub text: String,
}

impl Alarm {
    /// An alarm whose text is `subject` followed by `predicate`, which may change while it lasts.
    pub fn new(kind: AlarmKind, subject: impl Into<String>, predicate: impl fmt::Display) -> Self {
        let subject = subject.into();
        let text = format!("{subject} {predicate}");
        Self { kind, subject, text }
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.kind, &self.subject) == (other.kind, &other.subject)
    }
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Alarms in lines: of each kind the first `most`, and how many more there are.
pub fn brief<'a>(alarms: impl IntoIterator<Item = &'a Alarm>, most: usize) -> Vec<String> {
    let mut by_kind: BTreeMap<AlarmKind, Vec<&Alarm>> = BTreeMap::new();
    for alarm in alarms {
        by_kind.entry(alarm.kind).or_default().push(alarm);
    }
    let mut lines = Vec::new();
    for (kind, alarms) in by_kind {
        lines.extend(alarms.iter().take(most).map(ToString::to_string));
        let more = alarms.len().saturating_sub(most);
        lines.extend((more > 0).then(|| format!("and {more} more ({})", kind.name())));
    }
    lines
}

/// Writes a log line when an alarm is raised, and one when it clears.
#[derive(Debug, Default)]
pub(crate) struct AlarmLog {
    active: Mutex<Vec<Alarm>>,
}

impl AlarmLog {
    /// Compares `now` with the alarms of the last call and logs the difference.
    pub fn update(&self, now: &[Alarm]) {
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        let (raised, cleared) = changes(&active, now);
        log(raised, cleared);
        active.clear();
        active.extend_from_slice(now);
    }
}

/// Writes the first of each kind of alarms that were raised and that cleared.
pub(crate) fn log<'a>(
    raised: impl IntoIterator<Item = &'a Alarm>,
    cleared: impl IntoIterator<Item = &'a Alarm>,
) {
    brief(raised, LINES_MAX).iter().for_each(|line| tracing::warn!("{line}"));
    brief(cleared, LINES_MAX).iter().for_each(|line| tracing::warn!("cleared: {line}"));
}

/// The alarms that were raised between `before` and `now`, and those that cleared.
fn changes<'a>(before: &'a [Alarm], now: &'a [Alarm]) -> (Vec<&'a Alarm>, Vec<&'a Alarm>) {
    let absent =
        |from: &'a [Alarm]| move |alarm: &&Alarm| !from.iter().any(|other| other.is_same(alarm));
    let raised = now.iter().filter(absent(before)).collect();
    (raised, before.iter().filter(absent(now)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alarm(subject: &str, predicate: &str) -> Alarm {
        Alarm::new(AlarmKind::StreamSilent, subject, predicate)
    }

    #[test]
    fn an_alarm_is_logged_when_it_is_raised_and_when_it_clears() {
        let first = [alarm("stream 1", "is silent")];
        let second = [alarm("stream 1", "is silent for longer"), alarm("stream 2", "is silent")];
        let (raised, cleared) = changes(&first, &second);
        assert_eq!(raised, [&second[1]], "a text that changes is no other alarm");
        assert!(cleared.is_empty());
        let (raised, cleared) = changes(&second, &first);
        assert_eq!(cleared, [&second[1]]);
        assert!(raised.is_empty());
    }

    #[test]
    fn of_many_alarms_of_a_kind_the_first_are_told_and_the_number_of_the_rest() {
        let mut alarms: Vec<_> =
            (0..5).map(|n| alarm(&format!("stream {n}"), "is silent")).collect();
        alarms.push(Alarm::new(AlarmKind::Recorder, "the recorder", "cannot write"));
        let lines = ["stream 0 is silent", "stream 1 is silent", "and 3 more (stream_silent)"];
        assert_eq!(brief(&alarms, 2), [&lines[..], &["the recorder cannot write"]].concat());
        assert_eq!(brief(&alarms, 5).len(), 6);
    }

    #[test]
    fn kinds_are_named_as_in_json() {
        for kind in AlarmKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
