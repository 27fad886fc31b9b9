// The editor's colours are the page's: custom properties of :root, which reach into the shadow tree.

import { EditorView } from "@codemirror/view";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { tags } from "@lezer/highlight";

const MONOSPACE = 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
const SQUIGGLE = { backgroundImage: "none", paddingBottom: "0", textDecoration: "underline wavy 1.5px" };
const SIGN = { content: '""', boxSizing: "border-box", width: ".75em", height: ".75em", margin: ".35em auto 0" };

// The linter's own squiggles and signs are data: URLs, which the page's content security policy refuses.
const marks = {
  ".cm-lintRange": { ...SQUIGGLE },
  ".cm-lintRange-error": { ...SQUIGGLE, textDecorationColor: "var(--bad)" },
  ".cm-lintRange-warning": { ...SQUIGGLE, textDecorationColor: "var(--warn)" },
  ".cm-lintRange-info": { ...SQUIGGLE, textDecorationColor: "var(--accent)" },
  ".cm-lintRange-active": { backgroundColor: "transparent" },
  ".cm-lintPoint:after": { borderBottomColor: "var(--bad)" },
  ".cm-lint-marker": { ...SIGN },
  ".cm-lint-marker-error": { ...SIGN, borderRadius: "50%", background: "var(--bad)" },
  ".cm-lint-marker-warning": {
    ...SIGN, background: "var(--warn)", clipPath: "polygon(50% 0, 100% 100%, 0 100%)",
  },
  ".cm-lint-marker-info": { ...SIGN, border: "2px solid var(--accent)" },
  ".cm-diagnostic": { padding: ".3rem .6rem", maxWidth: "38rem", whiteSpace: "pre-wrap", overflowWrap: "anywhere" },
  ".cm-diagnosticSource": { fontSize: ".8rem", opacity: "1", color: "var(--muted)" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-diagnostic-warning": { borderLeftColor: "var(--warn)" },
  ".cm-diagnostic-info": { borderLeftColor: "var(--accent)" },
  ".cm-diagnosticAction": {
    font: "inherit", background: "transparent", color: "var(--accent)", textDecoration: "underline", padding: "0",
    border: "0", margin: "0 0 0 .6rem", cursor: "pointer",
  },
};

const view = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--paper)", height: "100%", fontSize: ".875rem" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: MONOSPACE, lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--muted)", borderRight: "1px solid var(--rule)" },
  ".cm-activeLine": { backgroundColor: "var(--editor-line)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--editor-line)", color: "var(--ink)" },
  "& .cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground":
    { background: "var(--editor-selection)" },
  ".cm-selectionMatch": { backgroundColor: "var(--editor-match)" },
  ".cm-searchMatch": { backgroundColor: "var(--editor-match)", outline: "1px solid var(--warn)" },
  ".cm-searchMatch-selected": { backgroundColor: "var(--editor-selection)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--editor-match)", outline: "1px solid var(--muted)" },
  "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "transparent", outline: "1px solid var(--bad)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--panel)", color: "var(--muted)", borderColor: "var(--rule)" },
  ".cm-panels": { backgroundColor: "var(--panel)", color: "var(--ink)" },
  ".cm-panels-bottom": { borderTop: "1px solid var(--rule)" },
  ".cm-textfield": {
    backgroundColor: "var(--paper)", color: "var(--ink)", border: "1px solid var(--muted)", fontSize: "inherit",
  },
  ".cm-button": {
    backgroundImage: "none", backgroundColor: "var(--paper)", color: "var(--ink)", border: "1px solid var(--muted)",
    fontSize: "inherit", "&:active": { backgroundImage: "none", backgroundColor: "var(--rule)" },
  },
  ".cm-panel.cm-search, .cm-panel.cm-search label": { fontSize: ".85rem" },
  ".cm-panel.cm-search [name=close]": { color: "var(--ink)", fontSize: "1.2rem", padding: "0 .4rem" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--ink)", border: "1px solid var(--muted)" },
  ".cm-fat-cursor": { background: "var(--accent) !important", color: "var(--paper) !important" },
  "&:not(.cm-focused) .cm-fat-cursor":
    { background: "none !important", outline: "1px solid var(--accent) !important", color: "transparent !important" },
  ".cm-vim-panel": { backgroundColor: "var(--panel)", padding: "0 .5rem", minHeight: "1.5em" },
  ".cm-vim-panel input": { color: "var(--ink)" },
  ".cm-cuda-qualifier, .cm-cuda-qualifier span": { color: "var(--code-keyword)", fontWeight: "600" },
  ".cm-cuda-variable, .cm-cuda-variable span": { color: "var(--code-name)" },
  ".cm-cuda-type, .cm-cuda-type span": { color: "var(--code-type)" },
  ".cm-cuda-function, .cm-cuda-function span": { color: "var(--code-function)" },
  ".cm-cuda-launch, .cm-cuda-launch span": { color: "var(--code-keyword)", fontWeight: "600" },
  ...marks,
});

const code = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.controlKeyword, tags.operatorKeyword, tags.definitionKeyword],
    color: "var(--code-keyword)" },
  { tag: [tags.typeName, tags.standard(tags.typeName), tags.namespace], color: "var(--code-type)" },
  { tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName)),
    tags.function(tags.propertyName)], color: "var(--code-function)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.string, tags.character, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.comment, tags.lineComment, tags.blockComment], color: "var(--code-comment)", fontStyle: "italic" },
  { tag: [tags.processingInstruction, tags.meta, tags.macroName], color: "var(--code-name)" },
]);

export const theme = [view, syntaxHighlighting(code)];
