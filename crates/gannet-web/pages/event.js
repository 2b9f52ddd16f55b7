// What is in the window of a decision, on a canvas: channel against time, charge as colour.

import { grouped, span } from "./format.js";
import { marks } from "./trace.js";

/**
 * @typedef {object} Event
 * @property {{number: number, kind: string, time: number, begin: number, end: number}} decision
 * @property {boolean} is_complete
 * @property {{begin: number, end: number, channel_first: number, channel_last: number}[]} activities
 * @property {number} from
 * @property {number} ticks_per_s
 * @property {number} kept
 * @property {number} seen
 * @property {{time: number[], channel: number[], length: number[], charge: number[]}} primitives
 */

/** Space around the picture, in pixels. */
const EDGE = { top: 8, bottom: 20, right: 6 };
/** How far from a primitive a click still means it, in pixels. */
const REACH = 12;

/**
 * The channels to show, with a margin.
 * @param {Event} event
 */
export function extent({ primitives, activities }) {
  const all = [...primitives.channel, ...activities.flatMap((it) => [it.channel_first, it.channel_last])];
  if (all.length === 0) return { low: 0, high: 1 };
  const [low, high] = [all.reduce((a, b) => Math.min(a, b)), all.reduce((a, b) => Math.max(a, b))];
  const margin = Math.max(2, 0.03 * (high - low));
  return { low: low - margin, high: high + margin };
}

/**
 * Where a charge is between the least and the greatest, by powers: 0 to 1.
 * @param {number} charge
 * @param {number} least
 * @param {number} greatest
 */
export function share(charge, least, greatest) {
  const log = (/** @type {number} */ value) => Math.log(Math.max(1, value));
  return greatest > least ? (log(charge) - log(least)) / (log(greatest) - log(least)) : 0.5;
}

/**
 * The colour of a share: from blue over violet to orange, which stand out from light and dark alike.
 * @param {number} part
 */
export function colour_of(part) {
  return `hsl(${Math.round(220 + 170 * part) % 360} 75% 52%)`;
}

/**
 * The primitive nearest to a place, if one is near.
 * @param {{x: number, y: number}[]} places
 * @param {number} x
 * @param {number} y
 */
export function nearest(places, x, y) {
  let [found, best] = [-1, REACH * REACH];
  places.forEach((place, at) => {
    const distance = (place.x - x) ** 2 + (place.y - y) ** 2;
    if (distance <= best) [found, best] = [at, distance];
  });
  return found;
}

export class EventPicture {
  /** @param {(event: Event, at: number) => void} chosen */
  constructor(chosen) {
    this.canvas = document.createElement("canvas");
    this.canvas.className = "event";
    this.canvas.setAttribute("role", "img");
    this.caption = document.createElement("figcaption");
    this.element = document.createElement("figure");
    this.element.append(this.caption, this.canvas);
    /** @type {Event | null} */
    this.event = null;
    /** @type {{x: number, y: number}[]} */
    this.places = [];
    this.canvas.addEventListener("click", (click) => {
      const at = nearest(this.places, click.offsetX, click.offsetY);
      if (this.event && at >= 0) chosen(this.event, at);
    });
  }

  /** @param {Event | null} event */
  show(event) {
    this.event = event;
    const text = event ? told(event) : "No decision yet";
    this.caption.textContent = text;
    this.canvas.setAttribute("aria-label", text);
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const density = window.devicePixelRatio || 1;
    if (width === 0 || height === 0) return;
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(height * density);
    const context = this.canvas.getContext("2d");
    this.places = [];
    if (!context || !event) return;
    const style = getComputedStyle(this.canvas);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(name);
    context.scale(density, density);
    context.font = `11px ${style.fontFamily}`;

    const { decision, primitives, activities, ticks_per_s } = event;
    const { low, high } = extent(event);
    const ticks = decision.end - decision.begin;
    const grid = marks(low, high, 6).filter(Number.isInteger);
    const labels = grid.map((value) => value.toString());
    const left = Math.ceil(Math.max(...labels.map((label) => context.measureText(label).width), 0)) + 8;
    const [top, bottom, right] = [EDGE.top, height - EDGE.bottom, width - EDGE.right];
    const x = (/** @type {number} */ tick) => left + (tick / ticks) * (right - left);
    const y = (/** @type {number} */ channel) => bottom - ((channel - low) / (high - low)) * (bottom - top);

    context.fillStyle = colour("--quiet");
    context.strokeStyle = colour("--rule");
    context.textAlign = "right";
    context.textBaseline = "middle";
    grid.forEach((value, at) => {
      const line = Math.round(y(value)) + 0.5;
      context.beginPath();
      context.moveTo(left, line);
      context.lineTo(right, line);
      context.stroke();
      context.fillText(labels[at], left - 6, line);
    });
    context.textBaseline = "bottom";
    for (const part of [0, 0.5, 1]) {
      context.textAlign = part === 0 ? "left" : part === 1 ? "right" : "center";
      const text = part === 0 ? "0" : span((part * ticks * 1e9) / ticks_per_s);
      context.fillText(text, x(part * ticks), height - 2);
    }

    const { time, channel, length, charge } = primitives;
    const [least, greatest] = [charge.reduce((a, b) => Math.min(a, b), Infinity), charge.reduce((a, b) => Math.max(a, b), 0)];
    time.forEach((tick, at) => {
      const wide = Math.max(3, x(tick + length[at]) - x(tick));
      this.places.push({ x: x(tick) + wide / 2, y: y(channel[at]) });
      context.fillStyle = colour_of(share(charge[at], least, greatest));
      context.fillRect(x(tick), y(channel[at]) - 1.5, wide, 3);
    });
    context.strokeStyle = colour("--ink");
    context.lineWidth = 1;
    for (const { begin, end, channel_first, channel_last } of activities) {
      const [from, to] = [Math.max(0, begin), Math.min(ticks, end)].map(x);
      context.strokeRect(from - 4, y(channel_last) - 4, to - from + 8, y(channel_first) - y(channel_last) + 8);
    }
  }
}

/**
 * An event in words.
 * @param {Event} event
 */
export function told({ decision, primitives, activities, kept, seen, is_complete }) {
  const count = primitives.time.length;
  const sample = kept < seen ? `, a fair sample: ${grouped(kept)} of ${grouped(seen)}` : "";
  const activity = activities.length === 1 ? "1 activity" : `${activities.length} activities`;
  const rest = is_complete ? "" : ", still coming";
  const channels = new Set(primitives.channel).size;
  return `Record ${decision.number}, ${decision.kind}: ${grouped(count)} primitives on ${grouped(channels)} channels${sample}, ${activity}${rest}`;
}
