// The spectrum of the samples of a channel, on a canvas.

import { Sheet, decades, marks } from "./axes.js";
import { si } from "./format.js";
import { line } from "./plot.js";

/**
 * What the server tells of the frequencies in the samples of a channel.
 * @typedef {object} Spectrum
 * @property {number} channel
 * @property {string} stream
 * @property {number} plane
 * @property {string} window
 * @property {number} segment
 * @property {number} segments
 * @property {number} step_hz
 * @property {number[]} density ADC counts per square root of Hz
 * @property {number} frames
 * @property {number} found
 */

/**
 * The strongest frequency, without the first that the mean leaks into; nothing where there is none.
 * @param {Spectrum} spectrum
 */
export function peak({ density, step_hz }) {
  const at = density.reduce((best, value, at) => (at > 1 && value > (density[best] ?? 0) ? at : best), -1);
  return at < 0 ? null : { hz: at * step_hz, density: density[at] };
}

/**
 * The noise that the spectrum adds up to, in ADC counts.
 * @param {Spectrum} spectrum
 */
export function rms({ density, step_hz }) {
  return Math.sqrt(density.reduce((sum, value) => sum + value * value * step_hz, 0));
}

/**
 * The powers of ten between which all of a spectrum lies, but for its zeros.
 * @param {number[]} density
 */
export function range(density) {
  const known = density.filter((value) => value > 0);
  if (known.length === 0) return { low: 1e-3, high: 1 };
  const [low, high] = [known.reduce((a, b) => Math.min(a, b)), known.reduce((a, b) => Math.max(a, b))];
  const power = 10 ** Math.floor(Math.log10(low));
  return { low: Math.max(power, high / 1e6), high: Math.max(10 * power, 10 ** Math.ceil(Math.log10(high))) };
}

export class SpectrumPicture {
  constructor() {
    this.sheet = new Sheet("large");
    this.element = this.sheet.element;
  }

  /** @param {Spectrum} spectrum */
  show(spectrum) {
    const { channel, stream, plane, density, step_hz, segment, segments, window } = spectrum;
    const strongest = peak(spectrum);
    const noise = strongest === null ? "" : `, ${rms(spectrum).toFixed(1)} ADC counts in all, strongest at ${si(strongest.hz, "Hz")}`;
    const mean = segments === 0 ? "no samples without a gap" : `mean of ${segments} × ${segment} samples, ${window} window`;
    this.sheet.entitle(`Channel ${channel} of ${stream}, plane ${plane}${noise} (${mean})`);
    const pen = this.sheet.begin();
    if (!pen) return;
    const most = Math.max(1, (density.length - 1) * step_hz);
    const { low, high } = range(density);
    const { x, y } = this.sheet.axes(
      { low: 0, high: most, marks: marks(0, most, 8).map((at) => ({ at, text: si(at, "Hz") })), name: "frequency" },
      { low, high, is_log: true, marks: decades(low, high).map((at) => ({ at, text: at >= 0.001 ? at.toString() : at.toExponential() })), name: "ADC counts per √Hz" },
    );
    pen.strokeStyle = this.sheet.colour("--accent");
    pen.lineWidth = 1.2;
    line(pen, density.map((value, at) => ({ at: at * step_hz, value: Math.max(value, low) })), x, y);
  }
}
