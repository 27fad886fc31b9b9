// The problem page's editor: CodeMirror with CUDA C++, behind the interface that web/static/text_area.js has, too.

import { Compartment, EditorState, Prec } from "@codemirror/state";
import {
  EditorView, drawSelection, dropCursor, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap,
  lineNumbers, rectangularSelection,
} from "@codemirror/view";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, foldGutter, foldKeymap, indentOnInput, indentUnit } from "@codemirror/language";
import { closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { lintKeymap } from "@codemirror/lint";
import { Vim, vim } from "@replit/codemirror-vim";
import { cuda } from "./cuda.js";
import { marking, reveal, show } from "./marks.js";
import { theme } from "./theme.js";

/**
 * @typedef {object} Options
 * @property {HTMLElement} parent
 * @property {string} text
 * @property {number} cursor position in it
 * @property {string} label what screen readers call it
 * @property {boolean} vim
 * @property {Record<string, string>} phrases CodeMirror's own words, translated
 * @property {() => void} onChange
 * @property {() => void} onRun Ctrl-Enter or Cmd-Enter
 * @property {() => void} onSubmit with Shift
 */

function setup(options, keys) {
  const bound = (run) => () => { run(); return true; };
  return [
    Prec.highest(keymap.of([
      { key: "Mod-Shift-Enter", run: bound(options.onSubmit) },
      { key: "Mod-Enter", run: bound(options.onRun) },
    ])),
    keys.of(options.vim ? vim({ status: true }) : []), // before every other key binding, as it must be
    lineNumbers(), highlightActiveLineGutter(), highlightSpecialChars(), history(), foldGutter(), drawSelection(),
    dropCursor(), EditorState.allowMultipleSelections.of(true), indentOnInput(), indentUnit.of("  "),
    bracketMatching(), closeBrackets(), rectangularSelection(), highlightActiveLine(), highlightSelectionMatches(),
    search({ top: false }), cuda(), marking, theme,
    keymap.of([
      ...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...lintKeymap,
      indentWithTab,
    ]),
    EditorState.phrases.of(options.phrases),
    EditorView.contentAttributes.of({
      "aria-label": options.label, autocapitalize: "off", spellcheck: "false", tabindex: "0",
    }),
    EditorView.updateListener.of((update) => { if (update.docChanged) options.onChange(); }),
  ];
}

/**
 * The editor lives in a shadow tree: there CodeMirror's styles are adopted style sheets, which `style-src 'self'`
 * allows.
 * @param {Options} options
 */
export function createEditor(options) {
  const keys = new Compartment();
  const root = options.parent.attachShadow({ mode: "open" });
  const extensions = setup(options, keys);
  const selection = { anchor: Math.min(options.cursor, options.text.length) };
  const state = EditorState.create({ doc: options.text, selection, extensions });
  const view = new EditorView({ state, root, parent: root });
  Vim.defineEx("write", "w", () => {}); // a draft is saved as one types
  return {
    text: () => view.state.doc.toString(),
    /** @param {string} text can be undone */
    replace: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    focus: () => view.focus(),
    /** @param {import("./marks.js").Mark[]} marks */
    mark: (marks) => show(view, marks),
    /** @param {number} line */
    reveal: (line) => reveal(view, line),
    /** @param {boolean} on */
    vim: (on) => view.dispatch({ effects: keys.reconfigure(on ? vim({ status: true }) : []) }),
  };
}
