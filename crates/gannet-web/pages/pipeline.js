// The stages of a run as a picture: what each passes on and drops, and what is between them.

import { make, prose, say } from "./dom.js";
import { grouped, si, span, spelled } from "./format.js";

/** @typedef {import("./rates.js").Snapshot} Snapshot */
/** @typedef {import("./rates.js").Statement} Statement */
/** @typedef {import("./rates.js").Flow} Flow */
/** @typedef {{reason: string, meaning: string, advice: string | null, is_loss: boolean}} Why */
/** @typedef {Map<string, Map<string, Why>>} Reasons */

/** A buffer that is fuller than this needs attention. */
const FULL = 0.8;

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
 * What a stage passed on that is not whole, which no drop tells: records that miss data.
 * @param {Statement} statement
 * @param {{damaged: number, unreachable: number}} recorder
 */
export function damage({ stage }, { damaged, unreachable }) {
  if (stage !== "records") return [];
  return [
    {
      count: unreachable,
      name: "miss a readout",
      meaning: "The readout of a stream was away, or did not answer in time.",
      advice: "Start the readout again; its own report tells why it ended.",
      is_loss: true,
    },
    {
      count: damaged - unreachable,
      name: "miss data",
      meaning: "Data that the run had are not in them: a stream did not come in time, or the buffer was overwritten before they were asked for.",
      advice: "Give the source more `depth`, or this machine less to do.",
      is_loss: true,
    },
  ].filter(({ count }) => count > 0);
}

/**
 * The longest way that data take, as names of stages in order; of several the one whose stages come first in the ledger.
 * @param {{stage: string}[]} ledger
 * @param {Flow[]} flows
 */
export function chain(ledger, flows) {
  const order = new Map(ledger.map(({ stage }, at) => [stage, at]));
  /** @type {Map<string, string[]>} */
  const known = new Map();
  /** @param {string} stage @returns {string[]} */
  const from = (stage) => {
    const found = known.get(stage);
    if (found) return found;
    // A way that comes back to where it was would have no end.
    known.set(stage, [stage]);
    const next = flows.filter((flow) => flow.from === stage).map(({ to }) => to);
    next.sort((a, b) => (order.get(a) ?? 0) - (order.get(b) ?? 0));
    const rest = next.map(from).reduce((longest, it) => (it.length > longest.length ? it : longest), []);
    known.set(stage, [stage, ...rest]);
    return [stage, ...rest];
  };
  return ledger.map(({ stage }) => from(stage)).reduce((longest, it) => (it.length > longest.length ? it : longest), []);
}

/**
 * What is to be said of the way between two stages beside its rate.
 * @param {Flow | undefined} flow
 */
export function between(flow) {
  const { fill = null, age = null } = flow ?? {};
  return {
    fill: fill === null ? "" : `${(100 * fill).toFixed(0)} % full`,
    is_full: fill !== null && fill > FULL,
    age: age === null ? "" : `p99 ${span(age.p99_ns)}`,
    meaning: age === null ? "" : `99 % come here within ${span(age.p99_ns)} of ${age.since}`,
  };
}

/** A stage as a box, and behind it the way to the next. */
class Stage {
  constructor() {
    this.name = make("h3");
    this.origin = make("p", "quiet");
    this.total = make("p", "total");
    this.under_way = make("p", "quiet");
    this.drops = make("ul", "drops");
    this.box = make("div", "stage", [this.name, this.origin, this.total, this.under_way, this.drops]);
    this.rate = make("span", "rate");
    this.fill = make("span", "quiet");
    this.age = make("span", "quiet");
    const arrow = make("span", "arrow", "→");
    arrow.setAttribute("aria-hidden", "true");
    this.way = make("div", "way", [this.rate, arrow, this.fill, this.age]);
    this.element = make("li", "step", [this.box, this.way]);
    this.shown = "";
  }

  /**
   * @param {Statement} statement
   * @param {ReturnType<typeof drops>} dropped
   * @param {ReturnType<typeof drops>} damaged
   */
  show(statement, dropped, damaged) {
    say(this.name, spelled(statement.stage));
    say(this.total, grouped(statement.delivered));
    say(this.under_way, statement.under_way > 0 ? `${grouped(statement.under_way)} under way` : "");
    const list = [...damaged.map((it) => ({ ...it, sign: "" })), ...dropped.map((it) => ({ ...it, sign: "−" }))];
    this.box.classList.toggle("loses", list.some((drop) => drop.is_loss));
    const shown = JSON.stringify(list);
    if (shown === this.shown) return;
    this.shown = shown;
    this.drops.replaceChildren(
      ...list.map(({ sign, count, name, meaning, advice, is_loss }) =>
        make("li", is_loss ? "loss" : "quiet", [
          make(is_loss ? "strong" : "span", "", `${sign}${grouped(count)} ${name}`),
          is_loss ? make("span", "", [document.createTextNode(" "), ...prose(meaning)]) : null,
          is_loss ? make("span", "advice", [document.createTextNode(" "), ...prose(advice)]) : null,
        ]),
      ),
    );
  }

  /**
   * The way to the next stage of the chain; behind the last there is none.
   * @param {number | undefined} rate
   * @param {Flow | undefined} flow
   */
  lead(rate, flow) {
    this.way.hidden = flow === undefined;
    const { fill, is_full, age, meaning } = between(flow);
    say(this.rate, rate === undefined ? "–" : si(rate, "/s"));
    say(this.fill, fill);
    this.fill.classList.toggle("attention", is_full);
    say(this.age, age);
    if (this.way.title !== meaning) this.way.title = meaning;
  }
}

/** All stages: those that follow one another, and those beside them. */
export class Pipeline {
  constructor() {
    this.chain = make("ol", "stages");
    this.aside = make("ul", "stages aside");
    this.rest = make("div", "", [make("h3", "", "Beside it"), this.aside]);
    this.element = make("section", "pipeline", [make("h2", "", "From the wire to the file"), this.chain, this.rest]);
    /** @type {Map<string, Stage>} */
    this.stages = new Map();
    this.shown = "";
  }

  /**
   * @param {Snapshot} snapshot
   * @param {import("./rates.js").Recent} recent
   * @param {Reasons} reasons
   */
  show({ ledger, flows, recorder }, recent, reasons) {
    const names = chain(ledger, flows);
    const aside = ledger.map(({ stage }) => stage).filter((stage) => !names.includes(stage));
    this.arrange(names, aside);
    ledger.forEach((statement, at) => {
      const { stage } = statement;
      const box = this.stages.get(stage);
      const next = names[names.indexOf(stage) + 1];
      const rate = recent.rate((it) => it.ledger[at]?.delivered ?? 0);
      const is_aside = aside.includes(stage);
      const origin = flows.find(({ to }) => to === stage)?.from;
      box?.show(statement, drops(statement, reasons), damage(statement, recorder));
      box?.lead(rate, is_aside ? undefined : flows.find(({ from, to }) => from === stage && to === next));
      say(/** @type {Stage} */ (box).origin, is_aside && origin !== undefined ? `from ${spelled(origin)}` : "");
    });
  }

  /**
   * Puts the boxes of these stages on the page.
   * @param {string[]} names
   * @param {string[]} aside
   */
  arrange(names, aside) {
    const shown = JSON.stringify([names, aside]);
    if (shown === this.shown) return;
    this.shown = shown;
    this.stages = new Map([...names, ...aside].map((stage) => [stage, this.stages.get(stage) ?? new Stage()]));
    const elements = (/** @type {string[]} */ of) => of.flatMap((stage) => this.stages.get(stage)?.element ?? []);
    this.chain.replaceChildren(...elements(names));
    this.aside.replaceChildren(...elements(aside));
    this.rest.hidden = aside.length === 0;
  }
}
