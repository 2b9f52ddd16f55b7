// The samples of a channel, its spectrum, and all channels of its stream over time.

import { Absence, without_samples } from "./absent.js";
import { Channels } from "./channels.js";
import { explain, make, say } from "./dom.js";
import { SpectrumPicture } from "./spectrum.js";
import { Trace } from "./trace.js";
import { WaterfallPicture } from "./waterfall.js";

/** @typedef {import("./trace.js").Waveform} Waveform */
/** @typedef {{stream: string, channels: import("./channels.js").Channel[]}} Stream */

/** Least time from one picture to the next, in milliseconds. */
const PERIOD_MS = 200;
/** The same after there was nothing to see. */
const EXCUSED_MS = 1000;
/** Time between requests for what was last seen of all channels, in milliseconds. */
const ALL_MS = 2000;
/** How often the hits of a waveform are asked for. */
const TRIES = 5;
/** Numbers of frames to choose from. */
const FRAMES = [1, 4, 16, 64, 256];

/** @typedef {"waveform" | "waterfall" | "spectrum"} View */

/**
 * The views, and what is seen in each.
 * @type {{[view in View]: {title: string, told: string, period_ms: number}}}
 */
const VIEWS = {
  waveform: {
    title: "Waveform",
    told: "Least and greatest sample of each column. Dotted: the pedestal; dashed: above it, samples belong to a hit. Shaded: hits. Grey: no frame.",
    period_ms: PERIOD_MS,
  },
  waterfall: {
    title: "Waterfall",
    told: "Of each column the sample furthest from the pedestal of its channel; colours go by the square root. Grey: no frame. A click selects a channel.",
    period_ms: 500,
  },
  spectrum: {
    title: "Spectrum",
    told: "Spectral density of the samples: its square, summed over all frequencies, is the variance. The more frames, the smoother.",
    period_ms: 500,
  },
};

/**
 * What the address says is to be seen.
 * @param {string} hash
 */
export function wanted(hash) {
  const values = new URLSearchParams(hash.split("?")[1] ?? "");
  const whole = (/** @type {string} */ name) => {
    const text = values.get(name) ?? "";
    return /^\d{1,9}$/.test(text) ? Number(text) : null;
  };
  const frames = whole("frames");
  // A time has more digits than a number: it stays a text.
  const end = /^\d{1,20}$/.exec(values.get("end") ?? "")?.[0] ?? null;
  const named = /** @type {View} */ (values.get("view"));
  const view = Object.hasOwn(VIEWS, named) ? named : "waveform";
  const few = view === "spectrum" ? 64 : 4;
  return { channel: whole("channel"), frames: frames !== null && FRAMES.includes(frames) ? frames : few, end, view };
}

/**
 * The address of a channel.
 * @param {number} channel
 * @param {number} [frames]
 * @param {View} [view]
 */
export function address(channel, frames = 4, view = "waveform") {
  return `#/signals?channel=${channel}&frames=${frames}${view === "waveform" ? "" : `&view=${view}`}`;
}

/**
 * A choice with a label.
 * @param {string} title
 * @param {HTMLElement} control
 */
function labelled(title, control) {
  const label = make("label", "", title);
  label.append(" ", control);
  return label;
}

export class Signals {
  constructor() {
    this.stream = document.createElement("select");
    this.channel = document.createElement("select");
    this.frames = document.createElement("select");
    this.frames.append(...FRAMES.map((count) => new Option(count.toString(), count.toString())));
    this.pause = /** @type {HTMLButtonElement} */ (make("button", "", "Pause"));
    this.pause.type = "button";
    this.pause.setAttribute("aria-pressed", "false");
    this.trouble = make("p", "quiet");
    this.trouble.setAttribute("role", "status");
    this.trace = new Trace();
    this.spectrum = new SpectrumPicture();
    this.waterfall = new WaterfallPicture((channel) => this.choose(channel));
    this.picture = make("div");
    this.told = make("p", "quiet");
    this.views = Object.entries(VIEWS).map(([view, { title }]) => {
      const button = /** @type {HTMLButtonElement} */ (make("button", "", title));
      button.type = "button";
      button.addEventListener("click", () => this.turn(/** @type {View} */ (view)));
      return { view, button };
    });
    const choice = make("span", "choice", this.views.map(({ button }) => button));
    choice.setAttribute("role", "group");
    choice.setAttribute("aria-label", "What is shown");
    this.all = new Channels((channel) => this.choose(channel));
    const page = make("div", "", [
      make("p", "controls", [
        choice,
        labelled("Stream", this.stream),
        labelled("Channel", this.channel),
        labelled("Frames", this.frames),
        this.pause,
      ]),
      this.picture,
      this.trouble,
      this.told,
      this.all.element,
    ]);
    this.absence = new Absence(page);
    this.element = make("div", "signals", [make("h1", "", "Signals"), this.absence.text, page]);
    /** @type {Stream[]} */
    this.streams = [];
    /** The run whose channels are known. */
    this.run = -1;
    this.is_paused = false;
    /** Draws what was seen last, if anything was. @type {(() => void) | null} */
    this.latest = null;
    /** Samples whose hits are still to come, and how often they were asked for. @type {Waveform | null} */
    this.pending = null;
    this.tries = 0;
    this.has_hits = true;
    /** What the samples that are shown were asked for by. */
    this.query = "";
    this.asked = 0;
    this.learned = -Infinity;
    this.is_waiting = false;
    this.stream.addEventListener("change", () => this.choose(this.streams[this.stream.selectedIndex]?.channels[0]?.channel));
    this.channel.addEventListener("change", () => this.choose(Number(this.channel.value)));
    this.frames.addEventListener("change", () => this.choose(wanted(location.hash).channel ?? undefined));
    this.pause.addEventListener("click", () => {
      this.is_paused = !this.is_paused;
      this.pause.setAttribute("aria-pressed", this.is_paused.toString());
    });
  }

  /**
   * Puts what was chosen into the address.
   * @param {number | undefined} channel
   */
  choose(channel) {
    if (channel === undefined) return;
    const { view } = wanted(location.hash);
    this.replace(address(channel, Number(this.frames.value), view));
  }

  /**
   * Shows the same in another view.
   * @param {View} view
   */
  turn(view) {
    const { channel, end } = wanted(location.hash);
    const shown = channel ?? this.streams[0]?.channels[0]?.channel;
    if (shown === undefined) return;
    const frames = wanted(`#/?view=${view}`).frames;
    this.replace(address(shown, frames, view) + (end === null ? "" : `&end=${end}`));
  }

  /** @param {string} address */
  replace(address) {
    history.replaceState(null, "", address);
    [this.asked, this.learned] = [0, -Infinity];
    this.follow();
  }

  /**
   * Shows the samples of a run that is at work.
   * @param {import("./rates.js").Snapshot} snapshot
   */
  show(snapshot) {
    if (snapshot.run !== this.run) {
      this.run = snapshot.run;
      this.streams = [];
      this.latest = this.pending = null;
      this.has_hits = true;
    }
    if (this.absence.excuses(without_samples(snapshot))) return;
    this.follow();
  }

  /** Draws what is there, and asks for more when it is time. */
  async follow() {
    const { view } = wanted(location.hash);
    this.frame(view);
    this.latest?.();
    const now = performance.now();
    if (this.is_waiting || now - this.asked < VIEWS[view].period_ms) return;
    this.asked = now;
    this.is_waiting = true;
    try {
      await this.learn();
      if (this.streams.length > 0) await this.look();
    } catch {
      // The line at the top says that the connection is lost.
    } finally {
      this.is_waiting = false;
    }
  }

  /** Asks for the channels, and what is known of them. */
  async learn() {
    const now = performance.now();
    if (this.streams.length > 0 && now - this.learned < ALL_MS) return;
    this.learned = now;
    const answer = await fetch("/api/v1/channels");
    if (!answer.ok) return this.excuse(answer);
    /** @type {Stream[]} */
    const streams = await answer.json();
    const is_new = this.streams.length === 0;
    this.streams = streams.filter(({ channels }) => channels.length > 0);
    for (const { stream, channels } of this.streams) channels.forEach((channel) => (channel.stream = stream));
    if (is_new) this.stream.replaceChildren(...this.streams.map(({ stream }) => new Option(stream)));
    const { channel, frames, view } = wanted(location.hash);
    const shown = channel ?? this.streams[0]?.channels[0].channel ?? -1;
    this.all.show(this.streams.flatMap(({ channels }) => channels), shown, (it) => address(it, frames, view));
  }

  /**
   * Puts the picture of a view on the page.
   * @param {View} view
   */
  frame(view) {
    const { element } = { waveform: this.trace, waterfall: this.waterfall, spectrum: this.spectrum }[view];
    if (this.picture.firstElementChild === element) return;
    this.latest = this.pending = null;
    this.picture.replaceChildren(element);
    say(this.told, VIEWS[view].told);
    for (const { view: own, button } of this.views) button.setAttribute("aria-pressed", (own === view).toString());
  }

  async look() {
    const { channel: named, frames, end, view } = wanted(location.hash);
    const channel = named ?? this.streams[0].channels[0].channel;
    const { stream } = this.select(channel, frames);
    const window = `frames=${frames}${end === null ? "" : `&end=${end}`}`;
    const query = {
      waveform: `channel=${channel}&columns=${this.trace.sheet.columns()}`,
      waterfall: `stream=${encodeURIComponent(stream)}&columns=${Math.min(512, this.waterfall.sheet.columns())}`,
      spectrum: `channel=${channel}`,
    }[view];
    const path = `/api/v1/${view}?${query}&${window}`;
    const is_same = this.query === path;
    if (this.pending && is_same) return this.mark(this.pending);
    if (is_same && this.latest && (this.is_paused || end !== null)) return;
    const answer = await fetch(path);
    if (!answer.ok) return this.excuse(answer);
    const seen = await answer.json();
    say(this.trouble, end === null ? "" : "A time that has passed. Choose a channel to see the newest.");
    const draw = {
      waveform: () => this.trace.show(seen),
      waterfall: () => this.waterfall.show(seen, channel),
      spectrum: () => this.spectrum.show(seen),
    }[view];
    // The hits of the newest samples come a moment later: until then the picture before them stays.
    [this.pending, this.tries] = [view === "waveform" && this.has_hits ? seen : null, 0];
    this.query = path;
    if (!is_same || !this.pending) this.draw(draw);
  }

  /** @param {() => void} draw */
  draw(draw) {
    this.latest = draw;
    draw();
  }

  /**
   * Shows samples with their hits, once these are known.
   * @param {Waveform} waveform
   */
  async mark(waveform) {
    const { channel, begin, end } = waveform;
    const [from, to] = [begin, end].map((tick) => BigInt(tick));
    const answer = await fetch(`/api/v1/primitives?channel=${channel}&from=${from}&to=${to}`);
    const { held, primitives, code } = await answer.json();
    this.has_hits = code !== "no-primitives";
    this.tries += 1;
    const has_come = answer.ok && held !== null && held.end >= end;
    if (answer.ok && !has_come && this.tries < TRIES) return;
    this.pending = null;
    const marked = has_come && held.begin <= begin ? { ...waveform, hits: primitives } : waveform;
    this.draw(() => this.trace.show(marked));
  }

  /**
   * Lets the choices show what is seen.
   * @param {number} channel
   * @param {number} frames
   */
  select(channel, frames) {
    const at = this.streams.findIndex(({ channels }) => channels.some((it) => it.channel === channel));
    const of = this.streams[Math.max(0, at)];
    if (this.stream.selectedIndex !== at || this.channel.options.length !== of.channels.length) {
      this.stream.selectedIndex = at;
      const name = (/** @type {import("./channels.js").Channel} */ it) =>
        new Option(`${it.channel} (plane ${it.plane})`, it.channel.toString());
      this.channel.replaceChildren(...of.channels.map(name));
    }
    // A list that somebody has open is left alone.
    if (this.channel.value !== channel.toString()) this.channel.value = channel.toString();
    if (this.frames.value !== frames.toString()) this.frames.value = frames.toString();
    return of;
  }

  /**
   * Says why there is nothing to see.
   * @param {Response} answer
   */
  async excuse(answer) {
    this.latest = this.pending = null;
    this.query = "";
    for (const { sheet } of [this.trace, this.spectrum, this.waterfall]) {
      sheet.entitle("No samples");
      sheet.begin();
    }
    this.asked = performance.now() + EXCUSED_MS - PERIOD_MS;
    const { detail } = await answer.json().catch(() => ({ detail: `the server says ${answer.status}` }));
    explain(this.trouble, detail);
  }
}
