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
  town.brokers = town.facts?.brokers ?? [];
  emit("town");
  // A town without a city has nothing to stream.
  if (!town.facts?.city) return;
  town.map = await ask("/town/map");
  emit("town");
  follow("/town/stream", told, (how) => {
    if (how === "open") {
      // It tells of the past first.
      tape.emergencies.clear();
      tape.latency.clear();
    }
    town.away = how === "open" ? "" : "The city does not answer.";
    emit("town");
  });
  if (town.map) walk();
}

function told(event, data) {
  if (event === "brokers") {
    town.brokers = data.brokers;
    emit("town");
  } else if (event === "emergency") {
    tape.emergencies.push(data.at, data);
    emit("emergency");
  } else if (event === "latency") {
    tape.latency.push(data.at, data);
    emit("latency");
  }
}

/** Where people were before this page came: moments, each with its time and its length before it. */
async function past() {
  const response = await fetch("/town/people/past", { cache: "no-store" }).catch(() => null);
  if (!response?.ok) return;
  const buffer = await response.arrayBuffer();
  const view = new DataView(buffer);
  for (let at = 0; at < buffer.byteLength;) {
    const [time, size] = [view.getFloat64(at, true), view.getUint32(at + 8, true)];
    tape.people.push(time, buffer.slice(at + 12, at + 12 + size), size);
    at += 12 + size;
  }
}

/** People, tick by tick: the answer waits for the next one. Nobody looks at a page that is hidden. */
async function walk() {
  await past();
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

let known = { key: "", found: [] };

/** Emergencies at a moment, the newest word on each. Asked with every frame, and found anew only when there is news. */
export function emergencies(moment) {
  const { items, version } = tape.emergencies;
  const end = tape.emergencies.until(moment);
  const key = `${version} ${end}`;
  if (key !== known.key) {
    const found = new Map();
    for (let index = 0; index < end; index += 1) {
      const each = items[index];
      if (each.phase === "over") found.delete(each.id);
      else found.set(each.id, each);
    }
    known = { key, found: [...found.values()] };
  }
  return known.found;
}

/** A broker's place in the list that people's colours come from. */
export const indexOf = (name, names) => (town.map ? town.brokers : names).indexOf(name);
