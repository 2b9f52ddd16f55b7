//! Conditions of a run that need somebody's attention now.
//!
//! [`Snapshot::alarms_now`](crate::snapshot::Snapshot) derives them; display, report, log and metrics show
//! the same list.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// Most lines that are logged at once about one kind of alarm.
const LINES_MAX: usize = 4;

/// What an alarm is about; its [`name`](Self::name) is a label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AlarmKind {
    /// No frames come from a stream.
    StreamSilent,
    /// The time of a stream is far from that of the others.
    StreamSetApart,
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
}

impl AlarmKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::StreamSilent,
        Self::StreamSetApart,
        Self::NoFrames,
        Self::Recorder,
        Self::Exports,
        Self::ChannelTable,
        Self::SlowControl,
    ];

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::StreamSilent => "stream_silent",
            Self::StreamSetApart => "stream_set_apart",
            Self::NoFrames => "no_frames",
            Self::Recorder => "recorder",
            Self::Exports => "exports",
            Self::ChannelTable => "channel_table",
            Self::SlowControl => "slow_control",
        }
    }
}

/// One condition that needs attention, as long as it lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
        brief(raised, LINES_MAX).iter().for_each(|line| tracing::warn!("{line}"));
        brief(cleared, LINES_MAX).iter().for_each(|line| tracing::warn!("cleared: {line}"));
        active.clear();
        active.extend_from_slice(now);
    }
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
