// What is in the window of a decision, on a canvas: channel against time, charge as colour.

import { Sheet, marks, thirds } from "./axes.js";
import { grouped, span } from "./format.js";

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
    this.sheet = new Sheet("event");
    this.element = this.sheet.element;
    /** @type {Event | null} */
    this.event = null;
    /** @type {{x: number, y: number}[]} */
    this.places = [];
    this.sheet.canvas.addEventListener("click", (click) => {
      const at = nearest(this.places, click.offsetX, click.offsetY);
      if (this.event && at >= 0) chosen(this.event, at);
    });
  }

  /** @param {Event | null} event */
  show(event) {
    this.event = event;
    this.sheet.entitle(event ? told(event) : "No decision yet");
    const pen = this.sheet.begin();
    this.places = [];
    if (!pen || !event) return;
    const { decision, primitives, activities, ticks_per_s } = event;
    const { low, high } = extent(event);
    const ticks = decision.end - decision.begin;
    const grid = marks(low, high, 6).filter(Number.isInteger);
    const { x, y } = this.sheet.axes(
      { low: 0, high: ticks, marks: thirds(ticks, (part) => span((part * ticks * 1e9) / ticks_per_s)), name: "time after the begin of the window" },
      { low, high, marks: grid.map((at) => ({ at, text: at.toString() })), name: "channel" },
    );
    const { time, channel, length, charge } = primitives;
    const [least, greatest] = [charge.reduce((a, b) => Math.min(a, b), Infinity), charge.reduce((a, b) => Math.max(a, b), 0)];
    time.forEach((tick, at) => {
      const wide = Math.max(3, x(tick + length[at]) - x(tick));
      this.places.push({ x: x(tick) + wide / 2, y: y(channel[at]) });
      pen.fillStyle = colour_of(share(charge[at], least, greatest));
      pen.fillRect(x(tick), y(channel[at]) - 1.5, wide, 3);
    });
    pen.strokeStyle = this.sheet.colour("--ink");
    pen.lineWidth = 1;
    for (const { begin, end, channel_first, channel_last } of activities) {
      const [from, to] = [Math.max(0, begin), Math.min(ticks, end)].map(x);
      pen.strokeRect(from - 4, y(channel_last) - 4, to - from + 8, y(channel_first) - y(channel_last) + 8);
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
