// The network in six figures.

import { on } from "./bus.js";
import { $, say } from "./dom.js";
import * as format from "./format.js";
import { topology } from "./network.js";

function render() {
  const now = topology();
  if (!now) return;
  const up = now.brokers.filter((each) => each.state === "up").length;
  say($("figure-subscribers"), format.count(now.subscribers));
  say($("figure-brokers"), `${up} of ${now.brokers.length}`);
  $("figure-brokers").classList.toggle("alarm", now.brokers.some((each) => each.state === "gone"));
  say($("figure-cov"), now.cov.toFixed(3));
  say($("figure-maximum"), now.bound > 0 ? `${(now.maximum / now.bound).toFixed(2)}×` : "–");
  say($("figure-pending"), format.count(now.pending));
}

export function start() {
  for (const kind of ["topology", "clock", "moment"]) on(kind, render);
}
