// Rates: differences of two snapshots, over the time between them on the clock of the run.

/** @typedef {{reason: string, count: number}} Drop */
/** @typedef {{stage: string, offered: number, delivered: number, under_way: number, dropped: Drop[]}} Statement */
/** @typedef {{from: string, to: string, fill: number | null, age: {since: string, p99_ns: number} | null}} Flow */
/** @typedef {{name: string, value: any, headline: boolean}} Figure */
/** @typedef {{count: number, p50: number, p99: number, max: number}} Times */
/** @typedef {{name: string, frames: number, missing: number, missing_max: number, duplicate: number, late: number, primitives: number, stalled: boolean, set_apart: boolean, channels: {dead: number, noisy: number}}} Stream */
/** @typedef {{channel: number, stream: string, plane: number, pedestal: number, rms: number, recent_tp_rate_hz: number, condition: string}} Channel */
/**
 * What the server tells of a run at one moment; the fields that are read here.
 * @typedef {object} Snapshot
 * @property {number} number
 * @property {number} clock_s
 * @property {number} run
 * @property {string} role
 * @property {string} state
 * @property {boolean} degraded
 * @property {string | null} failure
 * @property {{kind: string, subject: string, text: string}[]} alarms
 * @property {number} elapsed_s
 * @property {number} frames_lost
 * @property {number} frames_lost_max
 * @property {{name: string, engine: string, frames: number, bytes: number}[]} sources
 * @property {Stream[]} streams
 * @property {Statement[]} ledger
 * @property {Flow[]} flows
 * @property {{samples: boolean, decisions: boolean}} shows
 * @property {{decisions: number}} trigger
 * @property {Figure[]} specific
 * @property {{records: number, damaged: number, unreachable: number, queue_fill: number, bytes: number, files: string[], unfinished: string[], exports: string[], export_failures: string[], trouble: string | null, losses: string[]}} recorder
 * @property {{arrival_to_primitive: Times, arrival_to_decision: Times, decision_to_record: Times}} latency
 * @property {{loudest: Channel[]}} channels
 */

/**
 * @param {{[key: string]: any}[]} items
 * @param {string} key
 */
const sum = (items, key) => items.reduce((total, item) => total + item[key], 0);

/**
 * Whether the detector asks for records of what it decides on; others write or answer what they find themselves.
 * @param {{ledger: {stage: string}[]}} snapshot
 */
export function asks_for_records({ ledger }) {
  return ledger.some(({ stage }) => stage === "records");
}

/**
 * What a run is for, and how much of it there is so far: records, or the first headline of its detector.
 * @param {Snapshot} snapshot
 */
export function yielded(snapshot) {
  const headline = snapshot.specific.find(({ headline, value }) => headline && "count" in value);
  if (!headline || asks_for_records(snapshot)) return { name: "records", count: snapshot.recorder.records };
  return { name: headline.name, count: headline.value.count };
}

/**
 * Frames and bytes that arrived, primitives, and what the run is for, so far.
 * @param {Snapshot} snapshot
 */
export function totals(snapshot) {
  return {
    frames: sum(snapshot.sources, "frames"),
    bytes: sum(snapshot.sources, "bytes"),
    primitives: sum(snapshot.streams, "primitives"),
    yielded: yielded(snapshot).count,
  };
}

/** Snapshots of the last minutes, as few as a plot can show. */
export class History {
  /**
   * @param {number} window_s
   * @param {number} step_s least time between two that are kept
   */
  constructor(window_s, step_s) {
    this.window_s = window_s;
    this.step_s = step_s;
    /** @type {{clock_s: number, frames: number, bytes: number, primitives: number, yielded: number}[]} */
    this.points = [];
    this.run = -1;
  }

  /** @param {Snapshot} snapshot */
  add(snapshot) {
    const last = this.points.at(-1);
    if (snapshot.run !== this.run || (last && snapshot.clock_s < last.clock_s)) {
      this.points = [];
      this.run = snapshot.run;
    } else if (last && snapshot.clock_s - last.clock_s < this.step_s) {
      return;
    }
    this.points.push({ clock_s: snapshot.clock_s, ...totals(snapshot) });
    while (this.points[0].clock_s < snapshot.clock_s - this.window_s) this.points.shift();
  }

  /**
   * The rate of one figure between each two points: when, how much a second. Nothing is told of a time in which no
   * snapshot came.
   * @param {"frames" | "bytes" | "primitives" | "yielded"} figure
   */
  rates(figure) {
    const rates = [];
    for (let at = 1; at < this.points.length; at += 1) {
      const [before, now] = [this.points[at - 1], this.points[at]];
      const time = now.clock_s - before.clock_s;
      const is_gap = time > 5 * this.step_s;
      rates.push({
        at: now.clock_s,
        value: is_gap ? Number.NaN : Math.max(0, now[figure] - before[figure]) / time,
      });
    }
    return rates;
  }
}

/** Rates of any figures over about a second, so that they can be read. */
export class Recent {
  constructor() {
    /** @type {Snapshot[]} */
    this.kept = [];
  }

  /** @param {Snapshot} snapshot */
  add(snapshot) {
    const last = this.kept.at(-1);
    if (last && (last.run !== snapshot.run || snapshot.clock_s < last.clock_s)) this.kept = [];
    this.kept.push(snapshot);
    while (this.kept.length > 2 && this.kept[1].clock_s <= snapshot.clock_s - 1) this.kept.shift();
  }

  /**
   * How much a second of what `figure` counts; nothing before there are two snapshots.
   * @param {(snapshot: Snapshot) => number} figure
   */
  rate(figure) {
    const [first, last] = [this.kept[0], this.kept.at(-1)];
    if (!first || !last || last.clock_s <= first.clock_s) return undefined;
    return Math.max(0, figure(last) - figure(first)) / (last.clock_s - first.clock_s);
  }
}
