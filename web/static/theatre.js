// Steps the online-softmax page without loading it anew: all steps are in the page, and one of them is shown.

const INTERVAL = 1800; // milliseconds between steps while playing
const player = document.getElementById("player");
const sections = [...player.querySelectorAll("section.step")];
const moves = [...player.querySelectorAll("a.move")];
const button = player.querySelector("button.play");
const stillness = matchMedia("(prefers-reduced-motion: reduce)");
let timer = 0;

const current = () => Number(player.dataset.step);
const within = (step) => Math.min(Math.max(step, 1), sections.length);

/** @param {number} step @returns {string} the address of the page at that step */
function address(step) {
  const url = new URL(location.href);
  url.searchParams.set("step", String(step));
  url.hash = "player";
  return url.href;
}

/** @param {number} wanted the step to show; beyond the ends the nearest */
function show(wanted) {
  const step = within(wanted);
  if (step === current()) return;
  player.dataset.step = String(step);
  for (const section of sections) section.hidden = Number(section.dataset.step) !== step;
  for (const move of moves) {
    const target = within(step + Number(move.dataset.move));
    move.href = address(target);
    if (target === step) move.setAttribute("aria-disabled", "true");
    else move.removeAttribute("aria-disabled");
  }
  for (const row of document.querySelectorAll(".history tr[data-step]")) {
    if (Number(row.dataset.step) === step) row.setAttribute("aria-current", "step");
    else row.removeAttribute("aria-current");
  }
  player.querySelector(".where").textContent = sections[step - 1].querySelector("h2").textContent;
  history.replaceState(null, "", address(step));
}

function pause() {
  clearInterval(timer);
  timer = 0;
  button.textContent = button.dataset.play;
}

function play() {
  if (current() === sections.length) show(1);
  button.textContent = button.dataset.pause;
  timer = setInterval(() => {
    show(current() + 1);
    if (current() === sections.length) pause();
  }, INTERVAL);
}

// Who asked for stillness moves the steps by hand.
function offer() {
  button.hidden = stillness.matches || sections.length < 2;
  if (button.hidden && timer) pause();
}

/** @param {Event} event @param {number} step */
function turn(event, step) {
  event.preventDefault();
  pause();
  show(step);
}

const KEYS = {
  ArrowLeft: () => current() - 1,
  ArrowRight: () => current() + 1,
  Home: () => 1,
  End: () => sections.length,
};

player.addEventListener("keydown", (event) => {
  const plain = !(event.altKey || event.ctrlKey || event.metaKey || event.shiftKey);
  if (plain && event.key in KEYS) turn(event, KEYS[event.key]());
});
for (const move of moves) move.addEventListener("click", (event) => turn(event, current() + Number(move.dataset.move)));
for (const link of document.querySelectorAll(".history a[data-step]")) {
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab or window
    turn(event, Number(link.dataset.step));
    player.focus();
  });
}
button.addEventListener("click", () => (timer ? pause() : play()));
stillness.addEventListener("change", offer);
offer();
