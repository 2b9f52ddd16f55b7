// Numbers and times as people read them.

/** Thin, and never at the end of a line. */
const SPACE = "\u202f";

/** @type {[number, string][]} */
const PREFIXES = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
];

/**
 * A whole number, its digits in groups of three.
 * @param {number} value
 */
export function grouped(value) {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, SPACE);
}

/**
 * Three digits, a prefix and the unit.
 * @param {number} value
 * @param {string} unit
 */
export function si(value, unit) {
  const [factor, prefix] = PREFIXES.find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  const scaled = value / factor;
  const digits = scaled === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(scaled))));
  const text = scaled.toFixed(Math.min(digits, 2));
  return `${text}${SPACE}${prefix}${unit}`;
}

/**
 * Hours, minutes and seconds.
 * @param {number} seconds
 */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (/** @type {number} */ value) => value.toString().padStart(2, "0");
  return `${two(Math.floor(whole / 3600))}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}

/**
 * A time of nanoseconds to seconds.
 * @param {number} ns
 */
export function span(ns) {
  if (ns >= 1e9) return `${(ns / 1e9).toFixed(2)}${SPACE}s`;
  if (ns < 1e3) return `${Math.round(ns)}${SPACE}ns`;
  const [value, unit] = ns >= 1e6 ? [ns / 1e6, "ms"] : [ns / 1e3, "µs"];
  return `${value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)}${SPACE}${unit}`;
}

/**
 * A number, or two bounds of it.
 * @param {number} least
 * @param {number} most
 */
export function bounds(least, most) {
  return most > least ? `${grouped(least)} to ${grouped(most)}` : grouped(least);
}

/**
 * The name of a stage or reason of the ledger, in words.
 * @param {string} name
 */
export function spelled(name) {
  return name.replaceAll("_", " ");
}

/**
 * The value of a figure of the history.
 * @param {number} value
 * @param {string} unit
 */
export function amount(value, unit) {
  if (unit === "s" && Math.abs(value) < 100) return value === 0 ? `0${SPACE}s` : span(1e9 * value);
  if (unit === "s") return `${clock(value)}`;
  if (unit !== "") return si(value, unit);
  return Number.isInteger(value) && Math.abs(value) < 1e5 ? value.toString() : Number(value.toPrecision(3)).toString();
}

/**
 * A time by the clock on the wall.
 * @param {number} seconds since 1970
 * @param {boolean} is_fine whether seconds matter
 */
export function time_of_day(seconds, is_fine) {
  const time = new Date(1000 * seconds);
  const parts = [time.getHours(), time.getMinutes(), ...(is_fine ? [time.getSeconds()] : [])];
  return parts.map((value) => value.toString().padStart(2, "0")).join(":");
}

/**
 * A day by the calendar on the wall.
 * @param {number} seconds since 1970
 */
export function day(seconds) {
  const time = new Date(1000 * seconds);
  const parts = [time.getFullYear(), time.getMonth() + 1, time.getDate()];
  return parts.map((value) => value.toString().padStart(2, "0")).join("-");
}

/**
 * The value of a figure that only one kind of detector has.
 * @param {any} value
 */
export function figure(value) {
  if ("count" in value) return grouped(value.count);
  if ("ns" in value) return `99 % within ${span(value.ns.p99)}`;
  if ("share" in value) {
    const { part, of } = value.share;
    return of > 0 ? `${((100 * part) / of).toFixed(1)} %` : "–";
  }
  if ("estimate" in value) return `${value.estimate.value.toFixed(1)} (${value.estimate.assumes})`;
  return "–";
}
