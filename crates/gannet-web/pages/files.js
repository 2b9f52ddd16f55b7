// Runs and their files: what each came to, copies, whether they are sound, how to open them, and notes.

import { command } from "./command.js";
import { Table, make, prose, say } from "./dom.js";
import { bounds, clock, day, figure, grouped, si, time_of_day } from "./format.js";

/** @typedef {import("./rates.js").Snapshot} Snapshot */
/** @typedef {{number: number | null, state: string, begin_unix_s: number, end_unix_s: number | null, ending: string | null, outcome: string, failure: string | null, elapsed_s: number, frames: number, bytes: number, frames_lost: number, frames_lost_max: number, decisions: number | null, records: number | null, headlines: import("./rates.js").Figure[]}} Run */
/** @typedef {{state: "running", read: number | null, elapsed_s: number} | {state: "over", sound: boolean, by_run: boolean, told: string}} Check */
/** @typedef {{id: number, run: number | null, name: string, path: string, bytes: number | null, changed: number | null, check: Check | null}} RunFile */
/** @typedef {{at: number, run: number | null, by: string, text: string}} Note */

/** Time from one look to the next, in milliseconds. */
const PERIOD_MS = 2000;
/** The same while a file is read back. */
const VERIFYING_MS = 500;
/** Where the browser keeps who is on shift. */
const NAME = "gannet-name";

/** What runs come to, in words, and whether that needs attention. @type {{[outcome: string]: {text: string, mark: string}}} */
const OUTCOMES = {
  good: { text: "nothing lost", mark: "" },
  degraded: { text: "lost data", mark: "loss" },
  not_verified: { text: "a file is damaged", mark: "loss" },
  failed: { text: "failed", mark: "loss" },
};

/**
 * Python that opens a file; nothing for those that other tools do not read.
 * @param {string} path
 */
export function opening(path) {
  const quoted = JSON.stringify(path);
  if (path.endsWith(".hdf5")) {
    return `import h5py\nfile = h5py.File(${quoted})\nfile.visit(print)`;
  }
  if (path.endsWith(".parquet")) {
    return `import pyarrow.parquet as pq\ntable = pq.read_table(${quoted})\nprint(table.slice(0, 10).to_pandas())`;
  }
  return "";
}

/**
 * The lines that open a file, to be copied.
 * @param {string} path
 */
export function example(path) {
  const text = opening(path);
  const copy = make("button", "", "Copy");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Not allowed; select it";
    }
    setTimeout(() => (copy.textContent = "Copy"), 2000);
  });
  return make("section", "", [make("h2", "", "Open its first file in Python"), make("pre", "", text), copy]);
}

/**
 * The number of the run that the address names; none where all are to be seen.
 * @param {string} hash
 */
export function wanted(hash) {
  const text = new URLSearchParams(hash.split("?")[1] ?? "").get("run") ?? "";
  return /^\d{1,9}$/.test(text) ? Number(text) : null;
}

/**
 * What a run has come to: its decisions and records, or the headlines of its detector.
 * @param {{decisions: number | null, records: number | null, headlines: import("./rates.js").Figure[]}} run
 */
export function found({ decisions, records, headlines }) {
  const own = headlines.map(({ name, value }) => `${figure(value)} ${name}`);
  const common = records === null ? [] : [`${grouped(decisions ?? 0)} decisions`, `${grouped(records)} records`];
  return [...common, ...own].join(", ");
}

/**
 * What is known of whether a file is sound.
 * @param {RunFile} file
 */
export function soundness({ bytes, check }) {
  if (check === null) return { text: "", mark: "" };
  if (check.state === "over") {
    if (!check.sound) return { text: "NOT as it was written", mark: "loss" };
    return { text: check.by_run ? "verified when the run ended" : "as it was written", mark: "fine-text" };
  }
  // Some bytes are read more than once.
  const part = check.read === null || !bytes ? "" : `, ${Math.min(99, Math.floor((100 * check.read) / bytes))} %`;
  return { text: `reading it${part}, for ${Math.floor(check.elapsed_s)} s`, mark: "attention" };
}

/** A file, with what can be done with it. */
class Card {
  /**
   * @param {RunFile} file
   * @param {(id: number) => void} verify
   */
  constructor({ id, name, path }, verify) {
    this.facts = make("span", "quiet");
    this.sound = make("span", "");
    this.sound.setAttribute("role", "status");
    this.told = make("pre", "");
    this.verify = /** @type {HTMLButtonElement} */ (make("button", "", "Verify"));
    this.verify.type = "button";
    this.verify.setAttribute("aria-label", `Verify ${name}`);
    this.verify.addEventListener("click", () => verify(id));
    this.download = /** @type {HTMLAnchorElement} */ (make("a", "button", "Download"));
    this.download.href = `/api/v1/files/${id}/content`;
    this.download.setAttribute("download", name);
    this.download.setAttribute("aria-label", `Download ${name}`);
    const python = opening(path);
    const lines = make("details", "", [make("summary", "", "Open it in Python"), make("pre", "", python)]);
    this.element = make("li", "file", [
      make("div", "controls", [make("strong", "", name), this.facts, this.verify, this.download, this.sound]),
      this.told,
      python === "" ? null : lines,
    ]);
  }

  /**
   * @param {RunFile} file
   * @param {boolean} control
   */
  show(file, control) {
    const { bytes, changed, check } = file;
    const when = changed === null ? "" : `, ${time_of_day(changed, true)}`;
    say(this.facts, bytes === null ? "not there any more" : `${si(bytes, "B")}${when}`);
    const { text, mark } = soundness(file);
    say(this.sound, text);
    this.sound.className = mark;
    this.told.hidden = check?.state !== "over" || check.sound;
    if (check?.state === "over") say(this.told, check.told);
    this.verify.hidden = !control || bytes === null;
    this.download.hidden = bytes === null;
  }
}

export class Files {
  constructor() {
    this.runs = new Table("Runs", [
      { title: "run", numeric: true },
      { title: "began" },
      { title: "took frames for", numeric: true },
      { title: "came to" },
      { title: "frames", numeric: true },
      { title: "lost", numeric: true },
      { title: "data", numeric: true },
      { title: "found", long: true },
    ], true);
    this.heading = make("h2");
    this.all = /** @type {HTMLAnchorElement} */ (make("a", "", "All runs"));
    this.all.href = "#/files";
    this.nothing = make("p", "quiet", "No file is finished yet; the first is when it is full, or when the run ends.");
    this.list = make("ul", "files");
    this.trouble = make("div");
    this.refusal = make("p", "loss");
    this.refusal.setAttribute("role", "alert");
    this.notes = make("ul", "notes");
    this.text = document.createElement("textarea");
    this.text.maxLength = 2000;
    this.text.rows = 2;
    this.text.setAttribute("aria-label", "A note");
    this.by = document.createElement("input");
    this.by.maxLength = 64;
    this.by.value = localStorage.getItem(NAME) ?? "";
    const label = make("label", "", "On shift: ");
    label.append(this.by);
    const write = make("button", "", "Write it down");
    this.form = /** @type {HTMLFormElement} */ (make("form", "", [this.text, make("p", "controls", [label, write])]));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.write();
    });
    this.element = make("div", "", [
      make("h1", "", "Runs and files"),
      this.refusal,
      this.runs.element,
      this.trouble,
      make("section", "beside", [
        make("div", "", [make("p", "controls", [this.heading, this.all]), this.nothing, this.list]),
        make("div", "", [make("h2", "", "Notes"), this.form, this.notes]),
      ]),
    ]);
    /** @type {Map<number, Card>} */
    this.cards = new Map();
    /** @type {RunFile[]} */
    this.files = [];
    this.run = 0;
    /** Whether commands are taken from whoever looks. */
    this.control = false;
    this.asked = -Infinity;
    this.shown = "";
    this.noted = "";
  }

  /** @param {Snapshot} snapshot */
  async show(snapshot) {
    this.run = snapshot.run;
    this.trouble_of(snapshot);
    const now = performance.now();
    const is_verifying = this.files.some(({ check }) => check?.state === "running");
    if (this.shown === location.hash && now - this.asked < (is_verifying ? VERIFYING_MS : PERIOD_MS)) return;
    [this.asked, this.shown] = [now, location.hash];
    try {
      const [runs, files, notes] = await Promise.all(["runs", "files", "notes"].map((name) => fetch(`/api/v1/${name}`)));
      this.runs.element.hidden = !runs.ok;
      if (runs.ok) this.draw_runs(await runs.json());
      if (files.ok) this.draw_files(await files.json());
      this.form.hidden = !notes.ok || !this.control;
      if (notes.ok) this.draw_notes(await notes.json());
    } catch {
      // The line at the top says that the connection is lost.
    }
  }

  /**
   * What went wrong with files of the present run.
   * @param {Snapshot} snapshot
   */
  trouble_of({ recorder: { unfinished, export_failures, trouble, losses } }) {
    const shown = JSON.stringify([unfinished, export_failures, trouble, losses]);
    if (this.trouble.dataset.shown === shown) return;
    this.trouble.dataset.shown = shown;
    const list = (/** @type {string} */ title, /** @type {string[]} */ names) =>
      names.length === 0
        ? null
        : make("section", "", [make("h2", "loss", prose(title)), make("ul", "paths loss", names.map((name) => make("li", "", name)))]);
    this.trouble.replaceChildren(
      ...[
        trouble === null ? null : make("p", "loss", `The recorder cannot write: ${trouble}`),
        list("Could not be finished; `gannet recover` looks at them", unfinished),
        list("Are missing", export_failures),
        list("Were removed, replaced or truncated", losses),
      ].filter((part) => part !== null),
    );
  }

  /** @param {Run[]} runs */
  draw_runs(runs) {
    this.runs.show(
      runs.toReversed().map((run) => {
        const going = { text: run.state, mark: run.outcome === "good" ? "" : "loss" };
        const { text, mark } = OUTCOMES[run.outcome] ?? { text: run.outcome, mark: "" };
        const outcome = run.end_unix_s === null ? going : { text: run.failure ? `${text}: ${run.failure}` : text, mark };
        return [
          run.number === null ? "–" : { text: run.number.toString(), href: `#/files?run=${run.number}` },
          time_of_day(run.begin_unix_s, true),
          clock(run.elapsed_s),
          outcome,
          grouped(run.frames),
          { text: bounds(run.frames_lost, run.frames_lost_max), mark: run.frames_lost_max > 0 ? "loss" : "" },
          si(run.bytes, "B"),
          found(run),
        ];
      }),
    );
  }

  /** @param {RunFile[]} files */
  draw_files(files) {
    const run = wanted(location.hash);
    this.files = files;
    const shown = files.filter((file) => run === null || file.run === run).toReversed();
    say(this.heading, run === null ? "Files of all runs" : `Files of run ${run}`);
    this.all.hidden = run === null;
    this.nothing.hidden = shown.length > 0;
    const elements = shown.map((file) => {
      const card = this.cards.get(file.id) ?? new Card(file, (id) => this.verify(id));
      this.cards.set(file.id, card);
      card.show(file, this.control);
      return card.element;
    });
    if (elements.length !== this.list.children.length || elements.some((it, at) => this.list.children[at] !== it)) {
      this.list.replaceChildren(...elements);
    }
  }

  /** @param {Note[]} notes */
  draw_notes(notes) {
    const run = wanted(location.hash);
    const shown = notes.filter((note) => run === null || note.run === run).toReversed();
    const noted = JSON.stringify(shown);
    if (noted === this.noted) return;
    this.noted = noted;
    this.notes.replaceChildren(
      ...shown.map(({ at, run, by, text }) => {
        const whose = [`${day(at)} ${time_of_day(at, false)}`, run === null ? "" : `run ${run}`, by].filter((it) => it !== "").join(" · ");
        return make("li", "", [make("p", "quiet", whose), make("p", "text", text)]);
      }),
    );
  }

  /** @param {number} id */
  async verify(id) {
    say(this.refusal, await command(`/api/v1/files/${id}/verify`, {}));
    this.asked = -Infinity;
  }

  async write() {
    const text = this.text.value.trim();
    if (text === "") return;
    localStorage.setItem(NAME, this.by.value);
    const run = wanted(location.hash) ?? this.run;
    const refusal = await command("/api/v1/notes", { text, by: this.by.value.trim(), ...(run > 0 ? { run } : {}) });
    say(this.refusal, refusal);
    if (refusal === "") this.text.value = "";
    this.asked = -Infinity;
  }
}
