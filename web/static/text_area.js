// The editor's interface on the page's text area: what there is while the editor is not built.

const INDENT = "  ";

/** Like typing, so that it can be undone. @param {HTMLTextAreaElement} area @param {string} text */
function insert(area, text) {
  area.focus();
  if (document.execCommand("insertText", false, text)) return;
  area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
  area.dispatchEvent(new Event("input"));
}

/** The text of the line before the cursor. @param {HTMLTextAreaElement} area */
function lineUpToCursor(area) {
  return area.value.slice(area.value.lastIndexOf("\n", area.selectionStart - 1) + 1, area.selectionStart);
}

// Tab indents; after Escape, the next Tab moves on, so that the keyboard can leave.
function typing(area, options) {
  let leaving = false;
  return (/** @type {KeyboardEvent} */ event) => {
    const command = event.ctrlKey || event.metaKey;
    const handled = (run) => { event.preventDefault(); run(); };
    if (event.isComposing) return;
    if (event.key === "Enter" && command) handled(event.shiftKey ? options.onSubmit : options.onRun);
    else if (event.key === "Enter" && !event.shiftKey) {
      handled(() => insert(area, "\n" + (/^[ \t]*/.exec(lineUpToCursor(area))?.[0] ?? "")));
    } else if (event.key === "Tab" && !leaving && !event.shiftKey && !command && !event.altKey) {
      handled(() => insert(area, INDENT));
    }
    if (event.key !== "Shift") leaving = event.key === "Escape";
  };
}

/** @param {HTMLTextAreaElement} area @param {number} number selects a line and brings it into sight */
function reveal(area, number) {
  const lines = area.value.split("\n");
  const index = Math.min(Math.max(number, 1), lines.length) - 1;
  const start = lines.slice(0, index).reduce((sum, line) => sum + line.length + 1, 0);
  area.focus();
  area.setSelectionRange(start, start + lines[index].length);
  const height = area.scrollHeight / lines.length;
  area.scrollTop = Math.max(0, height * index - area.clientHeight / 2);
}

/**
 * @param {HTMLTextAreaElement} area
 * @param {{text: string, onChange: () => void, onRun: () => void, onSubmit: () => void}} options
 */
export function createTextArea(area, options) {
  if (area.value === area.defaultValue) area.value = options.text; // else somebody was quicker than the script
  area.addEventListener("keydown", typing(area, options));
  area.addEventListener("input", options.onChange);
  return {
    text: () => area.value,
    replace: (/** @type {string} */ text) => {
      area.focus();
      area.select();
      insert(area, text);
      if (area.value !== text) area.value = text; // the browser refused to type it
      area.setSelectionRange(0, 0);
      options.onChange();
    },
    focus: () => area.focus(),
    mark: () => {}, // the list of findings has them
    reveal: (/** @type {number} */ line) => reveal(area, line),
    vim: () => {},
  };
}
