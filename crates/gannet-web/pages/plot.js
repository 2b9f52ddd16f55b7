// Lines over time on a canvas.

import { Sheet } from "./axes.js";
import { si } from "./format.js";

/**
 * Values for grid lines from 0 to at least `most`: 1, 2 or 5 times a power of ten apart.
 * @param {number} most
 * @param {number} lines
 */
export function ticks(most, lines) {
  if (!(most > 0)) return [0, 1];
  const rough = most / lines;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((it) => it >= rough * 0.999) ?? 10 * power;
  const count = Math.ceil((most / step) * 0.999);
  return Array.from({ length: count + 1 }, (_, at) => at * step);
}

/**
 * Points of the line in pieces: a value that is no number ends a piece.
 * @template {{value: number}} Point
 * @param {Point[]} points
 */
export function pieces(points) {
  /** @type {Point[][]} */
  const found = [];
  let is_open = false;
  for (const point of points) {
    if (!Number.isFinite(point.value)) {
      is_open = false;
      continue;
    }
    if (!is_open) found.push([]);
    is_open = true;
    found[found.length - 1].push(point);
  }
  return found;
}

/**
 * Seconds that a line of these points needs: more as there are more, to `most`.
 * @param {{at: number}[]} points
 * @param {number} most
 */
export function width_s(points, most) {
  const needed = points.length === 0 ? 0 : points[points.length - 1].at - points[0].at;
  return [20, 60].find((it) => it >= needed && it < most) ?? most;
}

/**
 * Draws the pieces of a line.
 * @param {CanvasRenderingContext2D} pen
 * @param {{at: number, value: number}[]} points
 * @param {(at: number) => number} x
 * @param {(value: number) => number} y
 */
export function line(pen, points, x, y) {
  for (const piece of pieces(points)) {
    pen.beginPath();
    piece.forEach(({ at, value }, place) => {
      if (place === 0) pen.moveTo(x(at), y(value));
      pen.lineTo(x(at) + (piece.length === 1 ? 1 : 0), y(value));
    });
    pen.stroke();
  }
}

/** One figure over the last minutes. */
export class Plot {
  /**
   * @param {string} title
   * @param {string} unit
   * @param {number} window_s
   */
  constructor(title, unit, window_s) {
    this.title = title;
    this.unit = unit;
    this.window_s = window_s;
    this.sheet = new Sheet();
    this.element = this.sheet.element;
  }

  /** @param {{at: number, value: number}[]} points */
  show(points) {
    const last = points.at(-1);
    const now = last && Number.isFinite(last.value) ? si(last.value, this.unit) : "–";
    this.sheet.entitle(`${this.title} ${now}`);
    const pen = this.sheet.begin();
    if (!pen) return;
    const finite = points.filter((point) => Number.isFinite(point.value));
    const grid = ticks(Math.max(0, ...finite.map((point) => point.value)), 3);
    const wide = width_s(points, this.window_s);
    const before = (/** @type {number} */ s) => ({ at: -s, text: s === 0 ? "now" : `−${s} s` });
    const { x, y } = this.sheet.axes(
      { low: -wide, high: 0, marks: [wide, wide / 2, 0].map(before) },
      { low: 0, high: grid[grid.length - 1], marks: grid.map((at) => ({ at, text: si(at, this.unit) })) },
    );
    pen.strokeStyle = this.sheet.colour("--accent");
    pen.lineWidth = 1.5;
    line(pen, points, (at) => x(at - (last?.at ?? 0)), y);
  }
}
