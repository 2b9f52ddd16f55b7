// What to say in the place of a page that has nothing to show.

import { make } from "./dom.js";

/** @typedef {{state: string, role: string, shows: {samples: boolean, decisions: boolean}}} Run */

/** Where what a detector finds is told, whatever it is. */
const INSTEAD = "What it finds is counted on Overview, below \u201cOf this detector\u201d, and History has these figures over time.";

/**
 * Why there are no waveforms, and what there is instead; nothing where there are some.
 * @param {Run} run
 */
export function without_samples({ state, role, shows }) {
  if (shows.samples) return "";
  if (state === "initial") return "Waveforms are seen once a run takes data. Overview has the button that starts one.";
  if (role === "builder") return "The frames stay with the readouts: the pages of a readout show the waveforms of its streams. Overview shows what comes from them.";
  return `This detector has no waveforms: its frames hold no samples. ${INSTEAD}`;
}

/**
 * Why there are no single decisions, and what there is instead; nothing where there are some.
 * @param {Run} run
 */
export function without_decisions({ state, role, shows }) {
  if (shows.decisions) return "";
  if (state === "initial") return "Decisions are seen once a run takes data. Overview has the button that starts one.";
  if (role === "readout") return "The builder decides: its pages show the decisions of the run. Overview shows what this readout hands on.";
  return `This detector has no decisions to show one by one. ${INSTEAD}`;
}

/** A page that can stand aside for a sentence. */
export class Absence {
  /** @param {HTMLElement} page what is not shown then */
  constructor(page) {
    this.page = page;
    this.text = make("p", "fine");
    this.text.hidden = true;
  }

  /**
   * Shows the sentence in the place of the page, or the page where there is none; says whether it is there.
   * @param {string} sentence
   */
  excuses(sentence) {
    const is_absent = sentence !== "";
    this.page.hidden = is_absent;
    this.text.hidden = !is_absent;
    if (is_absent && this.text.textContent !== sentence) this.text.replaceChildren(...linked(sentence));
    return is_absent;
  }
}

/** Pages that sentences name. @type {{[name: string]: string}} */
const PAGES = { Overview: "#/overview", History: "#/history", "Runs and files": "#/files" };

/**
 * A sentence in which the names of pages lead there.
 * @param {string} sentence
 */
function linked(sentence) {
  return sentence.split(/\b(Overview|History|Runs and files)\b/).map((part) => {
    if (!Object.hasOwn(PAGES, part)) return document.createTextNode(part);
    const link = /** @type {HTMLAnchorElement} */ (make("a", "", part));
    link.href = PAGES[part];
    return link;
  });
}
