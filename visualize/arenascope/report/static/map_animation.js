// SPDX-License-Identifier: MIT
// The map of a timeline: page states that move. Painted anew at each step, so each cell has one of few shades.
import { json } from "./data.js";
import { Hilbert, Rows } from "./layouts.js";
import { HeapMap } from "./map.js";
import { encoded, linear } from "./mipmap.js";
import { Camera, View, aspectOf, brightness, paletteOf } from "./map_canvas.js";

const MARK = 0x10; // above the colour of a cell
const SHADES = 32;
const DIM = 0.3; // of its colour that a cell keeps while others are lit
const MARK_LEAST = 0.6; // of a pixel that has a lit cell behind it

// How each value of a cell is drawn: its colour, and dimmed if others are lit.
function shadesOf(palette, lighting) {
  const ground = palette[0];
  return Array.from({ length: SHADES }, (_, value) => {
    const rgb = palette[value & (MARK - 1)] ?? ground;
    return lighting && !(value & MARK) ? rgb.map((c, i) => Math.round(c * DIM + ground[i] * (1 - DIM))) : rgb;
  });
}

// The map at 1, 1/2, 1/4, … of its size, each painted when it is drawn. One pixel for many cells has the mean of their light.
class MovingPyramid {
  constructor(width, height) {
    Object.assign(this, { width, height, levels: new Map(), version: 0 });
    this.cells = new Uint8Array(width * height);
  }

  show(shades, lighting) {
    this.lighting = lighting;
    if (this.shades !== shades) {
      this.shades = shades;
      this.packed = Uint32Array.from(shades, ([r, g, b], value) => (value & (MARK - 1) ? ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0 : 0));
      this.light = Float32Array.from(shades.flat(), linear);
    }
    this.version++;
  }

  pick(scale) {
    const step = scale >= 1 ? 0 : Math.floor(Math.log2(1 / scale) + 0.01);
    let level = this.levels.get(step);
    if (!level) {
      const canvas = document.createElement("canvas");
      canvas.width = Math.max(Math.ceil(this.width / 2 ** step), 1);
      canvas.height = Math.max(Math.ceil(this.height / 2 ** step), 1);
      const context = canvas.getContext("2d");
      const image = context.createImageData(canvas.width, canvas.height);
      const tile = { left: 0, top: 0, width: canvas.width, height: canvas.height, image: () => this.painted(level) };
      level = { scale: 2 ** step, step, canvas, context, image, version: -1, tiles: [tile], sums: new Float32Array(step ? 8 * canvas.width * canvas.height : 0) };
      this.levels.set(step, level);
    }
    return level;
  }

  painted(level) {
    if (level.version !== this.version) {
      level.version = this.version;
      if (level.step) this.paintMeans(level);
      else this.paintCells(level);
      level.context.putImageData(level.image, 0, 0);
    }
    return level.canvas;
  }

  paintCells({ image }) {
    const pixels = new Uint32Array(image.data.buffer);
    const { cells, packed } = this;
    for (let at = 0; at < cells.length; at++) pixels[at] = packed[cells[at]];
  }

  // Paints each pixel by the light of its cells: the first four sums (red, green, blue, how many) are of those that are
  // not lit, the others of the lit ones.
  paintMeans({ image, step, sums }) {
    const { cells, light, width, height } = this;
    const across = image.width;
    sums.fill(0);
    for (let y = 0, at = 0; y < height; y++) {
      const row = (y >> step) * across;
      for (let x = 0; x < width; x++, at++) {
        const value = cells[at];
        if (!value) continue;
        const to = 8 * (row + (x >> step)) + (value & MARK ? 4 : 0);
        sums[to] += light[3 * value];
        sums[to + 1] += light[3 * value + 1];
        sums[to + 2] += light[3 * value + 2];
        sums[to + 3]++;
      }
    }
    const most = 4 ** step;
    for (let at = 0, to = 0; to < image.data.length; at += 8, to += 4) {
      const dim = sums[at + 3];
      const lit = sums[at + 7];
      if (!dim && !lit) {
        image.data[to + 3] = 0;
        continue;
      }
      const shown = lit && dim ? Math.max(lit / (lit + dim), MARK_LEAST) : lit ? 1 : 0;
      for (let c = 0; c < 3; c++) {
        image.data[to + c] = encoded((dim ? (sums[at + c] / dim) * (1 - shown) : 0) + (lit ? (sums[at + 4 + c] / lit) * shown : 0));
      }
      image.data[to + 3] = Math.round((255 * (dim + lit)) / most);
    }
  }
}

class MovingView extends View {
  show(layout, palette, mask) {
    const lighting = mask !== null;
    const { state } = this.pages;
    if (this.layout !== layout) {
      this.layout = layout;
      this.pyramid = new MovingPyramid(layout.width, layout.height);
      this.values = new Uint8Array(state.length);
    }
    if (this.palette !== palette || this.lighting !== lighting) {
      Object.assign(this, { palette, lighting, shades: shadesOf(palette, lighting) });
      this.lettersOf = "";
    }
    this.mask = mask;
    if (mask) for (let i = 0; i < state.length; i++) this.values[i] = state[i] && mask[i] ? state[i] | MARK : state[i];
    layout.fill(mask ? this.values : state, this.pyramid.cells);
    this.pyramid.show(this.shades, lighting);
  }

  lightness(index) {
    const [r, g, b] = this.shades[this.pages.state[index] | (this.mask?.[index] ? MARK : 0)];
    return brightness((r << 16) | (g << 8) | b);
  }
}

export class MovingMap extends HeapMap {
  static start(reel) {
    const map = new MovingMap();
    map.spec = "changed";
    map.moved = () => {};
    map.camera = new Camera();
    map.views = [new MovingView(document.getElementById("canvas-0"), null, null, map.camera)];
    map.setColours("phusion");
    map.take(reel);
    new ResizeObserver(() => map.resized()).observe(map.views[0].canvas);
    return map;
  }

  // Another process.
  take(reel) {
    const [view] = this.views;
    this.reel = reel;
    this.regions = reel.regions;
    this.all = [reel.pages];
    json.arenas = reel.arenas;
    Object.assign(view, { pages: reel.pages, regions: reel.regions, marker: -1 });
    this.mask = new Uint8Array(reel.total);
    const aspect = aspectOf(view.canvas);
    const { name } = this.layout ?? { name: "rows" };
    this.layouts = { rows: new Rows(reel.regions, reel.total, aspect), hilbert: new Hilbert(reel.regions, reel.total, aspect) };
    this.layout = this.layouts[name];
    this.refresh();
    this.whole();
  }

  seek(frame) {
    this.reel.seek(frame);
    this.refresh();
    if (this.views[0].marker >= 0) this.cardAtMarker();
  }

  refresh() {
    this.masks = [this.spec && this.marked(this.spec) ? this.mask : null];
    const [view] = this.views;
    view.show(this.layout, this.colours, this.masks[0]);
    view.resize();
    this.redraw();
  }

  // Fills the mask with what a spec means; how many cells.
  marked(spec) {
    this.mask.fill(0);
    const [what, value] = spec.split(":");
    if (what === "changed") return this.reel.markStep(this.mask);
    if (what === "since") return this.reel.markSince(this.mask);
    return what === "state" ? this.reel.markState(this.mask, Number(value)) : 0;
  }

  setColours(name) {
    this.palette = name;
    this.colours = paletteOf(name);
  }

  setPalette(name) {
    this.setColours(name);
    super.setPalette(name);
  }

  light(spec) {
    this.spec = spec;
    this.refresh();
    this.changed?.();
    this.moved();
    return true;
  }
}
