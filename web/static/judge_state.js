// The line that says why nothing is judged, kept true for a while: a page is often loaded while the judge is starting.

const PAUSES = [1, 1, 2, 2, 3, 5, 10, 20, 40]; // seconds between two looks; then the line stays as it is

/** @param {HTMLElement} line @param {{status: string, trouble: string}} health */
function show(line, { status, trouble }) {
  if (status === "ok") { line.remove(); return; }
  line.className = status === "trouble" ? "banner" : "starting";
  const words = line.dataset[status] ?? "";
  if (line.textContent?.trim() === `${words} ${trouble}`.trim()) return; // else it would be read out again
  const head = document.createElement(status === "trouble" ? "strong" : "span");
  head.textContent = words;
  const why = Object.assign(document.createElement("span"), { lang: "en", textContent: trouble });
  line.replaceChildren(head, " ", why);
}

async function follow() {
  for (const pause of PAUSES) {
    await new Promise((resolve) => { setTimeout(resolve, 1000 * pause); });
    const line = document.getElementById("judge-state");
    if (!line) return;
    const answer = await fetch("/api/health").catch(() => null);
    if (answer?.ok) show(line, await answer.json());
  }
}

follow();
