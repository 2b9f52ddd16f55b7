//! Whether the rules of alarms fit one another, and the run that they are to watch.

use super::document::{Document, Problem, nearest};
use super::planned_source::PlannedSource;
use crate::alarm::AlarmKind;
use crate::alarm::rule::{AlarmConfig, Rule, WrongRule};
use crate::quantities::Parts;

/// Names of parts that are proposed.
const NAMES_MAX: usize = 8;

/// Tests `rules` against each other and the `sources`.
///
/// # Errors
/// The first that could never raise an alarm, or none that can be told from others.
pub(super) fn check(
    rules: &[AlarmConfig],
    sources: &[PlannedSource],
    document: &Document<'_>,
) -> Result<(), Problem> {
    for (index, config) in rules.iter().enumerate() {
        let wrong = match rules[..index].iter().any(|other| other.name == config.name) {
            true => Err(WrongRule {
                key: "name",
                cause: format!("there is a rule {:?} already", config.name),
                suggestion: "give each rule its own name".into(),
            }),
            false => check_rule(config, sources),
        };
        wrong.map_err(|WrongRule { key, cause, suggestion }| {
            document.problem(&format!("alarm[{index}].{key}"), cause, suggestion)
        })?;
    }
    Ok(())
}

fn check_rule(config: &AlarmConfig, sources: &[PlannedSource]) -> Result<(), WrongRule> {
    let wrong = |key, cause, suggestion| Err(WrongRule { key, cause, suggestion });
    let name = &*config.name;
    if AlarmKind::ALL.iter().any(|kind| kind.name() == name) {
        let cause = format!("a run raises alarms called {name:?} by itself");
        return wrong("name", cause, "give the rule another name".into());
    }
    let built_in = Rule::built_in(f64::INFINITY);
    let built_in: Vec<_> = built_in.iter().map(|rule| &*rule.name).collect();
    match config.enabled {
        false if built_in.contains(&name) => return Ok(()),
        // A rule of somebody's own may rest; one without a figure is meant to take another away.
        false if config.figure.is_empty() => {
            let cause = format!("no built-in rule is called {name:?}, so nothing is taken away");
            let suggestion = nearest(name, &built_in).map_or_else(
                || format!("write one of {}", built_in.join(", ")),
                |nearest| format!("did you mean `{nearest}`?"),
            );
            return wrong("name", cause, suggestion);
        }
        _ => {}
    }
    let rule = Rule::of(config)?;
    match &rule.part {
        // Without sources there is no run yet that could be watched.
        Some(part) if !sources.is_empty() => check_part(&rule, part, sources),
        _ => Ok(()),
    }
}

/// Whether the run has the part that a rule watches, as far as a configuration tells.
fn check_part(rule: &Rule, part: &str, sources: &[PlannedSource]) -> Result<(), WrongRule> {
    let figure = rule.kind.name;
    let (what, mut names): (_, Vec<String>) = match rule.kind.parts {
        Parts::None => {
            return Err(WrongRule {
                key: "figure",
                cause: format!("`{figure}` is a figure of the whole run and has no part {part:?}"),
                suggestion: format!("write `{figure}`"),
            });
        }
        // A builder knows sources of other processes as wholes.
        Parts::Sources => {
            let wholes = sources.iter().map(|source| source.name.clone());
            ("source", sources.iter().flat_map(PlannedSource::receivers).chain(wholes).collect())
        }
        Parts::Streams => {
            let streams = sources.iter().flat_map(|source| &source.streams);
            ("stream", streams.map(|stream| stream.name.clone()).collect())
        }
        Parts::Others => return Ok(()),
    };
    if names.iter().any(|name| name == part) {
        return Ok(());
    }
    names.truncate(NAMES_MAX);
    let known: Vec<_> = names.iter().map(|name| format!("`{figure}:{name}`")).collect();
    let suggestion = format!("write `{figure}` to watch all, or {}", known.join(", "));
    Err(WrongRule {
        key: "figure",
        cause: format!("there is no {what} {part:?} in this configuration"),
        suggestion,
    })
}

#[cfg(test)]
mod tests {
    use crate::config::Problem;
    use crate::fixture::parse;

    fn check(rule: &str) -> Result<(), Problem> {
        let source =
            "[[source]]\nname = \"north\"\nudp = { listen = [\"127.0.0.1:0\"], sockets = 2 }\n";
        parse(&format!("{source}[[alarm]]\n{rule}")).map(drop)
    }

    #[test]
    fn a_rule_that_takes_nothing_away_is_refused() {
        for built_in in ["loss", "disk", "recorder-queue", "latency", "noisy-channels"] {
            assert_eq!(check(&format!("name = {built_in:?}\nenabled = false\n")), Ok(()));
        }
        let wrong = check("name = \"noisy-chanels\"\nenabled = false\n").unwrap_err();
        assert_eq!((wrong.line, wrong.column), (5, 8), "{wrong}");
        assert_eq!(wrong.suggestion, "did you mean `noisy-channels`?");
        let own = "name = \"own\"\nenabled = false\nfigure = \"lost\"\nabove = 1.0\n";
        assert_eq!(check(own), Ok(()), "a rule of somebody's own rests");
        let wrong = check(&own.replace("lost", "losst")).unwrap_err();
        assert_eq!(wrong.suggestion, "did you mean `lost`?");
    }

    #[test]
    fn a_rule_has_no_name_of_an_alarm_that_a_run_raises_by_itself() {
        let wrong = check("name = \"recorder\"\nfigure = \"lost\"\nabove = 1.0\n").unwrap_err();
        assert_eq!((wrong.line, wrong.column), (5, 8), "{wrong}");
    }

    #[test]
    fn a_rule_watches_parts_that_the_configuration_has() {
        let watch =
            |figure: &str| check(&format!("name = \"a\"\nfigure = {figure:?}\nabove = 1.0\n"));
        for right in
            ["stream_frames", "source_buffer:north #2", "source_cpu:north", "stage_dropped:x"]
        {
            assert_eq!(watch(right), Ok(()), "{right}");
        }
        for (wrong, says) in [
            ("stream_frames:9/9/9/9", "write `stream_frames` to watch all, or `stream_frames:"),
            ("source_buffer:south", "`source_buffer:north #1`"),
            ("lost:north", "write `lost`"),
        ] {
            let refused = watch(wrong).unwrap_err();
            assert_eq!((refused.line, refused.column), (6, 10), "{refused}");
            assert!(refused.suggestion.contains(says), "{refused}");
        }
        // Without sources there is no run yet.
        let text = "[[alarm]]\nname = \"a\"\nfigure = \"stream_frames:x\"\nabove = 1.0\n";
        assert!(parse(text).is_ok());
    }
}
