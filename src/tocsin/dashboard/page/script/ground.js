// Streets, districts, the river and shelters. Drawn again when the view rests; while it moves, the last drawing moves with it.

import { colour } from "./colours.js";
import * as format from "./format.js";
import { glyph } from "./icons.js";

const WIDTHS = { lane: 0.0022, street: 0.0038, avenue: 0.0075, bridge: 0.0075, river: 0.03 };
const REST = 120;
const SHELTER = "#1d7a52";

/** A river does not end where the city does. */
function onwards(points) {
  const beyond = ([x, y], [toX, toY]) => {
    const far = 1 / Math.max(1e-9, Math.hypot(toX - x, toY - y));
    return [toX + (toX - x) * far, toY + (toY - y) * far];
  };
  return [beyond(points[1], points[0]), ...points, beyond(points.at(-2), points.at(-1))];
}

export class Ground {
  constructor(canvas, camera) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.camera = camera;
    this.layer = document.createElement("canvas");
    this.drawn = null; // the view that the layer shows
    this.seen = -1;
    this.moved = 0;
  }

  city(map) {
    const path = (points, closed) => {
      const found = new Path2D();
      points.forEach(([lon, lat], index) => {
        const [u, v] = this.camera.place(lon, lat);
        if (index) found.lineTo(u, v);
        else found.moveTo(u, v);
      });
      if (closed) found.closePath();
      return found;
    };
    this.streets = {};
    for (const { kind, points } of map.streets) {
      (this.streets[kind] ??= new Path2D()).addPath(path(kind === "river" ? onwards(points) : points));
    }
    const most = Math.max(...map.districts.map((each) => each.density), 1e-9);
    this.districts = map.districts.map((each) => {
      const corners = each.polygon.map(([lon, lat]) => this.camera.place(lon, lat));
      const [u, v] = [0, 1].map((axis) => corners.reduce((sum, corner) => sum + corner[axis], 0) / corners.length);
      return { name: each.name, share: each.density / most, path: path(each.polygon, true), u, v };
    });
    this.shelters = map.shelters.map((each) => {
      const [u, v] = this.camera.place(each.lon, each.lat);
      return { ...each, u, v };
    });
    this.forget();
  }

  forget() {
    this.drawn = null;
    this.seen = -1;
  }

  draw(now) {
    const { camera } = this;
    if (!this.districts) return;
    if (camera.version !== this.seen) {
      this.seen = camera.version;
      this.moved = now;
      if (!this.drawn) this.render();
      else this.shift();
      this.stale = true;
    } else if (this.stale && now - this.moved > REST) {
      this.render();
      this.stale = false;
    }
  }

  /** The last drawing, where it is now. */
  shift() {
    const { camera, context, drawn } = this;
    const factor = camera.scale / drawn.scale;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = colour("grass");
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const [x, y] = [camera.x(drawn.u), camera.y(drawn.v)];
    const ratio = this.ratio;
    context.drawImage(
      this.layer,
      (x - drawn.middle * factor) * ratio, (y - (drawn.height / 2) * factor) * ratio,
      this.layer.width * factor, this.layer.height * factor,
    );
  }

  get ratio() {
    return this.canvas.width / this.camera.width;
  }

  render() {
    const { camera, layer } = this;
    layer.width = this.canvas.width;
    layer.height = this.canvas.height;
    const context = layer.getContext("2d");
    const scale = camera.scale * this.ratio;
    context.fillStyle = colour("grass");
    context.fillRect(0, 0, layer.width, layer.height);
    context.setTransform(scale, 0, 0, scale, camera.x(0) * this.ratio, camera.y(0) * this.ratio);
    this.paint(context);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.signs(context);
    this.names(context);
    const { u, v, middle, height } = camera;
    this.drawn = { u, v, middle, height, scale: camera.scale };
    this.context.setTransform(1, 0, 0, 1, 0, 0);
    this.context.drawImage(layer, 0, 0);
  }

  paint(context) {
    const [sparse, dense] = [colour("block"), colour("block-dense")];
    for (const each of this.districts) {
      context.fillStyle = `color-mix(in srgb, ${dense} ${Math.round(each.share * 100)}%, ${sparse})`;
      context.fill(each.path);
    }
    context.lineCap = context.lineJoin = "round";
    const stroke = (kind, name, widen = 1) => {
      if (!this.streets[kind]) return;
      context.strokeStyle = colour(name);
      context.lineWidth = WIDTHS[kind] * widen;
      context.stroke(this.streets[kind]);
    };
    stroke("lane", "street-edge", 1.6);
    stroke("street", "street-edge", 1.5);
    stroke("lane", "street");
    stroke("street", "street");
    stroke("river", "water");
    stroke("avenue", "street-edge", 1.35);
    stroke("bridge", "street-edge", 1.5);
    stroke("avenue", "avenue");
    stroke("bridge", "avenue");
  }

  signs(context) {
    const { camera } = this;
    // From far away a dot is enough: there are many.
    const size = Math.min(18, 2.4 + camera.zoom * 2.2);
    const near = size > 9;
    context.fillStyle = near ? SHELTER : colour("panel");
    context.strokeStyle = SHELTER;
    context.lineWidth = 1.2;
    // Faint, so that the people stand out.
    context.globalAlpha = near ? 1 : 0.6;
    for (const { u, v } of this.shelters) {
      const [x, y] = [camera.x(u), camera.y(v)];
      if (x < -20 || y < -20 || x > camera.width + 20 || y > camera.height + 20) continue;
      context.beginPath();
      context.roundRect(x - size / 2, y - size / 2, size, size, size / 5);
      context.fill();
      if (near) glyph(context, "shelter", x, y, size - 3);
      else context.stroke();
    }
    context.globalAlpha = 1;
  }

  /** The shelter under the pointer, in words. */
  under(x, y) {
    const { camera } = this;
    const found = this.shelters.find(({ u, v }) => Math.hypot(camera.x(u) - x, camera.y(v) - y) < 8);
    return found ? `${found.name}\nshelter for ${format.count(found.capacity)}` : "";
  }

  names(context) {
    const { camera } = this;
    context.font = "600 11px ui-sans-serif, system-ui, sans-serif";
    context.textAlign = "center";
    context.lineJoin = "round";
    context.strokeStyle = colour("block");
    context.lineWidth = 3;
    context.fillStyle = colour("sign");
    for (const { name, u, v } of this.districts) {
      context.strokeText(name.toUpperCase(), camera.x(u), camera.y(v));
      context.fillText(name.toUpperCase(), camera.x(u), camera.y(v));
    }
  }
}
