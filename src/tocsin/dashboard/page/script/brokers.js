// One entry for each broker: its subscribers, its load, and what can be done with it.

import { call, features } from "./api.js";
import { emit, on } from "./bus.js";
import { city, indexOf } from "./city_api.js";
import { clock } from "./clock.js";
import { brokerColour } from "./colours.js";
import { $, el, lay, say, show } from "./dom.js";
import * as format from "./format.js";
import { topology } from "./network.js";
import { attempt, confirmed, toast } from "./toasts.js";

/** Executions notified and not delivered: there are always a few. */
const CROWDED = 10;

const entries = new Map();
let chosen = "";

const path = (name, what = "") => `/brokers/${encodeURIComponent(name)}${what}`;

const ACTIONS = {
  drain: {
    label: "Drain",
    when: (row) => row.state === "up",
    async run({ name }) {
      await call("POST", path(name, "/drain"));
      toast(`${name} is being drained.`, "Its subscribers migrate to other brokers one after the other and stay connected.");
    },
  },
  undrain: {
    label: "Undrain",
    when: (row) => row.state === "draining",
    async run({ name }) {
      await call("POST", path(name, "/undrain"));
      toast(`${name} takes subscribers again.`);
    },
  },
  kill: {
    label: "Kill",
    alarm: true,
    when: (row) => row.state !== "gone" && features.has("local"),
    async run({ name, subscribers }) {
      const text = `Its process ends at once. ${format.count(subscribers)} subscribers connect elsewhere by themselves and miss nothing.`;
      if (!(await confirmed(`Kill ${name}?`, text, "Kill it"))) return;
      await call("POST", `/local/brokers/${encodeURIComponent(name)}/kill`);
      toast(`${name} was killed.`, "The coordinator notices when its reports stop.");
    },
  },
  forget: {
    label: "Forget",
    when: (row) => row.state === "gone",
    async run({ name }) {
      await call("DELETE", path(name));
      toast(`${name} is forgotten.`);
    },
  },
};

function entry(name) {
  const fact = (label) => el("span", {}, `${label} `, el("b", {}, "–"));
  const parts = {
    dot: el("i"), state: el("span", { class: "state" }), people: el("strong"), noun: el("span"), mean: el("div", { class: "meter-mean" }),
    in: el("div", { class: "meter-in" }), out: el("div", { class: "meter-out" }), row: null, node: null, buttons: [],
    facts: { in: fact("in"), out: fact("out"), waiting: fact("queued") }, also: el("span", { class: "broker-also" }),
  };
  parts.buttons = Object.entries(ACTIONS).map(([what, { label, alarm, run }]) => el("button", {
    type: "button", class: `button small${alarm ? " alarm" : ""}`, "data-do": what, "aria-label": `${label} ${name}`,
    onclick: (event) => attempt(event.currentTarget, () => run(parts.row)),
  }, label));
  const label = { type: "button", class: "broker-name", "aria-pressed": "false", title: "Show its people", onclick: () => choose(name) };
  parts.name = el("button", label, parts.dot, el("span", {}, name));
  parts.node = el(
    "li", { class: "broker", "data-broker": name },
    el("div", { class: "broker-top" },
      parts.name,
      parts.state,
      parts.also,
      el("span", { class: "broker-people" }, parts.people, parts.noun),
      el("div", { class: "broker-do" }, ...parts.buttons)),
    el("div", { class: "broker-bottom" },
      el("div", { class: "meter" }, parts.in, parts.out, parts.mean),
      el("div", { class: "broker-facts" }, ...Object.values(parts.facts))),
  );
  return parts;
}

function choose(name) {
  chosen = chosen === name ? "" : name;
  render();
}

function update(found, row, now, names) {
  found.row = row;
  const index = indexOf(row.name, names);
  found.dot.style.background = brokerColour(index);
  found.state.className = `state ${row.state}`;
  say(found.state, row.state);
  say(found.people, format.count(row.subscribers));
  say(found.noun, city.facts ? " people" : row.subscribers === 1 ? " subscriber" : " subscribers");
  const most = Math.max(...now.brokers.map((each) => (each.load_in + each.load_out) / each.capacity), now.mean, 1e-9) * 1.08;
  const share = (value) => `${((100 * value) / most).toFixed(2)}%`;
  found.in.style.width = share(row.load_in / row.capacity);
  found.out.style.width = share(row.load_out / row.capacity);
  found.mean.style.left = share(now.mean);
  say(found.facts.in.lastChild, format.load(row.load_in));
  say(found.facts.out.lastChild, format.load(row.load_out));
  say(found.facts.waiting.lastChild, format.count(row.waiting));
  found.facts.waiting.classList.toggle("wrong", row.waiting >= CROWDED);
  const also = [];
  if (now.brokers.some((each) => each.capacity !== 1)) also.push(`capacity ${row.capacity}`);
  if (row.leaving) also.push(`${format.count(row.leaving)} leaving`);
  if (row.lagging) also.push(`${format.count(row.lagging)} lagging`);
  say(found.also, also.join(", "));
  const held = found.buttons.find((each) => each === document.activeElement);
  for (const button of found.buttons) {
    show(button, clock.live && ACTIONS[button.dataset.do].when(row));
  }
  // A keyboard user keeps the focus here when the pressed button disappears.
  if (held?.hidden) (found.buttons.find((each) => !each.hidden) ?? found.name).focus();
  found.node.classList.toggle("chosen", row.name === chosen);
  found.name.setAttribute("aria-pressed", String(row.name === chosen));
}

function render() {
  const now = topology();
  show($("add"), features.has("local") && clock.live);
  if (!now) return;
  const rows = [...now.brokers].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const names = rows.map((each) => each.name);
  for (const name of entries.keys()) if (!names.includes(name)) entries.delete(name);
  for (const { name } of rows) if (!entries.has(name)) entries.set(name, entry(name));
  const list = $("broker-list");
  lay(list, names.map((name) => entries.get(name).node));
  for (const row of rows) update(entries.get(row.name), row, now, names);
  show(list, rows.length > 0);
  show($("brokers-empty"), !rows.length);
  if (!rows.length) {
    const start = [el("br"), el("code", {}, `tocsin broker --coordinator ${location.origin}`)];
    $("brokers-empty").replaceChildren(...(clock.live ? ["No broker has registered yet. ", ...start] : ["No broker had registered yet."]));
  }
  if (chosen && !names.includes(chosen)) chosen = "";
  emit("chosen", chosen ? indexOf(chosen, names) : -1);
}

export function start() {
  for (const kind of ["topology", "clock", "moment", "city"]) on(kind, render);
  $("add").addEventListener("click", (event) => attempt(event.currentTarget, async () => {
    const { broker } = await call("POST", "/local/brokers");
    toast(`${broker} was started.`, "It takes its share as soon as it has registered with the coordinator.");
  }));
}
