// Snapshots as they come, how old the last one is, and what the station is about.

/** Time without a snapshot after which figures are no longer shown as live, in milliseconds. */
export const STALE_MS = 2000;

/** @typedef {import("./rates.js").Snapshot} Snapshot */

/**
 * Looks on very slowly while this page is hidden, so that the program knows that somebody is there. One page of all does
 * it: a browser has few connections.
 */
function look_on() {
  navigator.locks?.request("gannet looks on", { ifAvailable: true }, (lock) => {
    if (!lock || !document.hidden) return;
    const events = new EventSource("/api/v1/events?topics=station&rate=0.1");
    return new Promise((seen) => document.addEventListener("visibilitychange", seen, { once: true })).then(() => events.close());
  });
}

/** The events of the server. Those of a hidden page are not asked for. */
export class Feed {
  /**
   * @param {(snapshot: Snapshot) => void} told
   * @param {(station: import("./station.js").Station) => void} followed
   * @param {(silent_ms: number | null, is_refused: boolean) => void} aged
   */
  constructor(told, followed, aged) {
    this.told = told;
    this.followed = followed;
    this.last = performance.now();
    this.is_refused = false;
    /** @type {EventSource | null} */
    this.events = null;
    document.addEventListener("visibilitychange", () => this.follow());
    setInterval(() => {
      const silent = performance.now() - this.last;
      aged(silent > STALE_MS && !document.hidden ? silent : null, this.is_refused);
    }, 500);
    this.follow();
  }

  /** Listens while the page is seen. */
  follow() {
    if (document.hidden) {
      this.events?.close();
      this.events = null;
      look_on();
      return;
    }
    if (this.events) return;
    this.last = performance.now();
    this.events = new EventSource("/api/v1/events?topics=snapshot,station");
    this.events.addEventListener("snapshot", (event) => {
      this.last = performance.now();
      this.is_refused = false;
      this.told(JSON.parse(event.data));
    });
    this.events.addEventListener("station", (event) => this.followed(JSON.parse(event.data)));
    this.events.addEventListener("error", () => this.failed());
  }

  /** A browser gives up for good when it is refused; another run may be there later. */
  async failed() {
    if (this.events?.readyState !== EventSource.CLOSED) return;
    this.events = null;
    try {
      this.is_refused = (await fetch("/api/v1/snapshot")).status === 401;
    } catch {
      this.is_refused = false;
    }
    setTimeout(() => this.follow(), 1000);
  }
}
