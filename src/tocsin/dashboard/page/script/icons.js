// Signs in a box of 24 by 24, for the map and for lists alike.

import { svg } from "./dom.js";
import { kindColour } from "./colours.js";

const SIGNS = {
  fire: "M13 2c1 4 5 6 5 11a6 6 0 0 1-12 0c0-3 2-4 2.500-7C11 7 12 9 11.500 11 14 9 14 5 13 2z",
  flood: "M12 2 5 9v5h3v-4h8v4h3V9zM3 16c2 0 2 1.500 4.500 1.500S10 16 12 16s2 1.500 4.500 1.500S19 16 21 16v2c-2 0-2 1.500-4.500 1.500S14 18 12 18s-2 1.500-4.500 1.500S5 18 3 18z",
  storm: "M7 13a4.500 4.500 0 0 1 .5-9A6 6 0 0 1 19 6.500 3.500 3.500 0 0 1 18 13zm5 1h4l-3 3h3l-6 6 2-5H9z",
  "gas leak": "M9 2h6v4h-1v2a6 6 0 0 1 4 6v6a2 2 0 0 1-2 2H8a2 2 0 0 1-2-2v-6a6 6 0 0 1 4-6V6H9zm3 9c-2 3-3 4-3 5.500a3 3 0 0 0 6 0C15 15 14 14 12 11z",
  "power cut": "M13 2 5 14h6l-1 8 9-13h-6z",
  "road accident": "M5 11 7 6h10l2 5 2 1v6h-3v2h-3v-2H9v2H6v-2H3v-6zm3-3-1 3h10l-1-3zM7 13.500a1.500 1.500 0 1 0 0 3 1.500 1.500 0 0 0 0-3zm10 0a1.500 1.500 0 1 0 0 3 1.500 1.500 0 0 0 0-3z",
  "chemical spill": "M9 2h6v2h-1v5l5 9a2.600 2.600 0 0 1-2 4H7a2.600 2.600 0 0 1-2-4l5-9V4H9zm-.5 13h7L13 10h-2z",
  "missing person": "M12 3a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM4 21c0-5 3-8 8-8s8 3 8 8z",
  shelter: "M12 3 3 11h2v9h5v-6h4v6h5v-9h2z",
};
const BELL = "M12 2a2 2 0 0 0-2 2v.5A6 6 0 0 0 6 10v5l-2 3h16l-2-3v-5a6 6 0 0 0-4-5.500V4a2 2 0 0 0-2-2zm-2.500 17a2.500 2.500 0 0 0 5 0z";

const paths = new Map();

function signPath(kind) {
  if (!paths.has(kind)) paths.set(kind, new Path2D(SIGNS[kind] ?? BELL));
  return paths.get(kind);
}

/** Draws a sign in white, with its middle at (x, y). */
export function glyph(context, kind, x, y, size) {
  context.save();
  context.translate(x - size / 2, y - size / 2);
  context.scale(size / 24, size / 24);
  context.fillStyle = "#ffffff";
  context.fill(signPath(kind), "evenodd");
  context.restore();
}

export function sign(kind) {
  const node = svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: SIGNS[kind] ?? BELL }));
  node.style.background = kindColour(kind);
  return node;
}
