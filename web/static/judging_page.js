// The page of a submission that is not judged yet: as its judging goes on, the part that tells how far it is comes anew
// from the server; at the end the whole page does.

const PAUSE = 500; // milliseconds between two looks
const STEPS = ["position", "compiling", "compiled", "device_ready", "case_finished", "benchmark_finished", "restarted"];

const live = document.getElementById("live");
let waiting = false;

async function refresh() {
  waiting = false;
  const answer = await fetch(location.href).catch(() => null);
  if (!answer?.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const newer = page.getElementById("live");
  if (newer) live.replaceChildren(...newer.childNodes);
}

function soon() {
  if (!waiting) setTimeout(refresh, PAUSE);
  waiting = true;
}

if (live) {
  const events = new EventSource(`${live.dataset.events}?after=${live.dataset.seq}`);
  for (const type of STEPS) events.addEventListener(type, soon);
  for (const type of ["finished", "cancelled"]) {
    events.addEventListener(type, () => { events.close(); location.reload(); });
  }
}
