// A waveform on a canvas.

import { span } from "./format.js";

/**
 * What the server tells of the samples of a channel.
 * @typedef {object} Waveform
 * @property {number} channel
 * @property {string} stream
 * @property {number} plane
 * @property {number} begin
 * @property {number} end
 * @property {number} ticks_per_s
 * @property {(number | null)[]} least
 * @property {(number | null)[]} greatest
 * @property {number | null} pedestal
 * @property {number | null} threshold
 * @property {number} frames
 * @property {number} found
 * @property {{time: number[], length: number[]}} [hits] ticks after `begin`
 */

/**
 * The range of values to show: that of the samples and the levels, with a margin, and never a hair's breadth.
 * @param {Waveform} waveform
 */
export function range({ least, greatest, pedestal, threshold }) {
  const values = [...least, ...greatest].filter((value) => value !== null);
  if (pedestal !== null) values.push(pedestal, pedestal + (threshold ?? 0));
  if (values.length === 0) return { low: 0, high: 1 };
  const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  const margin = Math.max(5, 0.08 * (high - low));
  return { low: low - margin, high: high + margin };
}

/**
 * Round values from `low` to `high`, about `lines` of them.
 * @param {number} low
 * @param {number} high
 * @param {number} lines
 */
export function marks(low, high, lines) {
  const rough = (high - low) / lines;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((it) => it >= rough * 0.999) ?? 10 * power;
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.max(0, Math.floor(high / step) - first + 1) }, (_, at) => (first + at) * step);
}

/**
 * Columns in a row that no frame is in: where each begins, and where it ends.
 * @param {(number | null)[]} values
 */
export function gaps(values) {
  /** @type {[number, number][]} */
  const found = [];
  values.forEach((value, at) => {
    if (value !== null) return;
    const last = found.at(-1);
    if (last?.[1] === at) last[1] = at + 1;
    else found.push([at, at + 1]);
  });
  return found;
}

/** The samples of one channel over time, with its pedestal and threshold. */
export class Trace {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.canvas.className = "trace";
    this.canvas.setAttribute("role", "img");
    this.caption = document.createElement("figcaption");
    this.element = document.createElement("figure");
    this.element.append(this.caption, this.canvas);
  }

  /** Columns that there is room for. */
  columns() {
    const density = window.devicePixelRatio || 1;
    return Math.min(2048, Math.max(64, Math.round((this.canvas.clientWidth || 1024) * density)));
  }

  /** Shows nothing. */
  clear() {
    this.caption.textContent = "No samples";
    this.canvas.setAttribute("aria-label", "No samples");
    this.canvas.getContext("2d")?.clearRect(0, 0, this.canvas.width, this.canvas.height);
  }

  /** @param {Waveform} waveform */
  show(waveform) {
    const { channel, stream, plane, least, greatest, pedestal, threshold, frames, found } = waveform;
    const missing = found < frames ? `, ${frames - found} of ${frames} frames not there` : "";
    const level = pedestal === null ? "" : `, pedestal ${pedestal}`;
    const count = waveform.hits?.time.length;
    const hits = count === undefined ? "" : count === 1 ? ", 1 hit" : `, ${count} hits`;
    const text = `Channel ${channel} of ${stream}, plane ${plane}${level}${hits}${missing}`;
    this.caption.textContent = text;
    this.canvas.setAttribute("aria-label", text);
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const density = window.devicePixelRatio || 1;
    if (width === 0 || height === 0) return;
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(height * density);
    const context = this.canvas.getContext("2d");
    if (!context) return;
    const style = getComputedStyle(this.canvas);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(name);
    context.scale(density, density);
    context.font = `11px ${style.fontFamily}`;

    const { low, high } = range(waveform);
    const grid = marks(low, high, 5);
    const labels = grid.map((value) => value.toString());
    const left = Math.ceil(Math.max(...labels.map((label) => context.measureText(label).width), 0)) + 8;
    const [top, bottom, right] = [8, height - 18, width - 4];
    const x = (/** @type {number} */ column) => left + (column / least.length) * (right - left);
    const y = (/** @type {number} */ value) => bottom - ((value - low) / (high - low)) * (bottom - top);
    const across = (/** @type {number} */ value, /** @type {number[]} */ dashes) => {
      const line = Math.round(y(value)) + 0.5;
      context.setLineDash(dashes);
      context.beginPath();
      context.moveTo(left, line);
      context.lineTo(right, line);
      context.stroke();
      context.setLineDash([]);
    };

    context.fillStyle = colour("--rule");
    for (const [from, to] of gaps(least)) context.fillRect(x(from), top, x(to) - x(from), bottom - top);
    context.fillStyle = colour("--quiet");
    context.strokeStyle = colour("--rule");
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    grid.forEach((value, at) => {
      across(value, []);
      context.fillText(labels[at], left - 6, y(value));
    });
    const time_ns = (1e9 * (waveform.end - waveform.begin)) / waveform.ticks_per_s;
    context.textBaseline = "bottom";
    for (const part of [0, 0.5, 1]) {
      context.textAlign = part === 0 ? "left" : part === 1 ? "right" : "center";
      context.fillText(part === 0 ? "0" : span(part * time_ns), x(part * least.length), height - 1);
    }

    const per_tick = least.length / (waveform.end - waveform.begin);
    context.fillStyle = colour("--attention");
    waveform.hits?.time.forEach((time, at) => {
      const from = x(time * per_tick);
      const wide = Math.max(2, x((time + (waveform.hits?.length[at] ?? 0)) * per_tick) - from);
      context.globalAlpha = 0.22;
      context.fillRect(from, top, wide, bottom - top);
      context.globalAlpha = 1;
      context.fillRect(from, top, wide, 3);
    });
    if (pedestal !== null) {
      context.strokeStyle = colour("--quiet");
      across(pedestal, [2, 4]);
      if (threshold !== null) {
        context.strokeStyle = colour("--attention");
        across(pedestal + threshold, [6, 4]);
      }
    }
    context.strokeStyle = colour("--accent");
    context.lineWidth = 1.2;
    context.beginPath();
    let is_open = false;
    least.forEach((bottom_value, column) => {
      const top_value = greatest[column];
      if (bottom_value === null || top_value === null) {
        is_open = false;
        return;
      }
      const middle = x(column + 0.5);
      if (is_open) context.lineTo(middle, y(bottom_value));
      else context.moveTo(middle, y(bottom_value));
      if (top_value !== bottom_value) context.lineTo(middle, y(top_value));
      is_open = true;
    });
    context.stroke();
  }
}
