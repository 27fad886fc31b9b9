// The name of the file that is sent, which tells submissions of one problem apart; kept beside the draft.

import { byId } from "./dom.js";
import { page } from "./page.js";

const key = `name:${page.problem}:${page.dtype}:${page.variant}`;
const field = /** @type {HTMLInputElement} */ (byId("name"));

function keep() {
  try {
    if (field.value.trim()) localStorage.setItem(key, field.value);
    else localStorage.removeItem(key);
  } catch { /* then a reload forgets it */ }
}

/** Begins with what was kept, unless it was typed already, and keeps what is typed. */
export function begin() {
  try { field.value ||= localStorage.getItem(key) ?? ""; } catch { /* nothing was kept */ }
  field.addEventListener("input", keep);
}

/** @param {string} name of the submission that one goes on with; the usual one is none */
export function take(name) {
  field.value = name === page.name ? "" : name;
  keep();
}

/** @returns {string} ends in .cu, by which findings know the file */
export function fileName() {
  const name = field.value.trim();
  return !name ? page.name : name.endsWith(".cu") ? name : `${name}.cu`;
}
