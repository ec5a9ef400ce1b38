// The city panel: three canvases over each other, the camera, the pointer and the keys.

import { call } from "./api.js";
import { on } from "./bus.js";
import { Camera } from "./camera.js";
import { city, emergencies } from "./city_api.js";
import { clock } from "./clock.js";
import { colour } from "./colours.js";
import { $, calm, el, say, show } from "./dom.js";
import * as format from "./format.js";
import { gestures } from "./gestures.js";
import { Ground } from "./ground.js";
import { sign } from "./icons.js";
import { brokerOf, People } from "./people.js";
import { follow, phone } from "./phone.js";
import { Signs } from "./signs.js";
import { tape } from "./tape.js";
import { attempt, toast } from "./toasts.js";

const camera = new Camera();
const signsCanvas = $("map-signs");
const ground = new Ground($("map-ground"), camera);
const people = new People($("map-people"), camera);
const signs = new Signs(signsCanvas, camera);

let last = { state: "", part: 0 }; // what people's canvas shows

export const view = { camera, people, frames: 0, script: 0 };

/** The two ticks around the moment, and how far it is between them. Live it lags by one tick: that is smooth. */
function around() {
  const { times, items } = tape.people;
  if (!items.length) return [null, null, 0];
  const newest = items.length - 1;
  const lag = clock.live && newest ? Math.min(3, times[newest] - times[newest - 1]) : 0;
  const moment = clock.now - lag;
  if (moment < times[0] - 2) return [null, null, 0];
  const next = Math.min(tape.people.until(moment), newest);
  const before = Math.max(0, next - 1);
  const span = times[next] - times[before];
  const part = span > 0 ? Math.min(1, Math.max(0, (moment - times[before]) / span)) : 1;
  return [items[before], items[next], calm() ? 1 : part];
}

export function draw(now) {
  if (!city.map) return;
  const began = performance.now();
  const [before, after, part] = around();
  ground.draw(now);
  const followed = people.where(phone.number, before, after, part);
  signs.draw(now, emergencies(clock.end), followed);
  const state = `${camera.version} ${people.chosen} ${before && new DataView(before).getUint32(0, true)}`;
  if (state !== last.state || Math.abs(part - last.part) >= people.unseen(before, after) || (part === 1 && last.part < 1)) {
    last = { state, part };
    people.draw(before, after, part);
  }
  view.frames += 1;
  view.script += performance.now() - began;
}

/** The phone lies over the map, except where it has no room beside it. */
function covered() {
  const node = $("phone");
  return !node.hidden && getComputedStyle(node).position === "absolute" ? node.offsetWidth + 12 : 0;
}

function resize() {
  const box = $("map").getBoundingClientRect();
  if (!box.width || !box.height) return;
  const ratio = Math.min(2, devicePixelRatio || 1);
  for (const canvas of [ground.canvas, people.canvas, signsCanvas]) {
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
  }
  camera.resize(box.width, box.height, covered());
  people.resize();
  ground.forget();
  last.state = "";
}

function built() {
  const there = Boolean(city.facts);
  show($("city"), there);
  $("main").classList.toggle("with-city", there);
  say($("place"), city.facts?.name ?? "");
  document.title = city.facts?.name ? `${city.facts.name} · Tocsin` : "Tocsin";
  if (!city.map || ground.districts) return;
  camera.city(city.map.bounds);
  ground.city(city.map);
  $("flood-district").replaceChildren(...city.map.districts.map(({ name }) => el("option", {}, name)));
  resize();
}

function label() {
  // In a replay it does not matter whether the city answers; if nothing answers, the banner says so.
  const away = city.away && clock.live && !document.body.classList.contains("away");
  show($("map-empty"), !tape.people.length || Boolean(away));
  say($("map-empty"), city.away ? `${city.away} Trying again…` : city.map ? "No people yet. They come when the data cluster is ready." : "The city is being built…");
}

const CHIPS = 5;

function list() {
  const all = emergencies(clock.end).filter((each) => each.phase !== "fading");
  const found = all.slice(-CHIPS);
  const state = found.map((each) => each.id + each.phase).join();
  const box = $("emergencies");
  if (box.dataset.state === state) return;
  box.dataset.state = state;
  box.replaceChildren(...found.map((each) => el("li", {}, el(
    "button",
    { type: "button", "data-id": each.id, onclick: () => camera.look(...camera.place(each.lon, each.lat), 3) },
    sign(each.kind),
    each.district ? `${format.words(each.kind)}, ${each.district}` : format.words(each.kind),
  ))), all.length > CHIPS ? el("li", { class: "more" }, `and ${all.length - CHIPS} more`) : "");
}

/** Says what is under the pointer; `x` null: it has left. */
function point(x, y) {
  const tip = $("map-tip");
  const text = x === null ? "" : signs.under(x, y, emergencies(clock.end)) || whose(x, y) || ground.under(x, y);
  signsCanvas.classList.toggle("pointing", Boolean(text));
  show(tip, Boolean(text));
  if (!text) return;
  say(tip, text);
  tip.style.transform = `translate(${Math.min(x + 14, camera.width - tip.offsetWidth - 4)}px, ${Math.max(4, y - 40)}px)`;
}

const nearest = (x, y) => {
  const newest = tape.people.at(clock.end);
  return newest ? people.near(newest, x, y) : -1;
};

function whose(x, y) {
  const found = nearest(x, y);
  if (found < 0) return "";
  const broker = city.brokers[brokerOf(tape.people.at(clock.end), found)];
  return `person no. ${found}\n${broker ? `with ${broker}` : "not connected"}`;
}

function choose(x, y) {
  const found = nearest(x, y);
  if (found >= 0) follow(found);
}

function actions() {
  $("zoom-in").addEventListener("click", () => camera.closer(1.5));
  $("zoom-out").addEventListener("click", () => camera.closer(1 / 1.5));
  $("zoom-all").addEventListener("click", () => camera.all());
  $("flood").addEventListener("submit", (event) => {
    event.preventDefault();
    const district = $("flood-district").value;
    attempt(event.submitter, async () => {
      await call("POST", "/city/floods", { district });
      toast(`A flood in ${district}.`, "People who subscribed to floods there are notified by the channel's next execution.");
    });
  });
}

export function start() {
  on("city", () => {
    built();
    label();
  });
  for (const kind of ["people", "clock", "down", "back"]) on(kind, label);
  on("followed", (number) => {
    $("city").classList.toggle("following", number >= 0);
    camera.resize(camera.width, camera.height, covered());
  });
  on("theme", () => {
    ground.forget();
    signs.still = "";
    colour("ink");
  });
  on("chosen", (index) => {
    people.chosen = index;
  });
  for (const kind of ["emergency", "clock", "moment"]) on(kind, list);
  // The past cannot be changed.
  on("clock", () => {
    $("flood").querySelector("button").disabled = !clock.live;
  });
  new ResizeObserver(resize).observe($("map"));
  gestures(signsCanvas, camera, point, choose);
  actions();
}
