// One judging after another: send, follow, show, cancel, and find it again after a reload.

import { byId } from "./dom.js";
import { fileName } from "./name.js";
import { page, say, verdictWords } from "./page.js";
import { Results, summary } from "./results.js";
import { Refusal, advised, cancel, newKey, submit } from "./server.js";
import { follow } from "./stream.js";

const RETRY = [2, 4, 8, 15]; // seconds between tries while the server is gone; the last one again and again

/** @type {Map<string | number, string>} texts by code, else by status */
const REFUSALS = new Map([["queue_full", "queue_full"], [403, "stale_page"], [413, "too_large"], [429, "too_many"]]);

/**
 * @typedef {object} Desk what the editor side offers
 * @property {() => string} source
 * @property {(marks: any[], judged: string) => void} mark
 * @property {(line: number, judged: string) => void} reveal
 */

export class Judging {
  /** @param {string} track @param {Desk} desk */
  constructor(track, desk) {
    this.memory = `judging:${track}`;
    this.desk = desk;
    this.judged = "";
    /** @type {{id: string, url: string, events_url: string} | null} what the server judges for us now */
    this.current = null;
    this.unwanted = false;
    this.results = new Results((line) => desk.reveal(line, this.judged));
    this.busy(false);
  }

  /** @param {string} words for eyes and screen readers */
  tell(words) {
    byId("judging-status").textContent = words;
    this.detail("");
  }

  /** What changes too often to be read out. @param {string} words */
  detail(words) {
    byId("judging-detail").textContent = words;
  }

  // Disabled by attribute only: a button that had the focus must not lose it.
  busy(/** @type {boolean} */ on) {
    this.isBusy = on;
    for (const id of ["run", "submit"]) byId(id).setAttribute("aria-disabled", String(on));
    byId("cancel").hidden = !on;
  }

  /** @param {"run" | "submit"} kind */
  async start(kind) {
    if (this.isBusy) return;
    const source = this.desk.source();
    if (!source.trim()) {
      this.tell(say("empty"));
      return;
    }
    if (new TextEncoder().encode(source).length > page.max_bytes) {
      this.tell(say("too_large", { size: page.max_bytes / 1024 }));
      return;
    }
    this.clear(source);
    this.busy(true);
    this.tell(say("sending"));
    this.unwanted = false;
    const made = await this.send({ kind, source, name: fileName(), device: this.device() });
    if (!made) { this.busy(false); return; }
    this.remember({ ...made, source });
    this.follow(made);
    if (this.unwanted) await this.cancel(); // asked for while it was under way
  }

  device() {
    const choice = /** @type {HTMLSelectElement | null} */ (document.getElementById("device"));
    return choice?.value || "auto";
  }

  clear(/** @type {string} */ source) {
    this.judged = source;
    this.results.clear(source);
    this.desk.mark([], source);
  }

  /** Shows all marks anew, such as in another editor. */
  remark() {
    this.desk.mark(this.results.allMarks(), this.judged);
  }

  /**
   * Tries until the server answers; null when it refuses, which is said.
   * @param {{kind: "run" | "submit", source: string, name: string, device: string}} submission
   */
  async send(submission) {
    const key = newKey();
    for (let tries = 0; ; tries += 1) {
      try {
        return await submit(submission, key);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        if (error.status !== 0) { await this.refused(error); return null; }
        if (tries === 0) this.tell(say("server_gone"));
        if (await this.countdown(RETRY[Math.min(tries, RETRY.length - 1)])) continue;
        this.tell(say("cancelled"));
        return null;
      }
    }
  }

  /** @param {Refusal} refusal */
  async refused({ status, code, message, wait }) {
    const values = { seconds: wait || 1, size: page.max_bytes / 1024, why: message || String(status) };
    const words = say(REFUSALS.get(code) ?? REFUSALS.get(status) ?? "refused", values);
    this.tell(words);
    if (!wait) return;
    this.tell(await this.countdown(wait) ? say("try_again") : words);
  }

  /** Counts seconds down in sight. @param {number} seconds @returns {Promise<boolean>} false when it was cancelled */
  async countdown(seconds) {
    for (let left = seconds; left > 0; left -= 1) {
      this.detail(say("seconds_left", { seconds: left }));
      await new Promise((resolve) => { setTimeout(resolve, 1000); });
      if (this.unwanted) return false;
    }
    this.detail("");
    return true;
  }

  remember(/** @type {any} */ judging) {
    try { sessionStorage.setItem(this.memory, JSON.stringify(judging)); } catch { /* then a reload forgets it */ }
  }

  forget() {
    try { sessionStorage.removeItem(this.memory); } catch { /* nothing was kept */ }
  }

  /** Shows the last judging of this tab again, which may still run. */
  resume() {
    /** @type {any} */
    let made = null;
    try { made = JSON.parse(sessionStorage.getItem(this.memory) ?? "null"); } catch { /* as if there were none */ }
    if (typeof made?.events_url !== "string" || this.isBusy) return;
    this.clear(made.source);
    this.busy(true);
    this.follow(made);
  }

  /** @param {{id: string, url: string, events_url: string}} made */
  follow(made) {
    this.current = made;
    const submission = `${page.submissions_url}/${encodeURIComponent(made.id)}`;
    follow({ events: made.events_url, submission }, {
      onEvent: (event) => this.receive(event),
      onLost: () => this.tell(say("connection_lost")),
      onBack: () => this.tell(say("connection_back")),
      onMissing: () => {
        this.current = null; // or cancelling the next one, not sent yet, would ask for this
        this.forget();
        this.busy(false);
        this.tell(say("missing"));
      },
    });
  }

  receive(/** @type {any} */ event) {
    if (event.type === "restarted") this.clear(this.judged);
    else if (this.results.show(event)) this.remark();
    const stage = this.stage(event);
    if (stage) this.tell(stage);
    else if (event.total && event.type.endsWith("_started")) this.detail(say("running_case", event));
    if (event.type !== "finished" && event.type !== "cancelled") return;
    this.busy(false);
    if (this.current) this.ended(page.report_url + encodeURIComponent(this.current.id), event);
    this.current = null;
  }

  /** @param {string} report its address @param {any} event the last one */
  async ended(report, event) {
    this.results.link(report);
    if (event.verdict !== "compile_error") return;
    const made = this.results.begun;
    const advice = await advised(report);
    if (advice && made === this.results.begun) this.results.advise(advice); // unless the next judging has begun
  }

  /** What is read out: stages and the end; cases only in sight. @returns {string} */
  stage(/** @type {any} */ event) {
    switch (event.type) {
      case "position":
      case "queued": return event.position > 1 ? say("queued", event) : say("next");
      case "compiling": return say("compiling");
      case "compiled": return event.ok ? "" : say("not_compiled", { time: "" });
      case "device_ready": return say("device_ready", { name: event.name });
      case "case_started": return event.number === 1 ? say("cases_running", event) : "";
      case "calibrating": return say("calibrating");
      case "benchmark_started": return event.number === 1 ? say("benchmarks_running", event) : "";
      case "counting_resources": return say("counting_resources");
      case "restarted": return say("restarted", { why: event.why });
      case "finished":
        return say("finished", { verdict: verdictWords(event.verdict), summary: summary(event) }).trimEnd();
      case "cancelled": return say("cancelled");
      default: return "";
    }
  }

  async cancel() {
    this.unwanted = true;
    if (!this.current) return; // not sent yet, or already over
    this.tell(say("cancelling"));
    try {
      await cancel(this.current.id);
    } catch (error) {
      this.tell(say(error instanceof Refusal && error.status === 403 ? "stale_page" : "not_cancelled"));
    }
  }
}
