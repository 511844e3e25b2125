// SPDX-License-Identifier: MIT
// The poll that is shown: chosen on the chart or with the slider; all numbers follow.
import { lastNotAbove, json } from "./data.js";
import { size } from "./page_text.js";
import { byId } from "./map_toolbar.js";

const FRAME_MS = 120; // a step while it plays

function signed(bytes) {
  if (Number.isNaN(bytes)) return "unknown";
  return `${bytes > 0 ? "+" : bytes < 0 ? "−" : ""}${size(Math.abs(bytes))}`;
}

function known(bytes) {
  return Number.isNaN(bytes) ? "unknown" : size(bytes);
}

export class Course {
  // `columns`: time (ms), at (0 to 1), rss, and each row, a number for each poll; NaN: unknown.
  constructor(columns) {
    Object.assign(this, { columns, count: columns.time.length, poll: -1, wanted: -1, playing: 0 });
    this.element = byId("course");
    this.slider = byId("slider");
    this.shown = () => {};
    this.cells = [...document.querySelectorAll("td[data-now], td[data-since]")].map((cell) => {
      const since = cell.dataset.since !== undefined;
      return { cell, since, held: columns[since ? cell.dataset.since : cell.dataset.now] };
    });
    this.begins = []; // of each poll: where its generation begins
    json.generations.forEach((generation, n) => this.begins.push(n && json.generations[n - 1] === generation ? this.begins[n - 1] : n));
    this.listen();
  }

  listen() {
    const { element } = this;
    const toPointer = (event) => {
      const box = element.getBoundingClientRect();
      this.go(this.nearest((event.clientX - box.left) / box.width));
    };
    element.addEventListener("pointerdown", (event) => {
      this.pause();
      element.setPointerCapture(event.pointerId);
      toPointer(event);
    });
    element.addEventListener("pointermove", (event) => {
      if (element.hasPointerCapture(event.pointerId)) toPointer(event);
    });
    this.slider.addEventListener("input", () => {
      this.pause();
      this.go(Number(this.slider.value));
    });
    byId("earlier").addEventListener("click", () => this.step(-1));
    byId("later").addEventListener("click", () => this.step(1));
    byId("play").addEventListener("click", () => (this.playing ? this.pause() : this.play()));
  }

  // The poll that is nearest to a place, 0 to 1.
  nearest(place) {
    const { at } = this.columns;
    const before = Math.max(lastNotAbove(at, place), 0);
    const after = Math.min(before + 1, this.count - 1);
    return place - at[before] <= at[after] - place ? before : after;
  }

  step(by) {
    this.pause();
    this.go(this.wanted + by);
  }

  play() {
    if (this.wanted === this.count - 1) this.go(0);
    this.playing = setInterval(() => {
      this.go(this.wanted + 1);
      if (this.wanted === this.count - 1) this.pause();
    }, FRAME_MS);
    byId("play").textContent = "Pause";
  }

  pause() {
    clearInterval(this.playing);
    this.playing = 0;
    byId("play").textContent = "Play";
  }

  // Shows a poll with the next frame.
  go(poll) {
    if (Number.isNaN(poll)) return;
    this.wanted = Math.min(Math.max(poll, 0), this.count - 1);
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.show(this.wanted);
    });
  }

  show(poll) {
    if (poll === this.poll) return;
    this.poll = this.wanted = poll;
    const x = `${100 * this.columns.at[poll]}%`;
    for (const line of document.querySelectorAll(".now")) {
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
    }
    const begin = this.begins[poll];
    for (const { cell, since, held } of this.cells) {
      const bytes = since ? held[poll] - held[begin] : held[poll];
      cell.textContent = since ? signed(bytes) : known(bytes);
      if (Number.isNaN(bytes)) delete cell.dataset.bytes;
      else cell.dataset.bytes = bytes;
      cell.classList.toggle("zero", bytes === 0);
    }
    const words = this.words(poll);
    this.slider.value = poll;
    this.slider.setAttribute("aria-valuetext", words);
    byId("poll").textContent = words;
    this.shown(poll);
  }

  words(poll) {
    const when = `${new Date(this.columns.time[poll]).toISOString().slice(0, 19).replace("T", " ")} UTC`;
    const generation = new Set(json.generations).size > 1 ? `, generation ${json.generations[poll]}` : "";
    return `${when}${generation}: Rss ${known(this.columns.rss[poll])}`;
  }
}
