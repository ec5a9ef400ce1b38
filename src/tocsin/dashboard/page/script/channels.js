// Channels of the data cluster: their period, how long the last execution took, its results.

import { headers, problem } from "./api.js";
import { on } from "./bus.js";
import { clock } from "./clock.js";
import { $, el, show } from "./dom.js";
import * as format from "./format.js";

const EVERY = 3000;

const results = new Map(); // channel: {execution, rows}

async function lastResults(channel) {
  const known = results.get(channel.name);
  if (!channel.last_execution) return 0;
  if (known?.execution === channel.last_execution) return known.rows;
  const path = `/cluster/channels/${encodeURIComponent(channel.name)}/executions?after=${channel.last_execution - 1}&limit=1`;
  const response = await fetch(path, { headers: headers() });
  if (!response.ok) return known?.rows ?? null;
  const [found] = (await response.json()).executions;
  results.set(channel.name, { execution: channel.last_execution, rows: found?.rows ?? 0 });
  return found?.rows ?? 0;
}

function row(channel, found) {
  const slow = channel.period !== null && channel.last_seconds !== null && channel.last_seconds > channel.period;
  const failing = channel.state === "running" ? null : el("span", { class: "badge failing" }, channel.state);
  const late = slow && !failing ? el("span", { class: "badge", title: "It took longer than its period" }, "late") : null;
  return el(
    "tr", { "data-channel": channel.name },
    el("td", {}, ...channel.name.split(/(?<=[a-z])(?=[A-Z])/).flatMap((word) => [word, el("wbr")]), failing, failing && channel.error && el("p", {}, channel.error)),
    el("td", {}, channel.period === null ? "at once" : format.duration(channel.period)),
    el("td", { class: slow ? "late" : "" }, late, channel.last_seconds === null ? "–" : format.duration(channel.last_seconds)),
    el("td", {}, found === null ? "–" : format.count(found)),
    el("td", {}, format.count(channel.subscriptions)),
  );
}

function say(...parts) {
  $("channel-rows").replaceChildren();
  $("channels-empty").replaceChildren(...parts);
  show($("channels-empty"), true);
}

/** False if there is no data cluster to ask. */
async function look() {
  let response;
  try {
    response = await fetch("/cluster/channels", { headers: headers() });
  } catch {
    return true; // the banner says it
  }
  if (response.status === 404) {
    say("The coordinator does not know the data cluster. ", el("br"), el("code", {}, "tocsin coordinator --cluster ADDRESS"));
    return false;
  }
  if (!response.ok) {
    const { message, hint } = await problem(response);
    say(`${message} ${hint}`);
    return true;
  }
  const { channels } = await response.json();
  const found = await Promise.all(channels.map(lastResults));
  $("channel-rows").replaceChildren(...channels.map((each, index) => row(each, found[index])));
  show($("channels-empty"), !channels.length);
  if (!channels.length) say("There is no channel yet.");
  return true;
}

export async function start() {
  // They are not on the tape.
  on("clock", () => show($("channels-now"), !clock.live));
  while (document.hidden || (await look().catch(() => true))) await new Promise((done) => setTimeout(done, EVERY));
}
