// What happened and why, the newest at the end.

import { on } from "./bus.js";
import { clock } from "./clock.js";
import { $, el, say, show } from "./dom.js";
import * as format from "./format.js";
import { tape } from "./tape.js";

const SHOWN = 250;
const GROUPS = {
  migrations: new Set(["migration", "order"]),
  placements: new Set(["placed"]),
  brokers: new Set(["joined", "died", "returned", "draining", "undrained", "forgotten"]),
  decisions: new Set(["plan", "deferred", "strategy", "placement"]),
};

const list = $("log-list");
let following = true;
let drawn = [];
let waiting = false;
let put = 0; // where this script has scrolled to

function fits(note, group, words) {
  if (group !== "all" && !GROUPS[group].has(note.kind)) return false;
  return !words || `${note.kind} ${note.subscriber} ${note.source} ${note.target} ${note.text}`.toLowerCase().includes(words);
}

/** The newest that fit, up to the moment. */
function wanted() {
  const group = $("log-kind").value;
  const words = $("log-text").value.trim().toLowerCase();
  const found = [];
  for (let index = tape.notes.until(clock.end) - 1; index >= 0 && found.length < SHOWN; index -= 1) {
    const note = tape.notes.items[index];
    if (fits(note, group, words)) found.push(note);
  }
  return found.reverse();
}

function sentence({ kind, subscriber, source, target, text }) {
  const who = subscriber ? format.brief(subscriber) : "";
  if (kind === "placed" && who) return [`${who} to ${target}`, el("em", {}, ` by ${text}`)];
  if (kind === "migration" || kind === "order") return [`${who} ${source} → ${target}`, el("em", {}, ` ${text}`)];
  return [text];
}

function row(note) {
  const kind = note.kind === "order" ? "migration" : note.kind;
  return el("li", { class: note.kind, title: note.subscriber || null }, el("time", {}, format.clock(note.time)), el("span", { class: "kind" }, kind), el("p", {}, ...sentence(note)));
}

function render() {
  waiting = false;
  const found = wanted();
  // Only what is new at the end is added, where it is.
  const kept = found.indexOf(drawn[0]) === 0 || !drawn.length ? drawn.length : matches(found);
  if (kept < 0) {
    list.replaceChildren(...found.map(row));
  } else {
    const first = drawn.length ? found.indexOf(drawn.at(-1)) + 1 : 0;
    list.append(...found.slice(first).map(row));
    while (list.children.length > found.length) list.firstChild.remove();
  }
  drawn = found;
  show($("log-empty"), !found.length);
  const filtered = $("log-kind").value !== "all" || $("log-text").value.trim();
  say($("log-empty"), filtered && tape.notes.length ? "Nothing matches." : clock.live ? "Nothing has happened yet." : "Nothing had happened yet.");
  settle();
}

/** At the end, if it is followed. */
function settle() {
  if (following) list.scrollTop = list.scrollHeight;
  put = list.scrollTop;
  show($("log-follow"), !following);
}

/** Whether what is drawn runs on into what is wanted; -1 if not. */
function matches(found) {
  const end = found.indexOf(drawn.at(-1));
  return end >= 0 && found[0] === drawn[drawn.length - 1 - end] ? end : -1;
}

function soon() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(render);
}

function redraw() {
  drawn = [];
  list.replaceChildren();
  soon();
}

export function start() {
  on("note", soon);
  on("moment", soon);
  on("clock", soon);
  list.addEventListener("scroll", () => {
    // More may have come since this script scrolled: only scrolling by the user counts.
    if (Math.abs(list.scrollTop - put) < 2) return;
    following = list.scrollHeight - list.scrollTop - list.clientHeight < 24;
    show($("log-follow"), !following);
  });
  new ResizeObserver(settle).observe(list);
  $("log-follow").addEventListener("click", () => {
    following = true;
    settle();
    list.focus();
  });
  $("log-kind").addEventListener("change", redraw);
  $("log-text").addEventListener("input", redraw);
}
