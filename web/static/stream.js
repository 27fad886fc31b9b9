// The events of one judging, in order and once each, through lost connections and a server that restarts.

const TYPES = [
  "queued", "compiling", "compiled", "device_ready", "case_started", "case_finished", "calibrating",
  "benchmark_started", "benchmark_finished", "counting_resources", "restarted", "finished", "cancelled",
];
const LAST = new Set(["finished", "cancelled"]);
const LONGEST_WAIT = 10_000; // ms between two tries

/**
 * @param {{events: string, submission: string}} urls of the events, and of the submission that they are of
 * @param {{onEvent: (event: any) => void, onLost: () => void, onBack: () => void, onMissing: () => void}} listener
 * @returns {() => void} stops it
 */
export function follow(urls, listener) {
  let seen = 0;
  let wait = 1000;
  let lost = false;
  let stopped = false;
  let timer = 0;
  /** @type {EventSource} */
  let source;

  const stop = () => { stopped = true; clearTimeout(timer); source.close(); };
  const receive = (/** @type {MessageEvent} */ message) => {
    const event = JSON.parse(message.data);
    if (event.seq <= seen) return; // a new connection of ours starts at the first
    seen = event.seq;
    if (LAST.has(event.type)) stop();
    listener.onEvent(event);
  };
  // The place in the queue is no step: it has the number of the last one, and may come again and again.
  const moved = (/** @type {MessageEvent} */ message) => listener.onEvent(JSON.parse(message.data));
  const opened = () => { wait = 1000; if (lost) listener.onBack(); lost = false; };
  // The browser tries again by itself unless the server answered with an error; then it is for us to do.
  const failed = async () => {
    if (!lost) listener.onLost();
    lost = true;
    if (source.readyState !== EventSource.CLOSED) return;
    const answer = await fetch(urls.submission).catch(() => null);
    if (stopped) return;
    if (answer?.status === 404) { listener.onMissing(); return; }
    timer = setTimeout(connect, wait);
    wait = Math.min(2 * wait, LONGEST_WAIT);
  };
  function connect() {
    source = new EventSource(urls.events);
    source.onopen = opened;
    source.onerror = failed;
    for (const type of TYPES) source.addEventListener(type, receive);
    source.addEventListener("position", moved);
  }
  connect();
  return stop;
}
