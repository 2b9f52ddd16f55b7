// A waveform on a canvas.

import { Sheet, marks, thirds } from "./axes.js";
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
    this.sheet = new Sheet("large");
    this.element = this.sheet.element;
  }

  /** @param {Waveform} waveform */
  show(waveform) {
    const { channel, stream, plane, least, greatest, pedestal, threshold, frames, found } = waveform;
    const missing = found < frames ? `, ${frames - found} of ${frames} frames not there` : "";
    const level = pedestal === null ? "" : `, pedestal ${pedestal}`;
    const count = waveform.hits?.time.length;
    const hits = count === undefined ? "" : count === 1 ? ", 1 hit" : `, ${count} hits`;
    this.sheet.entitle(`Channel ${channel} of ${stream}, plane ${plane}${level}${hits}${missing}`);
    const pen = this.sheet.begin();
    if (!pen) return;
    const { low, high } = range(waveform);
    const time_ns = (1e9 * (waveform.end - waveform.begin)) / waveform.ticks_per_s;
    const wide = least.length;
    const { x, y, left, right, top, bottom } = this.sheet.axes(
      { low: 0, high: wide, marks: thirds(wide, (part) => span(part * time_ns)), name: "time" },
      { low, high, marks: marks(low, high, 5).map((at) => ({ at, text: at.toString() })), name: "ADC counts" },
    );
    const across = (/** @type {number} */ value, /** @type {string} */ colour, /** @type {number[]} */ dashes) => {
      pen.strokeStyle = this.sheet.colour(colour);
      pen.setLineDash(dashes);
      pen.beginPath();
      pen.moveTo(left, y(value));
      pen.lineTo(right, y(value));
      pen.stroke();
      pen.setLineDash([]);
    };
    pen.fillStyle = this.sheet.colour("--rule");
    for (const [from, to] of gaps(least)) pen.fillRect(x(from), top, x(to) - x(from), bottom - top);
    const per_tick = wide / (waveform.end - waveform.begin);
    pen.fillStyle = this.sheet.colour("--attention");
    waveform.hits?.time.forEach((time, at) => {
      const from = x(time * per_tick);
      const to = x((time + (waveform.hits?.length[at] ?? 0)) * per_tick);
      pen.globalAlpha = 0.22;
      pen.fillRect(from, top, Math.max(2, to - from), bottom - top);
      pen.globalAlpha = 1;
      pen.fillRect(from, top, Math.max(2, to - from), 3);
    });
    if (pedestal !== null) {
      across(pedestal, "--quiet", [2, 4]);
      if (threshold !== null) across(pedestal + threshold, "--attention", [6, 4]);
    }
    pen.strokeStyle = this.sheet.colour("--accent");
    pen.lineWidth = 1.2;
    pen.beginPath();
    let is_open = false;
    least.forEach((bottom_value, column) => {
      const top_value = greatest[column];
      if (bottom_value === null || top_value === null) {
        is_open = false;
        return;
      }
      const middle = x(column + 0.5);
      if (is_open) pen.lineTo(middle, y(bottom_value));
      else pen.moveTo(middle, y(bottom_value));
      if (top_value !== bottom_value) pen.lineTo(middle, y(top_value));
      is_open = true;
    });
    pen.stroke();
  }
}
