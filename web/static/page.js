// What the server tells the workbench: the JSON in #workbench-data, written by templates/_workbench.html.

import { byId } from "./dom.js";

/**
 * @typedef {object} Page
 * @property {string} problem
 * @property {string} dtype
 * @property {string} variant
 * @property {string} starter
 * @property {string} text to begin with in place of draft or starter, such as that of a submission; "" is none
 * @property {string} text_name of the file that `text` is of; "" is none
 * @property {string} name of the file that is sent, where it is given none
 * @property {string} submissions_url
 * @property {string} report_url of a submission's page, less its id
 * @property {string} editor_url "" where the editor is not built
 * @property {number} max_bytes of a source
 * @property {Record<string, string>} texts
 * @property {Record<string, string>} verdicts in words
 * @property {Record<string, string>} kinds of findings, in words
 * @property {Record<string, string>} phrases of the editor
 */

/** @type {Page} */
export const page = JSON.parse(byId("workbench-data").textContent ?? "");

/** A translated text. @param {string} key @param {Record<string, string | number>} [values] for its {names} */
export function say(key, values = {}) {
  return (page.texts[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

/** @param {string} verdict */
export const verdictWords = (verdict) => page.verdicts[verdict] ?? verdict.replaceAll("_", " ");

/** @param {string} kind of a finding, or "compile_error" */
export const kindWords = (kind) => page.kinds[kind] ?? verdictWords(kind);

/** @returns {string} the token that a request which changes something must carry */
export const csrfToken = () =>
  document.querySelector('meta[name="csrf-token"]')?.getAttribute("content") ?? "";
