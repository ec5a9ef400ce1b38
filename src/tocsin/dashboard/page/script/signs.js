// The layer over the people: emergencies with their radius, the person who is followed.

import { colour, kindColour } from "./colours.js";
import { calm } from "./dom.js";
import * as format from "./format.js";
import { glyph } from "./icons.js";

const PULSE = 2200;
/** Milliseconds between two drawings of a pulse: more would not be visible. */
const STEP = 48;

export class Signs {
  constructor(canvas, camera) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.camera = camera;
    this.still = "";
    this.drawn = 0;
  }

  /** Drawn again only if something moves or has changed. */
  draw(now, emergencies, followed) {
    const { camera, canvas, context } = this;
    const pulsing = emergencies.some((each) => each.phase !== "fading") && !calm();
    const state = `${camera.version} ${canvas.width} ${emergencies.map((each) => each.id + each.phase + each.radius)} ${followed}`;
    if (state === this.still && (!pulsing || now - this.drawn < STEP)) return;
    this.still = state;
    this.drawn = now;
    const ratio = canvas.width / camera.width;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, camera.width, camera.height);
    for (const each of emergencies) this.drawReach(each, pulsing ? now : 0);
    for (const each of emergencies) this.drawSign(each);
    if (followed) this.drawFollowed(...followed);
  }

  drawReach({ kind, lat, lon, radius, phase }, now) {
    const { camera, context } = this;
    const [u, v] = camera.place(lon, lat);
    const [x, y, reach] = [camera.x(u), camera.y(v), Math.max(10, camera.metres(radius))];
    const tint = kindColour(kind);
    const circle = (r, alpha, fill) => {
      context.globalAlpha = alpha;
      context.beginPath();
      context.arc(x, y, r, 0, 2 * Math.PI);
      if (fill) {
        context.fillStyle = tint;
        context.fill();
      } else {
        context.strokeStyle = tint;
        context.lineWidth = 2;
        context.stroke();
      }
    };
    const faint = phase === "fading" ? 0.5 : 1;
    circle(reach, 0.16 * faint, true);
    circle(reach, 0.75 * faint, false);
    if (now && phase !== "fading") {
      const part = (now % PULSE) / PULSE;
      circle(reach * (0.2 + 0.8 * part), 0.6 * (1 - part), false);
    }
    context.globalAlpha = 1;
  }

  drawSign({ kind, lat, lon, phase }) {
    const { camera, context } = this;
    const [u, v] = camera.place(lon, lat);
    const [x, y] = [camera.x(u), camera.y(v)];
    context.globalAlpha = phase === "fading" ? 0.65 : 1;
    context.fillStyle = kindColour(kind);
    context.strokeStyle = "#ffffff";
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x, y, 13, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
    glyph(context, kind, x, y, 17);
    context.globalAlpha = 1;
  }

  drawFollowed(u, v) {
    const { camera, context } = this;
    const [x, y] = [camera.x(u), camera.y(v)];
    for (const [width, tint] of [[5, colour("panel")], [2.5, colour("ink")]]) {
      context.lineWidth = width;
      context.strokeStyle = tint;
      context.beginPath();
      context.arc(x, y, 11, 0, 2 * Math.PI);
      context.stroke();
    }
  }

  /** The emergency under the pointer, in words. */
  under(x, y, emergencies) {
    const { camera } = this;
    const found = emergencies.find((each) => {
      const [u, v] = camera.place(each.lon, each.lat);
      return Math.hypot(camera.x(u) - x, camera.y(v) - y) < 15;
    });
    if (!found) return "";
    const where = found.district ? ` in ${found.district}` : "";
    return `${format.words(found.kind)}${where}, ${found.phase}\nseverity ${found.severity} of 5, within ${format.metres(found.radius)}`;
  }
}
