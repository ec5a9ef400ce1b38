// Time from publication to notification, and results delivered.

import { on } from "./bus.js";
import { stretch } from "./balance.js";
import { Chart } from "./chart.js";
import { city } from "./city_api.js";
import { clock } from "./clock.js";
import { $, say, show } from "./dom.js";
import * as format from "./format.js";
import { tape } from "./tape.js";

const time = new Chart($("chart-latency"), {
  title: "Time from publication to notification",
  series: [
    { name: "p50", colour: "var(--load-in)", value: (each) => each.p50_ms },
    { name: "p99", colour: "var(--load-out)", value: (each) => each.p99_ms },
  ],
  shown: format.milliseconds,
  unit: "from publication to notification",
  least: 10,
});
const number = new Chart($("chart-count"), {
  title: "Results delivered in a second",
  series: [{ name: "results delivered/s", colour: "var(--good)", value: (each) => each.count }],
  shown: format.load,
  least: 4,
});

function render() {
  if (!city.facts) return;
  const found = stretch(tape.latency, Number($("span").value), tape.start);
  number.draw(found);
  const some = found.items.map((each, index) => [found.times[index], each]).filter(([, each]) => each.count);
  time.draw({ ...found, times: some.map(([at]) => at), items: some.map(([, each]) => each) });
  const now = some.findLast(([at]) => at <= clock.end);
  say($("figure-latency"), now ? format.milliseconds(now[1].p99_ms) : "–");
}

export function start() {
  on("city", () => {
    show($("latency"), Boolean(city.facts));
    show($("figure-latency-box"), Boolean(city.facts));
  });
  for (const kind of ["city", "topology", "latency", "clock", "moment", "theme"]) on(kind, render);
  $("span").addEventListener("change", render);
}
