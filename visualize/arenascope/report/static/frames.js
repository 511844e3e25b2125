// SPDX-License-Identifier: MIT
// The states of a map's cells at each snapshot of one process: those of the first snapshot, and of each other snapshot what changed.
import { lastNotAbove, takeBlock, json } from "./data.js";
import { Pages, Regions } from "./heaps.js";

export class Reel {
  static async take(number) {
    const reel = new Reel();
    const { polls, total, arenas } = json.reels[number];
    Object.assign(reel, { polls, total, arenas, frame: 0 });
    reel.regions = new Regions(await takeBlock(`regions-${number}`));
    reel.pages = new Pages(reel.regions, 0);
    reel.state = reel.pages.state = (await takeBlock(`start-${number}`)).state;
    reel.start = reel.state.slice();
    const { count, gap, by } = await takeBlock(`moves-${number}`);
    reel.by = by;
    reel.where = new Uint32Array(gap.length);
    reel.ends = new Uint32Array(polls.length); // of each frame's changes
    for (let frame = 1, at = 0; frame < polls.length; frame++) {
      reel.ends[frame] = reel.ends[frame - 1] + count[frame - 1];
      for (let cell = 0; at < reel.ends[frame]; at++) reel.where[at] = cell += gap[at];
    }
    reel.stop();
    return reel;
  }

  // Copies of all states, after as many changes as there are cells: so no way to a frame is longer than that.
  stop() {
    this.stops = [{ frame: 0, state: this.start }];
    for (let frame = 1; frame < this.polls.length; frame++) {
      if (this.ends[frame] - this.ends[this.stops.at(-1).frame] < this.total) continue;
      this.seek(frame);
      this.stops.push({ frame, state: this.state.slice() });
    }
    this.stopFrames = this.stops.map(({ frame }) => frame);
  }

  // The frame that is seen at a poll: the last snapshot until then, or the first.
  frameAt(poll) {
    return Math.max(lastNotAbove(this.polls, poll), 0);
  }

  seek(frame) {
    const distance = (from) => Math.abs(this.ends[frame] - this.ends[from]);
    const stop = this.stopFrames ? this.stops[lastNotAbove(this.stopFrames, frame)] : null;
    if (stop && distance(stop.frame) + this.total / 8 < distance(this.frame)) {
      this.state.set(stop.state);
      this.frame = stop.frame;
    }
    const { state, where, by, ends } = this;
    const [from, to] = [ends[Math.min(this.frame, frame)], ends[Math.max(this.frame, frame)]];
    for (let at = from; at < to; at++) state[where[at]] ^= by[at];
    this.frame = frame;
  }

  // Marks what changed at this frame; how many cells.
  markStep(mask) {
    const from = this.frame ? this.ends[this.frame - 1] : 0;
    for (let at = from; at < this.ends[this.frame]; at++) mask[this.where[at]] = 1;
    return this.ends[this.frame] - from;
  }

  // Marks what is not as it was at the first frame.
  markSince(mask) {
    const { state, start } = this;
    let count = 0;
    for (let cell = 0; cell < state.length; cell++) {
      if (state[cell] !== start[cell]) {
        mask[cell] = 1;
        count++;
      }
    }
    return count;
  }

  markState(mask, wanted) {
    let count = 0;
    for (let cell = 0; cell < this.state.length; cell++) count += mask[cell] = this.state[cell] === wanted ? 1 : 0;
    return count;
  }

  // How many cells each state has.
  counts() {
    const found = new Uint32Array(16);
    for (let cell = 0; cell < this.state.length; cell++) found[this.state[cell]]++;
    return found;
  }
}
