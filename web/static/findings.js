// Findings and compile diagnostics: as marks for the editor, and as a list whose lines are links into it.

import { element, linkButton } from "./dom.js";
import { kindWords, say, verdictWords } from "./page.js";

/**
 * @typedef {object} Finding one of the API's
 * @property {string} kind
 * @property {string} message
 * @property {number} line
 * @property {string} file
 * @property {string} kernel
 * @property {number[] | null} block
 * @property {number[] | null} thread
 * @property {{line: number, file: string, write: boolean, missing: boolean} | null} other
 */

const isOurs = (/** @type {string} */ file) => !file || file.endsWith(".cu"); // all others are headers
const isNote = (/** @type {Finding} */ finding) => finding.kind === "note";

/** @param {Finding} finding the line and file of its other side, or null where that is in no line of the user's */
function otherOf(finding) {
  const { other } = finding;
  if (!other || !(other.line > 0) || !isOurs(other.file) || other.line === finding.line) return null;
  return other;
}

/** @param {{missing: boolean, line: number}} other */
const otherWords = (other) => say(other.missing ? "missing_line" : "other_line", { line: other.line });

/**
 * What the finished event says beyond the compiler's own words, of which the first may come again without a line. A note
 * is why nothing was compiled, where that is the verdict.
 * @param {{verdict: string, findings: Finding[]}} finished
 * @param {{message: string}[]} marks of the compiler
 */
export function newsOf({ verdict, findings }, marks) {
  const words = (/** @type {Finding} */ finding) => finding.message.replace(/^.*?\berror\b[^:]*: /, "");
  const said = (/** @type {Finding} */ finding) => marks.some((mark) => mark.message.startsWith(words(finding)));
  if (verdict !== "compile_error") return findings;
  return findings.filter((finding) => finding.line > 0 || !said(finding))
    .map((finding) => (isNote(finding) ? { ...finding, kind: verdict } : finding));
}

/** @param {Finding[]} findings one mark for each kind on each line, however many cases found it */
export function marksOf(findings) {
  const marks = new Map();
  for (const finding of findings) {
    const key = `${finding.line} ${finding.kind}`;
    if (!(finding.line > 0) || !isOurs(finding.file) || marks.has(key)) continue;
    const other = otherOf(finding);
    marks.set(key, {
      line: finding.line,
      severity: isNote(finding) ? "info" : "error",
      title: kindWords(finding.kind),
      message: finding.message,
      other: other && { line: other.line, words: otherWords(other) },
    });
  }
  return [...marks.values()];
}

/** @param {{line: number, column: number, severity: "error" | "warning" | "info", message: string}[]} diagnostics */
export function marksOfCompiler(diagnostics) {
  return diagnostics.map((diagnostic) => ({ ...diagnostic, title: say("compiler"), other: null }));
}

/** @param {Finding} finding "kernel attend<128>, block (0, 0, 0), thread (3, 0, 0)" */
function place(finding) {
  const numbers = (/** @type {number[]} */ at) => `(${at.join(", ")})`;
  const parts = [];
  if (finding.kernel) parts.push(say("kernel", { name: finding.kernel }));
  if (finding.block) parts.push(say("block", { at: numbers(finding.block) }));
  if (finding.thread) parts.push(say("thread", { at: numbers(finding.thread) }));
  return parts.length ? element("small", {}, parts.join(", ")) : null;
}

/** @param {number} line @param {string} words @param {(line: number) => void} onLine */
const lineLink = (line, words, onLine) => linkButton(words, () => onLine(line));

/**
 * @param {Finding[]} findings
 * @param {(line: number) => void} onLine
 * @returns {HTMLElement | null}
 */
export function list(findings, onLine) {
  if (!findings.length) return null;
  return element("ul", { class: "findings" }, ...findings.map((finding) => {
    const other = otherOf(finding);
    const there = finding.line > 0 && isOurs(finding.file);
    return element("li", { class: isNote(finding) ? "note" : "fault" },
      element("strong", {}, kindWords(finding.kind)), " ",
      there ? lineLink(finding.line, say("line", { line: finding.line }), onLine) : null,
      other ? " " : null, other ? lineLink(other.line, otherWords(other), onLine) : null,
      element("p", { class: "message" }, finding.message), place(finding));
  }));
}

/**
 * @param {ReturnType<typeof marksOfCompiler>} marks
 * @param {string[]} lines of the judged text
 * @param {(line: number) => void} onLine
 */
export function compilerList(marks, lines, onLine) {
  if (!marks.length) return null;
  return element("ul", { class: "findings" }, ...marks.map((mark) => {
    const code = lines[mark.line - 1]?.trim();
    const title = mark.severity === "error" ? verdictWords("compile_error") : mark.title;
    return element("li", { class: mark.severity === "error" ? "fault" : "note" },
      element("strong", {}, title), " ", lineLink(mark.line, say("line", { line: mark.line }), onLine),
      element("p", { class: "message" }, mark.message),
      code ? element("pre", { class: "line-of-code" }, code) : null);
  }));
}
