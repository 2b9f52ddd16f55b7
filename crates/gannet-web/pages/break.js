// Faults put into the run on purpose, and what it says about them.

import { command } from "./command.js";
import { make, say } from "./dom.js";
import { grouped, si, spelled } from "./format.js";

/** @typedef {{waiting: number, dropped: number}} Chunks */
/** @typedef {{name: string, title: string, expect: string, stage: string, reason: string, did: string, truth: number, counted: number, chunks: Chunks | null}} Fault */
/** @typedef {{number: number, fault: string, stream: string | null, channel: number | null, seconds: number, suffered: number, under_way: boolean}} Injection */
/** @typedef {import("./rates.js").Channel} Loud */
/** @typedef {{control: boolean, faults: Fault[], injections: Injection[]}} Listed */

/** Time between two looks while this page is shown, in milliseconds. */
const LOOK_MS = 100;

/**
 * Faults that show at the same place of the ledger, added up: what was done, and what the run counted.
 * @param {Fault[]} faults
 */
export function accounts(faults) {
  /** @type {Map<string, {stage: string, reason: string, did: string, truth: number, counted: number}>} */
  const places = new Map();
  for (const { stage, reason, did, truth, counted } of faults) {
    const key = `${stage} ${reason}`;
    const place = places.get(key) ?? { stage, reason, did, truth: 0, counted };
    place.truth += truth;
    places.set(key, place);
  }
  return [...places.values()];
}

/**
 * What the run says about one place of the ledger, against the truth.
 * @param {{stage: string, reason: string, did: string, truth: number, counted: number}} account
 */
export function verdict({ stage, reason, did, truth, counted }) {
  const where = `${spelled(stage)}: ${spelled(reason)}`;
  const figures = `${did}: ${grouped(truth)}, the run counts ${grouped(counted)}`;
  if (counted === truth) return { text: `${where} – ${figures}: they agree.`, mark: "" };
  if (counted < truth) return { text: `${where} – ${figures}, ${grouped(truth - counted)} not found so far.`, mark: "attention" };
  return { text: `${where} – ${figures}: some have another cause.`, mark: "attention" };
}

/**
 * What came of the last injection of a fault.
 * @param {Injection} injection
 * @param {{chunks: Chunks | null, most: number}} written what waits to be written, and the most that did since
 * @param {Loud[]} loudest
 */
export function outcome({ fault, stream, channel, suffered, under_way }, { chunks, most }, loudest) {
  const now = under_way ? "On now" : "Over";
  if (chunks) {
    const waits = under_way || chunks.waiting > 0 ? `${grouped(chunks.waiting)} chunks wait in memory` : `up to ${grouped(most)} chunks waited and were written`;
    return `${now}: ${waits}; ${grouped(chunks.dropped)} were dropped since the run began.`;
  }
  if (channel !== null) return `${now}: ${grouped(suffered)} hits in channel ${channel} of stream ${stream}${rated(channel, loudest)}.`;
  if (fault === "stopped-trigger") return `${now}: ${under_way ? "nothing is decided" : "decisions are made again"}.`;
  const whom = stream === null ? "" : ` of stream ${stream}`;
  return `${now}: ${grouped(suffered)} frames${whom} suffered it.`;
}

/**
 * What the run says of a channel that was made noisy.
 * @param {number} channel
 * @param {Loud[]} loudest
 */
function rated(channel, loudest) {
  const found = loudest.find((loud) => loud.channel === channel);
  if (found?.condition !== "noisy") return ", which is not named as noisy yet";
  return `, which is named as noisy: ${si(found.recent_tp_rate_hz, "Hz")}`;
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
    /** The most chunks that waited during the injection of this number. */
    this.most = { number: 0, waiting: 0 };
    /** The injection whose channel was named as noisy, and what was said then. */
    this.named = { number: 0, text: "" };
    this.button.addEventListener("click", () => inject(fault));
    this.element = make("li", "fault", [this.button, make("p", "quiet", fault.expect), this.outcome, this.verdict]);
  }

  /**
   * The most that waited during an injection, as far as this page has seen.
   * @param {Injection} injection
   * @param {Chunks | null} chunks
   */
  waited({ number, under_way }, chunks) {
    if (this.most.number !== number) this.most = { number, waiting: 0 };
    if (under_way) this.most.waiting = Math.max(this.most.waiting, chunks?.waiting ?? 0);
    return this.most.waiting;
  }

  /**
   * What is to be said of an injection: that a channel was named as noisy stays true when it is not any more.
   * @param {Injection} injection
   * @param {string} text
   */
  remember({ number, under_way }, text) {
    if (text.includes(" is named as noisy")) this.named = { number, text: text.replace("On now", "Over") };
    return !under_way && this.named.number === number ? this.named.text : text;
  }
}

export class Break {
  constructor() {
    this.list = make("ul", "faults");
    this.seconds = /** @type {HTMLInputElement} */ (make("input"));
    Object.assign(this.seconds, { type: "number", min: "0.1", max: "60", step: "any", value: "5" });
    this.refusal = make("p", "loss");
    this.refusal.setAttribute("role", "alert");
    this.element = make("div", "", [
      make("h1", "", "Break it"),
      make("p", "quiet", "Each fault is put into the emulated front end, into the disk as the recorder sees it, or into the trigger. What the run finds is told beside it."),
      make("label", "controls", [make("span", "", "For so many seconds: "), this.seconds]),
      this.refusal,
      this.list,
    ]);
    /** @type {Map<string, Card>} */
    this.cards = new Map();
    this.last_look = -Infinity;
    /** @type {Loud[]} */
    this.loudest = [];
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

  /**
   * Shows how it is now, if the last look was long enough ago.
   * @param {{channels: {loudest: Loud[]}}} snapshot
   */
  show({ channels }) {
    this.loudest = channels.loudest;
    this.refresh();
  }

  async refresh() {
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
      const { chunks } = fault;
      say(card.outcome, last ? card.remember(last, outcome(last, { chunks, most: card.waited(last, chunks) }, this.loudest)) : "");
      const { text, mark } = verdicts.get(`${fault.stage} ${fault.reason}`) ?? { text: "", mark: "" };
      say(card.verdict, last ? text : "");
      card.verdict.classList.toggle("attention", mark === "attention");
    }
  }

  /** @param {Fault} fault */
  async inject({ name }) {
    say(this.refusal, await command("/api/v1/faults", { fault: name, seconds: this.seconds.valueAsNumber || undefined }));
    this.last_look = -Infinity;
    this.refresh();
  }
}
