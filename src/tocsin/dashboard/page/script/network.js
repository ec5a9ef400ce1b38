// The coordinator's events, onto the tape; and whether the coordinator answers.

import { emit } from "./bus.js";
import { city } from "./city_api.js";
import { clock } from "./clock.js";
import { $, say, show } from "./dom.js";
import * as format from "./format.js";
import { follow } from "./stream.js";
import { tape } from "./tape.js";

const BACKLOG = 2000;

let down = 0;
let fresh = true;

function received(event, data) {
  if (event === "gap") {
    // It was away for longer than it remembers, or it is another one: it sends everything again.
    restart();
  } else if (event === "topology") {
    clock.set(data.time);
    tape.topologies.push(data.time, data);
    emit("topology");
  } else if (event === "note") {
    tape.notes.push(data.time, data);
    emit("note");
  } else if (event === "sample") {
    tape.samples.push(data.time, data);
    emit("topology");
  }
}

function state(how) {
  if (how === "open") {
    const back = down;
    down = 0;
    fresh = false;
    show($("banner"), false);
    document.body.classList.remove("away");
    if (back) emit("back");
    return;
  }
  if (how === 401) {
    say($("banner"), "The network is shown to operators only. Reload this page to enter the admin token.");
    show($("banner"), true);
    return;
  }
  down ||= Date.now() / 1000;
  const since = format.clock(down);
  const meanwhile = fresh ? "" : city.facts
    ? " If the demo has ended, what you see is its last moment."
    : " What you see is from before; brokers and subscribers continue without it.";
  say($("banner"), `The coordinator has not answered since ${since}.${meanwhile} Trying again…`);
  show($("banner"), true);
  document.body.classList.add("away");
  emit("down");
}

let stream;

function restart() {
  stream?.stop();
  tape.notes.clear();
  tape.samples.clear();
  emit("note");
  start();
}

export function start() {
  stream = follow(`/events?backlog=${BACKLOG}`, received, state);
}

/** The topology at the moment that is shown; from before this page was opened, made from a sample of the balance. */
export function topology() {
  const found = tape.topologies.at(clock.end);
  const first = tape.topologies.items[0];
  const sample = found || !first ? undefined : tape.samples.at(clock.end);
  return found ?? (sample ? remembered(sample, first) : first);
}

/** The state that a broker had before a note of it. */
const BEFORE = { died: "up", returned: "gone", draining: "up", undrained: "draining", forgotten: "gone" };

/** States of brokers at a moment before this page was opened: the first later note of each says it. */
function statesAt(moment, until) {
  const found = new Map();
  for (const note of tape.notes.between(moment, until).items) {
    const name = note.source || note.target;
    if (note.kind in BEFORE && !found.has(name)) found.set(name, BEFORE[note.kind]);
    else if (note.kind === "joined" && !found.has(name)) found.set(name, undefined);
  }
  return found;
}

function remembered(sample, first) {
  const known = new Map(first.brokers.map((each) => [each.name, each]));
  const states = statesAt(clock.end, first.time);
  const stateOf = (name) => (states.has(name) ? states.get(name) : known.get(name)?.state) ?? "up";
  const loads = new Map(Object.entries(sample.brokers));
  for (const { name } of first.brokers) {
    if (!loads.has(name) && stateOf(name) === "gone") loads.set(name, [0, 0, 0]);
  }
  const brokers = [...loads].map(([name, [load_in, load_out, subscribers]]) => ({
    name, state: stateOf(name), load_in, load_out, subscribers, capacity: known.get(name)?.capacity ?? 1, waiting: 0, leaving: 0, lagging: 0,
  }));
  const subscribers = brokers.reduce((sum, each) => sum + each.subscribers, 0);
  return { ...first, ...sample, brokers, subscribers };
}
