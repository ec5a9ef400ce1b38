// Light or dark: as the system has it, until the button says otherwise.

import { emit } from "./bus.js";
import { $ } from "./dom.js";

const KEY = "tocsin-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

const chosen = () => localStorage.getItem(KEY);
const dark = () => (chosen() ? chosen() === "dark" : system.matches);

function apply() {
  if (chosen()) document.documentElement.dataset.theme = chosen();
  $("theme").setAttribute("aria-label", dark() ? "Switch to light colours" : "Switch to dark colours");
  emit("theme");
}

export function start() {
  $("theme").addEventListener("click", () => {
    localStorage.setItem(KEY, dark() ? "light" : "dark");
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}
