// The page of a submission that is not judged yet: as its judging goes on, the part that tells how far it is comes anew
// from the server; at the end the whole page does.

import { follow } from "./stream.js";

const PAUSE = 500; // milliseconds between two looks
const STEPS = ["compiling", "compiled", "device_ready", "case_finished", "benchmark_finished", "restarted"];
const LAST = ["finished", "cancelled"];

const live = document.getElementById("live");
let waiting = false;

async function refresh() {
  waiting = false;
  const answer = await fetch(location.href).catch(() => null);
  if (!answer?.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const newer = page.getElementById("live");
  if (!newer || !page.querySelector("script[src$='/judging_page.js']")) location.reload(); // it is over
  else live.replaceChildren(...newer.childNodes);
}

function soon() {
  if (!waiting) setTimeout(refresh, PAUSE);
  waiting = true;
}

if (live) {
  const { events, seq } = live.dataset;
  follow({ events: `${events}?after=${seq}`, submission: events.replace(/\/events$/, "") }, {
    onEvent: ({ type }) => { if (LAST.includes(type)) location.reload(); else if (STEPS.includes(type)) soon(); },
    onLost: soon, // perhaps since there is nothing left to tell
    onBack: soon,
    onMissing: () => location.reload(), // which says so
  });
}
