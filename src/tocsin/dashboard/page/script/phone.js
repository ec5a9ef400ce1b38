// The phone of one person: exactly the notifications of its client, and its broker.

import { get } from "./api.js";
import { emit, on } from "./bus.js";
import { city } from "./city_api.js";
import { clock } from "./clock.js";
import { brokerColour } from "./colours.js";
import { $, el, lay, say, show } from "./dom.js";
import * as format from "./format.js";
import { sign } from "./icons.js";
import { brokerOf, countOf } from "./people.js";
import { follow as stream } from "./stream.js";
import { Track, tape } from "./tape.js";
import { toast } from "./toasts.js";

const ROWS = 3;
/** More than the server ever repeats. */
const KNOWN = 500;
const NOTHING = el("li", { class: "remark" }, "Nothing yet. It rings when something happens to what this person subscribed to.");

/** `number` -1: no person is followed. */
export const phone = { number: -1, person: null, got: new Track({ most: 200 }), known: new Set(), stream: null };

let shown = "";

export async function follow(number) {
  let person;
  try {
    person = await get(`/city/people/${number}`);
  } catch (error) {
    toast(error.message, error.hint, true);
    return;
  }
  leave();
  phone.number = number;
  phone.person = person;
  hold(person.notifications);
  phone.stream = stream(`/city/people/${number}/phone`, received, (how) => how === "open" && ask(number));
  show($("phone"), true);
  render();
  emit("followed", number);
}

/** What came while there was no stream: before it was opened, or while it was cut off. */
async function ask(number) {
  const person = await get(`/city/people/${number}`).catch(() => null);
  if (!person || phone.number !== number) return;
  phone.person = person;
  hold(person.notifications);
  render();
}

/** The server sends the newest first; on the phone's tape they are in order, each once. */
function hold(notifications) {
  for (const each of [...notifications].reverse()) {
    const key = `${each.channel} ${each.execution} ${JSON.stringify(each.params)}`;
    if (phone.known.has(key)) continue;
    phone.known.add(key);
    if (phone.known.size > KNOWN) phone.known.delete(phone.known.values().next().value);
    phone.got.push(each.at, { kind: "notification", ...each });
  }
}

function received(event, data) {
  if (event === "notification") {
    hold([data]);
  } else if (event === "migrated") {
    phone.person.broker = data.to;
    phone.got.push(clock.present, { kind: "migrated", ...data });
  } else {
    return;
  }
  render();
}

export function leave() {
  phone.stream?.stop();
  Object.assign(phone, { number: -1, person: null, stream: null });
  phone.got.clear();
  phone.known.clear();
  shown = "";
  show($("phone"), false);
  emit("followed", -1);
}

/** The broker of a person at the moment that is shown. */
function then(number) {
  const tick = tape.people.at(clock.end);
  return tick && number < countOf(tick) ? city.brokers[brokerOf(tick, number)] : undefined;
}

function render() {
  if (phone.number < 0) return;
  say($("phone-clock"), format.clock(clock.now).slice(0, 5));
  const end = phone.got.until(clock.end);
  const items = phone.got.items.slice(0, end).reverse();
  const broker = clock.live ? phone.person.broker : then(phone.number);
  const state = `${phone.number} ${end} ${phone.got.times.at(0)} ${phone.got.items.length} ${broker}`;
  if (state === shown) return;
  shown = state;
  say($("phone-name"), phone.person.name || `Person ${phone.number}`);
  const about = `no. ${phone.number}${phone.person.riding ? ", riding" : ""}`;
  const where = broker ? [`${about}, with `, el("i", { colour: brokerColour(city.brokers.indexOf(broker)) }), ` ${broker}`] : [`${about}, not connected`];
  $("phone-where").replaceChildren(...where);
  $("phone-what").replaceChildren(...phone.person.subscriptions.map(({ channel, params }) => el("li", {}, ...subscription(channel, params))));
  lay($("phone-list"), items.length ? items.slice(0, 60).map(entry) : [NOTHING]);
}

/** A subscription in words: its arguments, and the channel. */
function subscription(channel, params) {
  const values = Object.values(params ?? {}).filter((value) => value !== phone.person.id);
  const name = format.words(channel);
  return [values.length ? el("b", {}, values.join(", ")) : null, el("span", { title: name }, name)];
}

const migration = ({ from, to }) => (from && to ? `migrated from ${from} to ${to}` : to ? `connected to ${to}` : `lost its connection to ${from}`);

/** Made once: it may have been opened. */
function entry(each) {
  each.node ??= each.kind === "migrated" ? el("li", { class: "remark" }, migration(each)) : card(each);
  return each.node;
}

function card(each) {
  const [first] = each.rows;
  const kind = first?.kind ?? "";
  const title = kind ? `${format.words(kind)}${first.location ? ` in ${first.location}` : ""}` : format.words(each.channel);
  const late = each.latency_ms === null || each.latency_ms === undefined ? "" : `, ${format.milliseconds(each.latency_ms)}`;
  return el(
    "li",
    { class: "card" },
    el("div", { class: "card-top" }, sign(kind), el("span", {}, title), el("time", {}, format.clock(each.at))),
    ...each.rows.slice(0, ROWS).map((row, index) => (index ? further(row, first) : facts(row))),
    each.rows.length > ROWS ? el("p", {}, `and ${each.rows.length - ROWS} more`) : null,
    el("details", {}, el("summary", {}, `${format.words(each.channel)} #${each.execution}${late}`), el("pre", {}, JSON.stringify(each.rows, null, 1))),
  );
}

const SHOWN = new Set(["report_id", "kind", "location", "lat", "lon", "severity", "message", "time", "metres", "shelters"]);

/** One more row of the same notification, in a line: where it is, if that differs, and what it says. */
function further(row, first) {
  const about = [];
  if (row.kind && (row.kind !== first.kind || row.location !== first.location)) about.push(`${format.words(row.kind)}${row.location ? ` in ${row.location}` : ""}`);
  if (row.metres !== undefined && row.metres !== null) about.push(`${format.metres(row.metres)} away`);
  if (row.message) about.push(row.message);
  if (!about.length) return facts(row);
  return el("p", { class: "further", title: about.join(". ") }, about.join(" · "));
}

/** A row in words where it is an emergency, and everything else it has as it is. */
function facts(row) {
  const box = el("div", {});
  const about = [];
  if (row.severity) about.push(el("span", { class: "severity", title: `severity ${row.severity}` }, "▲".repeat(Math.min(5, row.severity))));
  if (row.metres !== undefined && row.metres !== null) about.push(` ${format.metres(row.metres)} away`);
  if (about.length) box.append(el("p", {}, ...about));
  if (row.message) box.append(el("p", { class: "message" }, row.message));
  const others = Object.entries(row).filter(([name]) => !SHOWN.has(name));
  if (others.length) box.append(el("dl", {}, ...others.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, typeof value === "object" ? JSON.stringify(value) : String(value))])));
  if (row.shelters?.length) {
    box.append(el("ul", { "aria-label": "Nearest shelters" }, ...row.shelters.map((each) => el("li", { title: each.capacity ? `${format.count(each.capacity)} places` : null }, el("span", {}, `⌂ ${each.name}`), el("span", {}, format.metres(each.metres))))));
  }
  return box;
}

export function start() {
  $("phone-close").addEventListener("click", leave);
  for (const kind of ["clock", "moment", "city"]) on(kind, render);
}
