// SPDX-License-Identifier: MIT
// One canvas with the map of one dump on it. The camera is shared, so that two maps go in step.
import { json } from "./data.js";
import { COLOUR_BITS, METADATA, MIXED, NONE, PINNED, RESIDENCY_UNKNOWN, UNIT, UNKNOWN, USED, CACHED, STRANDED, RELEASABLE, WITHHELD, RETURNED,
  UNTOUCHED, USED_SWAPPED, FREE_SWAPPED, FREE_UNKNOWN, isResident } from "./heaps.js";
import { LIT, Pyramid, THERE, encoded, linear, parseColour } from "./mipmap.js";

const GUTTER = 120; // CSS pixels, for the arenas' names; none where there is little room
const ROOM = 560;
const LEAST_SCALE = 1 / 4096; // pixels a cell
const GRID_FROM = 6; // pixels a cell
const LABEL = 18; // pixels: height of a name on a Hilbert curve
const LETTERS_FROM = 20;
const UNITS_FROM = 40;
const BORDERS_FROM = 160;

// Cells to pixels: the cell coordinates at the middle of the canvas, and CSS pixels a cell.
export class Camera {
  constructor() {
    this.x = 0;
    this.y = 0;
    this.scale = 1;
  }
}

export class View {
  constructor(canvas, pages, regions, camera) {
    Object.assign(this, { canvas, pages, regions, camera });
    this.context = canvas.getContext("2d", { alpha: false });
    this.perPage = json.pageSize / UNIT;
    this.side = 2 ** Math.ceil(Math.log2(this.perPage) / 2); // a page's units stand in a square, in rows of so many
    this.units = document.createElement("canvas");
    this.unitsOf = "";
    this.letters = document.createElement("canvas");
    this.lettersOf = "";
    this.mask = null;
    this.marker = -1;
  }

  // Takes over a layout, a palette (for each colour [r, g, b]) and what is lit (a byte for each page; null: everything).
  show(layout, palette, mask) {
    this.layout = layout;
    this.palette = palette;
    this.mask = mask;
    this.packed = palette.map(([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0);
    if (this.meansOf !== palette) {
      this.meansOf = palette;
      this.means = means(this.pages, palette);
    }
    let values = this.means;
    if (mask) {
      values = values.slice();
      for (let i = 0; i < values.length; i++) if (mask[i] && values[i]) values[i] |= LIT;
    }
    const cells = new Uint32Array(layout.width * layout.height);
    layout.fill(values, cells);
    this.pyramid = new Pyramid(cells, layout.width, layout.height, palette[NONE], mask !== null);
    this.unitsOf = this.lettersOf = "";
  }

  // Follows the size that the style sheet gives the canvas.
  resize() {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth, clientHeight } = this.canvas;
    this.width = clientWidth;
    this.height = clientHeight;
    this.gutter = clientWidth > ROOM && this.layout.bands.length > 0 ? GUTTER : 0;
    const width = Math.round(clientWidth * ratio);
    const height = Math.round(clientHeight * ratio);
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    this.ratio = ratio;
  }

  // The scale at which all of the map is seen.
  wholeScale() {
    const margin = 12;
    const scale = Math.min((this.width - this.gutter - margin) / this.layout.width, (this.height - margin) / this.layout.height);
    return Math.max(scale, LEAST_SCALE); // a canvas that is not shown has no size
  }

  // Cell coordinates of a point of the canvas, and back.
  toCell(px, py) {
    const { x, y, scale } = this.camera;
    return [x + (px - (this.gutter + this.width) / 2) / scale, y + (py - this.height / 2) / scale];
  }

  toPixel(cx, cy) {
    const { x, y, scale } = this.camera;
    return [(this.gutter + this.width) / 2 + (cx - x) * scale, this.height / 2 + (cy - y) * scale];
  }

  // The page at a point of the canvas; -1 for none.
  pageAt(px, py) {
    if (px < this.gutter) return -1;
    const [cx, cy] = this.toCell(px, py);
    return this.layout.at(Math.floor(cx), Math.floor(cy));
  }

  // The 16 bytes at a point of the canvas, counted from the page's beginning.
  unitAt(px, py) {
    const [cx, cy] = this.toCell(px, py);
    const within = (c) => Math.min(Math.floor((c - Math.floor(c)) * this.side), this.side - 1);
    return Math.min(within(cy) * this.side + within(cx), this.perPage - 1);
  }

  draw() {
    const { context, ratio } = this;
    const { scale } = this.camera;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = json.background;
    context.fillRect(0, 0, this.width, this.height);
    this.drawTiles();
    if (scale >= GRID_FROM) {
      const seen = this.seen();
      if (scale >= UNITS_FROM && this.pages.records) this.drawUnits(seen);
      this.drawGrid(seen);
      if (scale >= LETTERS_FROM) this.drawLetters(seen);
    }
    if (this.marker >= 0) this.drawMarker();
    if (this.gutter) this.drawGutter();
    else this.drawNames();
  }

  // On a Hilbert curve an arena is a patch: its name stands on the middle of it, where there is room. `x` and `y` are the middle of the name.
  names() {
    const { context } = this;
    const { scale } = this.camera;
    context.font = "600 12px system-ui, 'DejaVu Sans', sans-serif";
    const found = [];
    for (const { arena, first, count } of this.layout.labels ?? []) {
      const name = nameOf(arena);
      const width = context.measureText(name).width + 12;
      if (count * scale * scale < width * LABEL) continue;
      const [px, py] = this.toPixel(...this.layout.place(first + (count >> 1)));
      if (px < 0 || py < 0 || px > this.width || py > this.height) continue;
      const x = Math.min(Math.max(px, width / 2 + 2), this.width - width / 2 - 2);
      const y = Math.min(Math.max(py, LABEL / 2 + 2), this.height - LABEL / 2 - 2);
      found.push({ name, x, y, width });
    }
    return found;
  }

  drawNames() {
    const { context } = this;
    for (const { name, x, y, width } of this.names()) {
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillStyle = `${json.background}d9`;
      context.fillRect(x - width / 2, y - LABEL / 2, width, LABEL);
      context.fillStyle = "#ffffff";
      context.fillText(name, x, y);
    }
  }

  // Whether a name stands on a cell, or on a part of it.
  isUnderName(cx, cy) {
    const { scale } = this.camera;
    const [left, top] = this.toPixel(cx, cy);
    return (
      !this.gutter &&
      this.names().some(({ x, y, width }) => x + width / 2 > left && x - width / 2 < left + scale && y + LABEL / 2 > top && y - LABEL / 2 < top + scale)
    );
  }

  drawTiles() {
    const { context } = this;
    const { scale } = this.camera;
    const level = this.pyramid.pick(scale * this.ratio);
    const each = level.scale * scale;
    // On whole pixels, so that what is one pixel large is not smeared over four.
    const [left, top] = this.toPixel(0, 0).map((at) => Math.round(at * this.ratio) / this.ratio);
    context.imageSmoothingEnabled = each < 1;
    context.imageSmoothingQuality = "low";
    for (const tile of level.tiles) {
      const x = left + tile.left * each;
      const y = top + tile.top * each;
      if (x < this.width && y < this.height && x + tile.width * each > 0 && y + tile.height * each > 0) {
        context.drawImage(tile.image(), x, y, tile.width * each, tile.height * each);
      }
    }
  }

  // Which cells are in view.
  seen() {
    const [x0, y0] = this.toCell(this.gutter, 0);
    const [x1, y1] = this.toCell(this.width, this.height);
    const { width, height } = this.layout;
    return {
      left: Math.max(Math.floor(x0), 0), top: Math.max(Math.floor(y0), 0),
      right: Math.min(Math.ceil(x1), width), bottom: Math.min(Math.ceil(y1), height),
    };
  }

  drawGrid({ left, top, right, bottom }) {
    const { context } = this;
    context.fillStyle = json.background;
    const line = this.camera.scale >= UNITS_FROM ? 2 : 1;
    const [x0, y0] = this.toPixel(left, top);
    const [x1, y1] = this.toPixel(right, bottom);
    for (let x = left; x <= right; x++) context.fillRect(Math.round(this.toPixel(x, 0)[0]) - line / 2, y0, line, y1 - y0);
    for (let y = top; y <= bottom; y++) context.fillRect(x0, Math.round(this.toPixel(0, y)[1]) - line / 2, x1 - x0, line);
  }

  // The state's letter on each page that is not drawn chunk by chunk.
  drawLetters(seen) {
    const { context, pages } = this;
    const { scale } = this.camera;
    const size = Math.min(Math.round(scale * 0.5), 22);
    this.prepareLetters(size);
    for (let y = seen.top; y < seen.bottom; y++) {
      for (let x = seen.left; x < seen.right; x++) {
        const index = this.layout.at(x, y);
        if (index < 0 || (scale >= UNITS_FROM && pages.hasChunks(index)) || (this.mask && !this.mask[index])) continue;
        const colour = pages.colour(index);
        if (colour === NONE) continue;
        const [px, py] = this.toPixel(x + 0.5, y + 0.5);
        const side = 2 * size;
        const row = this.lightness(index) > json.bright ? side * this.ratio : 0;
        context.drawImage(this.letters, colour * side * this.ratio, row, side * this.ratio, side * this.ratio, px - size, py - size, side, side);
      }
    }
  }

  lightness(index) {
    return brightness(this.means[index]);
  }

  // All letters side by side: in ink that shows on dark colours, and below in that for bright ones.
  prepareLetters(size) {
    const key = `${size} ${this.ratio}`;
    if (this.lettersOf === key) return;
    this.lettersOf = key;
    const side = 2 * size;
    this.letters.width = side * 16 * this.ratio;
    this.letters.height = 2 * side * this.ratio;
    const context = this.letters.getContext("2d");
    context.scale(this.ratio, this.ratio);
    context.font = `600 ${size}px ui-monospace, "DejaVu Sans Mono", monospace`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const [colour, appearance] of Object.entries(json.appearances)) {
      for (const bright of [0, 1]) {
        context.fillStyle = json.inks[bright];
        context.fillText(appearance.letter, (Number(colour) + 0.5) * side, bright * side + size + 1);
      }
    }
  }

  // The 16-byte units of the pages in view, where chunks are known.
  drawUnits(seen) {
    const { context, side } = this;
    const { scale } = this.camera;
    const columns = seen.right - seen.left;
    const rows = seen.bottom - seen.top;
    if (columns <= 0 || rows <= 0) return;
    const key = [seen.left, seen.top, columns, rows].join();
    if (this.unitsOf !== key) {
      this.unitsOf = key;
      this.paintUnits(seen, columns, rows);
    }
    const [x, y] = this.toPixel(seen.left, seen.top);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.units, x, y, columns * scale, rows * scale);
    if (scale >= BORDERS_FROM) this.drawBorders(seen, scale / side);
  }

  paintUnits(seen, columns, rows) {
    const { side, pages } = this;
    this.units.width = columns * side;
    this.units.height = rows * side;
    const context = this.units.getContext("2d");
    const image = context.createImageData(columns * side, rows * side);
    const pixels = new Uint32Array(image.data.buffer);
    const classes = new Uint8Array(this.perPage);
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < columns; x++) {
        const index = this.layout.at(seen.left + x, seen.top + y);
        if (index < 0 || pages.colour(index) === NONE || (this.mask && !this.mask[index]) || !pages.classes(index, classes)) continue;
        const state = pages.state[index];
        for (let unit = 0; unit < classes.length; unit++) {
          const at = (y * side + Math.floor(unit / side)) * columns * side + x * side + (unit % side);
          pixels[at] = classes[unit] === 255 ? this.packed[NONE] : this.packed[unitColour(classes[unit], state)];
        }
      }
    }
    context.putImageData(image, 0, 0);
  }

  // A line where a chunk begins, so that neighbours of one kind can be told apart.
  drawBorders(seen, unit) {
    const { context, side, pages } = this;
    context.fillStyle = "rgb(0 0 0 / .55)";
    for (let y = seen.top; y < seen.bottom; y++) {
      for (let x = seen.left; x < seen.right; x++) {
        const index = this.layout.at(x, y);
        if (index < 0 || !pages.hasChunks(index)) continue;
        const [px, py] = this.toPixel(x, y);
        const address = this.regions.address(index);
        for (let at = 0; at < this.perPage; ) {
          const chunk = pages.chunkAt(index, at);
          if (!chunk) break;
          const from = (chunk.address - address) / UNIT;
          if (from >= 0) context.fillRect(px + (from % side) * unit, py + Math.floor(from / side) * unit, Math.max(unit / 8, 1), unit);
          at = from + chunk.size / UNIT;
        }
      }
    }
  }

  drawMarker() {
    const { context } = this;
    const { scale } = this.camera;
    const [cx, cy] = this.layout.place(this.marker);
    const [px, py] = this.toPixel(cx, cy);
    const side = Math.max(scale, 7);
    const shift = (side - scale) / 2;
    for (const [colour, width] of [["#000000", 4], ["#ffffff", 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.strokeRect(px - shift - 1, py - shift - 1, side + 2, side + 2);
    }
  }

  // The arenas' names, left of their rows.
  drawGutter() {
    const { context } = this;
    context.fillStyle = json.background;
    context.fillRect(0, 0, this.gutter, this.height);
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    context.textBaseline = "middle";
    let behind = -Infinity;
    for (const band of this.layout.bands) {
      const top = this.toPixel(0, band.y)[1];
      const bottom = this.toPixel(0, band.y + band.height)[1];
      if (bottom < 0 || top > this.height) continue;
      const from = Math.max(top, 2);
      const to = Math.min(bottom, this.height - 2);
      context.fillStyle = "#55607a";
      context.fillRect(this.gutter - 6, from, 2, Math.max(to - from, 1));
      const middle = Math.min(Math.max(from + 8, (from + to) / 2), this.height - 9);
      if (middle - behind < 15) continue;
      behind = middle;
      context.fillStyle = "#c9d0dc";
      context.textAlign = "right";
      context.fillText(nameOf(band.arena), this.gutter - 12, middle, this.gutter - 16);
    }
  }
}

// What an arena is called; -1: the mmapped chunks.
export function nameOf(arena) {
  return arena < 0 ? "mmapped" : json.arenas[arena].name;
}

// Chunk classes as in the dump format.
const IN_USE = 1, TCACHE = 2, FASTBIN = 3, BINNED = 4, TOP = 5, OWN = 6;

// For each page the mean of its bytes' colours, as 0xTTRRGGBB: TT is THERE, or 0 where there is no page. So an arena has the same
// colour from afar as close by.
function means(pages, palette) {
  const out = new Uint32Array(pages.state.length);
  const light = palette.map((rgb) => rgb.map(linear));
  const pure = palette.map(([r, g, b]) => (THERE | (r << 16) | (g << 8) | b) >>> 0);
  const { in_use, tcache, fastbin, top, metadata, unknown } = pages.units;
  const amounts = [0, 0, 0, 0, 0, 0, 0];
  for (let i = 0; i < out.length; i++) {
    const state = pages.state[i];
    const colour = state & COLOUR_BITS;
    if (colour === NONE) continue;
    amounts[IN_USE] = in_use[i];
    amounts[TCACHE] = tcache[i];
    amounts[FASTBIN] = fastbin[i];
    amounts[BINNED] = pages.binned(i);
    amounts[TOP] = top[i];
    amounts[OWN] = metadata[i];
    amounts[0] = unknown[i];
    let total = 0, r = 0, g = 0, b = 0, one = NONE, several = false;
    for (let kind = 0; kind < amounts.length; kind++) {
      if (!amounts[kind]) continue;
      const shown = unitColour(kind, state);
      several ||= one !== NONE && one !== shown;
      one = shown;
      total += amounts[kind];
      const [lr, lg, lb] = light[shown];
      r += lr * amounts[kind];
      g += lg * amounts[kind];
      b += lb * amounts[kind];
    }
    if (!several) out[i] = pure[one === NONE ? colour : one];
    else out[i] = (THERE | (encoded(r / total) << 16) | (encoded(g / total) << 8) | encoded(b / total)) >>> 0;
  }
  return out;
}

// What 16 bytes are shown as, by the class of their chunk and the state of their page.
export function unitColour(kind, state) {
  const colour = state & COLOUR_BITS;
  const unknown = (state & RESIDENCY_UNKNOWN) !== 0;
  const swapped = colour === USED_SWAPPED || colour === FREE_SWAPPED;
  if (kind === IN_USE || kind === OWN) {
    if (isResident(colour) || unknown) return kind === OWN ? METADATA : colour === PINNED ? PINNED : USED;
    return swapped ? USED_SWAPPED : UNTOUCHED;
  }
  if (kind === TCACHE || kind === FASTBIN) {
    if (colour === RELEASABLE || colour === WITHHELD) return colour; // malloc_trim takes the fastbins' chunks, too
    if (isResident(colour) || unknown) return CACHED;
    return swapped ? FREE_SWAPPED : RETURNED;
  }
  if (kind === BINNED || kind === TOP) {
    if (unknown) return FREE_UNKNOWN;
    if (colour === RELEASABLE || colour === WITHHELD) return colour;
    if (isResident(colour)) return STRANDED;
    if (swapped) return FREE_SWAPPED;
    return kind === TOP && colour === UNTOUCHED ? UNTOUCHED : RETURNED;
  }
  if (swapped) return USED_SWAPPED;
  return isResident(colour) || unknown || colour === UNKNOWN ? UNKNOWN : UNTOUCHED;
}

export function brightness(mean) {
  return 0.299 * ((mean >> 16) & 255) + 0.587 * ((mean >> 8) & 255) + 0.114 * (mean & 255);
}

// Width to height of the room that a canvas has for the map.
export function aspectOf({ clientWidth, clientHeight }) {
  const width = clientWidth - (clientWidth > ROOM ? GUTTER : 0);
  return width > 0 && clientHeight > 0 ? Math.min(Math.max(width / clientHeight, 0.5), 4) : 2; // one that is not shown has no size
}

export function paletteOf(name) {
  const palette = [parseColour(json.background)];
  for (const [colour, appearance] of Object.entries(json.appearances)) palette[colour] = parseColour(appearance[name]);
  return palette;
}
