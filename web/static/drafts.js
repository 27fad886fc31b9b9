// A draft for each problem and track, kept in the browser as one types. Several tabs: the newest text wins.

const SOON = 300; // ms after the last key

/** Storage that may be full, or switched off. @template T @param {() => T} use @param {T} otherwise @returns {T} */
function trying(use, otherwise) {
  try {
    return use();
  } catch {
    return otherwise;
  }
}

export class Draft {
  /**
   * @param {string} name of problem and track
   * @param {string} starter a draft that equals it is none
   * @param {() => string} text what is in the editor
   * @param {(kept: boolean) => void} onKept whether the last saving worked
   */
  constructor(name, starter, text, onKept) {
    this.key = `draft:${name}`;
    this.starter = starter;
    this.text = text;
    this.onKept = onKept;
    this.unsaved = false;
    this.timer = 0;
    addEventListener("pagehide", () => this.save());
    document.addEventListener("visibilitychange", () => this.save());
  }

  /** @returns {{text: string, saved: number} | null} */
  load() {
    return trying(() => {
      const found = JSON.parse(localStorage.getItem(this.key) ?? "null");
      return typeof found?.text === "string" ? { text: found.text, saved: Number(found.saved) } : null;
    }, null);
  }

  changed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.save(), SOON);
    this.unsaved = true;
  }

  save() {
    clearTimeout(this.timer);
    if (!this.unsaved) return; // a tab in which nothing was typed must not overwrite what another tab saved
    const text = this.text();
    const kept = trying(() => {
      if (text === this.starter) localStorage.removeItem(this.key);
      else localStorage.setItem(this.key, JSON.stringify({ text, saved: Date.now() }));
      return true;
    }, false);
    this.unsaved = !kept;
    this.onKept(kept);
  }

  /** Calls back with the text that another tab saved. @param {(text: string) => void} onOther */
  watch(onOther) {
    addEventListener("storage", (event) => {
      if (event.key !== this.key) return;
      const text = this.load()?.text ?? this.starter;
      clearTimeout(this.timer);
      this.unsaved = false;
      if (text !== this.text()) onOther(text);
    });
  }
}
