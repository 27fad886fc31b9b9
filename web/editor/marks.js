// Compile diagnostics and findings as marks on their lines: a sign in the gutter, a squiggle, a tooltip.

import { EditorView } from "@codemirror/view";
import { forEachDiagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";

/**
 * @typedef {object} Mark
 * @property {number} line 1-based
 * @property {number} [column] 1-based, 0 or missing where unknown
 * @property {"error" | "warning" | "info"} severity
 * @property {string} title what kind it is, in words
 * @property {string} message
 * @property {{line: number, words: string} | null} [other] the other line it is about
 */

/**
 * The squiggle's ends, or null where there is no such line.
 * @param {import("@codemirror/state").Text} doc @param {Mark} mark
 */
function span(doc, mark) {
  if (!(mark.line >= 1 && mark.line <= doc.lines)) return null;
  const line = doc.line(mark.line);
  const indent = line.text.length - line.text.trimStart().length;
  const start = mark.column ? Math.min(mark.column - 1, line.text.length) : indent;
  const word = mark.column ? /^\w+/.exec(line.text.slice(start)) : null;
  const end = word ? start + word[0].length : line.text.trimEnd().length;
  return { from: line.from + start, to: line.from + Math.max(start, end) };
}

/** @param {EditorView} view @param {number} number brings a line into sight and puts the cursor there */
export function reveal(view, number) {
  const line = view.state.doc.line(Math.min(Math.max(number, 1), view.state.doc.lines));
  const from = line.from + line.text.length - line.text.trimStart().length;
  view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
  view.focus();
}

/** @param {EditorView} view @param {Mark[]} marks replace those there are */
export function show(view, marks) {
  const diagnostics = [];
  for (const mark of marks) {
    const place = span(view.state.doc, mark);
    if (!place) continue;
    const { other } = mark;
    const actions = other ? [{ name: other.words, apply: (shown) => reveal(shown, other.line) }] : [];
    diagnostics.push({ ...place, severity: mark.severity, source: mark.title, message: mark.message, actions });
  }
  view.dispatch(setDiagnostics(view.state, diagnostics.sort((a, b) => a.from - b.from || a.to - b.to)));
}

function touches(changes, doc, from, to) {
  const first = doc.lineAt(from).from;
  const last = doc.lineAt(to).to;
  return changes.touchesRange(first, last) !== false;
}

// A mark speaks of the line as it was judged: once that line is edited, it may be wrong.
const clearEdited = EditorView.updateListener.of((update) => {
  if (!update.docChanged) return;
  const edited = update.startState;
  const gone = new Set();
  forEachDiagnostic(edited, (diagnostic, from, to) => {
    if (touches(update.changes, edited.doc, from, to)) gone.add(diagnostic);
  });
  if (!gone.size) return;
  const kept = [];
  forEachDiagnostic(update.state, (diagnostic, from, to) => {
    if (!gone.has(diagnostic)) kept.push({ ...diagnostic, from, to });
  });
  update.view.dispatch(setDiagnostics(update.state, kept));
});

// The gutter's tooltip goes when the mouse moves anywhere but over it. It looks for itself among the event's targets,
// and in a shadow tree the target that it sees is the tree's host: moves over the tooltip are therefore kept from it.
const isTooltip = (node) => node instanceof Element && node.classList.contains("cm-tooltip-lint");
addEventListener("mousemove", (event) => {
  if (event.composedPath().some(isTooltip)) event.stopPropagation();
}, { capture: true });

export const marking = [lintGutter(), clearEdited];
