// Another strategy or placement: a dialog with what there is.

import { call, get } from "./api.js";
import { emit, on } from "./bus.js";
import { $, asked, el, say } from "./dom.js";
import { picture } from "./network.js";
import { attempt, toast } from "./toasts.js";

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

async function open() {
  const [found, placements] = await Promise.all([get("/strategy"), get("/placement")]);
  strategies = found;
  const option = (name, label, now) => el("option", { value: name, selected: name === now }, label);
  $("strategy").replaceChildren(...Object.keys(found.known).map((name) => option(name, name, found.strategy)), option("", "none: nobody is moved", found.strategy));
  $("placement").replaceChildren(...placements.known.map((name) => option(name, name, placements.placement)));
  fields(found.strategy);
  if (await asked("balancing")) await apply(found, placements);
}

async function apply(before, placements) {
  const [strategy, placement] = [$("strategy").value, $("placement").value];
  const settings = chosenSettings(strategy);
  const same = strategy === before.strategy && Object.entries(before.known[strategy] ?? {}).every(([key, value]) => (settings[key] ?? value) === before.settings[key]);
  if (!same) {
    await call("PUT", "/strategy", { strategy, settings });
    toast(strategy ? `Load is balanced by ${strategy} from now on.` : "Nobody is moved from now on.");
  }
  if (placement !== placements.placement) {
    await call("PUT", "/placement", { placement });
    toast(`Newcomers are placed by ${placement} from now on.`);
  }
  emit("switched");
}

export function start() {
  const button = $("balancing-open");
  button.addEventListener("click", () => attempt(button, open));
  $("strategy").addEventListener("change", () => fields($("strategy").value));
  for (const kind of ["picture", "clock", "moment"]) {
    on(kind, () => {
      const now = picture();
      if (now) say($("balancing-now"), `${now.strategy || "none"} · ${now.placement}`);
    });
  }
}
