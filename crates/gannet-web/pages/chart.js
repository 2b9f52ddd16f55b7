// A figure over hours, on a canvas: its mean as a line, from its least to its greatest as a band.

import { Sheet, marks } from "./axes.js";
import { amount, time_of_day } from "./format.js";
import { line, pieces, ticks } from "./plot.js";

/**
 * What the server tells of a figure over some time.
 * @typedef {object} Course
 * @property {string} figure
 * @property {string} unit
 * @property {number} begin first second since 1970
 * @property {number} step seconds of each value
 * @property {(number | null)[]} least
 * @property {(number | null)[]} mean
 * @property {(number | null)[]} greatest
 */

/** Seconds from one mark to the next. */
const STEPS = [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600];
/** Least pixels that are a choice of time and no click. */
const DRAG = 8;

/**
 * Round times between two, at most `most` of them, by the clock on the wall.
 * @param {number} from seconds since 1970
 * @param {number} to
 * @param {number} most
 * @param {number} offset_s how far the clock on the wall is ahead of UTC
 */
export function times(from, to, most, offset_s) {
  const step = STEPS.find((it) => (to - from) / it <= most) ?? 43200;
  const first = Math.ceil((from + offset_s) / step) * step - offset_s;
  return Array.from({ length: Math.max(0, Math.floor((to - first) / step) + 1) }, (_, at) => first + at * step);
}

/**
 * The range of a figure and lines in it, with nothing at the bottom unless it is negative.
 * @param {Course} course
 */
export function grid({ least, greatest }) {
  const known = (/** @type {(number | null)[]} */ values) => values.filter((value) => value !== null);
  const [low, high] = [known(least).reduce((a, b) => Math.min(a, b), 0), known(greatest).reduce((a, b) => Math.max(a, b), 0)];
  if (low < 0) return { low: 1.05 * low, high: Math.max(0, 1.05 * high), lines: marks(1.05 * low, Math.max(0, 1.05 * high), 4) };
  const lines = ticks(high, 3);
  return { low, high: lines[lines.length - 1], lines };
}

export class Chart {
  /** @param {(from: number, to: number) => void} chosen seconds since 1970 */
  constructor(chosen) {
    this.sheet = new Sheet("course");
    this.element = this.sheet.element;
    this.scale = { from: 0, to: 1, left: 0, right: 1 };
    const at = (/** @type {MouseEvent} */ event) => {
      const { from, to, left, right } = this.scale;
      return from + Math.min(1, Math.max(0, (event.offsetX - left) / (right - left))) * (to - from);
    };
    let [begin, x] = [0, 0];
    this.sheet.canvas.addEventListener("pointerdown", (event) => ([begin, x] = [at(event), event.offsetX]));
    this.sheet.canvas.addEventListener("pointerup", (event) => {
      const end = at(event);
      if (Math.abs(event.offsetX - x) >= DRAG) chosen(Math.min(begin, end), Math.max(begin, end));
    });
  }

  /**
   * @param {Course} course
   * @param {number} from seconds since 1970
   * @param {number} to
   */
  show(course, from, to) {
    const { figure, unit, begin, step, least, mean, greatest } = course;
    const last = mean.findLast((value) => value !== null) ?? null;
    this.sheet.entitle(`${figure} ${last === null ? "–" : amount(last, unit)}`);
    const pen = this.sheet.begin();
    if (!pen) return;
    const { low, high, lines } = grid(course);
    const offset_s = -60 * new Date(1000 * to).getTimezoneOffset();
    const wide = Math.max(2, Math.floor(this.sheet.canvas.clientWidth / 90));
    const across = times(from, to, wide, offset_s).map((at) => ({ at, text: time_of_day(at, to - from < 600) }));
    const up = lines.map((at) => ({ at, text: amount(at, unit) }));
    const { x, y, left, right, bottom } = this.sheet.axes({ low: from, high: to, marks: across }, { low, high, marks: up });
    this.scale = { from, to, left, right };
    const points = mean.map((value, at) => ({ at: begin + (at + 0.5) * step, value: value ?? Number.NaN, place: at }));
    const shown = points.filter(({ at }) => at >= from - step && at <= to + step);
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, right - left, bottom + 1);
    pen.clip();
    pen.fillStyle = this.sheet.colour("--accent");
    pen.globalAlpha = 0.22;
    for (const piece of pieces(shown)) {
      pen.beginPath();
      for (const { at, place } of piece) pen.lineTo(x(at), y(greatest[place] ?? 0));
      for (const { at, place } of piece.toReversed()) pen.lineTo(x(at), y(least[place] ?? 0));
      pen.fill();
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = this.sheet.colour("--accent");
    pen.lineWidth = 1.5;
    line(pen, shown, x, y);
    pen.restore();
  }
}
