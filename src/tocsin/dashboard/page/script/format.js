// Figures and times as people read them.

const whole = new Intl.NumberFormat("en");

export const count = (value) => whole.format(Math.round(value));

/** Bytes a second, short. */
export function load(value) {
  if (value >= 1e9) return `${(value / 1e9).toFixed(1)} G`;
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(0)} k`;
  if (value >= 1e3) return `${(value / 1e3).toFixed(1)} k`;
  return value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1);
}

export function ratio(value) {
  if (value === 0 || value >= 10) return value.toFixed(0);
  return value.toFixed(value < 0.1 ? 3 : 2);
}

export function milliseconds(value) {
  if (value >= 10_000) return `${(value / 1000).toFixed(0)} s`;
  if (value === 0) return "0";
  return value >= 1000 ? `${(value / 1000).toFixed(1)} s` : `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}

export function duration(seconds) {
  if (seconds < 1) return milliseconds(seconds * 1000);
  if (seconds < 120) return `${seconds % 1 ? seconds.toFixed(1) : seconds} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");

export const metres = (value) => (value >= 1000 ? `${(value / 1000).toFixed(1)} km` : `${Math.round(value)} m`);

/** Subscribers have long names; some differ at the beginning, and numbered ones at the end. */
export const brief = (name) => (name.length > 14 ? `${name.slice(0, 6)}…${name.slice(-6)}` : name);

export const words = (name) =>
  name.replace(/([a-z])([A-Z])/g, (_, before, next) => `${before} ${next.toLowerCase()}`).replace(/^./, (first) => first.toUpperCase());
