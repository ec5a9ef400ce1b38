// Events between the modules of the page, which need not import each other.

const handlers = new Map();

export function on(kind, handle) {
  handlers.set(kind, [...(handlers.get(kind) ?? []), handle]);
}

export function emit(kind, value) {
  for (const handle of handlers.get(kind) ?? []) handle(value);
}
