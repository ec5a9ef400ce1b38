// Server-Sent Events by fetch: resumes where it was, and notices a silent connection.

import * as api from "./api.js";

const SILENCE = 30_000;
const PAUSES = [500, 1000, 2000, 3000];

/**
 * Follows `path` until `stop()`. `received(event, data)` is called for each event, `state("open" | "down" | status)` for each change of the connection.
 * A status of 404 is final: there is no such thing. So is 401 if the operator gives no token.
 */
export function follow(path, received, state = () => {}) {
  let last = "";
  let tries = 0;
  let stopped = false;
  let abort = new AbortController();

  async function once() {
    abort = new AbortController();
    let watchdog = setTimeout(() => abort.abort(), SILENCE);
    try {
      const headers = { ...api.headers(), accept: "text/event-stream", ...(last ? { "last-event-id": last } : {}) };
      const response = await fetch(path, { headers, signal: abort.signal, cache: "no-store" });
      if (!response.ok) {
        clearTimeout(watchdog);
        if (response.status === 401 && (await api.askToken(await api.problem(response)))) return true;
        state(response.status);
        return response.status !== 404 && response.status !== 401;
      }
      tries = 0;
      state("open");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        clearTimeout(watchdog);
        watchdog = setTimeout(() => abort.abort(), SILENCE);
        text = blocks(text + value, (event, data, id) => {
          if (id) last = id;
          if (event === "gap") last = "";
          received(event, data);
        });
      }
    } catch {
      // Cut off, or not there: tried again below.
    } finally {
      clearTimeout(watchdog);
    }
    if (!stopped) state("down");
    return true;
  }

  async function run() {
    while (!stopped && (await once()) && !stopped) {
      await new Promise((done) => setTimeout(done, PAUSES[Math.min(tries, PAUSES.length - 1)]));
      tries += 1;
    }
  }

  run();
  return {
    stop() {
      stopped = true;
      abort.abort();
    },
  };
}

/** Calls `received` for every whole event in the text; returns the rest. */
export function blocks(text, received) {
  const parts = text.split("\n\n");
  for (const part of parts.slice(0, -1)) {
    let event = "message";
    let id = "";
    const data = [];
    for (const line of part.split("\n")) {
      const colon = line.indexOf(":");
      const name = line.slice(0, colon);
      const value = line.slice(colon + 1).replace(/^ /, "");
      if (name === "event") event = value;
      else if (name === "id") id = value;
      else if (name === "data") data.push(value);
    }
    if (data.length) received(event, JSON.parse(data.join("\n")), id);
  }
  return parts.at(-1);
}
