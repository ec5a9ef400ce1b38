// People as dots, straight into pixels: twenty thousand of them, sixty times a second.
//
// A tick is a frame of the city API: tick and count, then x, y (u16), broker and flags (u8) for each person.

import { brokerColour, GREY, pixel } from "./colours.js";

const NOTIFIED = 2;
const CUT_OFF = 4;
const EDGE = 65535;
/** Pixels: a step that is smaller than this is not worth drawing all people again. */
const SEEN = 0.6;
const HALO = pixel("#e5a02c", 150);

export const countOf = (buffer) => new DataView(buffer).getUint32(4, true);

/** The number of a person's broker. */
export const brokerOf = (buffer, number) => new Uint8Array(buffer)[12 + 6 * number];

/** Pixels around a point that a dot of this radius covers, by how much: whole ones and those at its rim. */
function stamp(radius) {
  const found = [];
  const reach = Math.ceil(radius);
  for (let y = -reach; y <= reach; y += 1) {
    for (let x = -reach; x <= reach; x += 1) {
      const cover = radius + 0.5 - Math.hypot(x, y);
      if (cover > 0.15) found.push({ x, y, alpha: Math.min(1, cover) });
    }
  }
  return { found, reach };
}

/** The greatest step of a person between two ticks, in the frame's units. */
function farthest(before, after) {
  const [a, b] = [new Uint16Array(before), new Uint16Array(after)];
  const end = 4 + 3 * Math.min(countOf(before), countOf(after));
  let found = 0;
  for (let at = 4; at < end; at += 3) {
    const step = Math.max(Math.abs(b[at] - a[at]), Math.abs(b[at + 1] - a[at + 1]));
    if (step > found) found = step;
  }
  return found;
}

export class People {
  constructor(canvas, camera) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.camera = camera;
    this.chosen = -1; // the broker whose people stand out
    this.palette = new Map();
    this.spent = 0;
  }

  resize() {
    const { width, height } = this.canvas;
    this.image = this.context.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.stamps = {};
  }

  /** Offsets and colours of a dot, made once for each size and colour. */
  dot(radius, hex, faint) {
    const key = `${radius}${hex}${faint}`;
    if (!this.stamps[key]) {
      const { found, reach } = stamp(radius);
      const width = this.canvas.width;
      this.stamps[key] = {
        reach,
        offsets: Int32Array.from(found, ({ x, y }) => y * width + x),
        values: Uint32Array.from(found, ({ alpha }) => pixel(hex, Math.round(alpha * (faint ? 60 : 255)))),
      };
    }
    return this.stamps[key];
  }

  /** The share of the way between two ticks for which no dot visibly moves. */
  unseen(before, after) {
    if (before !== this.pair?.[0] || after !== this.pair?.[1]) {
      this.pair = [before, after];
      this.farthest = before && after ? farthest(before, after) : 0;
    }
    const pixels = (this.farthest / EDGE) * this.camera.scale * this.camera.aspect * (this.canvas.width / this.camera.width);
    return Math.min(1, SEEN / Math.max(pixels, SEEN));
  }

  /** Between two ticks, `part` of the way. */
  draw(before, after, part) {
    this.shown = [before, after, part];
    const { camera, canvas, pixels } = this;
    const { width, height } = canvas;
    pixels.fill(0);
    if (before) {
      const ratio = width / camera.width;
      const scale = camera.scale * ratio;
      const [kx, ky] = [(scale * camera.aspect) / EDGE, scale / EDGE];
      const [ox, oy] = [camera.x(0) * ratio, camera.y(0) * ratio];
      const count = Math.min(countOf(before), countOf(after));
      const [a, b, bytes] = [new Uint16Array(before), new Uint16Array(after), new Uint8Array(after)];
      const radius = Math.max(1, Math.min(4, (count > 5000 ? 0.9 : count > 1500 ? 1.5 : count > 600 ? 2.1 : 2.6) * camera.zoom ** 0.5)) * ratio;
      const dots = Array.from({ length: 256 }, (_, index) =>
        this.dot(radius, brokerColour(index), this.chosen >= 0 && index !== this.chosen));
      const cut = this.dot(radius, GREY, false);
      const halo = stampHalo(radius * 2.4, width);
      const margin = Math.max(halo.reach, cut.reach) + 1;
      for (let i = 0, at = 4, byte = 12; i < count; i += 1, at += 3, byte += 6) {
        const x = ((a[at] + (b[at] - a[at]) * part) * kx + ox) | 0;
        const y = ((a[at + 1] + (b[at + 1] - a[at + 1]) * part) * ky + oy) | 0;
        if (x < margin || y < margin || x >= width - margin || y >= height - margin) continue;
        const flags = bytes[byte + 1];
        const centre = y * width + x;
        if (flags & NOTIFIED) for (const offset of halo.offsets) pixels[centre + offset] = HALO;
        const { offsets, values } = flags & CUT_OFF ? cut : dots[bytes[byte]];
        for (let k = 0; k < offsets.length; k += 1) pixels[centre + offsets[k]] = values[k];
      }
    }
    this.context.putImageData(this.image, 0, 0);
  }

  /** Number of the person nearest to a point on the canvas, within reach; -1 for none. */
  near(buffer, x, y, reach = 14) {
    const { camera } = this;
    const data = new Uint16Array(buffer);
    let [best, found] = [reach * reach, -1];
    for (let i = 0, at = 4; i < countOf(buffer); i += 1, at += 3) {
      const dx = camera.x((data[at] / EDGE) * camera.aspect) - x;
      const dy = camera.y(data[at + 1] / EDGE) - y;
      const away = dx * dx + dy * dy;
      if (away < best) [best, found] = [away, i];
    }
    return found;
  }

  /** Where a person is between two ticks, in the city's coordinates. */
  where(number, before, after, part) {
    if (number < 0 || !before || number >= countOf(before) || number >= countOf(after)) return null;
    const [a, b, at] = [new Uint16Array(before), new Uint16Array(after), 4 + 3 * number];
    const way = (k) => (a[at + k] + (b[at + k] - a[at + k]) * part) / EDGE;
    return [way(0) * this.camera.aspect, way(1)];
  }
}

let ring = { radius: 0 };

function stampHalo(radius, width) {
  if (ring.radius !== radius || ring.width !== width) {
    const { found, reach } = stamp(radius);
    const inner = radius - Math.max(1, radius / 3.5);
    const offsets = found.filter(({ x, y }) => Math.hypot(x, y) > inner).map(({ x, y }) => y * width + x);
    ring = { radius, width, reach, offsets: Int32Array.from(offsets) };
  }
  return ring;
}
