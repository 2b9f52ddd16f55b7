// What a run rests on: the machine as `gannet doctor` sees it, and the configuration.

import { Table, make, prose, say } from "./dom.js";

/** @typedef {{name: string, value: string, verdict: "ok" | "slow" | "bad" | "unknown", reason: string, remedy: string}} Check */

/** Time from one look to the next, in milliseconds; the server looks no more often. */
const PERIOD_MS = 10_000;

/** Verdicts in words, the worst first. @type {{[verdict in Check["verdict"]]: {word: string, mark: string}}} */
export const VERDICTS = {
  bad: { word: "bad", mark: "loss" },
  slow: { word: "slow", mark: "attention" },
  unknown: { word: "not known", mark: "" },
  ok: { word: "fine", mark: "" },
};

/**
 * What needs attention, the worst first.
 * @param {Check[]} checks
 */
export function wanting(checks) {
  const order = Object.keys(VERDICTS);
  return checks.filter(({ verdict }) => verdict !== "ok").sort((a, b) => order.indexOf(a.verdict) - order.indexOf(b.verdict));
}

/**
 * How many checks have each verdict, in words.
 * @param {Check[]} checks
 */
export function summary(checks) {
  const counts = Object.entries(VERDICTS).map(([verdict, { word }]) => [checks.filter((it) => it.verdict === verdict).length, word]);
  return counts
    .filter(([count]) => count !== 0)
    .map(([count, word]) => `${count} ${word}`)
    .join(", ");
}

export class Hardware {
  constructor() {
    this.summary = make("p", "fine");
    this.summary.setAttribute("role", "status");
    this.wanting = make("ul", "alarms pairs");
    this.all = new Table("All that was looked at", [{ title: "what" }, { title: "how it suits" }, { title: "found", long: true }, { title: "why it matters", long: true }], true);
    this.text = make("pre", "");
    this.configuration = make("details", "", [make("summary", "", "Configuration of the run, with every default filled in"), this.text]);
    this.element = make("div", "", [
      make("h1", "", "Hardware"),
      make("p", "quiet", "What the way from the network to the disk needs of this machine, and what is there. Nothing is changed by looking."),
      this.summary,
      this.wanting,
      this.all.element,
      this.configuration,
    ]);
    this.asked = -Infinity;
    this.shown = "";
  }

  async show() {
    const now = performance.now();
    if (now - this.asked < PERIOD_MS) return;
    this.asked = now;
    if (this.shown === "") say(this.summary, "Looking at the machine …");
    try {
      const [looked, configured] = await Promise.all(["doctor", "config"].map((name) => fetch(`/api/v1/${name}`)));
      const told = await looked.json();
      if (looked.ok) this.draw(told);
      else {
        say(this.summary, told.detail);
        this.summary.className = "fine wanting";
      }
      this.configuration.hidden = !configured.ok;
      if (configured.ok) say(this.text, (await configured.json()).text);
    } catch {
      // The line at the top says that the connection is lost.
    }
  }

  /** @param {Check[]} checks */
  draw(checks) {
    const shown = JSON.stringify(checks);
    if (shown === this.shown) return;
    this.shown = shown;
    say(this.summary, `${summary(checks)}.`);
    this.summary.className = wanting(checks).length === 0 ? "fine" : "fine wanting";
    this.wanting.replaceChildren(
      ...wanting(checks).map(({ name, value, verdict, reason, remedy }) =>
        make("li", `alarm ${verdict === "bad" ? "" : "seen"}`, [
          make("h2", "", prose(`${name}: ${value}`)),
          make("p", "", prose(`${VERDICTS[verdict].word}: ${reason}.`)),
          remedy === "" ? null : make("pre", "", remedy),
        ]),
      ),
    );
    this.all.show(
      checks.map(({ name, value, verdict, reason }) => {
        const { word, mark } = VERDICTS[verdict];
        return [name, { text: word, mark }, value, reason];
      }),
    );
  }
}
