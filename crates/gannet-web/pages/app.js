// The frame around the pages: the line at the top, which page is shown, and what comes from the server.

import { Alarms } from "./alarms.js";
import { Break } from "./break.js";
import { say } from "./dom.js";
import { Feed } from "./feed.js";
import { Files } from "./files.js";
import { bounds, clock, grouped, si } from "./format.js";
import { Hardware } from "./hardware.js";
import { HistoryPage } from "./history.js";
import { Overview, WINDOW_S } from "./overview.js";
import { History, Recent, totals } from "./rates.js";
import { Signals } from "./signals.js";
import { state_of } from "./station.js";
import { Triggers } from "./triggers.js";

/** @typedef {import("./rates.js").Snapshot} Snapshot */

const by_id = (/** @type {string} */ id) => {
  const element = document.getElementById(id);
  if (!element) throw new Error(`there is no #${id}`);
  return element;
};

const [main, state, line, notice, count] = ["main", "state", "line", "notice", "alarm-count"].map(by_id);
const history = new History(WINDOW_S, 0.5);
const recent = new Recent();
const [overview, signals, alarms, files] = [new Overview(), new Signals(), new Alarms(), new Files()];
const [triggers, breaking, past, hardware] = [new Triggers(), new Break(), new HistoryPage(), new Hardware()];
/** @type {import("./overview.js").Reasons} */
const reasons = new Map();
/** @type {Snapshot | null} */
let latest = null;
/** @type {import("./station.js").Station | null} */
let station = null;

/** The name of the page in an address; what follows it is the page's own. */
const name_in = (/** @type {string} */ hash) => hash.slice(2).split("?")[0] || "overview";

/** The page that the address names. */
function page() {
  const pages = /** @type {{[name: string]: {element: HTMLElement}}} */ ({ signals, triggers, history: past, alarms, files, hardware, break: breaking });
  const name = name_in(location.hash);
  return Object.hasOwn(pages, name) ? pages[name] : overview;
}

function turn() {
  const { element } = page();
  if (main.firstElementChild !== element) main.replaceChildren(element);
  for (const link of document.querySelectorAll("nav a")) {
    const is_here = name_in(link.getAttribute("href") ?? "") === name_in(location.hash);
    if (is_here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  draw();
}

/** The meaning of the ledger's names; they are those of a run, so they are asked for once. */
async function learn() {
  const is_possible = await breaking.is_possible();
  by_id("break").hidden = !is_possible;
  const answer = await fetch("/api/v1/reasons");
  if (!answer.ok) return;
  for (const stage of await answer.json()) {
    reasons.set(stage.stage, new Map(stage.reasons.map((/** @type {{reason: string}} */ why) => [why.reason, why])));
  }
}

/**
 * What people call the process: `run 7`, or the part of a run that it is.
 * @param {Snapshot} snapshot
 */
function title({ role, run }) {
  return role === "readout" ? "readout" : `${role === "builder" ? "builder of " : ""}run ${run}`;
}

function draw() {
  if (!latest) return;
  const { frames } = totals(latest);
  const bytes = recent.rate((snapshot) => totals(snapshot).bytes);
  const lost = bounds(latest.frames_lost, latest.frames_lost_max);
  const name = latest.state === "initial" && station ? "no run yet" : title(latest);
  const parts = [
    name,
    clock(latest.elapsed_s),
    `${latest.streams.length} streams`,
    bytes === undefined ? null : si(8 * bytes, "bit/s"),
    `${lost} lost of ${grouped(frames + latest.frames_lost)}`,
  ];
  const degraded = latest.degraded ? ", DEGRADED" : "";
  const shown_state = state_of(latest, station);
  say(state, shown_state.toUpperCase() + degraded);
  state.classList.toggle("loss", latest.degraded || ["error", "failed"].includes(shown_state));
  state.classList.toggle("attention", shown_state === "paused");
  say(line, parts.filter((part) => part !== null).map((part) => ` · ${part}`).join(""));
  say(count, latest.alarms.length > 0 ? `(${latest.alarms.length})` : "");
  count.classList.toggle("attention", latest.alarms.length > 0);
  const heading = `${latest.degraded ? "! " : ""}${name} ${shown_state} – Gannet`;
  if (document.title !== heading) document.title = heading;
  const shown = page();
  if (shown === overview) overview.show(latest, recent, history, reasons);
  else if (shown === signals) signals.show(latest);
  else if (shown === triggers) triggers.show(latest);
  else if (shown === past) past.show(latest);
  else if (shown === hardware) hardware.show();
  else if (shown === alarms) alarms.show(latest);
  else if (shown === breaking) breaking.show(latest);
  else files.show(latest);
}

/** @param {Snapshot} snapshot */
function take(snapshot) {
  if (latest?.run !== snapshot.run) learn();
  latest = snapshot;
  history.add(snapshot);
  recent.add(snapshot);
  draw();
}

/** @param {import("./station.js").Station} told */
function follow(told) {
  station = told;
  overview.control.show(told);
  files.control = told.control;
  draw();
}

/**
 * @param {number | null} silent_ms
 * @param {boolean} is_refused
 */
function age(silent_ms, is_refused) {
  document.body.classList.toggle("stale", silent_ms !== null);
  notice.hidden = silent_ms === null;
  if (silent_ms === null) return;
  const ended = latest?.state === "stopped";
  const text = is_refused
    ? "This address is not allowed any more. Open the whole address that the terminal printed."
    : ended
      ? "The run has ended. These are its last figures."
      : "The connection is lost; trying again. These figures are old.";
  say(notice, text);
}

// The address is that of a page, so it cannot name a place on it.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", () => {
  turn();
  main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
});
window.addEventListener("resize", draw);
turn();
new Feed(take, follow, age);
