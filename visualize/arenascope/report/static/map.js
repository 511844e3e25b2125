// SPDX-License-Identifier: MIT
// The map: its views, what they show, and what one can do to them.
import { json } from "./data.js";
import { Pages, Regions } from "./heaps.js";
import { Hilbert, Rows } from "./layouts.js";
import { Camera, View, aspectOf, paletteOf } from "./map_canvas.js";
import { lit, nextRun } from "./highlight.js";
import { hideCard, showCard } from "./page_tooltip.js";
import { hex, spoken, stateName } from "./page_text.js";

const MAX_SCALE = 640; // pixels a page
const MARKED = 64; // pixels a page at least, where a search or a link leads
const MIXTURE = 4096; // pages behind a pixel that are inspected

const say = document.getElementById("spoken");

export class HeapMap {
  static async open() {
    const map = new HeapMap();
    map.regions = await Regions.take();
    map.all = json.sides.map((_, which) => new Pages(map.regions, which));
    for (const pages of map.all) await pages.takeStates();
    const canvases = json.sides.map((_, which) => document.getElementById(`canvas-${which}`));
    const aspect = aspectOf(canvases[0]);
    map.layouts = { rows: new Rows(map.regions, json.total, aspect), hilbert: new Hilbert(map.regions, json.total, aspect) };
    map.layout = map.layouts.rows;
    map.palette = "phusion";
    map.spec = null;
    map.camera = new Camera();
    map.views = map.all.map((pages, i) => new View(canvases[i], pages, map.regions, map.camera));
    map.moved = () => {};
    map.refresh();
    map.whole();
    new ResizeObserver(() => map.resized()).observe(map.views[0].canvas);
    return map;
  }

  // What needs more than the states: rows, pins, chunks.
  async takeDetails() {
    for (const pages of this.all) await pages.takeDetails();
    this.redraw();
  }

  // New layout, palette or lights: the images are made anew.
  refresh() {
    const palette = paletteOf(this.palette);
    this.masks = this.all.map((pages) => (this.spec ? lit(this.spec, pages, this.all) : null));
    this.views.forEach((view, i) => view.show(this.layout, palette, this.masks[i]));
    for (const view of this.views) view.resize();
    this.redraw();
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      for (const view of this.views) view.draw();
    });
  }

  resized() {
    const whole = this.isWhole(this.views[0]);
    for (const view of this.views) view.resize();
    if (whole) this.whole();
    else this.redraw();
  }

  whole() {
    this.camera.scale = this.views[0].wholeScale();
    this.camera.x = this.layout.width / 2;
    this.camera.y = this.layout.height / 2;
    this.atWhole = true;
    this.afterMove();
  }

  isWhole(view) {
    return this.atWhole || this.camera.scale <= view.wholeScale() * 1.001;
  }

  afterMove() {
    const { camera, layout } = this;
    camera.x = Math.min(Math.max(camera.x, 0), layout.width);
    camera.y = Math.min(Math.max(camera.y, 0), layout.height);
    if (this.views[0].marker >= 0) this.cardAtMarker();
    else hideCard();
    this.redraw();
    this.moved();
  }

  pan(dx, dy) {
    this.camera.x -= dx / this.camera.scale;
    this.camera.y -= dy / this.camera.scale;
    this.atWhole = false;
    this.afterMove();
  }

  // By a factor, around a point of the canvas; around the marker or the middle when there is none.
  zoom(view, factor, px, py) {
    const pointed = px !== undefined;
    if (!pointed) {
      const marked = view.marker >= 0 ? view.toPixel(...view.layout.place(view.marker)) : [-1, -1];
      const inside = marked[0] > view.gutter && marked[0] < view.width && marked[1] > 0 && marked[1] < view.height;
      [px, py] = inside ? marked : [(view.gutter + view.width) / 2, view.height / 2];
    }
    const [cx, cy] = view.toCell(px, py);
    const least = Math.min(view.wholeScale(), 1);
    const wanted = Math.min(Math.max(this.camera.scale * factor, least), MAX_SCALE);
    if (wanted <= view.wholeScale() && factor < 1) {
      this.whole();
      return;
    }
    this.camera.scale = wanted;
    const [nx, ny] = view.toCell(px, py);
    this.camera.x += cx - nx;
    this.camera.y += cy - ny;
    this.atWhole = false;
    this.afterMove();
    if (pointed) this.hover(view, px, py);
  }

  goTo(index, scale) {
    const [x, y] = this.layout.place(index);
    this.camera.x = x + 0.5;
    this.camera.y = y + 0.5;
    this.camera.scale = Math.min(Math.max(scale, this.views[0].wholeScale()), MAX_SCALE);
    this.atWhole = false;
    this.afterMove();
  }

  // The page in the middle of the view; -1 when there is none.
  middle() {
    return this.layout.at(Math.floor(this.camera.x), Math.floor(this.camera.y));
  }

  setLayout(name) {
    if (!Object.hasOwn(this.layouts, name) || this.layouts[name] === this.layout) return;
    const { atWhole } = this;
    const marked = this.views[0].marker;
    const kept = marked >= 0 ? marked : this.middle();
    this.layout = this.layouts[name];
    this.refresh();
    if (atWhole || kept < 0) this.whole();
    else this.goTo(kept, this.camera.scale);
    this.changed?.();
  }

  toggleLayout() {
    this.setLayout(this.layout.name === "rows" ? "hilbert" : "rows");
  }

  setPalette(name) {
    this.palette = name;
    document.documentElement.dataset.palette = name;
    this.refresh();
    this.changed?.();
    this.moved();
  }

  togglePalette() {
    this.setPalette(this.palette === "phusion" ? "safe" : "phusion");
  }

  // Lights up what a spec names; null: all again. False where it names nothing on the map.
  light(spec) {
    if (spec && !lit(spec, this.all[0], this.all)) return false;
    this.spec = spec;
    this.refresh();
    this.changed?.();
    this.moved();
    return true;
  }

  // Nothing lit, nothing marked, no card.
  clear() {
    this.setMarker(-1);
    this.light(null);
  }

  litCounts() {
    return this.masks.map((mask) => (mask ? mask.reduce((sum, on) => sum + on, 0) : 0));
  }

  nextLit(step) {
    const mask = this.masks.at(-1);
    if (!mask) return;
    const next = nextRun(mask, Math.max(this.views[0].marker, 0), step);
    if (next >= 0) this.setMarker(next, { go: true });
  }

  setMarker(index, { go = false, speak = true } = {}) {
    for (const view of this.views) view.marker = index;
    if (index < 0) {
      hideCard();
      this.redraw();
      return;
    }
    if (go) this.goTo(index, Math.max(this.camera.scale, MARKED));
    else this.intoView(index);
    this.redraw();
    this.cardAtMarker();
    if (speak) say.textContent = spoken(index, this.all);
    this.moved();
  }

  intoView(index) {
    const [view] = this.views;
    const [x, y] = view.toPixel(...this.layout.place(index));
    const side = this.camera.scale;
    if (x < view.gutter || y < 0 || x + side > view.width || y + side > view.height) this.goTo(index, side);
  }

  cardAtMarker() {
    const view = this.views[0];
    const [x, y] = view.toPixel(...this.layout.place(view.marker));
    if (x < view.gutter || y < 0 || x > view.width || y > view.height) {
      hideCard();
      return;
    }
    const [left, top] = this.offset(view);
    showCard(view.marker, this.all, left + x + this.camera.scale, top + y + this.camera.scale);
  }

  // One cell on (or as many as a few pixels stand for), to the nearest page that way.
  step(view, dx, dy) {
    if (view.marker < 0) {
      const middle = this.middle();
      this.setMarker(middle >= 0 ? middle : 0);
      return;
    }
    const stride = Math.max(1, Math.round(4 / this.camera.scale));
    let [x, y] = this.layout.place(view.marker);
    for (let tries = 0; tries < 1000; tries++) {
      x += dx * stride;
      y += dy * stride;
      if (x < 0 || y < 0 || x >= this.layout.width || y >= this.layout.height) return;
      const index = this.layout.at(x, y);
      if (index >= 0) {
        this.setMarker(index);
        return;
      }
    }
  }

  mark(view, px, py) {
    this.setMarker(view.pageAt(px, py));
  }

  offset(view) {
    const box = view.canvas.getBoundingClientRect();
    const outer = document.getElementById("maps").getBoundingClientRect();
    return [box.left - outer.left, box.top - outer.top];
  }

  hover(view, px, py) {
    const index = view.pageAt(px, py);
    if (index < 0) {
      hideCard();
      return;
    }
    const [left, top] = this.offset(view);
    const unit = this.camera.scale >= 40 ? view.unitAt(px, py) : -1;
    showCard(index, this.all, left + px, top + py, { mixture: this.behind(view, px, py), unit });
  }

  // The pages behind one pixel.
  behind(view, px, py) {
    const side = Math.min(1 / this.camera.scale, Math.sqrt(MIXTURE));
    if (side < 2) return null;
    const [cx, cy] = view.toCell(px, py);
    const found = [];
    for (let y = Math.floor(cy - side / 2); y < cy + side / 2; y++) {
      for (let x = Math.floor(cx - side / 2); x < cx + side / 2; x++) {
        const index = this.layout.at(x, y);
        if (index >= 0) found.push(index);
      }
    }
    return found;
  }

  leave() {
    if (this.views[0].marker >= 0) this.cardAtMarker();
    else hideCard();
  }

  // Looks an address up. False when it is in no heap of malloc's.
  search(text) {
    const digits = text.trim().replace(/^0x/i, "");
    if (!/^[0-9a-f]{1,16}$/i.test(digits)) return false;
    const index = this.regions.find(parseInt(digits, 16));
    if (index < 0) return false;
    this.setMarker(index, { go: true });
    return true;
  }

  // For tests, and for those who write scripts: what is at an address, and where it is drawn.
  probe(address) {
    const index = this.regions.find(Number(address));
    if (index < 0) return null;
    const [view] = this.views;
    const cell = this.layout.place(index);
    const [x, y] = view.toPixel(...cell);
    const { scale } = this.camera;
    const states = this.all.map((pages) => stateName(pages.state[index]));
    const named = view.isUnderName(...cell);
    return { index, address: hex(this.regions.address(index)), states, x: x + scale / 2, y: y + scale / 2, scale, named };
  }
}
