// Elements: found by id, made with attributes and children.

export const $ = (id) => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "colour") node.style.setProperty("background", value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Sets a text only when it differs: what does not change is not laid out again, and not read out again. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node, whether) {
  if (node.hidden === whether) node.hidden = !whether;
}

/** Makes these the children. What is in its place stays there: a button that is pressed, what is open, what has the focus. */
export function lay(list, nodes) {
  const wanted = new Set(nodes);
  for (const node of [...list.children]) if (!wanted.has(node)) node.remove();
  nodes.forEach((node, index) => {
    if (list.children[index] !== node) list.insertBefore(node, list.children[index] ?? null);
  });
}

/** Opens a dialog; true if it was answered with yes. */
export async function asked(id) {
  const dialog = $(id);
  dialog.returnValue = "no";
  dialog.querySelector(".cancel").onclick = () => dialog.close("no");
  dialog.showModal();
  await new Promise((done) => dialog.addEventListener("close", done, { once: true }));
  return dialog.returnValue === "yes";
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
