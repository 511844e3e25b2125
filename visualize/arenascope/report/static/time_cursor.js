// SPDX-License-Identifier: MIT
// The moment that is shown: chosen on the chart or with the slider; all numbers follow.
import { lastNotAbove, told } from "./data.js";
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
  // `columns`: time (ms), at (0 to 1), rss, and each row, a number for each moment; NaN: unknown.
  constructor(columns) {
    Object.assign(this, { columns, count: columns.time.length, moment: -1, wanted: -1, playing: 0 });
    this.element = byId("course");
    this.slider = byId("slider");
    this.shown = () => {};
    this.cells = [...document.querySelectorAll("td[data-now], td[data-since]")].map((cell) => {
      const since = cell.dataset.since !== undefined;
      return { cell, since, held: columns[since ? cell.dataset.since : cell.dataset.now] };
    });
    this.begins = []; // of each moment: where its generation begins
    told.generations.forEach((generation, n) => this.begins.push(n && told.generations[n - 1] === generation ? this.begins[n - 1] : n));
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

  // The moment that is nearest to a place, 0 to 1.
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

  // Shows a moment with the next frame.
  go(moment) {
    if (Number.isNaN(moment)) return;
    this.wanted = Math.min(Math.max(moment, 0), this.count - 1);
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.show(this.wanted);
    });
  }

  show(moment) {
    if (moment === this.moment) return;
    this.moment = this.wanted = moment;
    const x = `${100 * this.columns.at[moment]}%`;
    for (const line of document.querySelectorAll(".now")) {
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
    }
    const begin = this.begins[moment];
    for (const { cell, since, held } of this.cells) {
      const bytes = since ? held[moment] - held[begin] : held[moment];
      cell.textContent = since ? signed(bytes) : known(bytes);
      if (Number.isNaN(bytes)) delete cell.dataset.bytes;
      else cell.dataset.bytes = bytes;
      cell.classList.toggle("zero", bytes === 0);
    }
    const words = this.words(moment);
    this.slider.value = moment;
    this.slider.setAttribute("aria-valuetext", words);
    byId("moment").textContent = words;
    this.shown(moment);
  }

  words(moment) {
    const when = `${new Date(this.columns.time[moment]).toISOString().slice(0, 19).replace("T", " ")} UTC`;
    const generation = new Set(told.generations).size > 1 ? `, generation ${told.generations[moment]}` : "";
    return `${when}${generation}: Rss ${known(this.columns.rss[moment])}`;
  }
}
