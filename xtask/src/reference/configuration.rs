//! The page about the configuration: a table of keys for each of its tables, from its JSON schema.

use serde_json::{Map, Value};

const INTRODUCTION: &str = "\
# Configuration

Written by `cargo xtask docs` from the [JSON schema](configuration.schema.json) that `gannet check --schema`
prints. To change a text, change the doc comment of the field.

A configuration is one TOML file. All keys have defaults; an unknown key or a wrong value is an error that names
line and column and suggests what was meant. Times and sizes are texts with a unit: `h`, `min`, `s`, `ms`,
`us`, `ns`; `B`, `KiB`, `MiB`, `GiB`, `TiB`, or the decimal `kB`, `MB`, `GB`, `TB`. A tick is one of the
detector's clock, 16 ns. `absent` as a default means that the key is not there. `streams`, `[pipeline]` and `[emulate]` are those
of `dune-tpc`; those of [the RICH of NA62](configuration-na62-rich.md) and of [KM3NeT](configuration-km3net.md) are on pages of their own, and what another
detector has there, its program tells by `check --schema`.
";

/// An enumeration of more names than this has a section of its own.
const NAMES_IN_A_CELL_MAX: usize = 8;

type Object = Map<String, Value>;

/// The page.
pub fn page(schema: &Value) -> String {
    let mut page = Page { schema, text: INTRODUCTION.to_owned(), lists: Vec::new() };
    page.add_keys("", schema);
    page.add_lists();
    page.text
}

/// The page of what `detector` has where other detectors have other keys.
pub fn page_of(detector: &str, schema: &Value) -> String {
    let text = format!(
        "# Configuration of `{detector}`\n\n\
         Written by `cargo xtask docs` from what `gannet check --schema --detector {detector}` prints.\n\n\
         These are the keys that other detectors do not have; the others are in the\n\
         [reference](configuration.md), which says how to read the tables, too.\n"
    );
    let mut page = Page { schema, text, lists: Vec::new() };
    for path in ["source.streams", "pipeline", "emulate"] {
        let (first, key) = path.split_once('.').unwrap_or((path, ""));
        let mut table = page.resolve(&schema["properties"][first]);
        if !key.is_empty() {
            let item = page.resolve(&table["items"]);
            table = page.resolve(&item["properties"][key]);
        }
        page.add_table(&format!("`[{path}]`"), path, table);
    }
    page.add_lists();
    page.text
}

struct Page<'a> {
    schema: &'a Value,
    text: String,
    /// Enumerations that have a section of their own, by name.
    lists: Vec<&'a str>,
}

/// How a section of keys below a key comes to be.
enum Below<'a> {
    Table(&'a Value),
    /// Tables of the same kind under names.
    Named(&'a Value),
    List(&'a Value),
}

impl<'a> Page<'a> {
    /// Adds the keys of the table at `path`, then the tables below it.
    fn add_keys(&mut self, path: &str, table: &'a Value) {
        let mut below = Vec::new();
        self.text += "\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n";
        for (key, value) in properties(table) {
            let schema = self.resolve(value);
            let kind = self.kind(value);
            let default = default(value, self.below(schema).is_some());
            let required = table["required"]
                .as_array()
                .is_some_and(|keys| keys.contains(&key.as_str().into()));
            let default = if required { "required".to_owned() } else { default };
            let meaning = self.meaning(value, schema);
            self.text += &format!("| `{key}` | {kind} | {default} | {meaning} |\n");
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            below.extend(self.below(schema).map(|it| (path, it)));
        }
        for (path, it) in below {
            match it {
                Below::Table(table) => self.add_table(&format!("`[{path}]`"), &path, table),
                Below::Named(table) => self.add_table(&format!("`[{path}.NAME]`"), &path, table),
                Below::List(item) => {
                    self.add_table(&format!("`[[{path}]]`"), &path, self.resolve(item))
                }
            }
        }
    }

    /// Adds the section of a table, or of each of the kinds of table that it may be.
    fn add_table(&mut self, title: &str, path: &str, table: &'a Value) {
        self.text += &format!("\n## {title}\n");
        self.add_paragraphs(table);
        let kinds = table["oneOf"].as_array();
        for kind in kinds.into_iter().flatten() {
            let tag = properties(kind).find_map(|(key, value)| Some((key, value.get("const")?)));
            if let Some((key, value)) = tag {
                self.text += &format!("\n### {title} with `{key} = {value}`\n");
            }
            self.add_paragraphs(kind);
            self.add_keys(path, kind);
        }
        if kinds.is_none() {
            self.add_keys(path, table);
        }
    }

    fn add_paragraphs(&mut self, schema: &Value) {
        let description = schema["description"].as_str().unwrap_or_default();
        for paragraph in description.split("\n\n").filter(|text| !text.is_empty()) {
            self.text += &format!("\n{paragraph}\n");
        }
    }

    /// Adds the sections of long enumerations.
    fn add_lists(&mut self) {
        for name in std::mem::take(&mut self.lists) {
            let names = self.schema["$defs"][name]["enum"].as_array();
            let names: Vec<_> =
                names.into_iter().flatten().map(|name| format!("`{name}`")).collect();
            self.text += &format!("\n## {name}\n\n{}.\n", names.join(", "));
        }
    }

    /// What a reference leads to; of a value that may be absent, the value.
    fn resolve(&self, value: &'a Value) -> &'a Value {
        if let Some(value) = present(value) {
            return self.resolve(value);
        }
        match reference(value) {
            Some(name) => &self.schema["$defs"][name],
            None => value,
        }
    }

    /// Which tables are described below a key with this schema.
    fn below(&self, schema: &'a Value) -> Option<Below<'a>> {
        let is_table = |schema: &Value| {
            let kinds = schema["oneOf"].as_array();
            schema.get("properties").is_some()
                || kinds
                    .is_some_and(|kinds| kinds.iter().all(|kind| kind.get("properties").is_some()))
        };
        if let Some(item) = schema.get("items") {
            return is_table(self.resolve(item)).then_some(Below::List(item));
        }
        if let Some(value) = same_reference(schema) {
            return Some(Below::Named(self.resolve(value)));
        }
        is_table(schema).then_some(Below::Table(schema))
    }

    /// The type of a value in words.
    fn kind(&mut self, value: &'a Value) -> String {
        if let Some(value) = present(value) {
            return self.kind(value);
        }
        let schema = self.resolve(value);
        if let Some(names) = schema["enum"].as_array() {
            if names.len() > NAMES_IN_A_CELL_MAX
                && let Some(name) = reference(value)
            {
                if !self.lists.contains(&name) {
                    self.lists.push(name);
                }
                return format!("[{name}](#{})", name.to_lowercase());
            }
            return one_of(names.iter());
        }
        if let Some(only) = schema.get("const") {
            return format!("`{only}`");
        }
        match (self.below(schema), schema["oneOf"].as_array()) {
            (Some(Below::Table(_)), _) => return "table, see below".into(),
            (Some(Below::Named(_)), _) => return "tables by name, see below".into(),
            (Some(Below::List(_)), _) => return "list of tables, see below".into(),
            (None, Some(choices)) => {
                let kinds: Vec<_> = choices.iter().map(|choice| self.kind(choice)).collect();
                return kinds.join(", ");
            }
            (None, None) => (),
        }
        if let Some(items) = schema.get("items") {
            let item = self.kind(items);
            return match (schema["minItems"].as_u64(), schema["maxItems"].as_u64()) {
                (Some(min), Some(max)) if min == max => format!("list of {min}: {item}"),
                _ => format!("list: {item}"),
            };
        }
        let example = schema["examples"][0].as_str();
        let text = match reference(value) {
            Some("Span") => "time",
            Some("Bytes") => "size",
            _ => "text",
        };
        match (type_name(schema), example) {
            (Some("string"), Some(example)) => format!("{text}, such as `\"{example}\"`"),
            (Some("string"), None) => "text".into(),
            (Some("integer"), _) => "whole number".into(),
            (Some("number"), _) => "number".into(),
            (Some("boolean"), _) => "`true` or `false`".into(),
            (other, _) => other.unwrap_or("anything").into(),
        }
    }

    /// The description of a key, and of each value that it may have.
    fn meaning(&self, value: &'a Value, schema: &'a Value) -> String {
        let own = value.get("description").or_else(|| schema.get("description"));
        let mut meaning = one_line(own);
        let list = schema.get("items").map_or(schema, |items| self.resolve(items));
        for choice in list["oneOf"].as_array().into_iter().flatten() {
            if let (Some(name), Some(_)) = (choice.get("const"), choice.get("description")) {
                meaning += &format!("<br>`{name}`: {}", one_line(choice.get("description")));
            }
        }
        meaning
    }
}

fn properties(table: &Value) -> impl Iterator<Item = (&String, &Value)> {
    table["properties"].as_object().into_iter().flat_map(Object::iter)
}

/// Name of the definition that a schema refers to.
fn reference(value: &Value) -> Option<&str> {
    value["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// Of "this or nothing", this.
fn present(value: &Value) -> Option<&Value> {
    value["anyOf"].as_array()?.iter().find(|choice| choice["type"] != "null")
}

/// The one definition that many properties refer to: names are then data.
fn same_reference(schema: &Value) -> Option<&Value> {
    let mut values = properties(schema).map(|(_, value)| value);
    let first = values.next()?;
    let name = reference(first)?;
    let (count, same) = values.fold((1, true), |(count, same), value| {
        (count + 1, same && reference(value) == Some(name))
    });
    (same && count > NAMES_IN_A_CELL_MAX).then_some(first)
}

/// Name of the type; of "this or null", this.
fn type_name(schema: &Value) -> Option<&str> {
    let types = &schema["type"];
    let of_list = || types.as_array()?.iter().find_map(|it| it.as_str().filter(|it| *it != "null"));
    types.as_str().or_else(of_list)
}

fn one_of<'v>(values: impl Iterator<Item = &'v Value>) -> String {
    let values: Vec<_> = values.map(|value| format!("`{value}`")).collect();
    values.join(", ")
}

fn one_line(text: Option<&Value>) -> String {
    let text = text.and_then(Value::as_str).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The default of a key as one would write it; tables show theirs key by key.
fn default(value: &Value, has_below: bool) -> String {
    match value.get("default") {
        Some(Value::Null) | None => "absent".into(),
        Some(Value::Object(_)) if has_below => String::new(),
        Some(default) => format!("`{}`", written(default)),
    }
}

/// A value in TOML; of a table in a list, the first key.
fn written(value: &Value) -> String {
    match value {
        Value::Number(number) if number.is_u64() => grouped(&number.to_string()),
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(written).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(table) => match table.iter().next() {
            Some((key, value)) if table.len() == 1 => format!("{{ {key} = {} }}", written(value)),
            Some((key, value)) => format!("{{ {key} = {}, ... }}", written(value)),
            None => "{}".into(),
        },
        other => other.to_string(),
    }
}

/// Digits in groups of three: `62_500_000`; up to four as they are.
fn grouped(digits: &str) -> String {
    if digits.len() <= 4 {
        return digits.to_owned();
    }
    let mut out = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push('_');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({
            "properties": {
                "run": {"$ref": "#/$defs/Run", "description": "The\nrun.", "default": {"number": 1}},
                "maker": {"type": "array", "items": {"$ref": "#/$defs/Maker"}, "default": []},
            },
            "$defs": {
                "Run": {"description": "A run.\n\nMore about it.", "properties": {
                    "number": {"type": "integer", "default": 62_500_000, "description": "a | b"},
                    "wait": {"anyOf": [{"$ref": "#/$defs/Span"}, {"type": "null"}], "default": null},
                    "way": {"$ref": "#/$defs/Way", "default": "fast"},
                    "which": {"oneOf": [{"const": "all"}, {"type": "array", "items": {"type": "string"}}]},
                    "thresholds": {"type": "array", "items": {"type": "integer"},
                        "minItems": 2, "maxItems": 2, "default": [1, 2]},
                }},
                "Span": {"type": "string", "examples": ["1 s"]},
                "Way": {"oneOf": [{"const": "fast", "description": "Quickly."}, {"const": "slow"}]},
                "Maker": {"oneOf": [{"description": "The first.", "required": ["kind"], "properties": {
                    "kind": {"type": "string", "const": "one"},
                    "size": {"type": "number", "default": 1.5, "description": "Its size."},
                }}]},
            }
        })
    }

    #[test]
    fn every_key_has_its_line() {
        let page = page(&schema());
        for line in [
            "| `run` | table, see below |  | The run. |",
            "## `[run]`\n\nA run.\n\nMore about it.\n",
            "| `number` | whole number | `62_500_000` | a \\| b |",
            "| `wait` | time, such as `\"1 s\"` | absent |  |",
            "| `way` | `\"fast\"`, `\"slow\"` | `\"fast\"` | <br>`\"fast\"`: Quickly. |",
            "| `which` | `\"all\"`, list: text | absent |  |",
            "| `thresholds` | list of 2: whole number | `[1, 2]` |  |",
            "| `maker` | list of tables, see below | `[]` |  |",
            "## `[[maker]]`\n\n### `[[maker]]` with `kind = \"one\"`\n\nThe first.\n",
            "| `kind` | `\"one\"` | required |  |",
            "| `size` | number | `1.5` | Its size. |",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }

    #[test]
    fn many_names_have_a_section_of_their_own() {
        let names: Vec<String> = (0..9).map(|i| format!("n{i}")).collect();
        let table: Object =
            names.iter().map(|name| (name.clone(), json!({"$ref": "#/$defs/Span"}))).collect();
        let page = page(&json!({
            "properties": {
                "name": {"$ref": "#/$defs/Name", "default": "n1"},
                "spans": {"properties": table, "default": {}},
            },
            "$defs": {
                "Name": {"type": "string", "enum": names},
                "Span": {"properties": {"begin": {"type": "integer", "default": 3}}},
            },
        }));
        assert!(page.contains("| `name` | [Name](#name) | `\"n1\"` |"), "{page}");
        assert!(page.contains("## Name\n\n`\"n0\"`, `\"n1\"`"), "{page}");
        assert!(page.contains("## `[spans.NAME]`\n\n| key"), "{page}");
    }
}
