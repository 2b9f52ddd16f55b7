// The channels of a stream over time, as colours on a canvas.

import { Sheet, thirds } from "./axes.js";
import { span } from "./format.js";

/**
 * What the server tells of the samples of a stream.
 * @typedef {object} Waterfall
 * @property {string} stream
 * @property {number} begin
 * @property {number} end
 * @property {number} ticks_per_s
 * @property {number} columns
 * @property {number[]} rows first channel of each
 * @property {(number | null)[]} values row by row, ADC counts above the pedestal
 * @property {number} frames
 * @property {number} found
 */

/** Room for the scale of colours at the right, in pixels. */
const SCALE = 64;

/**
 * The value that has the strongest colour: the furthest from the pedestal, and never a hair's breadth.
 * @param {(number | null)[]} values
 */
export function strongest(values) {
  return values.reduce((/** @type {number} */ most, value) => Math.max(most, Math.abs(value ?? 0)), 10);
}

/**
 * How strong the colour of a value is, from -1 to 1: by its square root, so that noise is seen beside pulses.
 * @param {number} value
 * @param {number} most
 */
export function strength(value, most) {
  return Math.sign(value) * Math.sqrt(Math.min(1, Math.abs(value) / most));
}

/** The parts of a colour such as `#0b6e8f`. */
export function rgb(/** @type {string} */ colour) {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
}

/**
 * The colour between that of the pedestal and those of the furthest.
 * @param {number} part -1 to 1
 * @param {{below: number[], zero: number[], above: number[]}} colours
 */
export function mixed(part, { below, zero, above }) {
  const to = part < 0 ? below : above;
  return zero.map((own, at) => Math.round(own + Math.abs(part) * (to[at] - own)));
}

export class WaterfallPicture {
  /** @param {(channel: number) => void} chosen */
  constructor(chosen) {
    this.sheet = new Sheet("large chosen");
    this.element = this.sheet.element;
    /** @type {Waterfall | null} */
    this.latest = null;
    /** Where the cells are. */
    this.area = { left: 0, right: 1, top: 0, bottom: 1, y: (/** @type {number} */ row) => row };
    this.sheet.canvas.addEventListener("click", (event) => {
      const cell = this.at(event.offsetX, event.offsetY);
      if (cell) chosen(cell.channel);
    });
    this.sheet.canvas.addEventListener("mousemove", (event) => {
      const cell = this.at(event.offsetX, event.offsetY);
      if (cell) this.sheet.caption.textContent = `Channel ${cell.channel}, after ${span(cell.ns)}: ${cell.text}`;
    });
  }

  /**
   * The cell at a place of the picture.
   * @param {number} x
   * @param {number} y
   */
  at(x, y) {
    if (!this.latest) return null;
    const { columns, rows, values, begin, end, ticks_per_s } = this.latest;
    const { left, right, top, bottom } = this.area;
    const column = Math.floor(((x - left) / (right - left)) * columns);
    const row = Math.floor(((bottom - y) / (bottom - top)) * rows.length);
    if (column < 0 || column >= columns || row < 0 || row >= rows.length) return null;
    const value = values[row * columns + column];
    const text = value === null ? "no frame" : `${value > 0 ? "+" : ""}${value} ADC counts from the pedestal`;
    return { channel: rows[row], ns: ((column / columns) * (end - begin) * 1e9) / ticks_per_s, text };
  }

  /**
   * Shows the channels of a stream, of which one is selected.
   * @param {Waterfall} waterfall
   * @param {number} selected
   */
  show(waterfall, selected) {
    this.latest = waterfall;
    const { stream, columns, rows, values, frames, found } = waterfall;
    const missing = found < frames ? `, ${frames - found} of ${frames} frames not there` : "";
    if (!this.sheet.canvas.matches(":hover")) this.sheet.entitle(`Stream ${stream}, ${rows.length} channels${missing}`);
    const pen = this.sheet.begin();
    if (!pen || rows.length === 0) return;
    const time_ns = (1e9 * (waterfall.end - waterfall.begin)) / waterfall.ticks_per_s;
    const step = Math.ceil(rows.length / 12);
    const named = rows.map((channel, at) => ({ at: at + 0.5, text: channel.toString() }));
    this.area = this.sheet.axes(
      { low: 0, high: columns, marks: thirds(columns, (part) => span(part * time_ns)), name: "time" },
      { low: 0, high: rows.length, marks: named.filter((_, at) => at % step === 0), name: "channel" },
      SCALE,
    );
    const { left, right, top, bottom } = this.area;
    const most = strongest(values);
    const colours = { below: rgb(this.sheet.colour("--below")), zero: rgb(this.sheet.colour("--panel")), above: rgb(this.sheet.colour("--above")) };
    const gap = rgb(this.sheet.colour("--rule"));
    const dots = new ImageData(columns, rows.length);
    values.forEach((value, at) => {
      const row = rows.length - 1 - Math.floor(at / columns);
      const colour = value === null ? gap : mixed(strength(value, most), colours);
      dots.data.set([...colour, 255], 4 * (row * columns + (at % columns)));
    });
    const cells = new OffscreenCanvas(columns, rows.length);
    cells.getContext("2d")?.putImageData(dots, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(cells, left, top, right - left, bottom - top);
    const place = rows.findLastIndex((first) => first <= selected);
    pen.fillStyle = this.sheet.colour("--accent");
    if (place >= 0) pen.fillRect(left - 4, this.area.y(place + 1), 4, Math.max(2, (bottom - top) / rows.length));
    this.scale(pen, most, colours);
  }

  /**
   * Draws which colour is which value.
   * @param {CanvasRenderingContext2D} pen
   * @param {number} most
   * @param {{below: number[], zero: number[], above: number[]}} colours
   */
  scale(pen, most, colours) {
    const { right, top, bottom } = this.area;
    const [from, high] = [right + 10, bottom - top];
    for (let at = 0; at < high; at += 1) {
      pen.fillStyle = `rgb(${mixed(1 - (2 * at) / high, colours).join(" ")})`;
      pen.fillRect(from, top + at, 12, 1.5);
    }
    pen.fillStyle = this.sheet.colour("--quiet");
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    for (const part of [1, 0.5, 0, -0.5, -1]) {
      const value = Math.round(most * part * Math.abs(part));
      pen.fillText(value > 0 ? `+${value}` : value.toString().replace("-", "−"), from + 16, top + ((1 - part) / 2) * high);
    }
    pen.textAlign = "right";
    pen.textBaseline = "top";
    pen.fillText("ADC − pedestal", right + SCALE - 2, 2);
  }
}
