//! Rules by which figures of a run raise alarms: a limit, a time to hold, and a way back.
//!
//! ```text
//!            beyond the limit             for `hold`
//!   quiet ──────────────────▶ rising ──────────────────▶ raised ◀──┐ beyond `clear` again
//!     ▲                          │ not any more             │      │
//!     ├──────────────────────────┘          back at `clear` ▼      │
//!     └────────────────────────────────────────────────── falling ─┘
//!                         for `quiet`
//! ```

use std::collections::BTreeMap;

use gannet_measure::quantity::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantities::{KINDS, Kind, Quantity, kind};

/// A rule by which a figure raises an alarm.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AlarmConfig {
    /// Name of the rule. One that is called as a built-in rule (`loss`, `disk`, `recorder-queue`, `latency`,
    /// `noisy-channels`) replaces it.
    pub name: String,
    /// Whether it is watched; `false` takes a built-in rule away.
    pub enabled: bool,
    /// Figure that is watched, such as `lost`, `disk_left` or `stream_frames`; of those with parts each by itself, or one of
    /// them, as `stream_frames:NAME`. The page *History* shows all that there are.
    pub figure: String,
    /// Raises the alarm where the figure is more than this, in its unit: /s, s, bytes, bit/s.
    pub above: Option<f64>,
    /// Raises the alarm where the figure is less than this.
    pub below: Option<f64>,
    /// Where the figure has to be again before the alarm clears; absent: at the limit.
    pub clear: Option<f64>,
    /// Time for which the figure has to be beyond its limit.
    pub hold: Span,
    /// Time for which it has to be back before the alarm clears.
    pub quiet: Span,
    /// What it means, for those on shift.
    pub meaning: String,
    /// What they should do.
    pub advice: String,
    /// Program that is called when the alarm is raised and when it clears, with its arguments; no shell reads them. The
    /// variables `GANNET_ALARM`, `GANNET_ALARM_STATE` (`raised` or `cleared`) and `GANNET_ALARM_TEXT` tell it of what.
    /// One is called at a time, and ended after ten seconds.
    pub command: Vec<String>,
    /// Address that the alarm is sent to as JSON by POST when it is raised and when it clears, as
    /// `http://127.0.0.1:9000/alarms`.
    pub webhook: Option<String>,
}

impl Default for AlarmConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            enabled: true,
            figure: String::new(),
            above: None,
            below: None,
            clear: None,
            hold: Span::s(5),
            quiet: Span::s(30),
            meaning: String::new(),
            advice: String::new(),
            command: Vec::new(),
            webhook: None,
        }
    }
}

/// Where a figure needs attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Where it is more.
    Above(f64),
    /// Where it is less.
    Below(f64),
}

/// A rule that can be followed.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// As it is written.
    pub config: AlarmConfig,
    /// The kind of figure that it watches.
    pub kind: &'static Kind,
    /// The part that it watches; all where it is absent.
    pub part: Option<String>,
    /// Where it raises the alarm.
    pub limit: Limit,
    /// Where the figure has to be again.
    pub clear: f64,
}

/// What is wrong with a rule: its key, why, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongRule {
    /// The key.
    pub key: &'static str,
    /// What is wrong.
    pub cause: String,
    /// What to do.
    pub suggestion: String,
}

impl Rule {
    /// The rule that `config` describes.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of(config: &AlarmConfig) -> Result<Self, WrongRule> {
        let wrong = |key, cause: &str, suggestion: &str| WrongRule {
            key,
            cause: cause.into(),
            suggestion: suggestion.into(),
        };
        if config.name.is_empty() {
            return Err(wrong("name", "the rule has no name", "give it one, as `name = \"hall\"`"));
        }
        let (figure, part) = match config.figure.split_once(':') {
            Some((figure, part)) => (figure, Some(part.to_owned())),
            None => (&*config.figure, None),
        };
        let kind = kind(figure).ok_or_else(|| {
            let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
            WrongRule {
                key: "figure",
                cause: format!("there is no figure {figure:?}"),
                suggestion: match crate::config::nearest(figure, &names) {
                    Some(nearest) => format!("did you mean `{nearest}`?"),
                    None => format!("write one of {}", names.join(", ")),
                },
            }
        })?;
        for (key, value) in
            [("above", config.above), ("below", config.below), ("clear", config.clear)]
        {
            if value.is_some_and(|value| !value.is_finite()) {
                return Err(wrong(key, "it is no number that a figure can have", "write a number"));
            }
        }
        let limit = match (config.above, config.below) {
            (Some(limit), None) => Limit::Above(limit),
            (None, Some(limit)) => Limit::Below(limit),
            (None, None) => {
                return Err(wrong("figure", "the rule has no limit", "add `above` or `below`"));
            }
            _ => return Err(wrong("below", "the rule has two limits", "make two rules of it")),
        };
        let clear = match (limit, config.clear) {
            (Limit::Above(limit) | Limit::Below(limit), None) => limit,
            (Limit::Above(limit), Some(clear)) if clear > limit => {
                return Err(wrong("clear", "it is beyond the limit", "write less than `above`"));
            }
            (Limit::Below(limit), Some(clear)) if clear < limit => {
                return Err(wrong("clear", "it is beyond the limit", "write more than `below`"));
            }
            (_, Some(clear)) => clear,
        };
        if let Some(webhook) = &config.webhook
            && !webhook.starts_with("http://")
        {
            let suggestion = "write `http://HOST:PORT/PATH`; a `command` can reach others";
            return Err(wrong("webhook", "only plain HTTP is spoken", suggestion));
        }
        Ok(Self { config: config.clone(), kind, part, limit, clear })
    }

    /// Rules that there are anyway; the buffers keep `depth_s` seconds.
    pub fn built_in(depth_s: f64) -> Vec<AlarmConfig> {
        let rule = |name: &str, figure: &str, meaning: &str, advice: &str| AlarmConfig {
            name: name.into(),
            figure: figure.into(),
            meaning: meaning.into(),
            advice: advice.into(),
            ..AlarmConfig::default()
        };
        let loss = rule(
            "loss",
            "lost",
            "Frames were lost, so the run is degraded.",
            "Overview shows at which stage and for which reason, and what helps.",
        );
        let disk = rule(
            "disk",
            "disk_left",
            "At this rate the disk is full in less than ten minutes.",
            "Free space, or stop the run and record elsewhere: what cannot be written is lost, and counted.",
        );
        let recorder = rule(
            "recorder-queue",
            "recorder_queue",
            "The disk takes less than is recorded, and the queue before it fills up.",
            "Look at what else writes to the disk; a queue that is full loses records.",
        );
        let latency = rule(
            "latency",
            "arrival_to_decision",
            "Decisions come so late that the buffers hardly hold the data they ask for.",
            "Make `depth` of the sources longer, or let the trigger wait for less; records will be incomplete.",
        );
        let noisy = rule(
            "noisy-channels",
            "channels_noisy",
            "Some channels make far more primitives than the others.",
            "Signals names them, and copies them as a mask for the configuration.",
        );
        let soon = Span::s(0);
        let mut rules = vec![
            AlarmConfig { above: Some(0.0), hold: soon, quiet: Span::s(60), ..loss },
            AlarmConfig { below: Some(600.0), clear: Some(900.0), hold: Span::s(30), ..disk },
            AlarmConfig { above: Some(0.5), clear: Some(0.25), ..recorder },
            AlarmConfig { above: Some(0.0), hold: Span::s(30), ..noisy },
        ];
        if depth_s > 0.0 {
            let (above, clear) = (Some(0.9 * depth_s), Some(0.7 * depth_s));
            rules.push(AlarmConfig { above, clear, ..latency });
        }
        rules
    }

    /// The rules of a configuration, and those of the built-in ones that it does not replace. A rule that does not fit is
    /// left out: [`of`](Self::of) tells why.
    pub fn all(configured: &[AlarmConfig], depth_s: f64) -> Vec<Self> {
        let replaced = |name: &str| configured.iter().any(|rule| rule.name == name);
        let built_in = Self::built_in(depth_s).into_iter().filter(|rule| !replaced(&rule.name));
        let enabled = configured.iter().filter(|rule| rule.enabled).cloned();
        enabled.chain(built_in).filter_map(|config| Self::of(&config).ok()).collect()
    }

    /// Whether anybody is told when it raises an alarm.
    pub fn calls(&self) -> bool {
        !self.config.command.is_empty() || self.config.webhook.is_some()
    }

    fn watches(&self, quantity: &Quantity) -> bool {
        let is_part = self.part.as_ref().is_none_or(|part| *part == quantity.part);
        quantity.kind.name == self.kind.name && is_part
    }

    /// Whether a value needs attention, and whether it is far enough from that to be let go. One that is not known needs
    /// none.
    fn judge(&self, value: f64) -> (bool, bool) {
        match self.limit {
            _ if !value.is_finite() => (false, true),
            Limit::Above(limit) => (value > limit, value <= self.clear),
            Limit::Below(limit) => (value < limit, value >= self.clear),
        }
    }
}

/// What a rule thinks of one figure, and since when, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Quiet,
    Rising(f64),
    Raised,
    Falling(f64),
}

impl Phase {
    fn next(self, now_s: f64, (beyond, back): (bool, bool), rule: &AlarmConfig) -> Self {
        let lasted = |since: f64, span: Span| now_s - since >= span.ns() as f64 * 1e-9;
        match self {
            Self::Quiet | Self::Rising(_) if !beyond => Self::Quiet,
            Self::Quiet if rule.hold > Span::s(0) => Self::Rising(now_s),
            Self::Quiet => Self::Raised,
            Self::Rising(since) if lasted(since, rule.hold) => Self::Raised,
            Self::Raised if back && rule.quiet > Span::s(0) => Self::Falling(now_s),
            Self::Raised if back => Self::Quiet,
            Self::Falling(_) if !back => Self::Raised,
            Self::Falling(since) if lasted(since, rule.quiet) => Self::Quiet,
            same => same,
        }
    }
}

/// A rule that raises an alarm now.
#[derive(Clone, Debug, PartialEq)]
pub struct Raised<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// The part of the run that it is about; empty for the whole.
    pub part: String,
    /// The worst value that the figure had since it went beyond the limit.
    pub value: Option<f64>,
}

/// Rules, and what they think of the figures that they have seen.
pub struct Rules {
    rules: Vec<Rule>,
    /// Of each rule the parts that are not quiet.
    phases: Vec<BTreeMap<String, Seen>>,
}

/// What was seen of a part.
struct Seen {
    phase: Phase,
    /// The value now; NaN where it is not known.
    value: f64,
    /// The worst since it went beyond the limit.
    worst: f64,
}

impl Rules {
    /// These rules, of which none has seen anything.
    pub fn new(rules: Vec<Rule>) -> Self {
        let phases = rules.iter().map(|_| BTreeMap::new()).collect();
        Self { rules, phases }
    }

    /// The rules.
    pub fn all(&self) -> &[Rule] {
        &self.rules
    }

    /// Looks at `quantities` as they are at `now_s`, a time in seconds that only goes on. A figure that is not among them
    /// is not known.
    pub fn look(&mut self, now_s: f64, quantities: &[Quantity]) {
        for (rule, phases) in self.rules.iter().zip(&mut self.phases) {
            phases.values_mut().for_each(|seen| seen.value = f64::NAN);
            for quantity in quantities.iter().filter(|quantity| rule.watches(quantity)) {
                let value = quantity.value;
                let (beyond, _) = rule.judge(value);
                match phases.get_mut(&quantity.part) {
                    Some(seen) => {
                        seen.value = value;
                        seen.worst = match rule.limit {
                            Limit::Above(_) => seen.worst.max(value),
                            Limit::Below(_) => seen.worst.min(value),
                        };
                    }
                    None if beyond => {
                        let seen = Seen { phase: Phase::Quiet, value, worst: value };
                        phases.insert(quantity.part.clone(), seen);
                    }
                    None => {}
                }
            }
            phases.retain(|_, seen| {
                seen.phase = seen.phase.next(now_s, rule.judge(seen.value), &rule.config);
                seen.phase != Phase::Quiet
            });
        }
    }

    /// The alarms that are raised.
    pub fn raised(&self) -> impl Iterator<Item = Raised<'_>> {
        let both = self.rules.iter().zip(&self.phases);
        both.flat_map(|(rule, phases)| {
            let is_raised = |phase: &Phase| matches!(phase, Phase::Raised | Phase::Falling(_));
            let raised = phases.iter().filter(move |(_, seen)| is_raised(&seen.phase));
            raised.map(move |(part, seen)| {
                let value = Some(seen.worst).filter(|value| value.is_finite());
                Raised { rule, part: part.clone(), value }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn config(limit: impl FnOnce(&mut AlarmConfig)) -> AlarmConfig {
        let mut config = AlarmConfig {
            name: "a".into(),
            figure: "frames".into(),
            hold: Span::s(2),
            quiet: Span::s(3),
            ..AlarmConfig::default()
        };
        limit(&mut config);
        config
    }

    fn quantity(figure: &str, part: &str, value: f64) -> Quantity {
        Quantity { kind: kind(figure).unwrap(), part: part.into(), value }
    }

    /// At which of the seconds from 0 on the alarm is raised, as the figure has these values.
    fn raised(config: &AlarmConfig, values: &[f64]) -> Vec<usize> {
        let mut rules = Rules::new(vec![Rule::of(config).unwrap()]);
        let seconds = values.iter().enumerate().filter(|(second, value)| {
            rules.look(*second as f64, &[quantity("frames", "", **value)]);
            rules.raised().count() > 0
        });
        seconds.map(|(second, _)| second).collect()
    }

    const NAN: f64 = f64::NAN;

    #[test]
    fn an_alarm_is_raised_when_the_limit_was_passed_for_long_enough() {
        let above = config(|it| it.above = Some(10.0));
        assert_eq!(
            raised(&above, &[10.0, 11.0, 10.0, 11.0, 11.0]),
            [0; 0],
            "never for two seconds"
        );
        assert_eq!(raised(&above, &[11.0, 11.0, 11.0, 11.0]), [2, 3]);
        let below = config(|it| it.below = Some(10.0));
        assert_eq!(raised(&below, &[9.0, 9.0, 9.0]), [2]);
        assert_eq!(
            raised(&below, &[9.0, NAN, 9.0, 9.0, 9.0]),
            [4],
            "what is not known is no reason"
        );
        let at_once = config(|it| (it.above, it.hold) = (Some(0.0), Span::s(0)));
        assert_eq!(raised(&at_once, &[0.0, 1.0]), [1]);
    }

    #[test]
    fn it_clears_when_the_figure_is_back_for_long_enough() {
        let rule = config(|it| (it.above, it.clear, it.hold) = (Some(10.0), Some(5.0), Span::s(0)));
        // Between the two values nothing changes.
        assert_eq!(raised(&rule, &[11.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0]), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(raised(&rule, &[11.0, 5.0, 5.0, 5.0, 5.0, 5.0]), [0, 1, 2, 3]);
        assert_eq!(
            raised(&rule, &[11.0, 5.0, 5.0, 7.0, 5.0, 5.0, 5.0, 5.0]),
            [0, 1, 2, 3, 4, 5, 6]
        );
        assert_eq!(raised(&rule, &[11.0, NAN, NAN, NAN, NAN]), [0, 1, 2, 3]);
    }

    #[test]
    fn each_part_is_watched_by_itself_and_one_that_is_gone_is_let_go() {
        let rule = config(|it| {
            (it.figure, it.below, it.hold, it.quiet) =
                ("stream_frames".into(), Some(1.0), Span::s(0), Span::s(1));
        });
        let mut rules = Rules::new(vec![Rule::of(&rule).unwrap()]);
        let stream = |part, value| quantity("stream_frames", part, value);
        rules.look(0.0, &[stream("A", 0.0), stream("B", 7.0), quantity("frames", "", 0.0)]);
        let parts = |rules: &Rules| rules.raised().map(|it| it.part).collect::<Vec<_>>();
        assert_eq!(parts(&rules), ["A"]);
        rules.look(1.0, &[stream("A", 0.0), stream("B", 0.5)]);
        assert_eq!(parts(&rules), ["A", "B"]);
        (2..4).for_each(|second| rules.look(f64::from(second), &[stream("B", 0.0)]));
        assert_eq!(parts(&rules), ["B"]);
        let one = AlarmConfig { figure: "stream_frames:B".into(), ..rule };
        let mut rules = Rules::new(vec![Rule::of(&one).unwrap()]);
        rules.look(0.0, &[stream("A", 0.0), stream("B", 0.0)]);
        assert_eq!(parts(&rules), ["B"]);
    }

    #[test]
    fn a_rule_that_does_not_fit_says_why() {
        let wrong = |config: AlarmConfig| Rule::of(&config).unwrap_err();
        let limited = |of: &dyn Fn(&mut AlarmConfig)| {
            wrong(config(|it| {
                it.above = Some(1.0);
                of(it);
            }))
        };
        assert_eq!(limited(&|it| it.name.clear()).key, "name");
        let figure = limited(&|it| it.figure = "stream_frame".into());
        assert_eq!((figure.key, &*figure.suggestion), ("figure", "did you mean `stream_frames`?"));
        assert_eq!(wrong(config(|_| ())).cause, "the rule has no limit");
        assert_eq!(limited(&|it| it.below = Some(0.0)).key, "below");
        assert_eq!(limited(&|it| it.clear = Some(2.0)).key, "clear");
        assert_eq!(limited(&|it| it.webhook = Some("file:///x".into())).key, "webhook");
        let (limit, clear) = (Some(1.0), Some(0.5));
        assert_eq!(wrong(config(|it| (it.below, it.clear) = (limit, clear))).key, "clear");
    }

    #[test]
    fn the_rules_that_are_built_in_fit_and_can_be_replaced() {
        let names = |rules: &[Rule]| {
            let mut names: Vec<_> = rules.iter().map(|rule| rule.config.name.clone()).collect();
            names.sort();
            names
        };
        let built_in = Rule::all(&[], 0.25);
        assert_eq!(
            names(&built_in),
            ["disk", "latency", "loss", "noisy-channels", "recorder-queue"]
        );
        assert!(built_in.iter().all(|rule| !rule.config.advice.is_empty()));
        let off = AlarmConfig { name: "loss".into(), enabled: false, ..AlarmConfig::default() };
        let own = config(|it| (it.name, it.above) = ("latency".into(), Some(3.0)));
        let rules = Rule::all(&[off, own], 0.25);
        assert_eq!(names(&rules), ["disk", "latency", "noisy-channels", "recorder-queue"]);
        assert_eq!(rules[0].limit, Limit::Above(3.0));
    }

    proptest! {
        #[test]
        fn an_alarm_changes_only_after_its_times(
            values in prop::collection::vec(0.0..20.0, 1..200), hold in 0_u64..4, quiet in 0_u64..4,
        ) {
            let rule = config(|it| {
                (it.above, it.clear) = (Some(10.0), Some(8.0));
                (it.hold, it.quiet) = (Span::s(hold), Span::s(quiet));
            });
            let seconds = raised(&rule, &values);
            let is_raised = |second: usize| seconds.contains(&second);
            for second in 0..values.len() {
                let was = second > 0 && is_raised(second - 1);
                let last = |count: u64| &values[(second + 1).saturating_sub(count as usize + 1)..=second];
                if is_raised(second) && !was {
                    prop_assert!(last(hold).len() as u64 == hold + 1);
                    prop_assert!(last(hold).iter().all(|value| *value > 10.0));
                }
                if !is_raised(second) && was {
                    prop_assert!(last(quiet).iter().all(|value| *value <= 8.0));
                }
            }
        }
    }
}
