//! Modules that take commands, and the commands of a run, as configurations write them and as a run
//! has them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;

use gannet_measure::quantity::Span;
use gannet_wire::slow_control::{is_key, is_text};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::document::{Document, Problem};
use crate::slow_control::{Module, QUEUE_MAX, Timing};

/// Most modules of one process.
pub const MODULES_MAX: usize = 4096;
/// Longest deadline of a command.
const DEADLINE_MAX: Span = Span::s(600);
/// Shortest time between two attempts.
const RETRY_MIN: Span = Span::ms(1);

/// Commands to front-end modules.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SlowControlConfig {
    /// Modules that take commands, for example `{ id = 7, address = "10.0.0.7:6000" }`.
    pub modules: Vec<ModulesConfig>,
    /// Time after which a command is sent again.
    pub retry: Span,
    /// Time after which a command is given up.
    pub deadline: Span,
    /// Whether a run ends with an error when a command of the lists fails; without it the run goes on
    /// and has an alarm.
    pub required: bool,
    /// Commands before the run has its ports, for example `{ module = "*", set = { hv = "1200" } }`.
    pub configure: Vec<CommandsConfig>,
    /// Commands when frames are taken.
    pub start: Vec<CommandsConfig>,
    /// Commands when the run has drained.
    pub stop: Vec<CommandsConfig>,
    /// Socket for `gannet ctl`; absent: `gannet.sock` in the recorder's directory, if there are modules.
    pub socket: Option<PathBuf>,
    /// How the modules answer that `gannet emulate --as modules` plays.
    pub emulate: EmulatedModules,
}

impl Default for SlowControlConfig {
    fn default() -> Self {
        Self {
            modules: Vec::new(),
            retry: Span::ms(50),
            deadline: Span::s(2),
            required: true,
            configure: Vec::new(),
            start: Vec::new(),
            stop: Vec::new(),
            socket: None,
            emulate: EmulatedModules::default(),
        }
    }
}

/// A module, or several in a row.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModulesConfig {
    /// Identifier; of several, that of the first, and those after it follow.
    pub id: u32,
    /// Where it listens, and answers from; of several, where the first does, and those after it have the
    /// next IP addresses.
    pub address: SocketAddr,
    /// How many modules these are.
    #[serde(default = "one")]
    pub count: u32,
    /// Name by which commands go to all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

fn one() -> u32 {
    1
}

/// What is set in some modules.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandsConfig {
    /// An identifier, a name, a range of identifiers such as `"1-18"`, or `"*"` for all.
    pub module: Word,
    /// Keys and their values. They are sent in the order of the keys' names; where another order
    /// matters, write several entries.
    pub set: BTreeMap<String, Word>,
}

/// How emulated modules answer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EmulatedModules {
    /// Keys that the modules have; empty: any.
    pub keys: Vec<String>,
    /// Keys whose values they refuse to set.
    pub locked: Vec<String>,
    /// Seed of the faults.
    pub seed: u64,
    /// Probability that a datagram is lost, each way.
    pub loss: f64,
    /// Probability that a datagram comes twice, each way.
    pub duplicate: f64,
    /// Probability that an acknowledgement is held back until the next one was sent.
    pub reorder: f64,
}

/// A text, which may be written as a whole number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Word(pub String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrNumber;
        impl Visitor<'_> for TextOrNumber {
            type Value = Word;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text in quotes or a whole number")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Word, E> {
                Ok(Word(text.to_owned()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }
        }
        deserializer.deserialize_any(TextOrNumber)
    }
}

impl JsonSchema for Word {
    fn schema_name() -> Cow<'static, str> {
        "Word".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"] })
    }
}

/// Slow control of a run: the modules, and what is told to them.
#[derive(Clone, Debug, Default)]
pub struct SlowControlPlan {
    /// The modules, each with another identifier.
    pub modules: Vec<Module>,
    /// Names, and the modules that have them.
    names: Names,
    /// When commands are sent again, and given up.
    pub timing: Timing,
    /// Whether a run ends with an error when a command of the lists fails.
    pub required: bool,
    /// Commands before the run has its ports.
    pub configure: Batches,
    /// Commands when frames are taken.
    pub start: Batches,
    /// Commands when the run has drained.
    pub stop: Batches,
    /// Socket for `gannet ctl`, if it has a place of its own.
    pub socket: Option<PathBuf>,
    /// How emulated modules answer.
    pub emulate: EmulatedModules,
}

/// Names, each with the places of the modules that have it.
type Names = Vec<(String, Range<usize>)>;

/// For the module in each place, what is set in it, in this order.
pub type Batches = BTreeMap<usize, Vec<(String, String)>>;

/// What is wrong: the key below `slow_control`, the cause, and what to write.
type Wrong = (String, String, String);

fn wrong(path: impl Into<String>, cause: impl Into<String>, advice: impl Into<String>) -> Wrong {
    (path.into(), cause.into(), advice.into())
}

impl SlowControlConfig {
    /// Tests the table and resolves modules and commands.
    pub(super) fn plan(&self, document: &Document<'_>) -> Result<SlowControlPlan, Problem> {
        self.resolve().map_err(|(path, cause, advice)| {
            document.problem(&format!("slow_control.{path}"), cause, advice)
        })
    }

    fn resolve(&self) -> Result<SlowControlPlan, Wrong> {
        let Self { retry, deadline, .. } = *self;
        if !(RETRY_MIN..=deadline).contains(&retry) {
            let cause = format!("{retry} is not between {RETRY_MIN} and the deadline, {deadline}");
            return Err(wrong("retry", cause, "write a time such as \"50 ms\""));
        }
        if deadline > DEADLINE_MAX {
            let cause = format!("{deadline} is longer than {DEADLINE_MAX}");
            return Err(wrong("deadline", cause, "write a time such as \"2 s\""));
        }
        check_emulated(&self.emulate)?;
        let (modules, names) = self.resolve_modules()?;
        let mut plan = SlowControlPlan {
            modules,
            names,
            timing: Timing::of(retry, deadline),
            required: self.required,
            configure: Batches::new(),
            start: Batches::new(),
            stop: Batches::new(),
            socket: self.socket.clone(),
            emulate: self.emulate.clone(),
        };
        plan.configure = plan.batches("configure", &self.configure)?;
        plan.start = plan.batches("start", &self.start)?;
        plan.stop = plan.batches("stop", &self.stop)?;
        Ok(plan)
    }

    fn resolve_modules(&self) -> Result<(Vec<Module>, Names), Wrong> {
        let (mut modules, mut names) = (Vec::<Module>::new(), Names::new());
        let mut known = HashSet::new();
        for (index, entry) in self.modules.iter().enumerate() {
            let path = |key: &str| format!("modules[{index}].{key}");
            let begin = modules.len();
            if entry.count == 0 || begin + entry.count as usize > MODULES_MAX {
                let cause = format!("a process has 1 to {MODULES_MAX} modules");
                return Err(wrong(path("count"), cause, "leave it out for one module"));
            }
            for offset in 0..entry.count {
                let id = entry.id.checked_add(offset).filter(|id| known.insert(*id));
                let Some(id) = id else {
                    let cause = "another module has this identifier, or it is beyond 32 bits";
                    return Err(wrong(
                        path("id"),
                        cause,
                        "give each module an identifier of its own",
                    ));
                };
                let Some(address) = address_of(entry.address, offset) else {
                    let cause = format!("{} is no address of a module", entry.address);
                    return Err(wrong(path("address"), cause, "write its IP address and its port"));
                };
                if modules.first().is_some_and(|other| other.address.is_ipv4() != address.is_ipv4())
                {
                    let cause = "some modules have IPv4 and others IPv6 addresses";
                    return Err(wrong(path("address"), cause, "use one of the two"));
                }
                modules.push(Module { id, address });
            }
            let Some(name) = &entry.name else { continue };
            let is_number = |text: &str| text.parse::<u32>().is_ok();
            let is_taken = names.iter().any(|(other, _)| other == name);
            if !is_key(name) || name == "*" || name.split('-').all(is_number) || is_taken {
                let cause = format!("{name:?} is taken, or may be taken for something else");
                let advice = "write a word that is no number, without spaces";
                return Err(wrong(path("name"), cause, advice));
            }
            names.push((name.clone(), begin..modules.len()));
        }
        Ok((modules, names))
    }
}

/// The address of the module `offset` places after the one at `first`.
fn address_of(first: SocketAddr, offset: u32) -> Option<SocketAddr> {
    let ip: IpAddr = match first.ip() {
        IpAddr::V4(ip) => IpAddr::V4(u32::from(ip).checked_add(offset)?.into()),
        IpAddr::V6(ip) => IpAddr::V6(u128::from(ip).checked_add(offset.into())?.into()),
    };
    let is_one = !ip.is_unspecified() && !ip.is_multicast() && first.port() != 0;
    is_one.then(|| SocketAddr::new(ip, first.port()))
}

fn check_emulated(emulated: &EmulatedModules) -> Result<(), Wrong> {
    let EmulatedModules { loss, duplicate, reorder, .. } = *emulated;
    for (key, value) in [("loss", loss), ("duplicate", duplicate), ("reorder", reorder)] {
        if !(0.0..=1.0).contains(&value) {
            let cause = format!("{value} is no probability");
            return Err(wrong(format!("emulate.{key}"), cause, "write a number from 0 to 1"));
        }
    }
    Ok(())
}

impl SlowControlPlan {
    /// Whether a run ends with an error when the modules do not answer.
    pub fn is_needed(&self) -> bool {
        let lists = [&self.configure, &self.start, &self.stop];
        self.required && lists.iter().any(|list| !list.is_empty())
    }

    /// The modules and the commands of a run in words; absent without modules.
    pub fn words(&self) -> Option<String> {
        let address = |module: &Module| module.address;
        let (first, last) = (self.modules.first()?, self.modules.last()?);
        let distinct = self.modules.iter().map(address).collect::<HashSet<_>>().len();
        let who = match (self.modules.len(), distinct) {
            (1, _) => format!("module {} at {}", first.id, first.address),
            (count, 1) => format!("{count} modules at {}", first.address),
            (count, _) => {
                format!(
                    "{count} modules at {distinct} addresses, {} to {}",
                    first.address, last.address
                )
            }
        };
        let commands = |list: &Batches| list.values().map(Vec::len).sum::<usize>();
        let [configure, start, stop] = [&self.configure, &self.start, &self.stop].map(commands);
        let required = match self.is_needed() {
            true => "a run needs all of them applied",
            false => "a run goes on without",
        };
        let silent = Span(self.timing.deadline_ns);
        Some(format!(
            "{who}; commands: {configure} at configure, {start} at start, {stop} at stop; one that is \
             not acknowledged for {silent} is given up, and {required}"
        ))
    }

    /// The places of the modules that `word` names: an identifier, a name, a range such as `1-18`, or `*`.
    ///
    /// # Errors
    /// That it names none, and what it may be.
    pub fn choose(&self, word: &str) -> Result<Vec<usize>, String> {
        let places = 0..self.modules.len();
        let with = |is: &dyn Fn(u32) -> bool| -> Vec<usize> {
            places.clone().filter(|&place| is(self.modules[place].id)).collect()
        };
        let named = self.names.iter().find(|(name, _)| name == word);
        let range = || {
            let (first, last) = word.split_once('-')?;
            Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
        };
        let chosen = match (word, named, word.parse::<u32>()) {
            ("*", ..) => places.clone().collect(),
            (_, Some((_, places)), _) => places.clone().collect(),
            (_, _, Ok(id)) => with(&|own| own == id),
            _ => range().map_or(Vec::new(), |range| with(&|own| range.contains(&own))),
        };
        match chosen.is_empty() {
            false => Ok(chosen),
            true if self.modules.is_empty() => Err("no modules are configured".into()),
            true => {
                let first: Vec<_> =
                    self.modules.iter().take(4).map(|module| module.id.to_string()).collect();
                let more = if self.modules.len() > first.len() { ", ..." } else { "" };
                let first = first.join(", ");
                Err(format!("no module is called {word:?}; there are {first}{more}"))
            }
        }
    }

    /// What a list sets in each module.
    fn batches(&self, list: &str, commands: &[CommandsConfig]) -> Result<Batches, Wrong> {
        let mut batches = Batches::new();
        for (index, entry) in commands.iter().enumerate() {
            let path = |key: &str| format!("{list}[{index}].{key}");
            let advice = "write an identifier, a name, a range such as \"1-18\", or \"*\" for all";
            let places = self.choose(&entry.module.0);
            let places = places.map_err(|cause| wrong(path("module"), cause, advice))?;
            for (key, Word(value)) in &entry.set {
                check_command(key, value)
                    .map_err(|(cause, advice)| wrong(path("set"), cause, advice))?;
                for &place in &places {
                    let batch: &mut Vec<_> = batches.entry(place).or_default();
                    batch.push((key.clone(), value.clone()));
                    if batch.len() > QUEUE_MAX {
                        let cause = format!("more than {QUEUE_MAX} commands go to one module");
                        return Err(wrong(path("set"), cause, "leave some out"));
                    }
                }
            }
        }
        Ok(batches)
    }
}

/// Tests whether a command can set `key` to `value`.
///
/// # Errors
/// Why not, and what to write.
pub fn check_command(key: &str, value: &str) -> Result<(), (String, &'static str)> {
    let of_key = "a key has 1 to 64 bytes without spaces and `=`";
    let of_value = "a value is one line of at most 1024 bytes";
    match (is_key(key), is_text(value)) {
        (false, _) => Err((format!("{key:?} is no key"), of_key)),
        (_, false) => Err((format!("the value of {key} is no value"), of_value)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Plan;
    use crate::fixture::parse;

    fn plan(text: &str) -> Result<Plan, Problem> {
        parse(&format!("[slow_control]\n{text}"))
    }

    const MODULES: &str = "modules = [{ id = 7, address = \"10.0.0.7:6000\" },\n\
                           { id = 100, address = \"10.0.1.254:6000\", count = 3, name = \"line\" }]\n";

    #[test]
    fn a_row_of_modules_has_addresses_in_a_row() {
        let control = plan(MODULES).unwrap().slow_control;
        let listed: Vec<_> = control
            .modules
            .iter()
            .map(|module| format!("{} {}", module.id, module.address))
            .collect();
        let expected =
            ["7 10.0.0.7:6000", "100 10.0.1.254:6000", "101 10.0.1.255:6000", "102 10.0.2.0:6000"];
        assert_eq!(listed, expected);
        let chosen = ["7", "*", "line", "101", "7-100", "101-999"];
        let chosen = chosen.map(|word| control.choose(word).unwrap());
        assert_eq!(
            chosen,
            [vec![0], vec![0, 1, 2, 3], vec![1, 2, 3], vec![2], vec![0, 1], vec![2, 3]]
        );
        let error = control.choose("8").unwrap_err();
        assert_eq!(error, "no module is called \"8\"; there are 7, 100, 101, 102");
    }

    #[test]
    fn what_a_run_does_with_modules_is_told_in_words() {
        let lists = "deadline = \"1 s\"\nconfigure = [{ module = \"*\", set = { a = 1, b = 2 } }]";
        let control = plan(&format!("{MODULES}{lists}")).unwrap().slow_control;
        assert!(control.is_needed());
        assert_eq!(
            control.words().unwrap(),
            "4 modules at 4 addresses, 10.0.0.7:6000 to 10.0.2.0:6000; commands: 8 at configure, 0 at \
             start, 0 at stop; one that is not acknowledged for 1 s is given up, and a run needs all of \
             them applied"
        );
        let idle =
            plan("modules = [{ id = 7, address = \"10.0.0.7:6000\" }]").unwrap().slow_control;
        assert!(!idle.is_needed());
        assert!(idle.words().unwrap().starts_with("module 7 at 10.0.0.7:6000; commands: 0 at"));
        assert_eq!(plan("").unwrap().slow_control.words(), None);
    }

    #[test]
    fn lists_keep_their_order_for_each_module() {
        let lists = "configure = [{ module = \"*\", set = { b = 1, a = \"x y\" } },\n\
                     { module = 7, set = { a = \"\" } }]\nstop = [{ module = \"line\", set = { a = 0 } }]";
        let control = plan(&format!("{MODULES}{lists}")).unwrap().slow_control;
        let set = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
        };
        assert_eq!(control.configure[&0], set(&[("a", "x y"), ("b", "1"), ("a", "")]));
        assert_eq!(control.configure[&3], set(&[("a", "x y"), ("b", "1")]));
        assert_eq!(control.stop.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        assert!(control.start.is_empty());
    }

    #[test]
    fn what_is_wrong_is_placed() {
        let told = |text: &str| {
            let problem = plan(text).unwrap_err();
            assert!(!problem.suggestion.is_empty());
            (problem.line, problem.cause)
        };
        let cases = [
            ("retry = \"0 s\"", 2, "retry: 0 ns is not between"),
            ("\nretry = \"3 s\"", 3, "retry: 3 s is not between"),
            ("deadline = \"1000 s\"", 2, "deadline: "),
            ("modules = [{ id = 7 }]", 2, "missing key `address`"),
            ("modules = [{ id = 7, address = \"10.0.0.7:0\" }]", 2, "modules[0].address"),
            ("modules = [{ id = 7, address = \"0.0.0.0:1\" }]", 2, "modules[0].address"),
            ("modules = [{ id = 7, address = \"255.255.255.255:1\", count = 2 }]", 2, "address"),
            ("modules = [{ id = 4294967295, address = \"10.0.0.7:1\", count = 2 }]", 2, "id: "),
            ("modules = [{ id = 7, address = \"10.0.0.7:1\", count = 0 }]", 2, "modules[0].count"),
            ("modules = [{ id = 7, address = \"10.0.0.7:1\", count = 5000 }]", 2, "count"),
            ("modules = [{ id = 7, address = \"10.0.0.7:1\", name = \"1-2\" }]", 2, "name"),
            ("configure = [{ module = \"*\", set = { hv = 1 } }]", 2, "no modules are configured"),
            ("emulate = { loss = 1.5 }", 2, "emulate.loss: 1.5 is no probability"),
            ("emulate = { reorder = nan }", 2, "emulate.reorder"),
        ];
        for (text, line, cause) in cases {
            let (place, told) = told(text);
            assert!(place == line && told.contains(cause), "{text}: {place}: {told}");
        }
        for list in [
            "start = [{ module = 8, set = { hv = 1 } }]",
            "start = [{ module = 7, set = { \"h v\" = 1 } }]",
            "start = [{ module = 7, set = { hv = \"a\\nb\" } }]",
            "start = [{ module = 7, set = { hv = 1.5 } }]",
        ] {
            let (place, cause) = told(&format!("{MODULES}{list}"));
            assert_eq!(place, 4, "{list}: {cause}");
        }
        let twice = "modules = [{ id = 1, address = \"10.0.0.1:1\" }, { id = 1, address = \"10.0.0.2:1\" }]";
        assert!(told(twice).1.contains("another module has this identifier"));
        let mixed =
            "modules = [{ id = 1, address = \"[::1]:1\" }, { id = 2, address = \"10.0.0.1:1\" }]";
        assert!(told(mixed).1.contains("IPv6"));
    }
}
