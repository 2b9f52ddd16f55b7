//! A configuration text, and where in it something is wrong.

use std::fmt;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

/// Most letters that may be wrong, missing, too many or exchanged in a name that is corrected.
const SLIPS_MAX: usize = 2;
/// Least similarity at which a name is suggested all the same.
const SIMILAR_ENOUGH: f64 = 0.7;

/// What is wrong with a configuration: where, what, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Name of the file.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// What is wrong.
    pub cause: String,
    /// What to write instead.
    pub suggestion: String,
}

/// Prints `file:line:column: cause` and the suggestion on a line of its own.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, cause, suggestion } = self;
        write!(f, "{file}:{line}:{column}: {cause}\n  {suggestion}")
    }
}

impl std::error::Error for Problem {}

/// What describes every key of a configuration.
const CONFIGURATION_SCHEMA: &str = "gannet check --schema";

/// A configuration text under its file's name.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    file: &'a str,
    text: &'a str,
    schema: &'a str,
}

impl<'a> Document<'a> {
    /// The text of `file`.
    pub fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, schema: CONFIGURATION_SCHEMA }
    }

    /// The same for a text that is no configuration: `command` describes its keys.
    pub fn described_by(self, command: &'a str) -> Self {
        Self { schema: command, ..self }
    }

    /// The text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Reads the text as a `T`.
    ///
    /// # Errors
    /// The first problem: bad syntax, an unknown key, a value of the wrong kind or unit.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        toml::from_str(self.text).map_err(|error| {
            let cause = plain(&error.message().lines().collect::<Vec<_>>().join("; "));
            let suggestion = suggest(&cause, self.schema);
            self.problem_at(error.span().unwrap_or(0..0), cause, suggestion)
        })
    }

    /// The problem that `cause` is with the value at `path`, for example `source[1].listen`.
    ///
    /// A path that the text does not contain is placed at its nearest ancestor that it contains.
    pub fn problem(&self, path: &str, cause: String, suggestion: String) -> Problem {
        self.problem_at(self.locate(path), format!("{path}: {cause}"), suggestion)
    }

    /// Whether the text gives a value for the top-level key `name`.
    pub fn has(&self, name: &str) -> bool {
        DeTable::parse(self.text).is_ok_and(|root| root.get_ref().contains_key(name))
    }

    /// The text at `path`, if there is one.
    pub fn text_at(&self, path: &str) -> Option<String> {
        let root = DeTable::parse(self.text).ok()?;
        let mut names = path.split('.');
        let first = root.get_ref().get(names.next()?)?;
        let value = names.try_fold(first, |value, name| value.get_ref().get(name))?;
        Some(value.get_ref().as_str()?.to_owned())
    }

    /// Refuses keys that have moved: of each pair the old place, and the new one.
    ///
    /// # Errors
    /// The first of them that the text has, and where it belongs now.
    pub fn refuse_moved(&self, moved: &[(&str, &str)]) -> Result<(), Problem> {
        let Ok(root) = DeTable::parse(self.text) else { return Ok(()) };
        let has = |path: &str| {
            let mut names = path.split('.');
            let first = names.next().and_then(|name| root.get_ref().get(name));
            first.is_some_and(|first| {
                names.try_fold(first, |value, name| value.get_ref().get(name)).is_some()
            })
        };
        match moved.iter().find(|(old, _)| has(old)) {
            None => Ok(()),
            Some((old, new)) => {
                let cause = format!("it has moved to `{new}`");
                Err(self.problem(old, cause, format!("write it as `{new}`")))
            }
        }
    }

    /// Byte range of the value at `path` or of its nearest ancestor.
    fn locate(&self, path: &str) -> Range<usize> {
        let Ok(root) = DeTable::parse(self.text) else { return 0..0 };
        let mut names = path.split(['.', '[', ']']).filter(|name| !name.is_empty());
        let Some(mut value) = names.next().and_then(|name| root.get_ref().get(name)) else {
            return 0..0;
        };
        for name in names {
            let child = match value.get_ref() {
                DeValue::Table(table) => table.get(name),
                DeValue::Array(array) => name.parse().ok().and_then(|i: usize| array.get(i)),
                _ => None,
            };
            match child {
                Some(child) => value = child,
                None => break,
            }
        }
        value.span()
    }

    fn problem_at(&self, span: Range<usize>, cause: String, suggestion: String) -> Problem {
        let before = &self.text[..floor_boundary(self.text, span.start)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Problem {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            cause,
            suggestion,
        }
    }
}

/// The largest character boundary of `text` that is not after `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The parser's words for types, and ours.
const PLAIN: [(&str, &str); 15] = [
    ("usize", "a whole number, 0 or more"),
    ("u64", "a whole number, 0 or more"),
    ("u32", "a whole number, 0 or more"),
    ("u16", "a whole number, 0 to 65535"),
    ("u8", "a whole number, 0 to 255"),
    ("i64", "a whole number"),
    ("i32", "a whole number"),
    ("i16", "a whole number, -32768 to 32767"),
    ("f64", "a number"),
    ("a sequence", "a list, such as [1, 2]"),
    ("a string", "a text in quotes"),
    ("a boolean", "true or false"),
    ("a map", "a table"),
    ("socket address", "an IP address and a port, such as \"127.0.0.1:7000\""),
    ("IP address", "an IP address, such as \"127.0.0.1\""),
];

/// A message of the parser without the words of its programming language.
fn plain(message: &str) -> String {
    let message = message.replace("unknown field", "unknown key");
    let message = message.replace("missing field", "missing key");
    let message = message.replace("unknown variant", "unknown value");
    let message = message.replace("invalid socket address syntax", "no IP address with a port");
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message };
    match PLAIN.iter().find(|(theirs, _)| *theirs == expected) {
        Some((_, ours)) => format!("{found}, expected {ours}"),
        None => message,
    }
}

/// What to do about a message of the parser; the command `schema` describes every key.
fn suggest(cause: &str, schema: &str) -> String {
    let mut quoted = cause.split('`').skip(1).step_by(2);
    let first = quoted.next().unwrap_or_default();
    let allowed: Vec<&str> = quoted.collect();
    if cause.starts_with("unknown") {
        return match nearest(first, &allowed) {
            Some(name) => format!("did you mean `{name}`?"),
            None if allowed.is_empty() => "remove it".to_owned(),
            None => format!("use one of: {}", allowed.join(", ")),
        };
    }
    if cause.starts_with("missing key") {
        return format!("add the key `{first}`; `{schema}` describes it");
    }
    if cause.starts_with("duplicate") {
        return "keep one of the two".to_owned();
    }
    if cause.starts_with("invalid type") || cause.starts_with("invalid value") {
        return format!("`{schema}` describes every key with its unit");
    }
    if cause.contains("; write ") {
        return "quantities are texts with a unit".to_owned();
    }
    format!("correct the TOML here; `{schema}` describes every key")
}

/// The one of `allowed` that `name` was probably meant to be: one with few slips of the keyboard, or
/// else the most similar.
pub fn nearest<'n>(name: &str, allowed: &[&'n str]) -> Option<&'n str> {
    let slips = |candidate: &&'n str| (strsim::osa_distance(name, candidate), *candidate);
    // A name of which every letter is wrong is another name.
    let few = |(slips, candidate): &(usize, &str)| {
        *slips <= SLIPS_MAX && *slips < name.chars().count().min(candidate.chars().count())
    };
    let nearest = allowed.iter().map(slips).filter(few).min_by_key(|(slips, _)| *slips);
    nearest.map(|(_, name)| name).or_else(|| most_similar(name, allowed))
}

fn most_similar<'n>(name: &str, allowed: &[&'n str]) -> Option<&'n str> {
    allowed
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), *candidate))
        .filter(|(similarity, _)| *similarity >= SIMILAR_ENOUGH)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_measure::quantity::Span;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Table {
        threshold: u16,
        #[serde(default)]
        wait: Span,
    }

    fn problem(text: &str) -> Problem {
        Document::new("test.toml", text).read::<Table>().unwrap_err()
    }

    #[test]
    fn types_are_told_in_words_of_people() {
        let cause = |text| {
            Document::new("test.toml", text)
                .read::<crate::config::Config<crate::fixture::Plain>>()
                .unwrap_err()
                .cause
        };
        let before = "[record]\nwindow_ticks_max = \"1 ms\"\n";
        assert!(
            cause(before).ends_with(", expected a whole number, 0 or more"),
            "{}",
            cause(before)
        );
        let threshold = "[pipeline]\nthreshold = 60\n";
        assert!(
            cause(threshold).ends_with(", expected a list, such as [1, 2]"),
            "{}",
            cause(threshold)
        );
        let port = "[metrics]\nlisten = \"localhost:7432\"\n";
        assert!(cause(port).contains("no IP address with a port"), "{}", cause(port));
    }

    #[test]
    fn a_key_that_has_moved_is_told_with_its_new_place() {
        let document = Document::new("test.toml", "[wait]\nlong = 1\n");
        let moved = [("other", "a.other"), ("wait.long", "waits.long")];
        let problem = document.refuse_moved(&moved).unwrap_err();
        assert_eq!((problem.line, problem.column), (2, 8));
        assert_eq!(problem.cause, "wait.long: it has moved to `waits.long`");
        assert_eq!(document.refuse_moved(&moved[..1]), Ok(()));
        let text = Document::new("test.toml", "[a]\nb = \"c\"\n");
        assert_eq!((text.text_at("a.b").as_deref(), text.text_at("a")), (Some("c"), None));
    }

    #[test]
    fn good_text_is_read() {
        let table = Document::new("test.toml", "threshold = 3\nwait = \"2 ms\"").read();
        assert_eq!(table, Ok(Table { threshold: 3, wait: Span::ms(2) }));
    }

    #[test]
    fn an_unknown_key_is_placed_and_the_likely_one_suggested() {
        let found = problem("wait = \"1 s\"\n  treshold = 3\n");
        assert_eq!((found.line, found.column), (2, 3));
        assert!(found.cause.contains("unknown key `treshold`"), "{found}");
        assert_eq!(found.suggestion, "did you mean `threshold`?");
        assert!(found.to_string().starts_with("test.toml:2:3: unknown key"));
    }

    #[test]
    fn one_or_two_wrong_letters_are_corrected_wherever_they_are() {
        let allowed = ["run", "udp", "tpg", "source", "recorder", "threshold", "listen"];
        for (slip, meant) in [
            ("rnu", "run"),
            ("upd", "udp"),
            ("tgp", "tpg"),
            ("ource", "source"),
            ("sorces", "source"),
            ("erecorder", "recorder"),
            ("htreshold", "threshold"),
            ("tresholds", "threshold"),
            ("lisetn", "listen"),
        ] {
            assert_eq!(nearest(slip, &allowed), Some(meant), "{slip}");
        }
        assert_eq!(nearest("xyz", &allowed), None);
    }

    #[test]
    fn a_bad_unit_says_which_units_there_are() {
        let found = problem("threshold = 3\nwait = \"10 parsec\"\n");
        assert_eq!((found.line, found.column), (2, 8));
        assert!(found.cause.contains("min, s, ms"), "{found}");
    }

    #[test]
    fn a_missing_key_is_named() {
        assert!(problem("").suggestion.contains("add the key `threshold`"));
    }

    #[test]
    fn a_path_is_found_in_tables_and_arrays() {
        let text = "[a]\nb = 1\n[[c]]\nd = 2\n[[c]]\nd = \"\u{e9}\"\n";
        let document = Document::new("x", text);
        let place = |path| {
            let problem = document.problem(path, String::new(), String::new());
            (problem.line, problem.column)
        };
        assert_eq!(place("a.b"), (2, 5));
        assert_eq!(place("c[1].d"), (6, 5));
        assert_eq!(place("c[0].absent").0, 3);
        assert_eq!(place("absent"), (1, 1));
    }
}
