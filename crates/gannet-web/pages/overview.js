// The run as a whole: its stages with what each passes on and drops, rates over time, streams, channels.

import { Table, make } from "./dom.js";
import { bounds, figure, grouped, si, span } from "./format.js";
import { Pipeline } from "./pipeline.js";
import { Plot } from "./plot.js";
import { yielded } from "./rates.js";
import { address } from "./signals.js";
import { Control } from "./station.js";

/** @typedef {import("./rates.js").Snapshot} Snapshot */
/** @typedef {import("./rates.js").Stream} Stream */
/** @typedef {import("./pipeline.js").Reasons} Reasons */

/** Plots show so many seconds. */
export const WINDOW_S = 120;

/**
 * How a stream is, in words, and whether that needs attention.
 * @param {Stream} stream
 */
export function condition(stream) {
  if (stream.frames === 0) return { text: "no frame yet", mark: "attention" };
  if (stream.stalled) return { text: "silent", mark: "attention" };
  if (stream.set_apart) return { text: "its time is far from the others'", mark: "attention" };
  const { dead, noisy } = stream.channels;
  const words = [];
  if (noisy > 0) words.push(`${noisy} noisy`);
  if (dead > 0) words.push(`${dead} dead`);
  if (words.length > 0) return { text: `${words.join(", ")} channels`, mark: "attention" };
  return { text: "good", mark: "" };
}

export class Overview {
  constructor() {
    this.control = new Control();
    this.pipeline = new Pipeline();
    this.plots = [
      { figure: /** @type {const} */ ("frames"), factor: 1, plot: new Plot("Frames", "/s", WINDOW_S) },
      { figure: /** @type {const} */ ("bytes"), factor: 8, plot: new Plot("Data", "bit/s", WINDOW_S) },
      { figure: /** @type {const} */ ("primitives"), factor: 1, plot: new Plot("Primitives", "/s", WINDOW_S) },
      { figure: /** @type {const} */ ("yielded"), factor: 1, plot: new Plot("Records", "/s", WINDOW_S) },
    ];
    this.times = new Table("How long it takes", [
      { title: "from … to" },
      { title: "half of all within", numeric: true },
      { title: "99 % within", numeric: true },
      { title: "longest", numeric: true },
    ]);
    this.streams = new Table("Streams", [
      { title: "stream" },
      { title: "state" },
      { title: "frames", numeric: true },
      { title: "frames/s", numeric: true },
      { title: "missing", numeric: true },
      { title: "late", numeric: true },
      { title: "primitives/s", numeric: true },
    ]);
    this.channels = new Table("Loudest channels", [
      { title: "channel", numeric: true },
      { title: "stream" },
      { title: "state" },
      { title: "primitives/s", numeric: true },
      { title: "pedestal", numeric: true },
      { title: "noise", numeric: true },
    ]);
    this.specific = new Table("Of this detector", [{ title: "figure" }, { title: "value", numeric: true, long: true }]);
    this.element = make("div", "overview", [
      make("h1", "hidden", "Overview"),
      this.control.element,
      this.pipeline.element,
      make("section", "plots", [make("h2", "hidden", "Rates"), ...this.plots.map(({ plot }) => plot.element)]),
      make("section", "tables", [
        make("div", "stack", [this.streams.element, this.channels.element]),
        make("div", "stack", [this.times.element, this.specific.element]),
      ]),
    ]);
  }

  /**
   * @param {Snapshot} snapshot
   * @param {import("./rates.js").Recent} recent
   * @param {import("./rates.js").History} history
   * @param {Reasons} reasons
   */
  show(snapshot, recent, history, reasons) {
    this.pipeline.show(snapshot, recent, reasons);
    const { name } = yielded(snapshot);
    for (const { figure, factor, plot } of this.plots) {
      if (figure === "yielded") plot.title = name[0].toUpperCase() + name.slice(1);
      plot.show(history.rates(figure).map(({ at, value }) => ({ at, value: value * factor })));
    }

    const { arrival_to_primitive, arrival_to_decision, decision_to_record } = snapshot.latency;
    const steps = /** @type {const} */ ([
      ["arrival to primitives", arrival_to_primitive],
      ["arrival to decision", arrival_to_decision],
      ["decision to record", decision_to_record],
    ]);
    const timed = steps.filter(([, times]) => times.count > 0);
    this.times.show(timed.map(([name, { p50, p99, max }]) => [name, span(p50), span(p99), span(max)]));
    this.times.element.hidden = timed.length === 0;

    const per_s = (/** @type {number | undefined} */ rate) => (rate === undefined ? "–" : si(rate, ""));
    this.streams.show(
      snapshot.streams.map((stream, at) => [
        stream.name,
        condition(stream),
        grouped(stream.frames),
        per_s(recent.rate((it) => it.streams[at]?.frames ?? 0)),
        {
          text: bounds(stream.missing, stream.missing_max),
          mark: stream.missing_max > 0 ? "loss" : "",
        },
        grouped(stream.late),
        per_s(recent.rate((it) => it.streams[at]?.primitives ?? 0)),
      ]),
    );

    const { loudest } = snapshot.channels;
    this.channels.show(
      loudest.map(({ channel, stream, condition, recent_tp_rate_hz, pedestal, rms }) => [
        { text: channel.toString(), href: address(channel) },
        stream,
        { text: condition, mark: condition === "good" ? "" : "attention" },
        recent_tp_rate_hz.toFixed(1),
        pedestal.toString(),
        rms.toFixed(1),
      ]),
    );
    this.channels.element.hidden = loudest.length === 0;

    this.specific.show(snapshot.specific.map(({ name, value }) => [name, figure(value)]));
    this.specific.element.hidden = snapshot.specific.length === 0;
  }
}
