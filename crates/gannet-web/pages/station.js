// The station that makes the runs: buttons that start, stop, pause and resume, and what the last run came to.

import { command } from "./command.js";
import { make, say } from "./dom.js";
import { example, found, opening } from "./files.js";
import { bounds, clock, grouped } from "./format.js";

/** @typedef {{control: boolean, state: string, possible: string[], run: number | null, ended: number, failure: string | null}} Station */
/** @typedef {{file: string, items: number, missing: number, problem: string | null}} Verified */
/**
 * What the server tells of a run; the fields that are read here.
 * @typedef {object} Run
 * @property {number | null} number
 * @property {number | null} end_unix_s
 * @property {string} outcome
 * @property {string | null} failure
 * @property {number} elapsed_s
 * @property {number} frames
 * @property {number} frames_lost
 * @property {number} frames_lost_max
 * @property {number | null} decisions
 * @property {number | null} records
 * @property {import("./rates.js").Figure[]} headlines
 * @property {string[]} files
 * @property {string[]} exports
 * @property {Verified[]} verified
 */

/** Time for the second click that ends a run, in milliseconds. */
const SURE_MS = 5000;

const LABELS = /** @type {const} */ ([
  ["start", "Start a run"],
  ["pause", "Pause"],
  ["resume", "Resume"],
  ["stop", "Stop"],
]);

/**
 * The state that is shown: that of the station where there is no run yet, or it is about to change.
 * @param {{state: string}} snapshot
 * @param {Station | null} station
 */
export function state_of({ state }, station) {
  if (!station) return state;
  const is_between = ["starting", "stopping", "failed"].includes(station.state);
  return is_between || state === "initial" ? station.state : state;
}

/**
 * How a run went that has ended: a title, and whether it needs attention.
 * @param {Run} run
 */
export function verdict(run) {
  const { number, outcome, failure, elapsed_s, frames, frames_lost, frames_lost_max, verified } = run;
  if (number === null) return { text: `The run could not start: ${failure}`, mark: "loss" };
  const sound = verified.filter(({ problem }) => problem === null).length;
  const files = verified.length === 0 ? "no file was read back" : `${sound} of ${verified.length} files verified`;
  const lost = `${bounds(frames_lost, frames_lost_max)} lost of ${grouped(frames + frames_lost)} frames`;
  const how = { failed: `FAILED: ${failure}`, not_verified: "NOT VERIFIED", degraded: "DEGRADED: data were lost" }[outcome];
  const text = `Run ${number} is drained: ${[files, lost, found(run), clock(elapsed_s)].filter((it) => it !== "").join(", ")}${how ? `. ${how}` : ""}`;
  return { text, mark: how ? "loss" : "" };
}

/** A row of buttons, and below it what the last run came to. */
export class Control {
  constructor() {
    this.refusal = make("p", "loss");
    this.refusal.setAttribute("role", "alert");
    this.buttons = new Map(LABELS.map(([name, label]) => [name, this.button(name, label)]));
    this.row = make("div", "controls", [...this.buttons.values()]);
    this.row.setAttribute("role", "group");
    this.row.setAttribute("aria-label", "The run");
    this.title = make("h2");
    this.files = make("ul", "paths");
    this.python = make("div");
    this.outcome = make("section", "outcome-of-run", [this.title, this.files, this.python]);
    this.outcome.setAttribute("role", "status");
    this.element = make("section", "", [this.row, this.refusal, this.outcome]);
    this.element.hidden = true;
    this.outcome.hidden = true;
    /** @type {Station | null} */
    this.station = null;
    this.seen = -1;
    this.sure_until = -Infinity;
  }

  /**
   * @param {string} name
   * @param {string} label
   */
  button(name, label) {
    const button = make("button", name, label);
    button.setAttribute("type", "button");
    button.addEventListener("click", () => this.press(name));
    return button;
  }

  /** @param {string} name */
  async press(name) {
    const { station } = this;
    // It stays where the keyboard is, so it is not disabled.
    if (!station?.possible.includes(name)) return;
    if (name === "stop" && performance.now() > this.sure_until) {
      this.sure_until = performance.now() + SURE_MS;
      setTimeout(() => this.draw(), SURE_MS + 50);
      this.draw();
      return;
    }
    this.sure_until = -Infinity;
    say(this.refusal, await command(`/api/v1/run/${name}`, { believed: station.state }));
  }

  /** @param {Station} station */
  async show(station) {
    this.station = station;
    this.draw();
    if (station.ended === this.seen) return;
    this.seen = station.ended;
    const answer = await fetch("/api/v1/runs");
    if (!answer.ok) return;
    const runs = /** @type {Run[]} */ (await answer.json());
    const last = runs.findLast((run) => run.end_unix_s !== null);
    if (last) this.tell(last);
  }

  draw() {
    const { station } = this;
    if (!station) return;
    this.element.hidden = false;
    this.row.hidden = !station.control;
    const is_asking = performance.now() <= this.sure_until;
    for (const [name, button] of this.buttons) {
      const is_possible = station.possible.includes(name);
      button.setAttribute("aria-disabled", is_possible ? "false" : "true");
      // One of the two has a place.
      if (name === "resume") button.hidden = station.state !== "paused";
      if (name === "pause") button.hidden = station.state === "paused";
    }
    const stop = this.buttons.get("stop");
    if (stop) say(stop, is_asking ? "Really stop?" : "Stop");
    const is_over = ["idle", "failed"].includes(station.state);
    this.outcome.hidden = !is_over || this.seen <= 0;
  }

  /** @param {Run} run */
  tell(run) {
    const { text, mark } = verdict(run);
    say(this.title, text);
    this.title.classList.toggle("loss", mark === "loss");
    const line = (/** @type {Verified} */ { file, items, problem }) =>
      `${file}: ${problem === null ? `verified, ${grouped(items)} items` : `NOT VERIFIED: ${problem}`}`;
    this.files.replaceChildren(
      ...run.verified.map((file) => make("li", file.problem === null ? "" : "loss", line(file))),
    );
    const first = run.exports.find((path) => opening(path) !== "");
    this.python.replaceChildren(...(first === undefined ? [] : [example(first)]));
    this.draw();
  }
}
