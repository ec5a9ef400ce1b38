// A colour for each broker and each kind of emergency, and the page's own for what is drawn on a canvas.

const BROKERS = [
  "#3f7fd9", "#e0812b", "#22a06b", "#b558c9", "#d8465c", "#1fa3b8",
  "#a0762f", "#7c9a1c", "#e36aa5", "#6f63e8", "#5f7f8c", "#c9a400",
];
const KINDS = {
  fire: "#d6402b", flood: "#2574c4", storm: "#6a54b8", "gas leak": "#b8860b", "power cut": "#4a4f5c",
  "road accident": "#c2571a", "chemical spill": "#3f8f3a", "missing person": "#a03f86",
};

export const GREY = "#8b93a3";

/** By the broker's place in the city's list, or among those the coordinator knows. */
export const brokerColour = (index) => (index < 0 || index === 255 ? GREY : BROKERS[index % BROKERS.length]);
export const kindColour = (kind) => KINDS[kind] ?? "#8a4f0c";

const probe = document.createElement("i");
probe.hidden = true;
document.documentElement.append(probe);

/** The value of a custom property as it is now, light or dark. */
export function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

/** 0xAABBGGRR, as pixels are stored. */
export function pixel(hex, alpha = 255) {
  const value = parseInt(hex.slice(1), 16);
  return ((alpha << 24) | ((value & 0xff) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}
