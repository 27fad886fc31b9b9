// From the text area to the editor, where it is built; with the vim keys as the reader left them.

import { byId } from "./dom.js";
import { page, say } from "./page.js";

const VIM = "vim";

/** @returns {Promise<any>} the bundle's module, or null */
async function bundle() {
  if (!page.editor_url) return null;
  return import(page.editor_url).catch(() => null); // not there yet, or no longer: the text area works
}

/** The choice of vim keys. @param {any} editor @param {boolean} on */
function offerVim(editor, on) {
  const box = /** @type {HTMLInputElement} */ (byId("vim"));
  box.checked = on;
  box.addEventListener("change", () => {
    try { localStorage.setItem(VIM, box.checked ? "on" : ""); } catch { /* then only until the next load */ }
    editor.vim(box.checked);
  });
  byId("vim-choice").hidden = false;
}

function vimWanted() {
  try { return localStorage.getItem(VIM) === "on"; } catch { return false; }
}

/**
 * @param {HTMLTextAreaElement} area whose text, cursor and focus move on
 * @param {{onChange: () => void, onRun: () => void, onSubmit: () => void}} doing
 * @returns {Promise<any>} the editor, or null where the text area stays
 */
export async function upgrade(area, doing) {
  const made = await bundle();
  if (!made) return null;
  const parent = byId("editor");
  const vim = vimWanted();
  const focused = document.activeElement === area;
  parent.hidden = false;
  const editor = made.createEditor({
    ...doing, parent, text: area.value, cursor: area.selectionStart, label: say("editor"), phrases: page.phrases, vim,
  });
  if (focused) editor.focus();
  area.hidden = true;
  offerVim(editor, vim);
  return editor;
}
