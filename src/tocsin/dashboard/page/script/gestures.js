// What fingers, pointer, wheel and keys do with the map: move it, bring it closer, point at something, choose it.

const CLICK = 4; // pixels that a finger may shake

const KEYS = {
  ArrowLeft: (camera) => camera.pan(60, 0),
  ArrowRight: (camera) => camera.pan(-60, 0),
  ArrowUp: (camera) => camera.pan(0, 60),
  ArrowDown: (camera) => camera.pan(0, -60),
  "+": (camera) => camera.closer(1.4),
  "=": (camera) => camera.closer(1.4),
  "-": (camera) => camera.closer(1 / 1.4),
  0: (camera) => camera.all(),
};

/** `point(x, y)`: the pointer is there, or null when it left; `choose(x, y)`: a click. */
export function gestures(canvas, camera, point, choose) {
  const held = new Map(); // pointer: where it is on the canvas
  let far = 0;

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  /** The middle of what is held, and how far it is spread. */
  const grip = () => {
    const all = [...held.values()];
    const middle = [0, 1].map((axis) => all.reduce((sum, each) => sum + each[axis], 0) / all.length);
    return { middle, spread: all.length > 1 ? Math.hypot(all[0][0] - all[1][0], all[0][1] - all[1][1]) : 0 };
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (!held.size) far = 0;
    if (held.size < 2) held.set(event.pointerId, at(event));
    if (held.size > 1) far = Infinity;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held.size) return point(...at(event));
    if (!held.has(event.pointerId)) return;
    const before = grip();
    held.set(event.pointerId, at(event));
    const now = grip();
    const [x, y] = [now.middle[0] - before.middle[0], now.middle[1] - before.middle[1]];
    far += Math.hypot(x, y);
    if (far <= CLICK) return;
    canvas.classList.add("dragging");
    camera.pan(x, y);
    if (before.spread && now.spread) camera.closer(now.spread / before.spread, ...now.middle);
  });
  const release = (event) => {
    if (!held.delete(event.pointerId) || held.size) return;
    canvas.classList.remove("dragging");
    if (event.type === "pointerup" && far <= CLICK) choose(...at(event));
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("dblclick", (event) => camera.closer(2, ...at(event)));
  // One finger scrolls the page, two are for the map.
  canvas.addEventListener("touchstart", (event) => event.touches.length > 1 && event.preventDefault(), { passive: false });
  canvas.addEventListener("wheel", (event) => {
    // Where the page itself scrolls, the wheel zooms the map only while the map has the focus.
    const scrolls = document.documentElement.scrollHeight > innerHeight + 1;
    if (scrolls && !event.ctrlKey && document.activeElement !== canvas) return;
    event.preventDefault();
    const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
    camera.closer(Math.exp(-pixels / (event.ctrlKey ? 120 : 400)), ...at(event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act(camera);
  });
}
