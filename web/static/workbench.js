// The problem page's workbench: the editor, its draft, and the judging of what is in it.

import { byId } from "./dom.js";
import { Draft } from "./drafts.js";
import { Judging } from "./judging.js";
import { relocate } from "./lines.js";
import { page, say } from "./page.js";
import * as named from "./name.js";
import { draftNotice, notice } from "./notice.js";
import { createTextArea } from "./text_area.js";
import { upgrade } from "./upgrade.js";

const track = `${page.problem}:${page.dtype}:${page.variant}`;
const draft = new Draft(track, page.starter, () => editor.text(), (kept) => {
  if (!kept) notice(say("draft_unkept"));
});
const drafted = draft.load();

const judging = new Judging(track, {
  source: () => { draft.save(); return editor.text(); },
  // Lines are those of the text that was sent; the one in the editor may be another by now.
  mark: (marks, judged) => editor.mark(marks.flatMap((mark) => moved(mark, judged))),
  reveal: (line, judged) => {
    const now = relocate(line, judged, editor.text());
    if (now === null) judging.tell(say("line_edited", { line }));
    else editor.reveal(now);
  },
});

/** @param {import("../editor/marks.js").Mark} mark @param {string} judged @returns the mark on today's line, or none */
function moved(mark, judged) {
  const line = relocate(mark.line, judged, editor.text());
  if (line === null) return [];
  const other = mark.other && relocate(mark.other.line, judged, editor.text());
  return [{ ...mark, line, other: other ? { ...mark.other, line: other } : null }];
}

const doing = {
  onChange: () => draft.changed(),
  onRun: () => judging.start("run"),
  onSubmit: () => judging.start("submit"),
};
const area = /** @type {HTMLTextAreaElement} */ (byId("source"));
/** @type {any} */
let editor = createTextArea(area, { ...doing, text: drafted?.text ?? page.starter });

/** Replaces the text, and offers the one that was there. @param {string} text @param {string} words */
function replace(text, words) {
  const before = editor.text();
  editor.replace(text);
  draftNotice(words, say("bring_back"), () => { editor.replace(before); notice(""); });
}

const reset = () => replace(page.starter, say("starter_is_back"));

draft.watch((text) => { editor.replace(text); draft.unsaved = false; notice(say("other_tab")); });
if (drafted && drafted.text !== page.starter) {
  const when = new Date(drafted.saved).toLocaleString(document.documentElement.lang || undefined,
    { dateStyle: "medium", timeStyle: "short" });
  draftNotice(say("draft_restored", { when }), say("reset"), reset);
}

named.begin();
byId("run").addEventListener("click", () => judging.start("run"));
byId("submit").addEventListener("click", () => judging.start("submit"));
byId("cancel").addEventListener("click", () => judging.cancel());
byId("reset").addEventListener("click", reset);
byId("copy").addEventListener("click", async () => {
  const copied = await navigator.clipboard?.writeText(editor.text()).then(() => true, () => false);
  judging.tell(say(copied ? "copied" : "not_copied"));
});

/** Begins with the text that the page was asked for, once: a reload finds the draft. */
function begin() {
  if (!page.text) return;
  if (page.text_name) named.take(page.text_name);
  const address = new URL(location.href);
  address.searchParams.delete("source");
  history.replaceState(null, "", address);
  if (page.text !== editor.text()) replace(page.text, say("from_submission"));
}

editor = (await upgrade(area, doing)) ?? editor; // one can read, type and run meanwhile
judging.remark();
judging.resume();
begin();
byId("workbench").dataset.ready = "";
