// Snapshots as they come, and how old the last one is.

/** Time without a snapshot after which figures are no longer shown as live, in milliseconds. */
export const STALE_MS = 2000;

/** @typedef {import("./rates.js").Snapshot} Snapshot */

/** The events of the server. Those of a hidden page are not asked for. */
export class Feed {
  /**
   * @param {(snapshot: Snapshot) => void} told
   * @param {(silent_ms: number | null, is_refused: boolean) => void} aged
   */
  constructor(told, aged) {
    this.told = told;
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
      return;
    }
    if (this.events) return;
    this.last = performance.now();
    this.events = new EventSource("/api/v1/events?topics=snapshot");
    this.events.addEventListener("snapshot", (event) => {
      this.last = performance.now();
      this.is_refused = false;
      this.told(JSON.parse(event.data));
    });
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
