// Finds a person to follow, by name, number or district, with suggestions while typing.

import { get } from "./api.js";
import { on } from "./bus.js";
import { city } from "./city_api.js";
import { $, el, show } from "./dom.js";
import * as format from "./format.js";
import { follow } from "./phone.js";
import { toast } from "./toasts.js";

const PAUSE = 150;

const input = $("search-who");
const list = $("search-found");
let found = [];
let at = -1; // which of them is marked
let asked = 0;
let timer = 0;

async function ask(query) {
  const mine = (asked += 1);
  const answer = query ? (await get(`/city/find?who=${encodeURIComponent(query)}`)).found : [];
  // A later query has replaced this one.
  if (mine !== asked) return false;
  found = answer;
  return true;
}

function render() {
  list.replaceChildren(...found.map((each, index) => el(
    "li",
    {
      id: `search-${index}`, role: "option", "aria-selected": String(index === at),
      // Before the field loses the focus and the list closes.
      onpointerdown: (event) => {
        event.preventDefault();
        take(index);
      },
    },
    el("strong", {}, each.name), el("span", {}, `no. ${each.number}`), el("span", {}, each.district),
  )));
  show(list, found.length > 0);
  input.setAttribute("aria-expanded", String(found.length > 0));
  if (at >= 0) input.setAttribute("aria-activedescendant", `search-${at}`);
  else input.removeAttribute("aria-activedescendant");
}

function close() {
  asked += 1;
  clearTimeout(timer);
  [found, at] = [[], -1];
  render();
}

function take(index) {
  const { number } = found[index];
  close();
  input.value = "";
  follow(number);
}

async function submit(event) {
  event.preventDefault();
  clearTimeout(timer);
  if (at >= 0) return take(at);
  const query = input.value.trim();
  try {
    if (!(await ask(query))) return;
  } catch (error) {
    toast(error.message, error.hint ?? "", true);
    return;
  }
  if (found.length) return take(0);
  const most = format.count(Math.max(0, (city.facts?.subscribers ?? 1) - 1));
  toast(
    query ? `No person matches “${query}”.` : "Enter the person to follow.",
    `By name, by a number from 0 to ${most}, or by a district. Or click on a person on the map.`,
    true,
  );
}

function key(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && found.length) {
    event.preventDefault();
    at = (at + step + found.length + (at < 0 && step < 0 ? 1 : 0)) % found.length;
    render();
  } else if (event.key === "Escape" && found.length) {
    event.preventDefault();
    close();
  }
}

export function start() {
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      at = -1;
      if (await ask(input.value.trim()).catch(() => false)) render();
    }, PAUSE);
  });
  input.addEventListener("keydown", key);
  input.addEventListener("blur", close);
  $("search").addEventListener("submit", submit);
}
