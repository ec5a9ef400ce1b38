// Short messages: what was done, or what went wrong and how to fix it.

import { $, asked, el } from "./dom.js";

const MOST = 4;

export function toast(message, hint = "", wrong = false) {
  const node = el(
    "div",
    { class: wrong ? "toast wrong" : "toast", role: wrong ? "alert" : null },
    el("div", {}, el("strong", {}, message), hint && el("p", {}, hint)),
    el("button", { type: "button", "aria-label": "Dismiss", onclick: () => node.remove() }, "×"),
  );
  const box = $("toasts");
  box.append(node);
  while (box.children.length > MOST) box.firstChild.remove();
  setTimeout(() => node.remove(), wrong ? 12_000 : 5_000);
}

/** Runs the action of a button, which is off meanwhile, and shows its error. */
export async function attempt(button, what) {
  // Not disabled: that would take the focus away from keyboard users.
  if (button.ariaDisabled === "true") return;
  button.ariaDisabled = "true";
  try {
    await what();
  } catch (error) {
    toast(error.message, error.hint ?? "", true);
  } finally {
    button.ariaDisabled = "false";
  }
}

export function confirmed(title, text, yes) {
  $("confirm-title").textContent = title;
  $("confirm-text").textContent = text;
  $("confirm-yes").textContent = yes;
  return asked("confirm");
}
