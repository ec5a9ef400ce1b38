// cov and the highest load over time, with what the strategy acts on.

import { get } from "./api.js";
import { on } from "./bus.js";
import { Chart } from "./chart.js";
import { clock } from "./clock.js";
import { $ } from "./dom.js";
import * as format from "./format.js";
import { tape } from "./tape.js";

const cov = new Chart($("chart-cov"), {
  title: "Imbalance",
  unit: "deviation of the brokers’ loads ÷ mean",
  series: [{ name: "cov", colour: "var(--load-in)", value: (each) => each.cov }],
  shown: format.ratio,
  least: 0.2,
});
const load = new Chart($("chart-load"), {
  title: "Load in bytes a second",
  series: [
    { name: "max", colour: "var(--alarm)", value: (each) => each.maximum },
    { name: "mean", colour: "var(--muted)", value: (each) => each.mean },
    { name: "bound", colour: "var(--good)", value: (each) => each.bound },
  ],
  shown: format.load,
  unit: "bytes/s",
  least: 10,
});

let settings = {};

/** The items of the stretch that the chart shows. */
export function stretch(track, seconds, first = track.times[0]) {
  const to = clock.live ? clock.present : Math.max(clock.now, Math.min(clock.present, clock.now + seconds * 0.15));
  // As long as there is something to show, and a minute at least.
  const from = Math.max(to - seconds, Math.min(first ?? to, to - 60));
  return { from, to, ...track.between(from, clock.live ? Infinity : to) };
}

function render() {
  const seconds = Number($("span").value);
  const seen = stretch(tape.topologies, seconds, tape.start);
  const before = tape.samples.between(seen.from, Math.min(seen.to, tape.topologies.times[0] ?? Infinity));
  const found = { ...seen, times: [...before.times, ...seen.times], items: [...before.items, ...seen.items] };
  const limits = [];
  if (settings.alpha !== undefined) limits.push({ name: "α", value: settings.alpha, colour: "var(--warn)" });
  if (settings.gamma !== undefined) limits.push({ name: "γ", value: settings.gamma, colour: "var(--alarm)" });
  cov.draw({ ...found, limits });
  const above = (each) => each.bound * (1 + settings.trigger);
  load.draw({ ...found, limits: settings.trigger === undefined ? [] : [{ name: "acts above", along: above, colour: "var(--warn)" }] });
}

export async function learn() {
  try {
    settings = (await get("/strategy")).settings;
    render();
  } catch {
    // The banner says that the coordinator does not answer.
  }
}

export function start() {
  for (const kind of ["topology", "clock", "moment", "theme"]) on(kind, render);
  on("back", learn);
  on("switched", learn);
  $("span").addEventListener("change", render);
  learn();
}
