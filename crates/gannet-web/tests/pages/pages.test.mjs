// What the pages compute, without a browser: `node --test`.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import { decades, marks, place, thirds } from "../../pages/axes.js";
import { address as call_address, calls, members, template } from "../../pages/api.js";
import { without_decisions, without_samples } from "../../pages/absent.js";
import { accounts, outcome, verdict } from "../../pages/break.js";
import { limit } from "../../pages/alarms.js";
import { grid, times } from "../../pages/chart.js";
import { address as history_address, first, wanted as wanted_history } from "../../pages/history.js";
import { mask, outstanding, range as figure_range } from "../../pages/channels.js";
import { colour_of, extent, nearest, share, told } from "../../pages/event.js";
import { amount, bounds, clock, figure, grouped, si, span, time_of_day } from "../../pages/format.js";
import { condition } from "../../pages/overview.js";
import { between, chain, damage, drops } from "../../pages/pipeline.js";
import { summary, wanting } from "../../pages/hardware.js";
import { found, opening, soundness, wanted as wanted_run } from "../../pages/files.js";
import { pieces, ticks, width_s } from "../../pages/plot.js";
import { behind, largest, rates, wanted as wanted_record } from "../../pages/triggers.js";
import { History, Recent, yielded } from "../../pages/rates.js";
import { address, wanted } from "../../pages/signals.js";
import { peak, range as density_range, rms } from "../../pages/spectrum.js";
import { state_of, verdict as run_verdict } from "../../pages/station.js";
import { gaps, range } from "../../pages/trace.js";
import { mixed, rgb, strength, strongest } from "../../pages/waterfall.js";

const plain = (text) => text.replaceAll("\u202f", " ");

/** A snapshot at a time, with so many frames so far. */
function snapshot(clock_s, frames, run = 1) {
  const stream = { frames, primitives: frames / 100 };
  return { clock_s, run, sources: [{ frames, bytes: frames * 7200 }], streams: [stream], ledger: [], specific: [], recorder: { records: 3 } };
}

test("numbers are grouped, and have a prefix and unit", () => {
  assert.equal(plain(grouped(31204112)), "31 204 112");
  assert.equal(plain(grouped(999)), "999");
  assert.equal(plain(si(7.031e9, "bit/s")), "7.03 Gbit/s");
  assert.equal(plain(si(122_071, "/s")), "122 k/s");
  assert.equal(plain(si(0, "/s")), "0 /s");
  assert.equal(plain(si(0.5, "/s")), "0.50 /s");
  assert.equal(clock(3 * 60 + 12.9), "00:03:12");
  assert.equal(clock(100 * 3600), "100:00:00");
  assert.deepEqual([7, 7807, 4_849_663, 2.5e9].map(span).map(plain), ["7 ns", "7.81 µs", "4.85 ms", "2.50 s"]);
  assert.equal(bounds(5, 5), "5");
  assert.equal(plain(bounds(5, 1200)), "5 to 1 200");
});

test("a rate is a difference over the time on the clock of the run", () => {
  const recent = new Recent();
  assert.equal(recent.rate((it) => it.sources[0].frames), undefined);
  for (let at = 0; at <= 30; at += 1) recent.add(snapshot(at / 10, 1000 * at));
  assert.ok(Math.abs(recent.rate((it) => it.sources[0].frames) - 10_000) < 1e-6);
  assert.ok(recent.kept.length <= 12, "only a second is kept");
  recent.add(snapshot(0.1, 5, 2));
  assert.equal(recent.rate((it) => it.sources[0].frames), undefined, "another run begins anew");
});

test("the history has gaps where no snapshot came, and forgets what is old", () => {
  const history = new History(120, 0.5);
  for (let at = 0; at < 400; at += 1) history.add(snapshot(at / 10, 100 * at));
  const steady = history.rates("frames");
  assert.ok(steady.length > 70 && steady.every(({ value }) => Math.abs(value - 1000) < 1e-6));
  history.add(snapshot(100, 100_000));
  assert.ok(Number.isNaN(history.rates("frames").at(-1).value), "nobody knows what was between");
  history.add(snapshot(300, 100_000));
  assert.ok(history.points.length === 1, "what is older than the window is gone");
  history.add(snapshot(1, 0, 2));
  assert.equal(history.points.length, 1);
});

test("a line ends where there is no value, and its scale is round", () => {
  const points = [1, 2, NaN, 4, NaN, NaN, 7].map((value, at) => ({ at, value }));
  assert.deepEqual(pieces(points).map((piece) => piece.map(({ value }) => value)), [[1, 2], [4], [7]]);
  assert.deepEqual(ticks(122_000, 3), [0, 50_000, 100_000, 150_000]);
  assert.deepEqual(ticks(100, 2), [0, 50, 100]);
  assert.deepEqual(ticks(0, 3), [0, 1]);
  for (const most of [1e-3, 0.7, 1, 3, 9.99, 12345, 7e9]) assert.ok(ticks(most, 3).at(-1) >= most * 0.999);
  assert.deepEqual([[], [{ at: 3 }, { at: 30 }], [{ at: 0 }, { at: 99 }]].map((it) => width_s(it, 120)), [20, 60, 120]);
});

test("losses come first, and what nobody has explained is one", () => {
  const why = (reason, is_loss) => [reason, { reason, meaning: "It was.", advice: null, is_loss }];
  const reasons = new Map([["source", new Map([why("empty", false), why("kernel_queue", true)])]]);
  const dropped = [["empty", 3], ["kernel_queue", 2], ["never", 0], ["new_one", 1]].map(([reason, count]) => ({ reason, count }));
  const list = drops({ stage: "source", dropped }, reasons);
  assert.deepEqual(list.map(({ name, count, is_loss }) => [name, count, is_loss]), [
    ["kernel queue", 2, true],
    ["new one", 1, true],
    ["empty", 3, false],
  ]);
  assert.equal(drops({ stage: "unknown", dropped }, reasons).length, 3);
  const told = (stage, damaged, unreachable) => damage({ stage }, { damaged, unreachable }).map(({ name, count }) => [name, count]);
  assert.deepEqual(told("records", 6, 0), [["miss data", 6]]);
  assert.deepEqual(told("records", 6, 4), [["miss a readout", 4], ["miss data", 2]]);
  assert.deepEqual([told("records", 0, 0), told("recorder", 6, 4)], [[], []]);
});

test("stages that follow one another are a chain, and the others are not", () => {
  const ledger = ["sent", "frames", "hits", "merge", "records", "busy", "recorder"].map((stage) => ({ stage }));
  const flow = ([from, to]) => ({ from, to, fill: null, age: null });
  const flows = [["sent", "frames"], ["frames", "hits"], ["frames", "merge"], ["merge", "busy"], ["merge", "records"], ["busy", "recorder"], ["records", "recorder"]].map(flow);
  assert.deepEqual(chain(ledger, flows), ["sent", "frames", "merge", "records", "recorder"]);
  assert.deepEqual(chain([], []), []);
  assert.deepEqual(chain([{ stage: "a" }, { stage: "b" }], []), ["a"], "nothing is said to follow");
  const told = between({ fill: 0.9, age: { since: "arrival", p99_ns: 1500 } });
  assert.deepEqual([told.fill, told.is_full, plain(told.age)], ["90 % full", true, "p99 1.50 µs"]);
  assert.deepEqual(between(undefined), { fill: "", is_full: false, age: "", meaning: "" });
});

test("a run is told by its records, or by what its detector finds", () => {
  const specific = [{ name: "slices", value: { count: 9 }, headline: false }, { name: "events", value: { count: 4 }, headline: true }];
  const recorder = { records: 3 };
  const asking = { ledger: [{ stage: "records" }], specific, recorder };
  assert.deepEqual(yielded(asking), { name: "records", count: 3 });
  assert.deepEqual(yielded({ ...asking, ledger: [] }), { name: "events", count: 4 });
  assert.deepEqual(yielded({ ...asking, ledger: [], specific: [] }), { name: "records", count: 3 });
  assert.equal(found({ decisions: 5, records: 3, headlines: [] }), "5 decisions, 3 records");
  assert.equal(found({ decisions: null, records: null, headlines: specific.slice(1) }), "4 events");
  assert.deepEqual(first(asking), ["data", "lost", "decisions", "arrival_to_decision"]);
  assert.deepEqual(first({ ...asking, ledger: [] }), ["data", "lost", "detector:events", "arrival_to_primitive"]);
});

test("a page with nothing to show says what is shown instead, and where", () => {
  const run = { state: "running", role: "all", shows: { samples: true, decisions: true } };
  assert.equal(without_samples(run) + without_decisions(run), "");
  const none = { ...run, shows: { samples: false, decisions: false } };
  for (const without of [without_samples, without_decisions]) {
    assert.match(without(none), /Overview.*History/);
    assert.match(without({ ...none, state: "initial" }), /once a run takes data/);
  }
  assert.match(without_samples({ ...none, role: "builder" }), /readout/);
  assert.match(without_decisions({ ...none, role: "readout" }), /builder/);
});

test("the state of a stream is told in words", () => {
  const channels = { dead: 0, noisy: 0 };
  const good = { frames: 1, stalled: false, set_apart: false, channels };
  assert.deepEqual(condition(good), { text: "good", mark: "" });
  const odd = [{ ...good, frames: 0 }, { ...good, stalled: true }, { ...good, set_apart: true }, { ...good, channels: { dead: 2, noisy: 1 } }];
  assert.ok(odd.every((stream) => condition(stream).mark === "attention"));
  assert.equal(condition(odd[3]).text, "1 noisy, 2 dead channels");
});

test("figures of a detector, and Python that opens a file", () => {
  assert.equal(plain(figure({ count: 1500 })), "1 500");
  assert.equal(figure({ share: { part: 1, of: 8 } }), "12.5 %");
  assert.equal(figure({ share: { part: 0, of: 0 } }), "–");
  assert.equal(plain(figure({ ns: { p99: 1500 } })), "99 % within 1.50 µs");
  assert.equal(figure({ estimate: { value: 1.25, assumes: "as now" } }), "1.3 (as now)");
  assert.ok(opening('odd"name.hdf5').includes('"odd\\"name.hdf5"'));
  assert.ok(opening("a.parquet").includes("read_table"));
  assert.equal(opening("a.glog"), "");
});

test("a waveform is drawn with its levels in sight, and frames that are not there are gaps", () => {
  const waveform = { least: [100, null, 90], greatest: [110, null, 400], pedestal: 95, threshold: 20 };
  const { low, high } = range(waveform);
  assert.ok(low < 90 && high > 400);
  const flat = range({ ...waveform, least: [100], greatest: [100], pedestal: 100, threshold: null });
  assert.ok(flat.high - flat.low >= 10, "never a hair's breadth");
  assert.ok(range({ ...waveform, least: [null], greatest: [null], threshold: 500 }).high > 595);
  assert.deepEqual(range({ ...waveform, least: [], greatest: [], pedestal: null }), { low: 0, high: 1 });
  assert.deepEqual(gaps([1, null, null, 2, null]), [[1, 3], [4, 5]]);
  assert.deepEqual(gaps([1, 2]), []);
  assert.deepEqual(marks(87, 131, 5), [90, 100, 110, 120, 130]);
  assert.deepEqual(marks(-3, 12, 3), [0, 5, 10]);
});

test("what is seen of the samples is in the address", () => {
  const none = { channel: null, frames: 4, end: null, view: "waveform" };
  assert.deepEqual(wanted(address(1234, 64)), { ...none, channel: 1234, frames: 64 });
  assert.deepEqual(wanted(address(7, 16, "spectrum")), { ...none, channel: 7, frames: 16, view: "spectrum" });
  assert.deepEqual(wanted("#/signals"), none);
  assert.equal(wanted("#/signals?view=spectrum").frames, 64, "a spectrum of few frames is rough");
  assert.equal(wanted("#/signals?view=constructor").view, "waveform");
  for (const wrong of ["channel=x&frames=5", "channel=-1&frames=1e9", "channel=99999999999"]) {
    assert.deepEqual(wanted(`#/signals?${wrong}`), none);
  }
});

test("faults that show at one place are added up and held against the truth", () => {
  const fault = (name, stage, reason, truth, counted) => ({ name, title: name, expect: "", stage, reason, did: "frames", truth, counted, chunks: null });
  const sums = accounts([
    fault("loss", "sent", "before_socket", 3, 8),
    fault("cut", "sent", "before_socket", 5, 8),
    fault("duplicate", "frames", "duplicate", 2, 1),
    fault("reorder", "streams", "late", 0, 4),
  ]);
  assert.deepEqual(sums.map(({ truth, counted }) => [truth, counted]), [[8, 8], [2, 1], [0, 4]]);
  const [agreed, behind, more] = sums.map(verdict);
  assert.ok(agreed.text.startsWith("sent: before socket") && agreed.text.endsWith("they agree.") && agreed.mark === "");
  assert.ok(behind.text.endsWith(", 1 not found so far.") && behind.mark === "attention");
  assert.ok(more.text.endsWith("another cause."));
  const injection = { number: 1, fault: "cut", stream: "100", channel: null, seconds: 5, suffered: 1234, under_way: true };
  const none = { chunks: null, most: 0 };
  assert.equal(plain(outcome(injection, none, [])), "On now: 1 234 frames of stream 100 suffered it.");
  const noise = { ...injection, fault: "noise", channel: 17, under_way: false };
  const loud = (condition) => [{ channel: 17, condition, recent_tp_rate_hz: 7600 }];
  assert.equal(plain(outcome(noise, none, loud("noisy"))), "Over: 1 234 hits in channel 17 of stream 100, which is named as noisy: 7.60 kHz.");
  for (const loudest of [[], loud("good")]) assert.ok(outcome(noise, none, loudest).endsWith("not named as noisy yet."));
  const stopped = { ...injection, fault: "stopped-trigger", stream: null, suffered: 1 };
  assert.equal(outcome(stopped, none, []), "On now: nothing is decided.");
  assert.equal(outcome({ ...stopped, under_way: false }, none, []), "Over: decisions are made again.");
  const disk = { ...injection, fault: "full-disk", stream: null, suffered: 1 };
  const written = (waiting, dropped) => ({ chunks: { waiting, dropped }, most: 70 });
  assert.equal(outcome(disk, written(60, 0), []), "On now: 60 chunks wait in memory; 0 were dropped since the run began.");
  const over = { ...disk, under_way: false };
  assert.equal(outcome(over, written(0, 3), []), "Over: up to 70 chunks waited and were written; 3 were dropped since the run began.");
});

test("channels that stand out are named, and noisy ones become a mask", () => {
  const channel = (number, condition, rate) => ({
    channel: number, stream: "A", plane: 0, figures: { condition, recent_tp_rate_hz: rate, pedestal: 1, rms: 2 },
  });
  const channels = [
    channel(30, "noisy", 7), channel(5, "masked", 0), channel(7, "good", 90), channel(9, "dead", 0),
    channel(100, "noisy", 80), { channel: 11, stream: "A", plane: 0, figures: null },
  ];
  assert.deepEqual(outstanding(channels).map((it) => it.channel), [100, 30, 5, 9]);
  assert.equal(mask(channels), "mask = [5, 30, 100]");
  assert.equal(mask([]), "mask = []");
  assert.deepEqual(figure_range([null, null]), { low: 0, high: 1 });
  const { low, high } = figure_range([0, 10, null]);
  assert.ok(low === 0 && high > 10);
  assert.ok(figure_range([8000, 8000]).low > 0 && figure_range([8000, 8000]).high > 8000);
});

test("the address names a record, and the samples behind a primitive", () => {
  assert.equal(wanted_record("#/triggers?record=17"), 17);
  for (const hash of ["#/triggers", "#/triggers?record=", "#/triggers?record=-1", "#/triggers?record=1e3"]) {
    assert.equal(wanted_record(hash), null);
  }
  const primitives = { time: [0, 4096], channel: [7, 9], length: [32, 64], charge: [5, 50] };
  const link = behind({ from: 112221202926859776, ticks_per_s: 62_500_000, primitives }, 1);
  assert.match(link, /^#\/signals\?channel=9&frames=4&end=11222120292686\d{4}$/);
  assert.deepEqual(largest(primitives.charge, 1), [1]);
  assert.deepEqual(wanted(link).end.length, 18);
});

test("decisions are counted by kind and second", () => {
  const at = (kind, at_s) => ({ kind, at_s });
  const found = rates([at("a", 3.5), at("a", 3.9), at("b", 4.1), at("a", 9.9), at("a", 1)], 2.5, 6.2);
  assert.deepEqual(found.get("a"), [{ at: 4, value: 2 }, { at: 5, value: 0 }, { at: 6, value: 0 }]);
  assert.deepEqual(found.get("b").map(({ value }) => value), [0, 1, 0]);
});

test("an event is told in words and colours, and a click finds what is near", () => {
  const primitives = { time: [0, 10], channel: [100, 200], length: [1, 1], charge: [10, 1000] };
  const event = { decision: { number: 3, kind: "Muon" }, primitives, activities: [], kept: 5, seen: 50, is_complete: false };
  assert.equal(told(event), "Record 3, Muon: 2 primitives on 2 channels, a fair sample: 5 of 50, 0 activities, still coming");
  assert.deepEqual(extent(event), { low: 97, high: 203 });
  assert.deepEqual([10, 100, 1000].map((charge) => share(charge, 10, 1000).toFixed(6)), ["0.000000", "0.500000", "1.000000"]);
  assert.equal(colour_of(0), "hsl(220 75% 52%)");
  const places = [{ x: 0, y: 0 }, { x: 10, y: 0 }];
  assert.deepEqual([nearest(places, 6, 0), nearest(places, 4, 3), nearest(places, 5, 40)], [1, 0, -1]);
});

test("axes are linear or by powers of ten, and say where values lie", () => {
  assert.deepEqual(decades(0.02, 300), [0.1, 1, 10, 100]);
  assert.deepEqual(decades(1, 1000), [1, 10, 100, 1000]);
  assert.equal(place({ low: 10, high: 30, marks: [] }, 15), 0.25);
  assert.ok(Math.abs(place({ low: 0.1, high: 1000, marks: [], is_log: true }, 10) - 0.5) < 1e-12);
  assert.deepEqual(thirds(8, (part) => `${part} s`), [{ at: 0, text: "0" }, { at: 4, text: "0.5 s" }, { at: 8, text: "1 s" }]);
});

test("a spectrum tells its peak, its sum, and the decades that it needs", () => {
  const density = [9, 9, 1, 4, 1];
  assert.deepEqual(peak({ density, step_hz: 100 }), { hz: 300, density: 4 }, "the mean is no frequency");
  assert.equal(peak({ density: [], step_hz: 100 }), null);
  assert.equal(rms({ density: [0, 3, 4], step_hz: 4 }), 10);
  const { low, high } = density_range([0, 0.03, 2]);
  assert.ok(low > 0 && low <= 0.03 && high >= 2);
  assert.deepEqual(density_range([]), { low: 1e-3, high: 1 });
});

test("colours of a waterfall go from the pedestal to the furthest", () => {
  assert.equal(strongest([3, null, -400, 20]), 400);
  assert.equal(strongest([1, null]), 10, "never a hair's breadth");
  assert.deepEqual([0, 25, -100, 400].map((value) => strength(value, 100)), [0, 0.5, -1, 1]);
  const colours = { below: rgb("#0000ff"), zero: rgb("#ffffff"), above: rgb("#ff8000") };
  assert.deepEqual(mixed(0, colours), [255, 255, 255]);
  assert.deepEqual(mixed(-1, colours), [0, 0, 255]);
  assert.deepEqual(mixed(0.5, colours), [255, 192, 128]);
});

test("what is seen of the history is in the address", () => {
  const shown = { figures: ["frames", "stream_frames:0/1/0/2", "detector:a,b & c"], span: 7200, to: 1_790_000_000 };
  assert.deepEqual(wanted_history(history_address(shown)), shown);
  assert.deepEqual(wanted_history(history_address({ ...shown, figures: [], to: null })), { figures: [], span: 7200, to: null });
  assert.deepEqual(wanted_history("#/history", ["frames"]).figures, ["frames"]);
  assert.equal(wanted_history("#/history?span=9999999").span, 86400);
  assert.equal(wanted_history(`#/history?${"f=a&f=b&".repeat(9)}f=c`).figures.length, 3);
});

test("times of a chart are round by the clock on the wall", () => {
  assert.deepEqual(times(1000, 1060, 6, 0), [1000, 1010, 1020, 1030, 1040, 1050, 1060]);
  assert.deepEqual(times(0, 7200, 5, 0), [0, 1800, 3600, 5400, 7200]);
  // Half an hour ahead of UTC, full hours are at half ones.
  assert.deepEqual(times(0, 4 * 3600, 5, 1800), [1800, 5400, 9000, 12600]);
  const course = { least: [3, null], mean: [4, null], greatest: [10, null] };
  assert.deepEqual(grid(course), { low: 0, high: 10, lines: [0, 5, 10] });
  assert.deepEqual(grid({ least: [null], greatest: [null] }).lines, [0, 1]);
  assert.deepEqual(grid({ least: [-10], greatest: [10] }), { low: -10.5, high: 10.5, lines: [-10, 0, 10] });
  assert.match(time_of_day(1_790_000_000, true), /^\d\d:\d\d:\d\d$/);
  assert.deepEqual([[0.0123, "s"], [0, "s"], [3600, "s"], [4e9, "B"], [0.12345, ""], [17, ""]].map(([value, unit]) => plain(amount(value, unit))), [
    "12.3 ms", "0 s", "01:00:00", "4.00 GB", "0.123", "17",
  ]);
});

test("the address names a run, and whether a file is sound is told in words", () => {
  assert.equal(wanted_run("#/files?run=17"), 17);
  for (const hash of ["#/files", "#/files?run=-1", "#/files?run=1e3"]) assert.equal(wanted_run(hash), null);
  const file = (check) => soundness({ bytes: 200, check });
  assert.equal(file(null).text, "");
  assert.equal(file({ state: "running", read: 50, elapsed_s: 3.7 }).text, "reading it, 25 %, for 3 s");
  assert.equal(file({ state: "running", read: null, elapsed_s: 0 }).text, "reading it, for 0 s");
  assert.equal(file({ state: "running", read: 900, elapsed_s: 1 }).text, "reading it, 99 %, for 1 s");
  assert.equal(file({ state: "over", sound: false, by_run: true, told: "" }).mark, "loss");
  assert.match(file({ state: "over", sound: true, by_run: true, told: "" }).text, /when the run ended/);
});

test("a rule is told in words", () => {
  const rule = { above: null, below: 600, clear: 900, unit: "s", hold_s: 30, quiet_s: 60 };
  assert.deepEqual(limit(rule), { raised: "below 00:10:00 for 30 s", cleared: "back at 00:15:00 for 60 s" });
  assert.deepEqual(limit({ ...rule, above: 0, below: null, clear: 0, unit: "/s", hold_s: 0 }), {
    raised: `above ${si(0, "/s")}`, cleared: "back for 60 s",
  });
});

test("the pages are small: 120 KB compressed, 800 lines of code that draw", () => {
  const folder = new URL("../../pages/", import.meta.url);
  const files = readdirSync(folder).map((name) => [name, readFileSync(new URL(name, folder), "utf8")]);
  const served = files.filter(([name]) => /\.(html|css|js|svg)$/.test(name));
  const bytes = served.reduce((sum, [, text]) => sum + gzipSync(text).length, 0);
  assert.ok(bytes < 120_000, `${bytes} bytes`);
  const drawing = served.filter(([, text]) => /\bpen\b/.test(text));
  const code = (text) => text.split("\n").filter((line) => !/^\s*(\/\/|\/?\*|$)/.test(line));
  const lines = drawing.reduce((sum, [, text]) => sum + code(text).length, 0);
  assert.ok(lines > 0 && lines < 800, `${lines} lines`);
  for (const [name, text] of served) assert.ok(!/innerHTML|outerHTML|insertAdjacent|document\.write|eval\(/.test(text), name);
});

test("a run that has ended says that it is drained and verified, and what was lost", () => {
  const verified = [{ file: "a", items: 1, missing: 0, problem: null }];
  const run = { number: 7, outcome: "good", failure: null, elapsed_s: 61, frames: 1000, frames_lost: 0, frames_lost_max: 0, decisions: 2, records: 2, headlines: [], verified };
  const good = run_verdict(run);
  assert.equal(plain(good.text), "Run 7 is drained: 1 of 1 files verified, 0 lost of 1 000 frames, 2 decisions, 2 records, 00:01:01");
  assert.equal(good.mark, "");
  const lossy = run_verdict({ ...run, outcome: "degraded", frames_lost: 5, frames_lost_max: 5 });
  assert.match(plain(lossy.text), /5 lost of 1 005 frames.*DEGRADED: data were lost$/);
  assert.equal(lossy.mark, "loss");
  const refused = run_verdict({ ...run, number: null, outcome: "failed", failure: "no disk", verified: [] });
  assert.deepEqual(refused, { text: "The run could not start: no disk", mark: "loss" });
});

test("the state is that of the run, or of the station where that is about to change it", () => {
  const station = (state) => ({ control: true, state, possible: [], run: 1, ended: 0, failure: null });
  assert.equal(state_of({ state: "running" }, null), "running");
  assert.equal(state_of({ state: "initial" }, station("idle")), "idle");
  assert.equal(state_of({ state: "stopped" }, station("idle")), "stopped");
  assert.equal(state_of({ state: "stopped" }, station("starting")), "starting");
  assert.equal(state_of({ state: "paused" }, station("paused")), "paused");
});

test("a description becomes calls, addresses and bodies", () => {
  const state = { $ref: "#/components/schemas/State", description: "Which one." };
  const properties = { fault: { type: "string", description: "Which.", examples: ["loss"] }, seconds: { type: "number", minimum: 0.1 }, stream: {}, state, maybe: { anyOf: [state, { type: "null" }] } };
  const wanted = { required: ["fault", "seconds", "state", "maybe"], properties };
  const number = { name: "number", in: "path", required: true, schema: { type: "integer" } };
  const last = { name: "last", in: "query", required: false, schema: { type: "integer", default: 5 } };
  const key = { name: "Idempotency-Key", in: "header", required: true, schema: { type: "string" } };
  const description = {
    components: { schemas: { Wanted: wanted, State: { oneOf: [{ const: "idle", description: "Rest." }, { const: "running" }] } } },
    paths: {
      "/r/{number}": { get: { summary: "One.", "x-role": "view", parameters: [number, last] } },
      "/f": { post: { summary: "Two.", "x-role": "operate", parameters: [key], requestBody: { content: { "application/json": { schema: { $ref: "#/components/schemas/Wanted" } } } } } },
    },
  };
  const [one, two] = calls(description);
  assert.deepEqual([one.method, one.path, one.body, two.method, two.role], ["GET", "/r/{number}", null, "POST", "operate"]);
  assert.deepEqual(two.parameters, [], "the key is made by the page");
  assert.equal(call_address(one, { number: "a/b", last: "" }), "/r/a%2Fb");
  assert.equal(call_address(one, { number: "7", last: "2" }), "/r/7?last=2");
  assert.deepEqual(JSON.parse(template(two.body)), { fault: "loss", seconds: 0.1, state: "idle", maybe: "idle" });
  assert.deepEqual(members(two.body).slice(0, 4), ["fault: Which.", "seconds: ", "stream: ", "state: Which one."]);
});

test("of the machine the worst is said first", () => {
  const checks = ["ok", "slow", "unknown", "bad", "ok"].map((verdict, at) => ({ name: `${at}`, value: "", verdict, reason: "", remedy: "" }));
  assert.deepEqual(wanting(checks).map(({ verdict }) => verdict), ["bad", "slow", "unknown"]);
  assert.equal(summary(checks), "1 bad, 1 slow, 1 not known, 2 fine");
});
