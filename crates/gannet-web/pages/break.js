// Faults put into the emulated front end on purpose, and what the run says about them.

import { command } from "./command.js";
import { make, say } from "./dom.js";
import { grouped, spelled } from "./format.js";

/** @typedef {{name: string, title: string, expect: string, stage: string, reason: string, truth: number, counted: number}} Fault */
/** @typedef {{number: number, fault: string, stream: string | null, seconds: number, frames: number, under_way: boolean}} Injection */
/** @typedef {{control: boolean, faults: Fault[], injections: Injection[]}} Listed */

/** Time between two looks while this page is shown, in milliseconds. */
const LOOK_MS = 250;

/**
 * Faults that show at the same place of the ledger, added up: what the front end did, and what the run counted.
 * @param {Fault[]} faults
 */
export function accounts(faults) {
  /** @type {Map<string, {stage: string, reason: string, truth: number, counted: number}>} */
  const places = new Map();
  for (const { stage, reason, truth, counted } of faults) {
    const key = `${stage} ${reason}`;
    const place = places.get(key) ?? { stage, reason, truth: 0, counted };
    place.truth += truth;
    places.set(key, place);
  }
  return [...places.values()];
}

/**
 * What the run says about one place of the ledger, against the truth.
 * @param {{stage: string, reason: string, truth: number, counted: number}} account
 */
export function verdict({ stage, reason, truth, counted }) {
  const where = `${spelled(stage)}: ${spelled(reason)}`;
  const figures = `the front end did it to ${grouped(truth)} frames, the run counts ${grouped(counted)}`;
  if (counted === truth) return { text: `${where} – ${figures}: they agree.`, mark: "" };
  if (counted < truth) return { text: `${where} – ${figures}, ${grouped(truth - counted)} not found so far.`, mark: "attention" };
  return { text: `${where} – ${figures}: some have another cause.`, mark: "attention" };
}

/**
 * What came of the last injection of a fault.
 * @param {Injection} injection
 */
export function outcome({ stream, frames, under_way }) {
  const whom = stream === null ? "" : ` of stream ${stream}`;
  return `${under_way ? "On now" : "Over"}: ${grouped(frames)} frames${whom} suffered it.`;
}

/** A fault, with the button that puts it in. */
class Card {
  /**
   * @param {Fault} fault
   * @param {(fault: Fault) => void} inject
   */
  constructor(fault, inject) {
    this.button = /** @type {HTMLButtonElement} */ (make("button", "", fault.title));
    this.button.type = "button";
    this.outcome = make("p", "outcome");
    this.outcome.setAttribute("role", "status");
    this.verdict = make("p", "quiet");
    this.button.addEventListener("click", () => inject(fault));
    this.element = make("li", "fault", [this.button, make("p", "quiet", fault.expect), this.outcome, this.verdict]);
  }
}

export class Break {
  constructor() {
    this.list = make("ul", "faults");
    this.refusal = make("p", "loss");
    this.refusal.setAttribute("role", "alert");
    this.element = make("div", "", [
      make("h1", "", "Break it"),
      make("p", "quiet", "Each fault is put into the emulated front end for five seconds. What the run finds is told beside it."),
      this.refusal,
      this.list,
    ]);
    /** @type {Map<string, Card>} */
    this.cards = new Map();
    this.last_look = -Infinity;
  }

  /** Whether faults can be put into this run. */
  async is_possible() {
    const listed = await this.look();
    return listed !== null && listed.control && listed.faults.length > 0;
  }

  /** @returns {Promise<Listed | null>} */
  async look() {
    const answer = await fetch("/api/v1/faults");
    return answer.ok ? answer.json() : null;
  }

  /** Shows how it is now, if the last look was long enough ago. */
  async show() {
    if (performance.now() - this.last_look < LOOK_MS) return;
    this.last_look = performance.now();
    try {
      const listed = await this.look();
      if (listed) this.draw(listed);
    } catch {
      // The line at the top tells that the connection is lost.
    }
  }

  /** @param {Listed} listed */
  draw({ faults, injections }) {
    const verdicts = new Map(accounts(faults).map((account) => [`${account.stage} ${account.reason}`, verdict(account)]));
    const is_on = injections.some((injection) => injection.under_way);
    for (const fault of faults) {
      let card = this.cards.get(fault.name);
      if (!card) {
        card = new Card(fault, (it) => this.inject(it));
        this.cards.set(fault.name, card);
        this.list.append(card.element);
      }
      const last = injections.findLast((injection) => injection.fault === fault.name);
      card.element.classList.toggle("on", last?.under_way ?? false);
      // It stays where the keyboard is, so it is not disabled.
      card.button.setAttribute("aria-disabled", is_on ? "true" : "false");
      say(card.outcome, last ? outcome(last) : "");
      const { text, mark } = verdicts.get(`${fault.stage} ${fault.reason}`) ?? { text: "", mark: "" };
      say(card.verdict, last ? text : "");
      card.verdict.classList.toggle("attention", mark === "attention");
    }
  }

  /** @param {Fault} fault */
  async inject({ name }) {
    say(this.refusal, await command("/api/v1/faults", { fault: name }));
    this.last_look = -Infinity;
    this.show();
  }
}
