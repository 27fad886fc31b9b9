// The editor where it is built, else the text area; with the vim keys as the reader left them.

import { createTextArea } from "./text_area.js";
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

/** @param {{text: string, onChange: () => void, onRun: () => void, onSubmit: () => void}} options */
export async function openEditor(options) {
  const area = /** @type {HTMLTextAreaElement} */ (byId("source"));
  const made = await bundle();
  if (!made) return createTextArea(area, options);
  const parent = byId("editor");
  const vim = vimWanted();
  const editor = made.createEditor({ ...options, parent, label: say("editor"), phrases: page.phrases, vim });
  area.hidden = true;
  parent.hidden = false;
  offerVim(editor, vim);
  return editor;
}
