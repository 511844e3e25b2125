// SPDX-License-Identifier: MIT
// The map as images of 1, 1/2, 1/4, … of its size. Where one pixel stands for many pages, its colour is the mean of their
// colours, taken of light and not of the numbers that encode it: a pixel of half red and half white pages appears as both
// would from afar. While something is lit, lit pages among many others stay visible: they count for LIT_LEAST at least.

const TILE = 1024;
// Above the colour of a cell, 0xRRGGBB: there is a page; it is lit.
export const THERE = 0x1000000, LIT = 0x2000000;
const LIT_LEAST = 0.75;
const DIMMED = 0.1; // of its colour that a page keeps while others are lit

export function linear(byte) {
  const c = byte / 255;
  return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
}

const ENCODED = Uint8Array.from({ length: 4097 }, (_, i) => {
  const c = i / 4096;
  return Math.round(255 * (c <= 0.0031308 ? c * 12.92 : 1.055 * c ** (1 / 2.4) - 0.055));
});

// A byte, of light from 0 to 1.
export function encoded(light) {
  return ENCODED[Math.round(Math.min(light, 1) * 4096)];
}

export function parseColour(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// While others are dimmed, a dark colour would seem dimmed too.
function brightened(rgb) {
  const [r, g, b] = rgb;
  return 0.299 * r + 0.587 * g + 0.114 * b < 70 ? rgb.map((c) => Math.round(c + (255 - c) * 0.3)) : rgb;
}

// The colours of a page that is lit, and of one that is not, while `lighting`.
function shades(cell, background, lighting) {
  const rgb = [(cell >> 16) & 255, (cell >> 8) & 255, cell & 255];
  if (!lighting) return { lit: rgb, dim: rgb };
  return { lit: brightened(rgb), dim: rgb.map((c, i) => Math.round(c * DIMMED + background[i] * (1 - DIMMED))) };
}

const LINEAR = Float32Array.from({ length: 256 }, (_, byte) => linear(byte));

// `cells`: a colour for each cell, row by row, with THERE and LIT; 0: nothing there. `background`: [r, g, b].
export class Pyramid {
  constructor(cells, width, height, background, lighting) {
    this.levels = [bare(cells, width, height, background, lighting)];
    let sums = halved(cells, width, height, background, lighting);
    for (let scale = 2; ; scale *= 2) {
      this.levels.push(level(sums, scale));
      if (sums.width <= 1 && sums.height <= 1) break;
      sums = halvedAgain(sums);
    }
  }

  // The level whose texels are nearest to a pixel, not larger: `scale` is pixels a cell.
  pick(scale) {
    const wanted = scale >= 1 ? 0 : Math.min(Math.floor(Math.log2(1 / scale) + 0.01), this.levels.length - 1);
    return this.levels[wanted];
  }
}

function bare(cells, width, height, background, lighting) {
  return {
    scale: 1,
    tiles: cut(width, height, (image, left, top) => {
      const pixels = new Uint32Array(image.data.buffer);
      for (let y = 0, to = 0; y < image.height; y++) {
        for (let x = 0, from = (top + y) * width + left; x < image.width; x++, to++) {
          const cell = cells[from++];
          if (!cell) continue;
          const { lit, dim } = shades(cell, background, lighting);
          const [r, g, b] = cell & LIT ? lit : dim;
          pixels[to] = ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
        }
      }
    }),
  };
}

// Means of four cells: light of all and how much of the square is pages (a); the same of what is lit.
function halved(cells, width, height, background, lighting) {
  const w = (width + 1) >> 1;
  const h = (height + 1) >> 1;
  const all = new Float32Array(4 * w * h);
  const bright = lighting ? new Float32Array(4 * w * h) : null;
  let last = 0, dim = [0, 0, 0], lit = [0, 0, 0];
  for (let y = 0; y < height; y++) {
    for (let x = 0, from = y * width, row = (y >> 1) * w; x < width; x++, from++) {
      const cell = cells[from];
      if (!cell) continue;
      if (cell !== last) {
        last = cell;
        ({ lit, dim } = shades(cell, background, lighting));
      }
      const to = 4 * (row + (x >> 1));
      for (let c = 0; c < 3; c++) all[to + c] += LINEAR[dim[c]] / 4;
      all[to + 3] += 1 / 4;
      if (bright && cell & LIT) {
        for (let c = 0; c < 3; c++) bright[to + c] += LINEAR[lit[c]] / 4;
        bright[to + 3] += 1 / 4;
      }
    }
  }
  return { width: w, height: h, all, bright };
}

function halvedAgain({ width, height, all, bright }) {
  const w = (width + 1) >> 1;
  const h = (height + 1) >> 1;
  const half = (from) => {
    const out = new Float32Array(4 * w * h);
    for (let y = 0, at = 0; y < height; y++) {
      for (let x = 0; x < width; x++, at += 4) {
        const to = 4 * ((y >> 1) * w + (x >> 1));
        for (let c = 0; c < 4; c++) out[to + c] += from[at + c] / 4;
      }
    }
    return out;
  };
  return { width: w, height: h, all: half(all), bright: bright && half(bright) };
}

function level({ width, height, all, bright }, scale) {
  return {
    scale,
    tiles: cut(width, height, (image, left, top) => {
      for (let y = 0, to = 0; y < image.height; y++) {
        for (let x = 0, at = 4 * ((top + y) * width + left); x < image.width; x++, at += 4, to += 4) {
          const there = all[at + 3];
          if (!there) continue;
          const shown = bright && bright[at + 3] ? Math.max(bright[at + 3] / there, LIT_LEAST) : 0;
          for (let c = 0; c < 3; c++) {
            let light = all[at + c] / there;
            if (shown) light = light * (1 - shown) + (bright[at + c] / bright[at + 3]) * shown;
            image.data[to + c] = encoded(light);
          }
          image.data[to + 3] = Math.round(255 * Math.min(there, 1));
        }
      }
    }),
  };
}

// Canvases of at most TILE × TILE, each painted when it is first drawn.
function cut(width, height, paint) {
  const tiles = [];
  for (let top = 0; top < height; top += TILE) {
    for (let left = 0; left < width; left += TILE) {
      const tile = { left, top, width: Math.min(TILE, width - left), height: Math.min(TILE, height - top), canvas: null };
      tile.image = () => {
        if (!tile.canvas) {
          tile.canvas = document.createElement("canvas");
          tile.canvas.width = tile.width;
          tile.canvas.height = tile.height;
          const context = tile.canvas.getContext("2d");
          const image = context.createImageData(tile.width, tile.height);
          paint(image, left, top);
          context.putImageData(image, 0, 0);
        }
        return tile.canvas;
      };
      tiles.push(tile);
    }
  }
  return tiles;
}
