// The dialog that changes strategy and placement.

import { call, get } from "./api.js";
import { emit, on } from "./bus.js";
import { clock } from "./clock.js";
import { $, asked, el, say } from "./dom.js";
import { topology } from "./network.js";
import { attempt, toast } from "./toasts.js";

/** Those that come with Tocsin, in a sentence. */
const ABOUT = {
  "": "Subscribers stay where they are, unless a broker is drained, dies or joins.",
  peal: "Relieves the brokers that carry too much, with as few migrations as possible; brings subscribers with the same subscriptions together where that pays.",
  multistage: "The DEBS 2019 paper’s: places all subscribers again above γ, then migrates single ones above α.",
  ldm: "While cov is above α, migrates the heaviest subscriber of the most loaded broker to the least loaded one.",
  sdm: "While cov is above α, migrates the heaviest subscriber of the most loaded broker to the most similar one below the mean.",
  gsh: "Above γ, places all subscribers again, the heaviest first. Very even, and migrates nearly all of them.",
  join: "Fills up a broker that joins from the most loaded ones, and does nothing else.",
  nearest: "By round trip, or by distance.",
  "round-robin": "One broker after the other.",
  random: "At random, strong brokers more often.",
  "least-loaded": "The least loaded one by the last reports: many at once go to the same.",
  "two-choices": "Two at random, and the less loaded of them.",
};

let strategies = null;

function fields(name) {
  const defaults = strategies.known[name] ?? {};
  const values = name === strategies.strategy ? strategies.settings : defaults;
  $("settings").replaceChildren(...Object.entries(defaults).map(([key, value]) => {
    const number = typeof value === "number";
    const input = el("input", { id: `setting-${key}`, name: key, type: number ? "number" : "text", step: "any", required: true });
    input.value = values[key] ?? value;
    return el("div", {}, el("label", { for: `setting-${key}` }, key), input);
  }));
}

/** Only what is not the default: that may become a better one. */
function chosenSettings(name) {
  const found = {};
  for (const [key, value] of Object.entries(strategies.known[name] ?? {})) {
    const text = $(`setting-${key}`).value;
    const given = typeof value === "number" ? Number(text) : text;
    if (given !== value) found[key] = given;
  }
  return found;
}

function explain() {
  for (const id of ["strategy", "placement"]) say($(`${id}-about`), ABOUT[$(id).value] ?? "");
}

async function open() {
  const [found, placements] = await Promise.all([get("/strategy"), get("/placement")]);
  strategies = found;
  const option = (name, label, now) => el("option", { value: name, selected: name === now }, label);
  $("strategy").replaceChildren(...Object.keys(found.known).map((name) => option(name, name, found.strategy)), option("", "none: no migrations", found.strategy));
  $("placement").replaceChildren(...placements.known.map((name) => option(name, name, placements.placement)));
  fields(found.strategy);
  explain();
  if (await asked("balancing")) await apply(found, placements);
}

async function apply(before, placements) {
  const [strategy, placement] = [$("strategy").value, $("placement").value];
  const settings = chosenSettings(strategy);
  const same = strategy === before.strategy && Object.entries(before.known[strategy] ?? {}).every(([key, value]) => (settings[key] ?? value) === before.settings[key]);
  if (!same) {
    // Swapped components belong to their strategy.
    const components = strategy === before.strategy ? before.components : {};
    await call("PUT", "/strategy", { strategy, settings, components });
    toast(strategy ? `Load is balanced by ${strategy} from now on.` : "No subscriber is migrated from now on.");
  }
  if (placement !== placements.placement) {
    await call("PUT", "/placement", { placement });
    toast(`Newcomers are placed by ${placement} from now on.`);
  }
  emit("switched");
}

export function start() {
  const button = $("balancing-open");
  on("clock", () => {
    button.disabled = !clock.live;
  });
  button.addEventListener("click", () => attempt(button, open));
  $("strategy").addEventListener("change", () => fields($("strategy").value));
  $("balancing").addEventListener("change", explain);
  $("words-open").addEventListener("click", () => asked("words"));
  for (const kind of ["topology", "clock", "moment"]) {
    on(kind, () => {
      const now = topology();
      if (!now) return;
      say($("balancing-now"), `${now.strategy || "none"} · ${now.placement}`);
      button.title = $("balancing-now").textContent; // on a phone there is not room for all of it
    });
  }
}
