//! The alarms of a process: which are raised, since when, and who has acknowledged them.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Alarm, AlarmKind};

/// Most alarms that are raised at a time; further ones are counted.
pub const ACTIVE_MAX: usize = 256;

/// Alarms that are remembered after they cleared.
pub const PAST_MAX: usize = 100;

/// What needs attention now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Name of the rule, or of the kind of alarm.
    pub rule: String,
    /// The alarm.
    pub alarm: Alarm,
    /// What it means.
    pub meaning: String,
    /// What to do.
    pub advice: String,
}

impl Condition {
    /// That of an alarm which a run raises by itself.
    pub fn of(alarm: &Alarm) -> Self {
        Self {
            rule: alarm.kind.name().into(),
            alarm: alarm.clone(),
            meaning: alarm.kind.meaning().into(),
            advice: alarm.kind.advice().into(),
        }
    }
}

/// Who has seen an alarm.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Acknowledged {
    /// Who it was.
    pub by: String,
    /// When, in seconds since 1970.
    pub at: f64,
}

/// An alarm that is or was raised.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Entry {
    /// Its number; no other alarm of this process has it.
    pub id: u64,
    /// Name of the rule, or of the kind of alarm.
    pub rule: String,
    /// Which part of the run it is about.
    pub subject: String,
    /// What is wrong, in a sentence.
    pub text: String,
    /// What it means.
    pub meaning: String,
    /// What to do.
    pub advice: String,
    /// When it was raised, in seconds since 1970.
    pub since: f64,
    /// When it cleared, in seconds since 1970.
    pub until: Option<f64>,
    /// Who has seen it.
    pub acknowledged: Option<Acknowledged>,
    #[serde(skip)]
    kind: Option<AlarmKind>,
}

impl Entry {
    /// The alarm, if it comes from a rule.
    pub fn alarm_of_rule(&self) -> Option<Alarm> {
        let (subject, text) = (self.subject.clone(), self.text.clone());
        self.kind.filter(|kind| *kind == AlarmKind::Rule).map(|kind| Alarm { kind, subject, text })
    }

    fn is_of(&self, Condition { rule, alarm, .. }: &Condition) -> bool {
        self.kind == Some(alarm.kind) && self.rule == *rule && self.subject == alarm.subject
    }
}

/// Why an alarm cannot be acknowledged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotAcknowledged {
    /// There is none with that number.
    #[error("there is no alarm {0}")]
    Unknown(u64),
    /// It was before.
    #[error("{} has acknowledged it already", .0.by)]
    Already(Acknowledged),
}

/// The alarms of a process.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Board {
    /// Those that are raised, oldest first.
    pub active: Vec<Entry>,
    /// Those that cleared, oldest first, at most [`PAST_MAX`].
    pub past: VecDeque<Entry>,
    /// Conditions beyond [`ACTIVE_MAX`].
    pub more: usize,
    #[serde(skip)]
    last_id: u64,
}

impl Board {
    /// Takes what needs attention at `now`, in seconds since 1970; gives the alarms that were raised, and those that
    /// cleared.
    pub fn update(&mut self, now: f64, conditions: &[Condition]) -> (Vec<Entry>, Vec<Entry>) {
        let lasts = |entry: &Entry| conditions.iter().any(|condition| entry.is_of(condition));
        let (active, gone): (Vec<_>, Vec<_>) = self.active.drain(..).partition(lasts);
        self.active = active;
        let cleared: Vec<_> =
            gone.into_iter().map(|entry| Entry { until: Some(now), ..entry }).collect();
        let mut raised = Vec::new();
        self.more = 0;
        for condition in conditions {
            if let Some(entry) = self.active.iter_mut().find(|entry| entry.is_of(condition)) {
                entry.text.clone_from(&condition.alarm.text);
                continue;
            }
            if self.active.len() == ACTIVE_MAX {
                self.more += 1;
                continue;
            }
            self.last_id += 1;
            let Condition { rule, alarm, meaning, advice } = condition.clone();
            let Alarm { kind, subject, text } = alarm;
            let entry = Entry {
                id: self.last_id,
                rule,
                subject,
                text,
                meaning,
                advice,
                since: now,
                until: None,
                acknowledged: None,
                kind: Some(kind),
            };
            raised.push(entry.clone());
            self.active.push(entry);
        }
        self.past.extend(cleared.iter().cloned());
        self.past.drain(..self.past.len().saturating_sub(PAST_MAX));
        (raised, cleared)
    }

    /// Notes that somebody has seen an alarm, raised or past.
    ///
    /// # Errors
    /// When there is none, or somebody has before.
    pub fn acknowledge(&mut self, id: u64, by: &str, now: f64) -> Result<Entry, NotAcknowledged> {
        let mut all = self.active.iter_mut().chain(&mut self.past);
        let entry = all.find(|entry| entry.id == id).ok_or(NotAcknowledged::Unknown(id))?;
        if let Some(before) = &entry.acknowledged {
            return Err(NotAcknowledged::Already(before.clone()));
        }
        entry.acknowledged = Some(Acknowledged { by: by.into(), at: now });
        Ok(entry.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(subject: &str, predicate: &str) -> Condition {
        Condition::of(&Alarm::new(AlarmKind::StreamSilent, subject, predicate))
    }

    #[test]
    fn an_alarm_has_a_number_and_a_time_until_it_clears() {
        let mut board = Board::default();
        let (raised, cleared) = board.update(10.0, &[condition("stream 1", "is silent")]);
        assert_eq!((raised.len(), cleared.len(), raised[0].id, raised[0].since), (1, 0, 1, 10.0));
        assert!(!raised[0].meaning.is_empty() && !raised[0].advice.is_empty());
        let both = [condition("stream 1", "is still silent"), condition("stream 2", "is silent")];
        let (raised, _) = board.update(11.0, &both);
        assert_eq!((raised.len(), raised[0].id), (1, 2));
        assert_eq!(
            (&*board.active[0].text, board.active[0].since),
            ("stream 1 is still silent", 10.0)
        );
        let (_, cleared) = board.update(12.0, &both[1..]);
        assert_eq!((cleared[0].id, cleared[0].until), (1, Some(12.0)));
        let (raised, _) = board.update(13.0, &both);
        assert_eq!(raised[0].id, 3, "it is another alarm than before");
        assert_eq!(board.past.len(), 1);
    }

    #[test]
    fn it_is_acknowledged_once_and_stays_so() {
        let mut board = Board::default();
        board.update(1.0, &[condition("stream 1", "is silent")]);
        let seen = board.acknowledge(1, "Ada", 2.0).unwrap();
        let expected = Acknowledged { by: "Ada".into(), at: 2.0 };
        assert_eq!(seen.acknowledged.as_ref(), Some(&expected));
        assert_eq!(board.acknowledge(1, "Bob", 3.0), Err(NotAcknowledged::Already(expected)));
        assert_eq!(board.acknowledge(7, "Bob", 3.0), Err(NotAcknowledged::Unknown(7)));
        board.update(4.0, &[condition("stream 1", "is silent for long")]);
        assert!(board.active[0].acknowledged.is_some());
        board.update(5.0, &[]);
        assert!(board.past[0].acknowledged.is_some());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut board = Board::default();
        let many: Vec<_> =
            (0..ACTIVE_MAX + 5).map(|at| condition(&format!("stream {at}"), "is silent")).collect();
        board.update(1.0, &many);
        assert_eq!((board.active.len(), board.more), (ACTIVE_MAX, 5));
        board.update(2.0, &[]);
        assert_eq!((board.past.len(), board.more), (PAST_MAX, 0));
        assert_eq!(board.past.back().unwrap().id, ACTIVE_MAX as u64);
    }
}
