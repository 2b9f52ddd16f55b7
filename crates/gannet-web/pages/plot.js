// Lines over time on a canvas.

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
 * @param {{at: number, value: number}[]} points
 */
export function pieces(points) {
  /** @type {{at: number, value: number}[][]} */
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

/** One figure over the last minutes. */
export class Plot {
  /**
   * @param {string} title
   * @param {string} unit
   * @param {number} window_s
   */
  constructor(title, unit, window_s) {
    this.unit = unit;
    this.window_s = window_s;
    this.title = title;
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.caption = document.createElement("figcaption");
    this.element = document.createElement("figure");
    this.element.append(this.caption, this.canvas);
  }

  /** @param {{at: number, value: number}[]} points */
  show(points) {
    const last = points.at(-1);
    const now = last && Number.isFinite(last.value) ? si(last.value, this.unit) : "–";
    this.caption.textContent = `${this.title} ${now}`;
    this.canvas.setAttribute("aria-label", `${this.title}, now ${now}`);
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

    const finite = points.filter((point) => Number.isFinite(point.value));
    const grid = ticks(Math.max(0, ...finite.map((point) => point.value)), 3);
    const most = grid[grid.length - 1];
    const labels = grid.map((value) => si(value, this.unit));
    const left = Math.ceil(Math.max(...labels.map((label) => context.measureText(label).width))) + 8;
    const [top, bottom, right] = [8, height - 18, width - 4];
    const end = last ? last.at : 0;
    const wide = width_s(points, this.window_s);
    const x = (/** @type {number} */ at) => right - ((end - at) / wide) * (right - left);
    const y = (/** @type {number} */ value) => bottom - (value / most) * (bottom - top);

    context.fillStyle = colour("--quiet");
    context.strokeStyle = colour("--rule");
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    grid.forEach((value, at) => {
      const line = Math.round(y(value)) + 0.5;
      context.beginPath();
      context.moveTo(left, line);
      context.lineTo(right, line);
      context.stroke();
      context.fillText(labels[at], left - 6, line);
    });
    context.textBaseline = "bottom";
    for (const before of [wide, wide / 2, 0]) {
      context.textAlign = before === 0 ? "right" : before === wide ? "left" : "center";
      context.fillText(before === 0 ? "now" : `−${before} s`, x(end - before), height - 1);
    }

    context.strokeStyle = colour("--accent");
    context.lineWidth = 1.5;
    for (const piece of pieces(points)) {
      context.beginPath();
      piece.forEach((point, at) => {
        if (at === 0) context.moveTo(x(point.at), y(point.value));
        else context.lineTo(x(point.at), y(point.value));
      });
      context.stroke();
    }
  }
}
