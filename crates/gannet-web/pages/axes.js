// A canvas with axes: what every picture of the pages is drawn on.

/**
 * A scale of values along one side of a picture.
 * @typedef {object} Axis
 * @property {number} low
 * @property {number} high
 * @property {{at: number, text: string}[]} marks
 * @property {string} [name] what the values are, and their unit
 * @property {boolean} [is_log] whether equal distances are equal ratios
 */

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
 * Powers of ten from `low` to `high`.
 * @param {number} low
 * @param {number} high
 */
export function decades(low, high) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => 10 ** (first + at));
}

/**
 * Where a value lies on an axis, from 0 to 1.
 * @param {Axis} axis
 * @param {number} value
 */
export function place({ low, high, is_log }, value) {
  if (is_log) return Math.log(value / low) / Math.log(high / low);
  return (value - low) / (high - low);
}

/** A figure with a caption and a canvas. */
export class Sheet {
  /** @param {string} [classes] of the canvas */
  constructor(classes = "") {
    this.canvas = document.createElement("canvas");
    this.canvas.className = classes;
    this.canvas.setAttribute("role", "img");
    this.caption = document.createElement("figcaption");
    this.element = document.createElement("figure");
    this.element.append(this.caption, this.canvas);
    /** @type {CSSStyleDeclaration | null} */
    this.style = null;
    /** @type {CanvasRenderingContext2D | null} */
    this.pen = null;
  }

  /**
   * Says what is to be seen, to those who do not see it too.
   * @param {string} text
   */
  entitle(text) {
    if (this.caption.textContent !== text) this.caption.textContent = text;
    this.canvas.setAttribute("aria-label", text);
  }

  /** Columns of dots that the picture has. */
  columns() {
    const density = window.devicePixelRatio || 1;
    return Math.min(2048, Math.max(64, Math.round((this.canvas.clientWidth || 1024) * density)));
  }

  /** An empty sheet as large as it is shown; nothing where it is not. */
  begin() {
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const density = window.devicePixelRatio || 1;
    const pen = this.canvas.getContext("2d");
    if (width === 0 || height === 0 || !pen) return null;
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(height * density);
    this.style = getComputedStyle(this.canvas);
    pen.scale(density, density);
    pen.font = `11px ${this.style.fontFamily}`;
    this.pen = pen;
    return pen;
  }

  /** @param {string} name of a colour of the pages */
  colour(name) {
    return this.style?.getPropertyValue(name).trim() ?? "";
  }

  /**
   * Draws axes, with `margin` pixels free at the right, and tells where values lie.
   * @param {Axis} across
   * @param {Axis} up
   * @param {number} [margin]
   */
  axes(across, up, margin = 6) {
    const pen = /** @type {CanvasRenderingContext2D} */ (this.pen);
    const wide = Math.max(0, ...up.marks.map(({ text }) => pen.measureText(text).width));
    const [left, right] = [Math.ceil(wide) + 8, this.canvas.clientWidth - margin];
    const [top, bottom] = [up.name ? 20 : 8, this.canvas.clientHeight - (across.name ? 32 : 18)];
    const x = (/** @type {number} */ value) => left + place(across, value) * (right - left);
    const y = (/** @type {number} */ value) => bottom - place(up, value) * (bottom - top);
    pen.strokeStyle = this.colour("--rule");
    pen.fillStyle = this.colour("--quiet");
    pen.lineWidth = 1;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (const { at, text } of up.marks) {
      const line = Math.round(y(at)) + 0.5;
      pen.beginPath();
      pen.moveTo(left, line);
      pen.lineTo(right, line);
      pen.stroke();
      pen.fillText(text, left - 6, line);
    }
    pen.textBaseline = "top";
    for (const { at, text } of across.marks) {
      const half = pen.measureText(text).width / 2;
      pen.textAlign = x(at) - half < left ? "left" : x(at) + half > right ? "right" : "center";
      pen.fillText(text, x(at), bottom + 5);
    }
    pen.textAlign = "center";
    if (across.name) pen.fillText(across.name, (left + right) / 2, bottom + 19);
    pen.textAlign = "left";
    if (up.name) pen.fillText(up.name, 0, 2);
    return { x, y, left, right, top, bottom };
  }
}

/**
 * Time from the begin of a picture to its end: nothing, half and all of it.
 * @param {number} whole in whatever unit the axis has
 * @param {(part: number) => string} text for a part of it
 * @returns {{at: number, text: string}[]}
 */
export function thirds(whole, text) {
  return [0, 0.5, 1].map((part) => ({ at: part * whole, text: part === 0 ? "0" : text(part) }));
}
