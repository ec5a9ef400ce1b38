// Lines over time, with limits, and the values under the pointer or at the moment that is shown.

import { clock } from "./clock.js";
import { el, svg } from "./dom.js";
import * as format from "./format.js";

const LEFT = 48;
const BOTTOM = 16;
const TOP = 6;
const POINTS = 400;
/** Fewer than these are drawn as dots too. */
const FEW = 30;
const ROUND = [1, 2, 4, 5, 10];
const TICKS = [5, 10, 30, 60, 120, 300, 600, 1800, 3600];

/** The next round number. */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ROUND.find((each) => each * power >= value * 0.999);
}

export class Chart {
  /** `series`: [{name, colour, value(item)}]; `shown`: a figure as text; `least`: the least end of the axis; `unit`: in words. */
  constructor(figure, { title, series, shown, least, unit = "" }) {
    Object.assign(this, { figure, title, series, shown, least, unit, at: null, data: null });
    this.head = el("div", { class: "chart-head" });
    this.box = el("div", { class: "chart-box" });
    figure.append(this.head, this.box);
    figure.setAttribute("role", "img");
    figure.setAttribute("aria-label", title);
    this.box.addEventListener("pointermove", (event) => this.hover(event.clientX - this.box.getBoundingClientRect().left));
    this.box.addEventListener("pointerleave", () => this.hover(null));
    figure.addEventListener("blur", () => this.hover(null));
    figure.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !this.data) return;
      event.preventDefault();
      const { width, from, to } = this.data;
      const x = this.at === null ? width : this.at;
      this.hover(Math.min(width, Math.max(LEFT, x + (step * (width - LEFT)) / Math.max(20, (to - from) / 5))));
    });
    new ResizeObserver(() => this.redraw()).observe(this.box);
  }

  hover(x) {
    this.at = x !== null && x >= LEFT ? x : null;
    this.redraw();
  }

  redraw() {
    if (this.data) this.draw(this.data);
  }

  /** `times` and `items` in order; `limits`: [{name, colour, value}], or `along(item)` for one that moves. */
  draw({ times, items, limits = [], from, to }) {
    const { width, height } = this.box.getBoundingClientRect();
    this.data = { times, items, limits, from, to, width };
    if (width < 60 || height < 30) return;
    const x = (time) => LEFT + ((time - from) / (to - from)) * (width - LEFT - 2);
    const moment = this.at === null ? clock.end : from + ((this.at - LEFT) / (width - LEFT - 2)) * (to - from);
    const end = times.findLastIndex((time) => time <= moment);
    const near = end >= 0 ? items[end] : undefined;
    this.label(near, limits);
    const high = Math.max(this.least, ...items.flatMap((item) => this.series.map((each) => each.value(item) ?? 0)), ...limits.flatMap(({ value, along }) => (along ? items.map(along) : value)));
    const most = nice(high * 1.04);
    const y = (value) => height - BOTTOM - (Math.min(value, most * 1.05) / most) * (height - BOTTOM - TOP);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const at = y(most * share);
      parts.push(svg("line", { class: "grid", x1: LEFT, x2: width, y1: at, y2: at }));
      parts.push(svg("text", { x: LEFT - 6, y: at + 3.5, "text-anchor": "end" }, this.shown(most * share)));
    }
    const step = TICKS.find((each) => ((width - LEFT) / (to - from)) * each > 90) ?? 7200;
    for (let time = Math.ceil(from / step) * step; time < to; time += step) {
      if (x(time) < LEFT + 20 || x(time) > width - 20) continue;
      parts.push(svg("text", { x: x(time), y: height - 3, "text-anchor": "middle" }, format.clock(time).slice(0, step < 60 ? 8 : 5)));
    }
    const draw = (kind, points, colour) => {
      const line = svg("path", { class: kind, d: points.length ? `M${points.map((each) => each.join(" ")).join("L")}` : "" });
      line.style.stroke = colour;
      parts.push(line);
    };
    for (const { value, along, colour } of limits) {
      draw("limit", along ? this.points(times, items, along, x, y) : [[LEFT, y(value)], [width, y(value)]], colour);
    }
    for (const { value, colour } of this.series) {
      const points = this.points(times, items, value, x, y);
      draw("line", points, colour);
      if (points.length >= FEW) continue;
      for (const [cx, cy] of points) {
        const dot = svg("circle", { cx, cy, r: 2.2 });
        dot.style.fill = colour;
        parts.push(dot);
      }
    }
    if (!clock.live) parts.push(svg("line", { class: "moment", x1: x(clock.now), x2: x(clock.now), y1: 0, y2: height - BOTTOM }));
    if (this.at !== null) parts.push(svg("line", { class: "hover", x1: this.at, x2: this.at, y1: 0, y2: height - BOTTOM }));
    if (!items.length) parts.push(svg("text", { class: "none", x: (LEFT + width) / 2, y: height / 2, "text-anchor": "middle" }, "Nothing measured yet."));
    this.box.replaceChildren(svg("svg", { width, height, "aria-hidden": "true" }, ...parts));
  }

  /** At most POINTS points; of each stretch its highest. */
  points(times, items, value, x, y) {
    const stride = Math.max(1, Math.ceil(times.length / POINTS));
    const found = [];
    for (let first = 0; first < times.length; first += stride) {
      let best = first;
      for (let k = first; k < Math.min(first + stride, times.length); k += 1) if (value(items[k]) > value(items[best])) best = k;
      const v = value(items[best]);
      if (v !== null && v !== undefined) found.push([x(times[best]).toFixed(1), y(v).toFixed(1)]);
    }
    return found;
  }

  label(near, limits) {
    const shown = (value) => (value === null || value === undefined ? "–" : this.shown(value));
    const entry = (name, text, colour, dashed) => {
      const mark = el("i", { class: dashed ? "dashed" : "" });
      mark.style.color = colour;
      return el("span", {}, mark, name, " ", el("strong", {}, text));
    };
    const lines = this.series.map((each) => entry(each.name, near ? shown(each.value(near)) : "–", each.colour));
    const limit = ({ value, along }) => (along ? near && along(near) : value);
    const marks = limits.map((each) => entry(each.name, shown(limit(each)), each.colour, true));
    this.head.replaceChildren(...lines, ...marks, this.unit ? el("em", {}, this.unit) : "");
    const text = [...this.series.map((each) => `${each.name} ${near ? shown(each.value(near)) : "not known"}`), ...limits.map((each) => `${each.name} ${shown(limit(each))}`)];
    this.figure.setAttribute("aria-label", `${this.title}: ${text.join(", ")}`);
  }
}
