// The network as the coordinator tells it: events onto the tape, and whether anybody answers.

import { emit } from "./bus.js";
import { clock } from "./clock.js";
import { $, say, show } from "./dom.js";
import * as format from "./format.js";
import { follow } from "./stream.js";
import { tape } from "./tape.js";

const BACKLOG = 2000;

let down = 0;
let fresh = true;

function told(event, data) {
  if (event === "gap") {
    // It was away for longer than it remembers, or is another one: what it told before is told again.
    restart();
  } else if (event === "topology") {
    clock.set(data.time);
    tape.pictures.push(data.time, data);
    emit("picture");
  } else if (event === "note") {
    tape.notes.push(data.time, data);
    emit("note");
  } else if (event === "sample") {
    tape.samples.push(data.time, data);
    emit("picture");
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
  down ||= Date.now() / 1000;
  const since = format.clock(down);
  say($("banner"), fresh
    ? `The coordinator has not answered since ${since}. Trying again…`
    : `The coordinator has not answered since ${since}. What you see is from before; brokers and subscribers go on without it. Trying again…`);
  show($("banner"), true);
  document.body.classList.add("away");
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
  stream = follow(`/events?backlog=${BACKLOG}`, told, state);
}

/** The picture of the moment that is shown; from before this page came, what a look at the balance says. */
export function picture() {
  const found = tape.pictures.at(clock.end);
  const first = tape.pictures.items[0];
  const sample = found || !first ? undefined : tape.samples.at(clock.end);
  return found ?? (sample ? remembered(sample, first) : first);
}

function remembered(sample, first) {
  const known = new Map(first.brokers.map((each) => [each.name, each]));
  const brokers = Object.entries(sample.brokers).map(([name, [load_in, load_out, subscribers]]) => ({
    name, state: "up", load_in, load_out, subscribers, capacity: known.get(name)?.capacity ?? 1, waiting: 0, leaving: 0, lagging: 0,
  }));
  const subscribers = brokers.reduce((sum, each) => sum + each.subscribers, 0);
  return { ...first, ...sample, brokers, subscribers };
}
