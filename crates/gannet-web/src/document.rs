//! The description of the interface: an OpenAPI document, made of the types that the handlers take and give.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::calls::{About, Ask, Calls, Reply};
use crate::problem::{self, Problem};

/// The one shown first in the description; of the others it is told that they are bytes.
const JSON: &str = "application/json";

/// Calls as their description.
pub(crate) struct Document {
    /// Where the paths begin.
    base: &'static str,
    /// Types that are given.
    given: SchemaGenerator,
    /// Types that are taken.
    taken: SchemaGenerator,
    paths: Map<String, Value>,
}

impl Document {
    /// The description of no call, with paths that begin with `base`.
    pub fn new(base: &'static str) -> Self {
        let settings = || {
            let mut settings = SchemaSettings::draft2020_12();
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
            settings.transforms.push(Box::new(RecursiveTransform(list_values)));
            settings
        };
        Self {
            base,
            given: settings().for_serialize().into_generator(),
            taken: settings().for_deserialize().into_generator(),
            paths: Map::new(),
        }
    }

    /// The document.
    pub fn finish(mut self) -> Value {
        let problem = self.given.subschema_for::<Problem>();
        let mut schemas = self.given.take_definitions(true);
        schemas.extend(self.taken.take_definitions(true));
        schemas.sort_keys();
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Gannet",
                "description": "A run of data acquisition: see it, and command it.",
                "version": env!("CARGO_PKG_VERSION"),
                "license": { "name": "Apache-2.0 OR MIT" },
            },
            "security": [{ "token": [] }],
            "paths": self.paths,
            "components": {
                "schemas": schemas,
                "responses": { "Problem": {
                    "description": "Why the request is not answered.",
                    "content": { problem::KIND: { "schema": problem } },
                } },
                "securitySchemes": { "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token in the address that a run prints, or one of those in `token_file`.",
                } },
            },
        })
    }

    /// Adds a call.
    fn add(&mut self, method: &str, path: &str, about: &About, answer: Schema, mut more: Value) {
        let content = about.kinds.iter().map(|kind| {
            let schema = match *kind {
                JSON => answer.clone().to_value(),
                text if text.starts_with("text/") => json!({ "type": "string" }),
                _ => json!({ "type": "string", "format": "binary" }),
            };
            ((*kind).to_owned(), json!({ "schema": schema }))
        });
        let content: Map<String, Value> = content.collect();
        let good = about.status.canonical_reason().unwrap_or_default();
        let mut operation = json!({
            "operationId": name(method, path),
            "summary": about.summary,
            "x-role": about.role.to_string(),
            "responses": {
                about.status.as_str(): { "description": good, "content": content },
                "default": { "$ref": "#/components/responses/Problem" },
            },
        });
        let (Some(operation_map), Some(more)) = (operation.as_object_mut(), more.as_object_mut())
        else {
            return;
        };
        operation_map.append(more);
        self.paths.entry(format!("{}{path}", self.base)).or_insert_with(|| json!({}))[method] =
            operation;
    }
}

impl Calls for Document {
    fn get<W, A, F, R>(mut self, path: &'static str, about: About, _: F) -> Self
    where
        W: DeserializeOwned + JsonSchema + Send + 'static,
        A: JsonSchema + 'static,
        F: Fn(Ask<W>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<Reply<A>, Problem>> + Send + 'static,
    {
        let wanted = W::json_schema(&mut self.taken);
        let answer = self.given.subschema_for::<A>();
        self.add("get", path, &about, answer, json!({ "parameters": parameters(&wanted, path) }));
        self
    }

    fn post<W, A, F, R>(mut self, path: &'static str, about: About, _: F) -> Self
    where
        W: DeserializeOwned + Serialize + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema + 'static,
        F: Fn(Ask<W>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<A, Problem>> + Send + 'static,
    {
        let wanted = self.taken.subschema_for::<W>();
        let answer = self.given.subschema_for::<A>();
        let key = json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": true,
            "description": "A key of the command's own, so that it is done once however often it comes.",
            "schema": { "type": "string", "minLength": 1, "maxLength": crate::limits::KEY_BYTES_MAX },
        });
        let places = places(path).map(|place| {
            let schema = json!({ "type": "string" });
            json!({ "name": place, "in": "path", "required": true, "schema": schema })
        });
        let more = json!({
            "parameters": places.chain([key]).collect::<Value>(),
            "requestBody": { "required": true, "content": { JSON: { "schema": wanted } } },
        });
        self.add("post", path, &about, answer, more);
        self
    }
}

/// What generated clients call it: `get_records_by_number`.
fn name(method: &str, path: &str) -> String {
    let mut name = method.to_owned();
    for part in path.split(['/', '.']).filter(|part| !part.is_empty()) {
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(place) => name.extend(["_by_", place]),
            None => name.extend(["_", part]),
        }
    }
    name
}

/// Makes a list of a choice between single texts, each of which is a schema of its own with a sentence: generators of clients
/// know what to make of a list. The sentences go to the description.
fn list_values(schema: &mut Schema) {
    let Some(choices) = schema.get("oneOf").and_then(Value::as_array) else { return };
    let values = choices.iter().map(|choice| choice.get("const").filter(|value| value.is_string()));
    let Some(values) = values.map(|value| value.cloned()).collect::<Option<Vec<_>>>() else {
        return;
    };
    let said = choices.iter().zip(&values).map(|(choice, value)| {
        let sentence = choice.get("description").and_then(Value::as_str).unwrap_or_default();
        format!("\n- {}: {sentence}", value.as_str().unwrap_or_default())
    });
    let said: String = said.collect();
    let own = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let description = format!("{own}\n{said}");
    schema.remove("oneOf");
    schema.insert("type".into(), "string".into());
    schema.insert("enum".into(), values.into());
    schema.insert("description".into(), description.trim().into());
}

/// The places of a path that have names.
fn places(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// The members of an object as parameters of an address.
fn parameters(object: &Schema, path: &str) -> Value {
    let required: Vec<_> =
        object.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let members = object.get("properties").and_then(Value::as_object).into_iter().flatten();
    let parameters = members.map(|(name, schema)| {
        let mut schema = schema.clone();
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        // What is absent from an address is not there, and never null.
        if let Some(Value::Array(types)) = schema.get("type") {
            schema["type"] = types[0].clone();
        }
        json!({
            "name": name,
            "in": if places(path).any(|place| place == name) { "path" } else { "query" },
            "required": required.iter().any(|it| it == name),
            "description": description.unwrap_or_default(),
            "schema": schema,
        })
    });
    parameters.collect()
}
