// The live panel: what the judge has found so far, event by event.

import { byId, element } from "./dom.js";
import * as figures from "./figures.js";
import * as findings from "./findings.js";
import { say, verdictWords } from "./page.js";

/** @type {Record<string, string>} */
const MARKS = { accepted: "✓", running: "…", judge_error: "!", unsupported: "?" }; // beside the word, never alone
/** @type {Record<string, string>} */
const TONES = { accepted: "good", running: "muted", judge_error: "warn", unsupported: "warn" };

/** @param {string} verdict "running", too */
function badge(verdict) {
  const words = verdict === "running" ? say("running") : verdictWords(verdict);
  return element("span", { class: `verdict-word ${TONES[verdict] ?? "bad"}` },
    element("span", { "aria-hidden": "true" }, MARKS[verdict] ?? "✗"), ` ${words}`);
}

/** Case names may break after each underscore. @param {string} name */
const breakable = (name) => name.split(/(?<=_)/).flatMap((part) => [part, element("wbr")]);

export class Results {
  /** @param {(line: number) => void} onLine */
  constructor(onLine) {
    this.onLine = onLine;
    this.panel = byId("results");
    /** @type {ReturnType<typeof findings.marksOfCompiler>} */
    this.marks = [];
    /** @type {import("./findings.js").Finding[]} */
    this.found = [];
    /** @type {Map<string, HTMLTableRowElement>} by "case NAME" or "benchmark NAME" */
    this.rows = new Map();
    /** @type {Map<string, HTMLElement>} the bodies of the tables of cases and benchmarks */
    this.tables = new Map();
    this.begun = 0; // how often it was emptied
    this.clear("");
  }

  /** @param {string} judged the text that the next events are about */
  clear(judged) {
    this.begun += 1;
    this.lines = judged.split("\n");
    this.marks = [];
    this.found = [];
    this.rows.clear();
    this.tables.clear();
    this.panel.replaceChildren();
    this.panel.hidden = true;
  }

  /** @param {any} event @returns {boolean} whether there are new marks */
  show(event) {
    this.panel.hidden = false;
    const count = this.marks.length + this.found.length;
    switch (event.type) {
      case "compiled": this.compiled(event); break;
      case "case_started": case "benchmark_started": this.started(event); break;
      case "case_finished": this.case(event); break;
      case "benchmark_finished": this.benchmark(event); break;
      case "finished": this.finished(event); break;
      case "cancelled": this.ended(); break;
    }
    return this.marks.length + this.found.length > count;
  }

  /** @returns every mark so far */
  allMarks() {
    return [...this.marks, ...findings.marksOf(this.found)];
  }

  /** @param {any} event */
  compiled({ ok, log, diagnostics, seconds }) {
    this.marks = findings.marksOfCompiler(diagnostics ?? []);
    const words = say(ok ? "compiled" : "not_compiled", { time: figures.duration(seconds) });
    this.panel.append(element("p", { class: ok ? "muted" : "bad" }, words));
    const errors = findings.compilerList(this.marks, this.lines, this.onLine);
    if (errors) this.panel.append(errors);
    if (log) {
      const summary = element("summary", {}, say("compiler_log"));
      const output = element("pre", { tabIndex: 0, "aria-label": say("compiler_log"), role: "region" }, log);
      this.panel.append(element("details", { class: "log", open: !ok && !errors }, summary, output));
    }
  }

  /** @param {"case" | "benchmark"} kind @returns {HTMLElement} the body of the table of such rows */
  table(kind) {
    const there = this.tables.get(kind);
    if (there) return there;
    const heads = ["name", "verdict", kind === "case" ? "error" : "score", "time"];
    const head = element("tr", {}, ...heads.map((key) => element("th", { scope: "col" }, say(`column_${key}`))));
    const body = element("tbody");
    this.panel.append(element("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": say(`${kind}s`) },
      element("table", {}, element("caption", {}, say(`${kind}s`)), element("thead", {}, head), body)));
    this.tables.set(kind, body);
    return body;
  }

  /**
   * Replaces the row of that name, or adds it.
   * @param {string} type of the event @param {string} name @param {(Node | string)[]} cells behind the name
   */
  row(type, name, cells) {
    const kind = type.startsWith("case") ? "case" : "benchmark";
    const body = this.table(kind);
    const made = () => /** @type {HTMLTableRowElement} */ (body.appendChild(element("tr")));
    const row = this.rows.get(`${kind} ${name}`) ?? made();
    this.rows.set(`${kind} ${name}`, row);
    const head = element("th", { scope: "row" }, ...breakable(name));
    row.replaceChildren(head, ...cells.map((cell) => element("td", {}, cell)));
    return row;
  }

  /** @param {any} event */
  started({ type, name }) {
    this.row(type, name, [badge("running"), "", ""]);
  }

  /** @param {any} event */
  case(event) {
    const cells = [badge(event.verdict), figures.ratio(event.ratio), figures.duration(event.seconds)];
    const row = this.row(event.type, event.name, cells);
    this.found.push(...event.findings);
    const details = [findings.list(event.findings, this.onLine), this.output(event)].filter(Boolean);
    if (details.length) {
      row.classList.add("has-detail");
      row.after(element("tr", { class: "detail" }, element("td", { colSpan: 4 }, ...details)));
    }
  }

  /** @param {{stdout: string, name: string}} event */
  output({ stdout, name }) {
    if (!stdout) return null;
    const label = say("printed_by", { name });
    return element("figure", {}, element("figcaption", {}, say("printed")),
      element("pre", { tabIndex: 0, role: "region", "aria-label": label }, stdout));
  }

  /** @param {any} event */
  benchmark(event) {
    const score = figures.score(event.score) + (event.modelled ? ` ${say("modelled")}` : "");
    this.row(event.type, event.name, [badge(event.verdict), score, figures.duration(event.seconds)]);
  }

  /** @param {any} event */
  finished(event) {
    const news = findings.newsOf(event, this.marks);
    this.found.push(...news);
    const listed = findings.list(news, this.onLine);
    if (listed) this.panel.append(listed);
    const log = this.panel.querySelector(".log");
    const said = log?.querySelector("pre")?.textContent?.trim();
    if (news.some((finding) => finding.message.trim() === said)) log?.remove(); // the log holds no more than that
    this.ended();
    const words = summary(event);
    this.panel.prepend(element("p", { class: "outcome" }, badge(event.verdict), words && ` — ${words}`));
  }

  // A row that was still running when all ended says so no longer.
  ended() {
    for (const row of this.rows.values()) {
      if (row.querySelector(".muted")) row.cells[1].replaceChildren("–");
    }
  }

  /**
   * A link in place of the judge's note that names options of the command line.
   * @param {{fits: string, url: string, instead_of: string}} advice
   */
  advise({ fits, url, instead_of: note }) {
    for (const item of this.panel.querySelectorAll(".findings > li")) {
      if (note && item.querySelector(".message")?.textContent === note) item.remove();
    }
    const words = fits ? say("other_track", { track: fits }) : say("no_solve");
    const link = element("a", fits ? { href: url } : { href: "#signature" }, say(fits ? "open_track" : "signature"));
    this.panel.querySelector(".outcome")?.after(element("p", { class: "advice" }, `${words} `, link));
  }

  /** @param {string} url */
  link(url) {
    this.panel.append(element("p", {}, element("a", { href: url }, say("whole_report"))));
  }
}

/**
 * "11 of 12 cases passed in 3.4 s; score 43.1 (modelled)"; "" where no case ran.
 * @param {any} event of type "finished"
 */
export function summary({ passed, total, seconds, score, modelled, tier }) {
  const parts = [];
  if (total) parts.push(say("passed", { passed, total, time: figures.duration(seconds) }));
  if (typeof score === "number") {
    const words = [say("score", { score: figures.score(score) }), modelled ? say("modelled") : "", tier];
    parts.push(words.filter(Boolean).join(" "));
  }
  return parts.join("; ");
}
