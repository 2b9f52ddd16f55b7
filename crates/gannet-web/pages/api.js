// The calls of the interface, as its description lists them, each with a form that tries it.

import { make, say } from "./dom.js";

/** @typedef {{[name: string]: any}} Json */
/** @typedef {{name: string, in: string, required: boolean, description: string, schema: Json}} Parameter */
/** @typedef {{method: string, path: string, summary: string, role: string, parameters: Parameter[], body: Json | null}} Call */

/** Most of an answer that is shown, in characters. */
const SHOWN_MAX = 20_000;

/**
 * The schema that a reference leads to.
 * @param {Json} schema
 * @param {Json} description
 * @returns {Json}
 */
function resolved(schema, description) {
  const name = schema.$ref?.split("/").at(-1);
  return name === undefined ? schema : description.components.schemas[name];
}

/**
 * A schema in whose members no reference is left, nor a choice between one and nothing.
 * @param {Json} schema
 * @param {Json} description
 * @returns {Json}
 */
function whole(schema, description) {
  const member = (/** @type {Json} */ it) => {
    const one = it.allOf?.[0] ?? it.anyOf?.find((/** @type {Json} */ part) => part.type !== "null") ?? it;
    return { ...resolved(one, description), ...(it.description === undefined ? {} : { description: it.description }) };
  };
  const properties = Object.entries(schema.properties ?? {}).map(([name, it]) => [name, member(/** @type {Json} */ (it))]);
  return { ...schema, properties: Object.fromEntries(properties) };
}

/**
 * A value that fits a schema: the first where only some do.
 * @param {Json} schema
 * @returns {any}
 */
function sample(schema) {
  if (schema.examples?.length > 0) return schema.examples[0];
  if (schema.default !== undefined) return schema.default;
  if (schema.enum) return schema.enum[0];
  if (schema.oneOf) return schema.oneOf[0].const ?? sample(schema.oneOf[0]);
  if (schema.const !== undefined) return schema.const;
  const type = [schema.type].flat()[0];
  const least = Math.max(0, schema.minimum ?? 0);
  return { integer: least, number: least, boolean: false, array: [], object: {} }[/** @type {string} */ (type)] ?? "";
}

/**
 * All calls of a description.
 * @param {Json} description
 * @returns {Call[]}
 */
export function calls(description) {
  return Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(/** @type {Json} */ (methods)).map(([method, said]) => {
      const body = said.requestBody?.content["application/json"].schema;
      const parameters = said.parameters.filter((/** @type {Parameter} */ it) => it.in !== "header");
      return {
        method: method.toUpperCase(),
        path,
        summary: said.summary,
        role: said["x-role"],
        parameters,
        body: body === undefined ? null : whole(resolved(body, description), description),
      };
    }),
  );
}

/**
 * Where a call with these values of its parameters goes; those that are empty are left out.
 * @param {Call} call
 * @param {{[name: string]: string}} values
 */
export function address({ path, parameters }, values) {
  let place = path;
  const query = new URLSearchParams();
  for (const parameter of parameters) {
    const value = values[parameter.name] ?? "";
    if (parameter.in === "path") place = place.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (value !== "") query.set(parameter.name, value);
  }
  const asked = query.toString();
  return asked === "" ? place : `${place}?${asked}`;
}

/**
 * A body to begin with: the members that have to be there.
 * @param {Json} schema
 */
export function template(schema) {
  const members = (schema.required ?? []).map((/** @type {string} */ name) => [name, sample(schema.properties[name])]);
  return JSON.stringify(Object.fromEntries(members), null, 2);
}

/**
 * What a body may say, a line for each member.
 * @param {Json} schema
 */
export function members(schema) {
  return Object.entries(schema.properties ?? {}).map(([name, member]) => `${name}: ${/** @type {Json} */ (member).description ?? ""}`);
}

/**
 * The text of an answer; of events, which have no end, the first.
 * @param {Response} answer
 */
async function text_of(answer) {
  const kind = answer.headers.get("Content-Type") ?? "";
  if (!kind.startsWith("text/event-stream") || answer.body === null) return answer.text();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes("\n\n")) {
    const { value, done } = await reader.read();
    if (done) break;
    text += value;
  }
  await reader.cancel();
  return text;
}

/** @param {string} text */
function legible(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** @param {Call} call */
function form(call) {
  const form = /** @type {HTMLFormElement} */ (make("form", "call"));
  /** @type {Map<string, HTMLInputElement>} */
  const inputs = new Map();
  for (const { name, description, required, schema } of call.parameters) {
    const input = /** @type {HTMLInputElement} */ (make("input"));
    input.required = required;
    input.placeholder = schema.default === undefined ? "" : String(schema.default);
    inputs.set(name, input);
    form.append(make("label", "", [make("span", "name", name), input, make("span", "quiet", description ?? "")]));
  }
  const body = /** @type {HTMLTextAreaElement} */ (make("textarea"));
  if (call.body !== null) {
    body.value = template(call.body);
    body.rows = 4;
    form.append(make("label", "", [make("span", "name", "body"), body]));
    form.append(make("ul", "quiet", members(call.body).map((line) => make("li", "", line))));
  }
  const [status, answer] = [make("p", "quiet"), make("pre", "answer")];
  status.setAttribute("role", "status");
  answer.tabIndex = 0;
  answer.hidden = true;
  const button = /** @type {HTMLButtonElement} */ (make("button", "", "Try it"));
  form.append(button, status, answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const values = Object.fromEntries([...inputs].map(([name, input]) => [name, input.value]));
    const post = { "Content-Type": "application/json", "Idempotency-Key": crypto.getRandomValues(new Uint32Array(4)).join("-") };
    const options = call.body === null ? {} : { method: call.method, headers: post, body: body.value };
    try {
      const response = await fetch(address(call, values), options);
      const text = legible(await text_of(response));
      say(status, `${response.status} ${response.statusText}`);
      say(answer, text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}\n… and ${text.length - SHOWN_MAX} characters more` : text);
      answer.hidden = false;
    } catch {
      say(status, "The run does not answer.");
    }
  });
  return form;
}

/** @param {Call} call */
function entry(call) {
  const line = make("summary", "", [
    make("code", "", `${call.method} ${call.path}`),
    make("span", "", ` ${call.summary}`),
    make("span", "quiet", call.role === "view" ? "" : ` For the role ${call.role}.`),
  ]);
  return make("details", "", [line, form(call)]);
}

async function show() {
  const main = document.getElementById("main");
  if (!main) return;
  try {
    const answer = await fetch("/api/v1/openapi.json");
    const title = make("h1", "", "What programs can ask");
    main.replaceChildren(title, ...(answer.ok ? calls(await answer.json()).map(entry) : [make("p", "loss", "Open the whole address that the terminal printed first.")]));
  } catch {
    main.replaceChildren(make("p", "loss", "The run does not answer."));
  }
}

// The tests of what is computed have no page.
if (typeof document !== "undefined") show();
