// Decisions as they come, and what is in the window of one.

import { Absence, without_decisions } from "./absent.js";
import { Table, explain, make, say } from "./dom.js";
import { EventPicture, colour_of } from "./event.js";
import { grouped, span } from "./format.js";
import { Plot } from "./plot.js";
import { address as signal_address } from "./signals.js";

/** @typedef {import("./event.js").Event} Event */
/** @typedef {{number: number, kind: string, time: number, begin: number, end: number}} Decision */

/** Time from one look at the decisions to the next, in milliseconds. */
const PERIOD_MS = 1000;
/** Time over which rates are shown, in seconds. */
const WINDOW_S = 120;
/** Decisions that are listed. */
const LISTED = 20;
/** Primitives that are listed. */
const LARGEST = 15;
/** What is said of a run that has ended and at whose decisions nobody looked. */
const ENDED = "The run has ended. Single decisions can be looked at while a run takes data; the records of this one are in its files, which Runs and files lists.";
/** Most plots of kinds. */
const KINDS_MAX = 6;

/**
 * The record that the address names; none where the newest is to be seen.
 * @param {string} hash
 */
export function wanted(hash) {
  const text = new URLSearchParams(hash.split("?")[1] ?? "").get("record") ?? "";
  return /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/**
 * Where the samples behind a primitive are seen: in the middle of four frames.
 * @param {Event} event
 * @param {number} at
 */
export function behind({ from, ticks_per_s, primitives }, at) {
  const half = Math.round(65e-6 * ticks_per_s);
  const end = BigInt(Math.round(from + primitives.time[at] + half));
  return `${signal_address(primitives.channel[at])}&end=${end}`;
}

/**
 * How many decisions of each kind there were in each second, from `begin_s` to `end_s` of the time of the data.
 * @param {{kind: string, at_s: number}[]} decisions
 * @param {number} begin_s
 * @param {number} end_s
 */
export function rates(decisions, begin_s, end_s) {
  /** @type {Map<string, {at: number, value: number}[]>} */
  const found = new Map();
  const [first, last] = [Math.ceil(begin_s), Math.floor(end_s)];
  for (const { kind, at_s } of decisions) {
    if (!found.has(kind)) {
      const count = Math.max(0, last - first);
      found.set(kind, Array.from({ length: count }, (_, at) => ({ at: first + at + 1, value: 0 })));
    }
    const bin = found.get(kind)?.[Math.floor(at_s) - first];
    if (bin) bin.value += 1;
  }
  return found;
}

/** The primitives with the most charge: their places. */
export function largest(/** @type {number[]} */ charge, /** @type {number} */ most) {
  return charge
    .map((_, at) => at)
    .sort((a, b) => charge[b] - charge[a])
    .slice(0, most);
}

export class Triggers {
  constructor() {
    this.plots = make("section", "plots");
    /** @type {Map<string, Plot>} */
    this.kinds = new Map();
    this.trouble = make("p", "quiet");
    this.trouble.setAttribute("role", "status");
    this.picture = new EventPicture((event, at) => {
      location.hash = behind(event, at);
    });
    const scale = make("span", "scale", Array.from({ length: 12 }, (_, at) => swatch(at / 11)));
    scale.setAttribute("aria-hidden", "true");
    this.newest = /** @type {HTMLAnchorElement} */ (make("a", "", "Follow the newest"));
    this.newest.href = "#/triggers";
    this.table = new Table("Last decisions", [
      { title: "record", numeric: true },
      { title: "kind" },
      { title: "before the newest data", numeric: true },
      { title: "window", numeric: true },
    ]);
    this.times = new Table("Latency", [
      { title: "from … to" },
      { title: "how many", numeric: true },
      { title: "half within", numeric: true },
      { title: "99 % within", numeric: true },
      { title: "longest", numeric: true },
    ]);
    this.primitives = new Table("Primitives with the most charge", [
      { title: "channel", numeric: true },
      { title: "after the begin", numeric: true },
      { title: "over threshold", numeric: true },
      { title: "charge", numeric: true },
    ]);
    const page = make("div", "", [
      this.plots,
      make("section", "", [
        this.picture.element,
        make("p", "quiet controls", [make("span", "", "Channel against time; charge from little to much: "), scale, this.newest]),
        this.trouble,
        make("p", "quiet", "Outlined: activities. A click on a primitive shows its samples, as long as the buffer holds them."),
      ]),
      make("section", "tables", [this.table.element, this.primitives.element, this.times.element]),
    ]);
    this.absence = new Absence(page);
    this.element = make("div", "triggers", [make("h1", "", "Triggers"), this.absence.text, page]);
    this.run = -1;
    /** @type {Map<number, Decision>} */
    this.decisions = new Map();
    /** Time of the data when the first look was, and now, in ticks. */
    [this.begin, this.end] = [0, 0];
    this.ticks_per_s = 1;
    /** @type {Event | null} */
    this.event = null;
    this.asked = -Infinity;
    this.is_waiting = false;
    [this.is_over, this.is_held] = [false, false];
    /** The address whose event is shown. */
    this.shown = "";
  }

  clear() {
    this.decisions.clear();
    [this.begin, this.end, this.event, this.is_held] = [0, 0, null, false];
  }

  /** @param {import("./rates.js").Snapshot} snapshot */
  show(snapshot) {
    if (snapshot.run !== this.run) {
      this.run = snapshot.run;
      this.clear();
    }
    const excuse = without_decisions(snapshot);
    this.is_over = ["stopped", "error"].includes(snapshot.state);
    const is_bare = this.is_over && !this.is_held && !this.event;
    if (this.absence.excuses(excuse || (is_bare ? ENDED : "")) && excuse) return;
    const { arrival_to_decision, decision_to_record } = snapshot.latency;
    const steps = /** @type {const} */ ([
      ["arrival to decision", arrival_to_decision],
      ["decision to record", decision_to_record],
    ]);
    const timed = steps.filter(([, { count }]) => count > 0);
    this.times.element.hidden = timed.length === 0;
    this.times.show(timed.map(([name, { count, p50, p99, max }]) => [name, grouped(count), span(p50), span(p99), span(max)]));
    this.picture.show(this.event);
    this.follow();
  }

  async follow() {
    const now = performance.now();
    const is_new = this.shown !== location.hash;
    if (this.is_waiting || (now - this.asked < PERIOD_MS && !is_new)) return;
    [this.asked, this.shown, this.is_waiting] = [now, location.hash, true];
    try {
      await this.list();
      await this.display(is_new);
    } catch {
      // The line at the top says that the connection is lost.
    } finally {
      this.is_waiting = false;
    }
  }

  async list() {
    const answer = await fetch("/api/v1/decisions?last=500");
    if (!answer.ok) return this.excuse(answer);
    const { decisions, held, ticks_per_s } = await answer.json();
    this.ticks_per_s = ticks_per_s;
    for (const decision of decisions) this.decisions.set(decision.number, decision);
    this.is_held = held !== null;
    if (!held) return say(this.trouble, "Primitives and decisions are kept from now on, as long as somebody looks.");
    if (held.begin > this.end) {
      // Nobody looked for a while, and nobody knows what was decided then.
      for (const { number, time } of this.decisions.values()) if (time < held.begin) this.decisions.delete(number);
      this.begin = held.begin;
    }
    this.end = held.end;
    const oldest = this.end - WINDOW_S * ticks_per_s;
    for (const { number, time } of this.decisions.values()) if (time < oldest) this.decisions.delete(number);
    const shown = this.event?.decision.number;
    const all = [...this.decisions.values()].sort((a, b) => b.number - a.number);
    this.table.show(
      all.slice(0, LISTED).map(({ number, kind, time, begin, end }) => [
        { text: number.toString(), href: `#/triggers?record=${number}`, mark: number === shown ? "attention" : "" },
        kind,
        span(Math.max(0, (1e9 * (this.end - time)) / ticks_per_s)),
        span((1e9 * (end - begin)) / ticks_per_s),
      ]),
    );
    this.plot(all);
  }

  /** @param {Decision[]} all */
  plot(all) {
    // From the first look on: seconds since 1970 would leave no digits for the rest.
    const after = (/** @type {number} */ tick) => (tick - this.begin) / this.ticks_per_s;
    const decisions = all.map(({ kind, time }) => ({ kind, at_s: after(time) }));
    const found = rates(decisions, Math.max(0, after(this.end) - WINDOW_S), after(this.end));
    for (const [kind, points] of [...found].slice(0, KINDS_MAX)) {
      let plot = this.kinds.get(kind);
      if (!plot) {
        plot = new Plot(`Decisions, ${kind}`, "/s", WINDOW_S);
        this.kinds.set(kind, plot);
        this.plots.append(plot.element);
      }
      plot.show(points);
    }
  }

  /** @param {boolean} is_new */
  async display(is_new) {
    const named = wanted(location.hash);
    const whole = [...this.decisions.values()].filter(({ end }) => end <= this.end);
    const number = named ?? whole.reduce((newest, it) => Math.max(newest, it.number), -1);
    const is_there = this.event?.decision.number === number && this.event.is_complete;
    this.newest.hidden = named === null;
    if (number < 0 || (is_there && !is_new)) return;
    if (!is_there) {
      const answer = await fetch(`/api/v1/records/${number}`);
      if (!answer.ok) return this.excuse(answer);
      this.event = /** @type {Event} */ (await answer.json());
    }
    say(this.trouble, "");
    const event = /** @type {Event} */ (this.event);
    this.picture.show(event);
    const { time, channel, length, charge } = event.primitives;
    const ns = 1e9 / event.ticks_per_s;
    this.primitives.show(
      largest(charge, LARGEST).map((at) => [
        { text: channel[at].toString(), href: behind(event, at) },
        span(time[at] * ns),
        span(length[at] * ns),
        grouped(charge[at]),
      ]),
    );
  }

  /**
   * Says why there is nothing to see.
   * @param {Response} answer
   */
  async excuse(answer) {
    const { detail } = await answer.json().catch(() => ({ detail: `the server says ${answer.status}` }));
    explain(this.trouble, detail);
    if (wanted(location.hash) !== null && this.event?.decision.number !== wanted(location.hash)) {
      this.event = null;
      this.picture.show(null);
      this.primitives.show([]);
    }
  }
}

/**
 * A bit of the scale of colours.
 * @param {number} part
 */
function swatch(part) {
  const element = make("span");
  element.style.background = colour_of(part);
  return element;
}
