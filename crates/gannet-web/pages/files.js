// Files that are finished, and how to open them.

import { make } from "./dom.js";

/** @typedef {import("./rates.js").Snapshot} Snapshot */

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

export class Files {
  constructor() {
    this.content = make("div");
    this.element = make("div", "", [make("h1", "", "Files"), this.content]);
    this.shown = "";
  }

  /** @param {Snapshot} snapshot */
  show(snapshot) {
    const { files, unfinished, exports, export_failures, trouble, losses } = snapshot.recorder;
    const shown = JSON.stringify([files, unfinished, exports, export_failures, trouble, losses]);
    if (shown === this.shown) return;
    this.shown = shown;
    const list = (/** @type {string} */ title, /** @type {string[]} */ names, mark = "") =>
      names.length === 0
        ? null
        : make("section", "", [make("h2", "", title), make("ul", `paths ${mark}`, names.map((name) => make("li", "", name)))]);
    const newest = exports.findLast((path) => opening(path) !== "");
    const nothing = files.length + exports.length === 0;
    this.content.replaceChildren(
      ...[
        trouble === null ? null : make("p", "loss", `The recorder cannot write: ${trouble}`),
        nothing ? make("p", "quiet", "No file is finished yet; the first is when it is full, or when the run ends.") : null,
        list("Logs", files),
        list("For other tools", exports),
        list("Could not be finished; `gannet recover` looks at them", unfinished, "loss"),
        list("Are missing", export_failures, "loss"),
        list("Were removed, replaced or truncated", losses, "loss"),
        newest === undefined ? null : example(newest),
      ].filter((part) => part !== null),
    );
  }
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
  return make("section", "", [make("h2", "", "Open the newest in Python"), make("pre", "", text), copy]);
}
