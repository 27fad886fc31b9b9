// Elements without innerHTML: whatever a submission prints is text.

/**
 * @param {string} tag
 * @param {Record<string, unknown>} [properties] of the element; `class`, `aria-...` and `data-...` become attributes
 * @param {...(Node | string | null)} children
 * @returns {HTMLElement}
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class" || name.includes("-") || name === "role") made.setAttribute(name, String(value));
    else Object.assign(made, { [name]: value });
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page lacks #${id}`);
  return found;
}

/** A button that looks like a link. @param {string} words @param {() => void} onclick */
export function linkButton(words, onclick) {
  return element("button", { type: "button", class: "link", onclick }, words);
}
