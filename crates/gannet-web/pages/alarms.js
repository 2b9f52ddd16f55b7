// What needs attention now, and since when this page has seen it.

import { make } from "./dom.js";
import { clock } from "./format.js";

/** @typedef {import("./rates.js").Snapshot} Snapshot */

export class Alarms {
  constructor() {
    this.list = make("ul", "alarms");
    this.none = make("p", "quiet", "Nothing needs attention.");
    this.element = make("div", "", [make("h1", "", "Alarms"), this.none, this.list]);
    /** When each was first seen, in seconds of the run. @type {Map<string, number>} */
    this.since = new Map();
    this.shown = "";
  }

  /** @param {Snapshot} snapshot */
  note(snapshot) {
    const now = new Set(snapshot.alarms.map((alarm) => alarm.kind + alarm.subject));
    for (const known of this.since.keys()) if (!now.has(known)) this.since.delete(known);
    for (const alarm of now) if (!this.since.has(alarm)) this.since.set(alarm, snapshot.elapsed_s);
  }

  /** @param {Snapshot} snapshot */
  show(snapshot) {
    const { alarms, failure } = snapshot;
    const shown = JSON.stringify([alarms, failure]);
    this.none.hidden = alarms.length > 0 || failure !== null;
    if (shown === this.shown) return;
    this.shown = shown;
    const lines = alarms.map((alarm) => {
      const since = this.since.get(alarm.kind + alarm.subject) ?? 0;
      return make("li", "attention", [
        make("span", "", alarm.text),
        make("span", "quiet", ` seen at ${clock(since)} of the run`),
      ]);
    });
    const failed = failure === null ? [] : [make("li", "loss", `The run has failed: ${failure}`)];
    this.list.replaceChildren(...failed, ...lines);
  }
}
