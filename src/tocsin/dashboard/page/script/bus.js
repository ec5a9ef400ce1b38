// Who wants to know what: parts of the page tell each other without knowing each other.

const wanted = new Map();

export function on(kind, tell) {
  wanted.set(kind, [...(wanted.get(kind) ?? []), tell]);
}

export function emit(kind, value) {
  for (const tell of wanted.get(kind) ?? []) tell(value);
}
