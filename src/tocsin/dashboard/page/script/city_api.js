// The data of the city panel: facts, map, people, emergencies, latency. Only the demo's server has this API.

import { features, problem } from "./api.js";
import { emit } from "./bus.js";
import { clock } from "./clock.js";
import { follow } from "./stream.js";
import { tape } from "./tape.js";

/** `facts` is null where there is no city; `away`: what to say while it does not answer. */
export const city = { facts: null, map: null, brokers: [], away: "" };

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** Asks until there is an answer. */
async function ask(path) {
  for (;;) {
    try {
      const response = await fetch(path);
      if (response.ok) return await response.json();
      city.away = (await problem(response)).message;
    } catch {
      city.away = "The city does not answer.";
    }
    emit("city");
    await pause(2000);
  }
}

export async function start() {
  if (!features.has("city")) return emit("city");
  city.facts = await ask("/city");
  city.away = "";
  city.brokers = city.facts.brokers;
  emit("city");
  city.map = await ask("/city/map");
  emit("city");
  follow("/city/events", received, (state) => {
    if (state === "open") {
      // The past comes first, again.
      tape.emergencies.clear();
      tape.latency.clear();
    }
    city.away = state === "open" ? "" : "The city does not answer.";
    emit("city");
  });
  walk();
}

function received(event, data) {
  if (event === "brokers") {
    city.brokers = data.brokers;
    emit("city");
  } else if (event === "emergency") {
    tape.emergencies.push(data.at, data);
    emit("emergency");
  } else if (event === "latency") {
    tape.latency.push(data.at, data);
    emit("latency");
  }
}

/** Where people were before this page was opened: frames, each after its time and its length. */
async function past() {
  const response = await fetch("/city/people/past", { cache: "no-store" }).catch(() => null);
  if (!response?.ok) return;
  const buffer = await response.arrayBuffer();
  const view = new DataView(buffer);
  for (let at = 0; at < buffer.byteLength;) {
    const [time, size] = [view.getFloat64(at, true), view.getUint32(at + 8, true)];
    tape.people.push(time, buffer.slice(at + 12, at + 12 + size), size);
    at += 12 + size;
  }
}

/** People, tick by tick: the answer waits for the next one. A hidden page asks for nothing. */
async function walk() {
  await past();
  let tick = 0;
  for (;;) {
    while (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
    try {
      const response = await fetch(`/city/people?after=${tick}`, { cache: "no-store" });
      if (!response.ok) throw await problem(response);
      const buffer = await response.arrayBuffer();
      const found = new DataView(buffer).getUint32(0, true);
      if (found === tick) continue;
      tick = found;
      tape.people.push(clock.present, buffer, buffer.byteLength);
      emit("people");
    } catch {
      // A demo that was started again counts from the beginning.
      tick = 0;
      await pause(1000);
    }
  }
}

let known = { key: "", found: [] };

/** Emergencies at a moment, each as last reported. Called for every frame, computed only after a change. */
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

/** A broker's index in the list that people's colours come from. */
export const indexOf = (name, names) => (city.map ? city.brokers : names).indexOf(name);
