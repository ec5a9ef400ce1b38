// The tape: everything the page has received, by time, for the replay.

/** Items by time; the oldest are dropped, by age, by number, or by size in bytes. */
export class Track {
  constructor({ seconds = Infinity, most = Infinity, bytes = Infinity } = {}) {
    Object.assign(this, { seconds, most, bytes, times: [], items: [], held: 0, version: 0 });
  }

  push(time, item, size = 0) {
    // Two machines have two clocks: times never go backwards here.
    const at = Math.max(time, this.times.at(-1) ?? -Infinity);
    this.times.push(at);
    this.items.push(item);
    this.version += 1;
    this.held += size;
    this.each = size;
    let old = 0;
    while (
      old < this.items.length - 1 &&
      (at - this.times[old] > this.seconds || this.items.length - old > this.most || this.held - old * size > this.bytes)
    ) old += 1;
    // All at once: removing the first item moves all the others.
    if (old > 64 || old > this.items.length / 4) {
      this.times.splice(0, old);
      this.items.splice(0, old);
      this.held -= old * size;
    }
  }

  clear() {
    this.times.length = 0;
    this.items.length = 0;
    this.held = 0;
    this.version += 1;
  }

  get length() {
    return this.items.length;
  }

  /** How many are not after this time. */
  until(time) {
    let low = 0;
    let high = this.times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The newest that is not after this time. */
  at(time) {
    const found = this.until(time);
    return found ? this.items[found - 1] : undefined;
  }

  between(from, to) {
    const [first, end] = [this.until(from), this.until(to)];
    return { times: this.times.slice(first, end), items: this.items.slice(first, end) };
  }
}

const MINUTES = 15 * 60;
/** Seconds without a sample of the balance: what was before such a pause belongs to an earlier run. */
const PAUSE = 3600;

/** The first sample of the balance after the last pause. */
function begun({ times }) {
  let first = times.length - 1;
  while (first > 0 && times[first] - times[first - 1] < PAUSE) first -= 1;
  return times[first];
}

export const tape = {
  topologies: new Track({ seconds: MINUTES }),
  samples: new Track({ most: 2000 }),
  notes: new Track({ most: 5000 }),
  emergencies: new Track({ most: 20_000 }),
  latency: new Track({ most: 8000 }),
  people: new Track({ bytes: 96 * 1024 * 1024 }),
  /** Where the tape begins: with the first sample, or the first topology that this page received. */
  get start() {
    const [seen] = tape.topologies.times;
    return seen === undefined ? undefined : Math.min(seen, begun(tape.samples) ?? seen);
  },
};
