// Draws every chart of the page from the data in it. Nothing is fetched.
const W = 420, H = 250, L = 52, R = 16, T = 8, B = 38;
const NS = "http://www.w3.org/2000/svg";
const tip = document.getElementById("tip");
const dark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
const colour = (series) => PALETTE[series.tone % PALETTE.length][dark() ? 1 : 0];
const text = (v) => v === 0 ? "0" : Math.abs(v) >= 100 ? Math.round(v).toLocaleString("en") : Math.abs(v) >= 10 ? v.toFixed(1) : Math.abs(v) >= 1 ? v.toFixed(2) : v.toFixed(3);
// The numbers along the axes: no more digits than they need.
const short = (v) => (+v.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 });
function el(name, attributes, parent) {
  const made = document.createElementNS(NS, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  parent.append(made);
  return made;
}
function ticks(top, count) {
  const raw = top / count || 1, unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((f) => f * unit).find((s) => s >= raw);
  const found = [];
  for (let v = 0; v <= top * 1.0001; v += step) found.push(v);
  return found;
}
const highest = (panel, hidden) => Math.max(1e-9, panel.level || 0, ...panel.series.filter((s) => !hidden.has(s.name)).flatMap((s) => s.high || s.y)) * 1.05;
function draw(panel, box, hidden, top) {
  box.replaceChildren();
  const svg = el("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": panel.title }, box);
  const bars = panel.kind === "bars", shown = panel.series.filter((s) => !hidden.has(s.name));
  const right = bars ? panel.labels.length : Math.max(...panel.series.flatMap((s) => s.x), 1e-9);
  const left = bars ? 0 : Math.min(...panel.series.flatMap((s) => s.x), right);
  const x = (v) => L + (W - L - R) * (v - left) / (right - left || 1), y = (v) => H - B - (H - T - B) * v / top;
  for (const v of ticks(top, 4)) {
    el("line", { class: "grid", x1: L, x2: W - R, y1: y(v), y2: y(v) }, svg);
    el("text", { x: L - 6, y: y(v) + 4, "text-anchor": "end" }, svg).textContent = short(v);
  }
  if (bars) panel.labels.forEach((label, i) => { el("text", { x: x(i + .5), y: H - B + 15, "text-anchor": "middle" }, svg).textContent = label; });
  else for (const v of ticks(right, 5)) if (v >= left) el("text", { x: x(v), y: H - B + 15, "text-anchor": "middle" }, svg).textContent = short(v);
  el("text", { x: (L + W - R) / 2, y: H - 5, "text-anchor": "middle" }, svg).textContent = panel.x_label;
  el("text", { transform: `translate(11 ${(H - B + T) / 2}) rotate(-90)`, "text-anchor": "middle" }, svg).textContent = panel.y_label;
  shown.forEach((s, n) => {
    if (bars) {
      const width = .82 / shown.length;
      s.y.forEach((v, i) => {
        const at = x(i + .09 + n * width), wide = (x(width) - x(0)) * .94;
        el("rect", { x: at, y: y(v), width: wide, height: Math.max(0, y(0) - y(v)), fill: colour(s), rx: 1.5 }, svg);
        if (s.low) el("path", { d: `M${at + wide / 2} ${y(s.low[i])}V${y(s.high[i])}`, stroke: "currentColor", "stroke-width": 1 }, svg);
      });
      return;
    }
    if (s.low) el("path", { d: "M" + s.x.map((v, i) => `${x(v)} ${y(s.high[i])}`).join("L") + "L" + s.x.map((v, i) => `${x(v)} ${y(s.low[i])}`).reverse().join("L") + "Z", fill: colour(s), opacity: .13 }, svg);
    el("path", { d: "M" + s.x.map((v, i) => `${x(v).toFixed(1)} ${y(s.y[i]).toFixed(1)}`).join("L"), fill: "none", stroke: colour(s), "stroke-width": 1.8, "stroke-linejoin": "round", ...(s.dashed ? { "stroke-dasharray": "5 3" } : {}) }, svg);
  });
  if (panel.level !== null) {
    el("line", { class: "cursor", x1: L, x2: W - R, y1: y(panel.level), y2: y(panel.level) }, svg);
    el("text", { x: W - R, y: y(panel.level) - 3, "text-anchor": "end" }, svg).textContent = panel.level_name;
  }
  const cursor = el("line", { class: "cursor", y1: T, y2: H - B, visibility: "hidden" }, svg);
  svg.onpointermove = (event) => {
    const area = svg.getBoundingClientRect(), at = left + ((event.clientX - area.left) * W / area.width - L) / (W - L - R) * (right - left);
    if (at < left || at > right || !shown.length) return svg.onpointerleave();
    const place = bars ? Math.min(panel.labels.length - 1, Math.floor(at)) : null;
    const near = (s) => bars ? place : s.x.reduce((best, v, i) => Math.abs(v - at) < Math.abs(s.x[best] - at) ? i : best, 0);
    const head = document.createElement("b");
    head.textContent = bars ? panel.labels[place] : `${text(shown[0].x[near(shown[0])])} ${panel.x_label}`;
    const lines = shown.map((s) => {
      const i = near(s), line = document.createElement("div"), dot = document.createElement("i");
      dot.style.background = colour(s);
      line.append(dot, `${s.name}: ${text(s.y[i])}` + (s.low ? ` (${text(s.low[i])} to ${text(s.high[i])})` : ""));
      return line;
    });
    tip.replaceChildren(head, ...lines);
    tip.style.display = "block";
    tip.style.left = Math.min(innerWidth - tip.offsetWidth - 8, event.clientX + 14) + "px";
    tip.style.top = Math.min(innerHeight - tip.offsetHeight - 8, event.clientY + 14) + "px";
    if (!bars) { cursor.setAttribute("x1", x(at)); cursor.setAttribute("x2", x(at)); cursor.setAttribute("visibility", "visible"); }
  };
  svg.onpointerleave = () => { tip.style.display = "none"; cursor.setAttribute("visibility", "hidden"); };
}
const redraws = [];
for (const chart of CHARTS) {
  const root = document.getElementById(chart.name), hidden = new Set(), tones = new Map();
  const boxes = chart.panels.map((panel) => {
    const outer = document.createElement("div"), title = document.createElement("h3"), box = document.createElement("div");
    outer.className = "panel";
    title.textContent = panel.title;
    outer.append(title, box);
    root.querySelector(".panels").append(outer);
    panel.series.forEach((s) => tones.set(s.name, s));
    return box;
  });
  const redraw = () => {
    const top = chart.shared ? Math.max(...chart.panels.map((panel) => highest(panel, hidden))) : 0;
    chart.panels.forEach((panel, i) => draw(panel, boxes[i], hidden, top || highest(panel, hidden)));
    legend.replaceChildren(...[...tones].map(([name, s]) => {
      const button = document.createElement("button"), mark = document.createElement("i");
      mark.style.background = colour(s);
      button.append(mark, name);
      button.setAttribute("aria-pressed", !hidden.has(name));
      button.onclick = () => { hidden.has(name) ? hidden.delete(name) : hidden.add(name); redraw(); };
      return button;
    }));
  };
  const legend = root.querySelector(".legend");
  redraws.push(redraw);
  redraw();
}
document.getElementById("theme").onclick = () => {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  redraws.forEach((redraw) => redraw());
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((redraw) => redraw()));
