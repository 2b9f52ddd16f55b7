// All channels side by side: one figure of each, those that stand out by name.

import { Sheet, marks } from "./axes.js";
import { Table, make } from "./dom.js";

/**
 * A channel and what is known of it.
 * @typedef {object} Channel
 * @property {number} channel
 * @property {string} stream
 * @property {number} plane
 * @property {{pedestal: number | null, rms: number | null, recent_tp_rate_hz: number, condition: string} | null} figures
 */

/** @typedef {"rate" | "noise" | "pedestal"} Kind */

/** @type {{[kind in Kind]: {title: string, of: (channel: Channel) => number | null}}} */
export const KINDS = {
  rate: { title: "Primitives a second", of: ({ figures }) => figures?.recent_tp_rate_hz ?? null },
  noise: { title: "Noise, ADC counts", of: ({ figures }) => figures?.rms ?? null },
  pedestal: { title: "Pedestal, ADC counts", of: ({ figures }) => figures?.pedestal ?? null },
};

/**
 * Channels that need attention, the loudest first.
 * @param {Channel[]} channels
 */
export function outstanding(channels) {
  return channels
    .filter(({ figures }) => figures !== null && figures.condition !== "good")
    .sort((a, b) => (b.figures?.recent_tp_rate_hz ?? 0) - (a.figures?.recent_tp_rate_hz ?? 0));
}

/**
 * The key of the configuration that keeps noisy channels, and those that are masked already, from making primitives.
 * @param {Channel[]} channels
 */
export function mask(channels) {
  const unwanted = channels.filter(({ figures }) => ["noisy", "masked"].includes(figures?.condition ?? ""));
  return `mask = [${unwanted.map(({ channel }) => channel).sort((a, b) => a - b).join(", ")}]`;
}

/**
 * The range of a figure over all channels.
 * @param {(number | null)[]} values
 */
export function range(values) {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return { low: 0, high: 1 };
  const [low, high] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
  const margin = high > low ? 0.06 * (high - low) : Math.max(1, 0.05 * Math.abs(high));
  return { low: low >= 0 ? Math.max(0, low - margin) : low - margin, high: high + margin };
}

export class Channels {
  /** @param {(channel: number) => void} chosen */
  constructor(chosen) {
    this.kind = document.createElement("select");
    this.kind.append(...Object.entries(KINDS).map(([kind, { title }]) => new Option(title, kind)));
    this.sheet = new Sheet("channels");
    this.canvas = this.sheet.canvas;
    const label = make("label", "", "All channels: ");
    label.append(this.kind);
    this.sheet.element.prepend(label);
    this.copy = /** @type {HTMLButtonElement} */ (make("button", "", "Copy noisy ones as mask"));
    this.copy.type = "button";
    this.copied = make("span", "quiet");
    this.copied.setAttribute("role", "status");
    this.table = new Table("Channels that stand out", [
      { title: "channel", numeric: true },
      { title: "stream" },
      { title: "state" },
      { title: "primitives/s", numeric: true },
      { title: "pedestal", numeric: true },
      { title: "noise", numeric: true },
    ]);
    this.none = make("p", "quiet", "No channel is noisy, dead or masked.");
    this.noted = make("div", "", [make("p", "controls", [this.copy, this.copied]), this.table.element]);
    this.element = make("section", "", [make("h2", "hidden", "All channels"), this.sheet.element, this.none, this.noted]);
    /** @type {Channel[]} */
    this.channels = [];
    this.selected = -1;
    this.kind.addEventListener("change", () => this.draw());
    this.copy.addEventListener("click", () => this.copy_mask());
    this.canvas.addEventListener("click", (event) => {
      const channel = this.at(event.offsetX);
      if (channel) chosen(channel.channel);
    });
    this.canvas.addEventListener("mousemove", (event) => {
      const channel = this.at(event.offsetX);
      if (channel) this.sheet.caption.textContent = this.told(channel);
    });
  }

  /**
   * Shows these channels, of which one is selected.
   * @param {Channel[]} channels
   * @param {number} selected
   * @param {(channel: number) => string} address
   */
  show(channels, selected, address) {
    [this.channels, this.selected] = [channels, selected];
    const noted = outstanding(channels);
    this.none.hidden = noted.length > 0;
    this.noted.hidden = noted.length === 0;
    this.table.show(
      noted.slice(0, 200).map(({ channel, stream, figures }) => [
        { text: channel.toString(), href: address(channel) },
        stream,
        { text: figures?.condition ?? "", mark: "attention" },
        figures?.recent_tp_rate_hz.toFixed(1) ?? "",
        figures?.pedestal?.toString() ?? "–",
        figures?.rms?.toFixed(1) ?? "–",
      ]),
    );
    this.draw();
  }

  /** @param {Channel} channel */
  told(channel) {
    const { title, of } = KINDS[/** @type {Kind} */ (this.kind.value)];
    const value = of(channel);
    const text = value === null ? "not known" : value.toFixed(1).replace(/\.0$/, "");
    return `Channel ${channel.channel} of ${channel.stream}, plane ${channel.plane}: ${text} (${title.toLowerCase()})`;
  }

  /**
   * The channel at this place of the picture.
   * @param {number} x
   */
  at(x) {
    const [left, right] = this.edges ?? [0, this.canvas.clientWidth];
    return this.channels[Math.floor(((x - left) / (right - left)) * this.channels.length)];
  }

  async copy_mask() {
    const text = mask(this.channels);
    try {
      await navigator.clipboard.writeText(text);
      this.copied.textContent = "Copied: it goes into [pipeline.tpg].";
    } catch {
      // Without the right to the clipboard it can be copied by hand.
      this.copied.textContent = text;
    }
  }

  draw() {
    const { title, of } = KINDS[/** @type {Kind} */ (this.kind.value)];
    const values = this.channels.map(of);
    const selected = this.channels.find(({ channel }) => channel === this.selected);
    this.canvas.setAttribute("aria-label", `${title} of ${this.channels.length} channels`);
    if (selected && !this.canvas.matches(":hover")) this.sheet.caption.textContent = this.told(selected);
    const pen = this.sheet.begin();
    if (!pen) return;
    const { low, high } = range(values);
    const grid = marks(low, high, 4);
    const { x, y, left, right } = this.sheet.axes(
      { low: 0, high: this.channels.length, marks: [] },
      { low, high, marks: grid.map((at) => ({ at, text: Number(at.toPrecision(6)).toString() })) },
    );
    this.edges = [left, right];
    values.forEach((value, place) => {
      if (value === null) return;
      const { channel, figures } = this.channels[place];
      const is_good = figures?.condition === "good";
      pen.fillStyle = this.sheet.colour(is_good ? "--accent" : "--loss");
      const size = channel === this.selected ? 7 : is_good ? 3 : 5;
      pen.fillRect(x(place + 0.5) - size / 2, y(value) - size / 2, size, size);
    });
  }
}
