// The moment that is shown: now, or one on the tape.

import { emit } from "./bus.js";
import { tape } from "./tape.js";

export const clock = {
  live: true,
  playing: true,
  speed: 1,
  offset: 0,
  known: false,
  moment: 0,

  /** All times are the coordinator's; the message with the shortest delay gives the best estimate. */
  set(seconds) {
    const offset = seconds - Date.now() / 1000;
    clock.offset = clock.known ? Math.max(offset, clock.offset * 0.98 + offset * 0.02) : offset;
    clock.known = true;
  },

  get present() {
    return Date.now() / 1000 + clock.offset;
  },

  /** Items up to here are shown. Live that is everything, whatever the clocks say. */
  get end() {
    return clock.live ? Infinity : clock.moment;
  },

  get now() {
    return clock.live ? clock.present : clock.moment;
  },

  goLive() {
    Object.assign(clock, { live: true, playing: true });
    emit("clock");
  },

  seek(moment) {
    clock.live = false;
    clock.moment = Math.min(Math.max(moment, tape.start ?? moment), clock.present);
    emit("clock");
  },

  toggle() {
    if (clock.live) {
      clock.moment = clock.present;
      Object.assign(clock, { live: false, playing: false });
    } else {
      clock.playing = !clock.playing;
    }
    emit("clock");
  },

  /** Time passes on the tape. */
  advance(seconds) {
    if (clock.live || !clock.playing) return;
    clock.moment += seconds * clock.speed;
    if (clock.moment >= clock.present) clock.goLive();
  },
};
