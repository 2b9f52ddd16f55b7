// Any figures of the last 24 hours.

import { Chart } from "./chart.js";
import { make, say } from "./dom.js";
import { si } from "./format.js";
import { asks_for_records } from "./rates.js";

/** @typedef {import("./chart.js").Course} Course */
/** @typedef {{name: string, unit: string, meaning: string}} Named */

/** Most figures at a time. */
const MOST = 8;
/** Times to choose from, in seconds. @type {[number, string][]} */
const SPANS = [
  [600, "10 min"],
  [7200, "2 h"],
  [86400, "24 h"],
];
/** Least time that is shown, in seconds. */
const SPAN_MIN = 10;

/**
 * The figures to begin with: those that a run has.
 * @param {import("./rates.js").Snapshot} snapshot
 */
export function first(snapshot) {
  const headlines = snapshot.specific.filter(({ headline }) => headline).map(({ name }) => `detector:${name}`);
  return ["data", "lost", ...(asks_for_records(snapshot) ? ["decisions", "arrival_to_decision"] : [...headlines, "arrival_to_primitive"])];
}

/**
 * What the address says is to be seen: figures, or else those to begin with, seconds, and, unless it is now, the end of
 * the time.
 * @param {string} hash
 * @param {string[]} [begin]
 */
export function wanted(hash, begin = []) {
  const values = new URLSearchParams(hash.split("?")[1] ?? "");
  const whole = (/** @type {string} */ name) => {
    const text = values.get(name) ?? "";
    return /^\d{1,11}$/.test(text) ? Number(text) : null;
  };
  const named = [...new Set(values.getAll("f"))].slice(0, MOST);
  const span = Math.min(86400, Math.max(SPAN_MIN, whole("span") ?? 600));
  return { figures: values.has("f") ? named.filter((name) => name !== "") : begin, span, to: whole("to") };
}

/**
 * The address of this.
 * @param {{figures: string[], span: number, to: number | null}} shown
 */
export function address({ figures, span, to }) {
  const values = new URLSearchParams((figures.length > 0 ? figures : [""]).map((name) => ["f", name]));
  values.set("span", Math.round(span).toString());
  if (to !== null) values.set("to", Math.round(to).toString());
  return `#/history?${values}`;
}

export class HistoryPage {
  constructor() {
    this.add = document.createElement("select");
    this.add.setAttribute("aria-label", "Add a figure");
    this.charts = make("section", "courses");
    this.trouble = make("p", "quiet");
    this.trouble.setAttribute("role", "status");
    this.size = make("p", "quiet");
    this.spans = SPANS.map(([span, title]) => ({ span, button: this.button(title, () => this.turn({ span, to: null })) }));
    const choice = make("span", "choice", this.spans.map(({ button }) => button));
    choice.setAttribute("role", "group");
    choice.setAttribute("aria-label", "Time that is shown");
    const move = (/** @type {number} */ part) => {
      const { span } = this.wanted();
      const to = Math.min(this.newest, this.end() + part * span);
      this.turn({ to: to >= this.newest ? null : to });
    };
    const zoom = (/** @type {number} */ factor) => {
      const { span, to } = this.wanted();
      const wide = Math.min(86400, Math.max(SPAN_MIN, span * factor));
      this.turn({ span: wide, to: to === null ? null : Math.min(this.newest, to + (wide - span) / 2) });
    };
    this.now = this.button("Now", () => this.turn({ to: null }));
    this.element = make("div", "", [
      make("h1", "", "History"),
      make("p", "controls", [
        this.add,
        choice,
        this.button("Earlier", () => move(-0.5)),
        this.button("Later", () => move(0.5)),
        this.button("Closer", () => zoom(0.5)),
        this.button("Wider", () => zoom(2)),
        this.now,
      ]),
      this.trouble,
      this.charts,
      make("p", "quiet", "Line: the mean; band: from the least to the greatest. Drag over a picture to look closer. Kept by the second for 10 minutes, by ten seconds for 2 hours, by the minute for 24 hours."),
      this.size,
    ]);
    /** @type {Map<string, {frame: HTMLElement, chart: Chart, course: Course | null}>} */
    this.shown = new Map();
    /** @type {Named[]} */
    this.figures = [];
    this.newest = 0;
    /** The figures that are shown where the address names none. @type {string[]} */
    this.first = [];
    this.asked = -Infinity;
    this.is_waiting = false;
    this.add.addEventListener("change", () => {
      const { figures } = this.wanted();
      this.turn({ figures: [...figures.filter((name) => name !== this.add.value), this.add.value].slice(-MOST) });
    });
  }

  wanted() {
    return wanted(location.hash, this.first);
  }

  /**
   * @param {string} title
   * @param {() => void} pressed
   */
  button(title, pressed) {
    const button = /** @type {HTMLButtonElement} */ (make("button", "", title));
    button.type = "button";
    button.addEventListener("click", pressed);
    return button;
  }

  /** The end of the time that is shown. */
  end() {
    return this.wanted().to ?? this.newest;
  }

  /** @param {Partial<{figures: string[], span: number, to: number | null}>} change */
  turn(change) {
    history.replaceState(null, "", address({ ...this.wanted(), ...change }));
    this.asked = -Infinity;
    this.follow();
  }

  /** @param {import("./rates.js").Snapshot} snapshot */
  show(snapshot) {
    this.first = first(snapshot);
    this.follow();
  }

  /** Draws what is known, and asks for more when it is time. */
  async follow() {
    const { figures, span, to } = this.wanted();
    this.arrange(figures);
    this.draw();
    for (const { span: own, button } of this.spans) button.setAttribute("aria-pressed", (own === span && to === null).toString());
    this.now.hidden = to === null;
    const period_ms = to === null ? Math.min(30_000, Math.max(1000, span)) : 30_000;
    const now = performance.now();
    if (this.is_waiting || now - this.asked < period_ms) return;
    [this.asked, this.is_waiting] = [now, true];
    try {
      if (await this.list()) await Promise.all(figures.map((name) => this.ask(name)));
      this.draw();
    } catch {
      // The line at the top says that the connection is lost.
    } finally {
      this.is_waiting = false;
    }
  }

  draw() {
    const { span } = this.wanted();
    const to = this.end();
    for (const { chart, course } of this.shown.values()) if (course) chart.show(course, to - span, to);
  }

  /** Asks which figures there are. */
  async list() {
    const answer = await fetch("/api/v1/figures");
    if (!answer.ok) {
      say(this.trouble, (await answer.json()).detail);
      return false;
    }
    const { figures, newest, bytes, left_out } = await answer.json();
    this.newest = newest ?? 0;
    const more = left_out > 0 ? ` ${left_out} more find no place.` : "";
    say(this.size, `${figures.length} figures in ${si(bytes, "B")} of memory, at most ${si(256 * (bytes / Math.max(1, figures.length)), "B")}.${more}`);
    if (figures.length !== this.figures.length) {
      this.figures = figures;
      const options = this.figures.map(({ name, unit, meaning }) => new Option(`${name}${unit && ` (${unit})`}: ${meaning}`, name));
      this.add.replaceChildren(new Option("Add a figure …", ""), ...options);
    }
    this.add.selectedIndex = 0;
    return true;
  }

  /** @param {string} name */
  async ask(name) {
    const { span } = this.wanted();
    const to = this.end();
    const query = new URLSearchParams({ figure: name, from: Math.max(0, Math.floor(to - span)).toString(), to: Math.ceil(to + 1).toString() });
    const answer = await fetch(`/api/v1/history?${query}`);
    const told = await answer.json();
    const shown = this.shown.get(name);
    if (shown && answer.ok) shown.course = told;
    else if (shown) shown.chart.sheet.entitle(told.detail);
  }

  /**
   * Puts these figures on the page.
   * @param {string[]} names
   */
  arrange(names) {
    if (names.join("\n") === [...this.shown.keys()].join("\n")) return;
    const before = this.shown;
    this.shown = new Map(names.map((name) => [name, before.get(name) ?? this.place(name)]));
    this.charts.replaceChildren(...[...this.shown.values()].map(({ frame }) => frame));
    this.asked = -Infinity;
  }

  /** @param {string} name */
  place(name) {
    const chart = new Chart((from, to) => this.turn({ span: Math.max(SPAN_MIN, to - from), to }));
    const away = this.button("×", () => this.turn({ figures: this.wanted().figures.filter((own) => own !== name) }));
    away.setAttribute("aria-label", `Take ${name} away`);
    away.className = "away";
    chart.element.append(away);
    return { frame: chart.element, chart, course: null };
  }
}
