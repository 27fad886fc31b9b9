// The live panel: what the judge has found so far, event by event.

import { byId, element } from "./dom.js";
import * as figures from "./figures.js";
import * as findings from "./findings.js";
import { say, verdictWords } from "./page.js";

const MARKS = { accepted: "✓", running: "…", judge_error: "!", unsupported: "?" }; // beside the word, never alone
const toneOf = (/** @type {string} */ verdict) =>
  ({ accepted: "good", running: "muted", judge_error: "warn", unsupported: "warn" })[verdict] ?? "bad";

/** @param {string} verdict "running", too */
function badge(verdict) {
  const words = verdict === "running" ? say("running") : verdictWords(verdict);
  return element("span", { class: `verdict-word ${toneOf(verdict)}` },
    element("span", { "aria-hidden": "true" }, MARKS[verdict] ?? "✗"), ` ${words}`);
}

/** Case names may break after each underscore. @param {string} name */
const breakable = (name) => name.split(/(?<=_)/).flatMap((part) => [part, element("wbr")]);

export class Results {
  /** @param {(line: number) => void} onLine */
  constructor(onLine) {
    this.onLine = onLine;
    this.panel = byId("results");
    this.clear();
  }

  clear() {
    this.marks = [];
    this.found = [];
    this.rows = new Map();
    this.tables = new Map();
    this.panel.replaceChildren();
    this.panel.hidden = true;
  }

  /** @param {any} event @returns {boolean} whether there are new marks */
  show(event) {
    this.panel.hidden = false;
    const count = this.marks.length + this.found.length;
    const draw = {
      compiled: this.compiled, case_started: this.started, case_finished: this.case, benchmark_started: this.started,
      benchmark_finished: this.benchmark, finished: this.finished, cancelled: this.ended,
    }[event.type];
    draw?.call(this, event);
    return this.marks.length + this.found.length > count;
  }

  /** @returns every mark so far */
  allMarks() {
    return [...this.marks, ...findings.marksOf(this.found)];
  }

  compiled({ ok, log, diagnostics, seconds }) {
    this.marks = findings.marksOfCompiler(diagnostics ?? []);
    const words = say(ok ? "compiled" : "not_compiled", { time: figures.duration(seconds) });
    this.panel.append(element("h3", { class: ok ? "good" : "bad" }, words));
    const errors = findings.compilerList(this.marks, this.onLine);
    if (errors) this.panel.append(errors);
    if (log) {
      const output = element("pre", { tabIndex: 0, "aria-label": say("compiler_log"), role: "region" }, log);
      this.panel.append(element("details", { open: !ok && !errors }, element("summary", {}, say("compiler_log")), output));
    }
  }

  /** @param {"case" | "benchmark"} kind @returns {HTMLElement} the body of the table of such rows */
  table(kind) {
    if (!this.tables.has(kind)) {
      const heads = ["name", "verdict", kind === "case" ? "error" : "score", "time"];
      const body = element("tbody");
      const head = element("tr", {}, ...heads.map((key) => element("th", { scope: "col" }, say(`column_${key}`))));
      this.panel.append(element("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": say(`${kind}s`) },
        element("table", {}, element("caption", {}, say(`${kind}s`)), element("thead", {}, head), body)));
      this.tables.set(kind, body);
    }
    return this.tables.get(kind);
  }

  /** @param {string} type @param {string} name @param {(Node | string)[]} cells replace those of the row of that name */
  row(type, name, cells) {
    const kind = type.startsWith("case") ? "case" : "benchmark";
    const body = this.table(kind);
    const row = this.rows.get(`${kind} ${name}`) ?? body.appendChild(element("tr"));
    this.rows.set(`${kind} ${name}`, row);
    row.replaceChildren(element("th", { scope: "row" }, ...breakable(name)), ...cells.map((cell) => element("td", {}, cell)));
    return row;
  }

  started({ type, name }) {
    this.row(type, name, [badge("running"), "", ""]);
  }

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

  output({ stdout, name }) {
    if (!stdout) return null;
    return element("figure", {}, element("figcaption", {}, say("printed")),
      element("pre", { class: "printed", tabIndex: 0, role: "region", "aria-label": say("printed_by", { name }) }, stdout));
  }

  benchmark(event) {
    const score = figures.score(event.score) + (event.modelled ? ` ${say("modelled")}` : "");
    this.row(event.type, event.name, [badge(event.verdict), score, figures.duration(event.seconds)]);
  }

  finished(event) {
    this.found.push(...event.findings);
    const listed = findings.list(event.findings, this.onLine);
    if (listed) this.panel.append(listed);
    this.ended();
    const line = element("p", { class: "outcome" }, badge(event.verdict), ` — ${summary(event)}`);
    this.panel.prepend(line);
  }

  // A row that was still running when all ended says so no longer.
  ended() {
    for (const row of this.rows.values()) {
      if (row.querySelector(".muted")) row.cells[1].replaceChildren("–");
    }
  }

  /** @param {string} url */
  link(url) {
    this.panel.append(element("p", {}, element("a", { href: url }, say("whole_report"))));
  }
}

/** @param {any} event of type "finished" @returns {string} "11 of 12 cases passed in 3.4 s; score 43.1 (modelled)" */
export function summary({ passed, total, seconds, score, modelled, tier }) {
  const parts = [];
  if (total) parts.push(say("passed", { passed, total, time: figures.duration(seconds) }));
  if (typeof score === "number") {
    parts.push(say("score", { score: figures.score(score) }) + (modelled ? ` ${say("modelled")}` : "") + (tier ? ` ${tier}` : ""));
  }
  return parts.join("; ") || figures.duration(seconds);
}
