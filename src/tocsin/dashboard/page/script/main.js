// Starts every panel and every source of data.

import * as balance from "./balance.js";
import * as balancing from "./balancing.js";
import * as brokers from "./brokers.js";
import { on } from "./bus.js";
import * as channels from "./channels.js";
import * as city from "./city.js";
import * as cityApi from "./city_api.js";
import { clock } from "./clock.js";
import * as find from "./find.js";
import * as figures from "./figures.js";
import * as latency from "./latency.js";
import * as log from "./log.js";
import * as network from "./network.js";
import * as phone from "./phone.js";
import * as replay from "./replay.js";
import { tape } from "./tape.js";
import * as theme from "./theme.js";

/** Milliseconds. */
const TIMEOUT = 4000;

// Hidden until it is known what there is to show, or until nothing answers.
const awaited = new Set(["city", "topology"]);
const arrive = (...kinds) => {
  for (const kind of kinds) awaited.delete(kind);
  if (!awaited.size) document.body.classList.remove("asking");
};
for (const kind of awaited) on(kind, () => arrive(kind));
const show = () => arrive("city", "topology");
on("down", show);
setTimeout(show, TIMEOUT); // a city that does not answer must not hide the brokers

for (const part of [theme, figures, brokers, log, balance, latency, balancing, city, find, phone, replay]) part.start();
for (const source of [network, cityApi, channels]) source.start();

let before = performance.now();
function frame(now) {
  clock.advance((now - before) / 1000);
  before = now;
  city.draw(now);
  requestAnimationFrame(frame);
}
requestAnimationFrame(frame);

// For tests and the benchmark: what is shown, how many frames that took, and what is on the tape.
globalThis.tocsin = { view: city.view, tape };
