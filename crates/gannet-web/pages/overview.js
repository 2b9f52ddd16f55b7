// The run as a whole: its stages with what each passes on and drops, rates over time, streams, channels.

import { Table, make, say } from "./dom.js";
import { bounds, grouped, si, span, spelled } from "./format.js";
import { Plot } from "./plot.js";
import { address } from "./signals.js";
import { Control } from "./station.js";

/** @typedef {import("./rates.js").Snapshot} Snapshot */
/** @typedef {import("./rates.js").Stream} Stream */
/** @typedef {import("./rates.js").Statement} Statement */
/** @typedef {{reason: string, meaning: string, advice: string | null, is_loss: boolean}} Why */
/** @typedef {Map<string, Map<string, Why>>} Reasons */

/** Plots show so many seconds. */
export const WINDOW_S = 120;

/**
 * Drops of a stage that there were, losses first.
 * @param {Statement} statement
 * @param {Reasons} reasons
 */
export function drops(statement, reasons) {
  const known = reasons.get(statement.stage);
  return statement.dropped
    .filter((drop) => drop.count > 0)
    .map(({ reason, count }) => {
      const why = known?.get(reason);
      return {
        count,
        name: spelled(reason),
        meaning: why?.meaning ?? "",
        advice: why?.advice ?? "",
        is_loss: why?.is_loss ?? true,
      };
    })
    .sort((a, b) => Number(b.is_loss) - Number(a.is_loss));
}

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

/** A stage as a box. */
class Stage {
  constructor() {
    this.name = make("h3");
    this.rate = make("p", "rate");
    this.total = make("p", "quiet");
    this.drops = make("ul", "drops");
    this.element = make("li", "stage", [this.name, this.rate, this.total, this.drops]);
    this.shown = "";
  }

  /**
   * @param {Statement} statement
   * @param {number | undefined} rate
   * @param {string} note
   * @param {Reasons} reasons
   */
  show(statement, rate, note, reasons) {
    say(this.name, spelled(statement.stage));
    say(this.rate, rate === undefined ? "–" : si(rate, "/s"));
    const under_way = statement.under_way > 0 ? `, ${grouped(statement.under_way)} under way` : "";
    say(this.total, `${grouped(statement.delivered)}${under_way}${note}`);
    const list = drops(statement, reasons);
    this.element.classList.toggle("loses", list.some((drop) => drop.is_loss));
    const shown = JSON.stringify(list);
    if (shown === this.shown) return;
    this.shown = shown;
    this.drops.replaceChildren(
      ...list.map(({ count, name, meaning, advice, is_loss }) =>
        make("li", is_loss ? "loss" : "quiet", [
          make(is_loss ? "strong" : "span", "", `−${grouped(count)} ${name}`),
          is_loss ? make("span", "", ` ${meaning}`) : null,
          is_loss ? make("span", "advice", ` ${advice}`) : null,
        ]),
      ),
    );
  }
}

export class Overview {
  constructor() {
    this.control = new Control();
    this.stages = make("ol", "stages");
    /** @type {Stage[]} */
    this.boxes = [];
    this.plots = [
      { figure: /** @type {const} */ ("frames"), factor: 1, plot: new Plot("Frames", "/s", WINDOW_S) },
      { figure: /** @type {const} */ ("bytes"), factor: 8, plot: new Plot("Data", "bit/s", WINDOW_S) },
      { figure: /** @type {const} */ ("primitives"), factor: 1, plot: new Plot("Primitives", "/s", WINDOW_S) },
      { figure: /** @type {const} */ ("records"), factor: 1, plot: new Plot("Records", "/s", WINDOW_S) },
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
      make("section", "", [make("h2", "", "From the wire to the file"), this.stages]),
      make("section", "plots", [make("h2", "hidden", "Rates"), ...this.plots.map(({ plot }) => plot.element)]),
      make("section", "tables", [this.streams.element, this.times.element, this.channels.element, this.specific.element]),
    ]);
  }

  /**
   * @param {Snapshot} snapshot
   * @param {import("./rates.js").Recent} recent
   * @param {import("./rates.js").History} history
   * @param {Reasons} reasons
   */
  show(snapshot, recent, history, reasons) {
    snapshot.ledger.forEach((statement, at) => {
      const box = this.boxes[at] ?? (this.boxes[at] = new Stage());
      if (!box.element.isConnected) this.stages.append(box.element);
      const rate = recent.rate((it) => it.ledger[at]?.delivered ?? 0);
      const fill = snapshot.recorder.queue_fill;
      const note =
        statement.stage === "recorder" && fill > 0.001 ? `, queue ${(100 * fill).toFixed(0)} % full` : "";
      box.show(statement, rate, note, reasons);
    });
    while (this.boxes.length > snapshot.ledger.length) this.boxes.pop()?.element.remove();

    for (const { figure, factor, plot } of this.plots) {
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

/**
 * The value of a figure that only one kind of detector has.
 * @param {any} value
 */
export function figure(value) {
  if ("count" in value) return grouped(value.count);
  if ("ns" in value) return `99 % within ${span(value.ns.p99)}`;
  if ("share" in value) {
    const { part, of } = value.share;
    return of > 0 ? `${((100 * part) / of).toFixed(1)} %` : "–";
  }
  if ("estimate" in value) return `${value.estimate.value.toFixed(1)} (${value.estimate.assumes})`;
  return "–";
}
