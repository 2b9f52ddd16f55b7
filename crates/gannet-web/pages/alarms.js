// What needs attention: what it means, what to do, since when, and who has seen it.

import { command } from "./command.js";
import { Table, explain, make, prose, say } from "./dom.js";
import { amount, clock, time_of_day } from "./format.js";

/** @typedef {import("./rates.js").Snapshot} Snapshot */
/**
 * @typedef {object} Entry
 * @property {number} id
 * @property {string} rule
 * @property {string} subject
 * @property {string} text
 * @property {string} meaning
 * @property {string} advice
 * @property {number} since seconds since 1970
 * @property {number | null} until
 * @property {{by: string, at: number} | null} acknowledged
 */
/** @typedef {{name: string, figure: string, unit: string, above: number | null, below: number | null, clear: number, hold_s: number, quiet_s: number, meaning: string, calls: boolean}} Rule */
/** @typedef {{active: Entry[], past: Entry[], more: number, rules: Rule[], control: boolean}} Listed */

/** Time from one look to the next, in milliseconds. */
const PERIOD_MS = 1000;
/** Where the browser keeps who is on shift. */
const NAME = "gannet-name";

/**
 * The limit of a rule in words.
 * @param {Rule} rule
 */
export function limit({ above, below, clear, unit, hold_s, quiet_s }) {
  const bound = above === null ? `below ${amount(below ?? 0, unit)}` : `above ${amount(above, unit)}`;
  const hold = hold_s > 0 ? ` for ${hold_s} s` : "";
  const back = clear === (above ?? below) ? "" : ` at ${amount(clear, unit)}`;
  return { raised: `${bound}${hold}`, cleared: `back${back} for ${quiet_s} s` };
}

/** An alarm that is raised. */
class Card {
  /**
   * @param {Entry} entry
   * @param {(id: number) => void} acknowledge
   */
  constructor(entry, acknowledge) {
    this.text = make("h2", "");
    this.since = make("p", "quiet");
    this.seen = make("p", "");
    this.button = /** @type {HTMLButtonElement} */ (make("button", "", "I have seen it"));
    this.button.type = "button";
    this.button.setAttribute("aria-label", `I have seen it: ${entry.subject}`);
    this.button.addEventListener("click", () => acknowledge(entry.id));
    this.element = make("li", "alarm", [this.text, make("p", "", prose(entry.meaning)), make("p", "advice", prose(entry.advice)), this.since, this.seen, this.button]);
  }

  /**
   * @param {Entry} entry
   * @param {boolean} control
   */
  show({ text, since, acknowledged }, control) {
    explain(this.text, text);
    say(this.since, `Since ${time_of_day(since, true)}, for ${clock(Date.now() / 1000 - since)}.`);
    say(this.seen, acknowledged === null ? "" : `Seen by ${acknowledged.by} at ${time_of_day(acknowledged.at, true)}.`);
    this.button.hidden = acknowledged !== null || !control;
    this.element.classList.toggle("seen", acknowledged !== null);
  }
}

export class Alarms {
  constructor() {
    this.list = make("ul", "alarms");
    this.none = make("p", "fine", "Nothing needs attention.");
    this.none.setAttribute("role", "status");
    this.failure = make("p", "loss");
    this.refusal = make("p", "loss");
    this.refusal.setAttribute("role", "alert");
    this.name = /** @type {HTMLInputElement} */ (document.createElement("input"));
    this.name.maxLength = 64;
    this.name.value = localStorage.getItem(NAME) ?? "";
    this.name.addEventListener("change", () => localStorage.setItem(NAME, this.name.value));
    const label = make("label", "controls", "On shift: ");
    label.append(this.name);
    this.who = make("p", "", [label]);
    this.past = new Table("Earlier alarms", [{ title: "raised" }, { title: "lasted", numeric: true }, { title: "what", long: true }, { title: "seen by" }], true);
    this.rules = new Table("Rules", [{ title: "rule" }, { title: "figure" }, { title: "raised" }, { title: "clears" }, { title: "calls somebody" }, { title: "means", long: true }], true);
    this.element = make("div", "", [
      make("h1", "", "Alarms"),
      this.failure,
      this.refusal,
      this.none,
      this.who,
      this.list,
      make("section", "stack", [this.past.element, this.rules.element]),
    ]);
    /** @type {Map<number, Card>} */
    this.cards = new Map();
    this.asked = -Infinity;
  }

  /** @param {Snapshot} snapshot */
  async show({ failure }) {
    say(this.failure, failure === null ? "" : `The run has failed: ${failure}`);
    const now = performance.now();
    if (now - this.asked < PERIOD_MS) return;
    this.asked = now;
    try {
      const answer = await fetch("/api/v1/alarms");
      if (answer.ok) this.draw(await answer.json());
    } catch {
      // The line at the top says that the connection is lost.
    }
  }

  /** @param {Listed} listed */
  draw({ active, past, more, rules, control }) {
    this.none.hidden = active.length > 0;
    this.who.hidden = active.length === 0 || !control;
    for (const id of this.cards.keys()) if (!active.some((entry) => entry.id === id)) this.cards.delete(id);
    for (const entry of active) {
      const card = this.cards.get(entry.id) ?? new Card(entry, (id) => this.acknowledge(id));
      this.cards.set(entry.id, card);
      card.show(entry, control);
    }
    // Those that nobody has seen come first, and the newest of them.
    const sorted = active.toSorted((a, b) => Number(a.acknowledged !== null) - Number(b.acknowledged !== null) || b.id - a.id);
    const elements = sorted.flatMap(({ id }) => this.cards.get(id)?.element ?? []);
    if (elements.some((element, at) => this.list.children[at] !== element) || this.list.children.length !== elements.length) {
      this.list.replaceChildren(...elements);
    }
    if (more > 0) say(this.refusal, `${more} more alarms are raised than can be listed.`);
    this.past.element.hidden = past.length === 0;
    this.past.show(
      past.toReversed().map(({ since, until, text, acknowledged }) => [time_of_day(since, true), clock((until ?? since) - since), text, acknowledged?.by ?? ""]),
    );
    this.rules.show(
      rules.map((rule) => {
        const { raised, cleared } = limit(rule);
        return [rule.name, { text: rule.figure, href: `#/history?f=${encodeURIComponent(rule.figure)}` }, raised, cleared, rule.calls ? "yes" : "no", rule.meaning];
      }),
    );
  }

  /** @param {number} id */
  async acknowledge(id) {
    const by = this.name.value.trim();
    say(this.refusal, await command(`/api/v1/alarms/${id}/acknowledge`, by === "" ? {} : { by }));
    this.asked = -Infinity;
  }
}
