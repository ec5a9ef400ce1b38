// The town: facts, map, people, emergencies, latency. Without one the page is for brokers only.

import { problem } from "./api.js";
import { emit } from "./bus.js";
import { clock } from "./clock.js";
import { follow } from "./stream.js";
import { tape } from "./tape.js";

export const town = { facts: null, map: null, brokers: [], away: "", can: (what) => town.facts?.can.includes(what) ?? false };

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** Asks until there is an answer; null if there is no such thing. */
async function ask(path) {
  for (;;) {
    try {
      const response = await fetch(path);
      if (response.ok) return await response.json();
      if (response.status === 404) return null;
      town.away = (await problem(response)).message;
    } catch {
      town.away = "Nobody answers.";
    }
    emit("town");
    await pause(2000);
  }
}

export async function start() {
  town.facts = await ask("/town/facts");
  town.away = "";
  if (!town.facts) {
    emit("town");
    return;
  }
  town.brokers = town.facts.brokers;
  if (town.facts.city) town.map = await ask("/town/map");
  emit("town");
  follow("/town/stream", told, (how) => {
    // A town without a city has nothing to stream.
    town.away = how === "open" || how === 404 ? "" : "The town does not answer.";
    emit("town");
  });
  if (town.map) walk();
}

function told(event, data) {
  if (event === "brokers") {
    town.brokers = data.brokers;
    emit("town");
  } else if (event === "emergency") {
    tape.emergencies.push(clock.present, data);
    emit("emergency");
  } else if (event === "latency") {
    tape.latency.push(clock.present, data);
    emit("latency");
  }
}

/** People, tick by tick: the answer waits for the next one. Nobody looks at a page that is hidden. */
async function walk() {
  let tick = 0;
  for (;;) {
    while (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
    try {
      const response = await fetch(`/town/people?after=${tick}`, { cache: "no-store" });
      if (!response.ok) throw await problem(response);
      const buffer = await response.arrayBuffer();
      const found = new DataView(buffer).getUint32(0, true);
      if (found === tick) continue;
      tick = found;
      tape.people.push(clock.present, buffer, buffer.byteLength);
      emit("people");
    } catch {
      // A town that was started again counts from the beginning.
      tick = 0;
      await pause(1000);
    }
  }
}

/** Emergencies at a moment, the newest word on each. */
export function emergencies(moment) {
  const found = new Map();
  const end = tape.emergencies.until(moment);
  for (const each of tape.emergencies.items.slice(0, end)) {
    if (each.phase === "over") found.delete(each.id);
    else found.set(each.id, each);
  }
  return [...found.values()];
}

/** A broker's place in the list that people's colours come from. */
export const indexOf = (name, names) => (town.map ? town.brokers : names).indexOf(name);
