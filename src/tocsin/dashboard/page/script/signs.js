// What lies over the people: shelters, emergencies with their reach, the person who is followed.

import { colour, kindColour } from "./colours.js";
import { calm } from "./dom.js";
import * as format from "./format.js";
import { signPath } from "./icons.js";

const PULSE = 2200;

export class Signs {
  constructor(canvas, camera) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.camera = camera;
    this.shelters = [];
    this.still = "";
  }

  city(map) {
    this.shelters = map.shelters.map((each) => {
      const [u, v] = this.camera.place(each.lon, each.lat);
      return { ...each, u, v };
    });
  }

  /** Drawn again only if something moves or has changed. */
  draw(now, emergencies, followed) {
    const { camera, canvas, context } = this;
    const pulsing = emergencies.some((each) => each.phase !== "fading") && !calm();
    const state = `${camera.version} ${canvas.width} ${emergencies.map((each) => each.id + each.phase + each.radius)} ${followed}`;
    if (!pulsing && state === this.still) return;
    this.still = state;
    const ratio = canvas.width / camera.width;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, camera.width, camera.height);
    this.drawShelters();
    for (const each of emergencies) this.drawReach(each, pulsing ? now : 0);
    for (const each of emergencies) this.drawSign(each);
    if (followed) this.drawFollowed(...followed);
  }

  drawShelters() {
    const { camera, context } = this;
    // From far away a dot is enough: there are many.
    const size = Math.min(18, 3 + camera.zoom * 2.2);
    const ground = colour("panel");
    for (const { u, v } of this.shelters) {
      const [x, y] = [camera.x(u), camera.y(v)];
      if (x < -20 || y < -20 || x > camera.width + 20 || y > camera.height + 20) continue;
      const near = size > 9;
      context.fillStyle = near ? "#1d7a52" : ground;
      context.strokeStyle = "#1d7a52";
      context.lineWidth = 1.4;
      context.beginPath();
      context.roundRect(x - size / 2, y - size / 2, size, size, size / 5);
      context.fill();
      if (near) this.glyph("shelter", x, y, size - 3);
      else context.stroke();
    }
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
    this.glyph(kind, x, y, 17);
    context.globalAlpha = 1;
  }

  glyph(kind, x, y, size) {
    const { context } = this;
    context.save();
    context.translate(x - size / 2, y - size / 2);
    context.scale(size / 24, size / 24);
    context.fillStyle = "#ffffff";
    context.fill(signPath(kind), "evenodd");
    context.restore();
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

  /** What is under the pointer, in words. */
  under(x, y, emergencies) {
    const { camera } = this;
    const close = (u, v, reach) => Math.hypot(camera.x(u) - x, camera.y(v) - y) < reach;
    const found = emergencies.find((each) => close(...camera.place(each.lon, each.lat), 15));
    if (found) {
      const reach = format.metres(found.radius);
      return `${format.words(found.kind)}, ${found.phase}\nseverity ${found.severity}, within ${reach}`;
    }
    const shelter = this.shelters.find((each) => close(each.u, each.v, 8));
    return shelter ? `${shelter.name}\nshelter for ${format.count(shelter.capacity)}` : "";
  }
}
