// The line above the editor that says what became of the draft.

import { byId, element, linkButton } from "./dom.js";

/** @param {string} words "" hides it */
export function notice(words) {
  const line = byId("draft-notice");
  line.replaceChildren(words);
  line.hidden = !words;
}

/** @param {string} words @param {string} action @param {() => void} run */
export function draftNotice(words, action, run) {
  notice(words);
  byId("draft-notice").append(" ", linkButton(action, run));
}
