// The replay bar at the foot of the page.

import { emit, on } from "./bus.js";
import { clock } from "./clock.js";
import { $, el, say } from "./dom.js";
import * as format from "./format.js";
import { tape } from "./tape.js";

const MARKED = { died: "died", joined: "joined", returned: "joined", strategy: "decided", placement: "decided" };
const SECOND = 1000;
const STEP = 200;

const slider = $("tape-slider");
let held = false;
let marked = 0;

function render() {
  const [from, to] = [tape.start ?? clock.present - 1, clock.present];
  slider.min = from;
  slider.max = to;
  if (!held) slider.value = clock.now;
  slider.setAttribute("aria-valuetext", clock.live ? "live" : format.clock(clock.now));
  say($("tape-time"), format.clock(clock.now));
  $("tape-live").setAttribute("aria-pressed", String(clock.live));
  const running = clock.live || clock.playing;
  say($("tape-play"), running ? "❚❚" : "▶");
  $("tape-play").setAttribute("aria-label", running ? "Pause" : "Play");
  $("tape-speed").disabled = clock.live;
  if (performance.now() - marked > SECOND) marks(from, to);
}

function marks(from, to) {
  marked = performance.now();
  const mark = (time, kind) => {
    const node = el("i", { class: kind });
    node.style.left = `${((100 * (time - from)) / (to - from)).toFixed(2)}%`;
    return node;
  };
  const found = [];
  const { times, items } = tape.notes.between(from, to);
  items.forEach((each, index) => MARKED[each.kind] && found.push(mark(times[index], MARKED[each.kind])));
  const raised = tape.emergencies.between(from, to);
  raised.items.forEach((each, index) => each.phase === "new" && found.push(mark(raised.times[index], "emergency")));
  $("tape-marks").replaceChildren(...found.slice(-200));
}

export function start() {
  slider.addEventListener("input", () => {
    held = true;
    clock.playing = false;
    clock.seek(Number(slider.value));
  });
  slider.addEventListener("change", () => {
    held = false;
    render();
  });
  slider.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -2, ArrowDown: -2, ArrowRight: 2, ArrowUp: 2, PageDown: -20, PageUp: 20 }[event.key];
    if (!step && event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    if (event.key === "Home") return clock.seek(tape.start ?? clock.now);
    if (event.key === "End") return clock.goLive();
    if (clock.now + step >= clock.present) clock.goLive();
    else clock.seek(clock.now + step);
  });
  $("tape-play").addEventListener("click", clock.toggle);
  $("tape-live").addEventListener("click", clock.goLive);
  $("tape-speed").addEventListener("change", () => {
    clock.speed = Number($("tape-speed").value);
  });
  on("clock", render);
  let last = performance.now();
  setInterval(() => {
    const now = performance.now();
    render();
    // What depends on the moment follows it a few times a second; people move with every frame.
    if (!clock.live && clock.playing && now - last >= STEP) emit("moment");
    last = now;
  }, STEP + 20);
}
