// Requests to the page's own server. An error becomes a Problem that says what to do.

import { $, asked } from "./dom.js";

const KEY = "tocsin-admin-token";

/** APIs that the page's server has beside the coordinator's: "local" adds and kills brokers, "city" is the city panel. */
export const features = new Set(document.querySelector("meta[name=features]").content.split(" "));

export class Problem extends Error {
  constructor(message, hint = "", status = 0) {
    super(message);
    this.hint = hint;
    this.status = status;
  }
}

/** With the token of the operator, if the page has asked for it. */
export function headers(body) {
  const token = sessionStorage.getItem(KEY);
  return {
    ...(body === undefined ? {} : { "content-type": "application/json" }),
    ...(token ? { authorization: `Bearer ${token}` } : {}),
  };
}

async function send(method, path, body) {
  try {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return await fetch(path, { method, headers: headers(body), body: text });
  } catch {
    throw new Problem("The coordinator does not answer.", "Is it running? The page continues when it is back.");
  }
}

export async function problem(response) {
  const { message, hint } = (await response.json().catch(() => ({}))).error ?? {};
  return new Problem(sentence(message || `The answer was ${response.status}`), sentence(hint ?? ""), response.status);
}

function sentence(text) {
  const whole = text ? text[0].toUpperCase() + text.slice(1) : "";
  return whole && !/[.!?]$/.test(whole) ? `${whole}.` : whole;
}

/** The JSON answer. Where the coordinator asks for its token, so does the page, and tries again. */
export async function call(method, path, body) {
  let response = await send(method, path, body);
  while (!response.ok) {
    const found = await problem(response);
    if (response.status !== 401 || !(await askToken(found))) throw found;
    response = await send(method, path, body);
  }
  return response.json();
}

export const get = (path) => call("GET", path);

let asking = null;

/** Whether there is another token to try. Requests that are refused at the same time share one question. */
export function askToken(found) {
  asking ??= ask(found).finally(() => (asking = null));
  return asking;
}

async function ask(found) {
  $("token-value").value = "";
  $("token-text").textContent = sessionStorage.getItem(KEY)
    ? "That is not the token. It is what the coordinator was started with (--admin-token)."
    : `${found.message} It is what the coordinator was started with (--admin-token or TOCSIN_COORDINATOR_ADMIN_TOKEN).`;
  const yes = await asked("token");
  const given = $("token-value").value;
  if (!yes || !given) return false;
  sessionStorage.setItem(KEY, given);
  return true;
}
