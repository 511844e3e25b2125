// SPDX-License-Identifier: MIT
// Where on the map a page stands, and which page stands at a place. Coordinates are cells, one for each page.
import { lastNotAbove } from "./data.js";

const MOST_SQUARES = 40;
const SMALL = 128; // cells a row: from there on rows have a round length

// As one reads: rows of equal length, each arena (and then the mmapped chunks) from a row of its own on. `aspect`: width
// to height that the whole map should have.
export class Rows {
  constructor(regions, total, aspect) {
    this.name = "rows";
    // Gaps and last rows that are not full make it higher than it should be: then the rows are made longer.
    let width = Math.sqrt(total * aspect);
    for (let tries = 0; tries < 4; tries++) {
      this.lay(regions, total, width);
      width = Math.sqrt(this.width * this.height * aspect);
    }
    this.firsts = Float64Array.from(this.bands, (band) => band.first);
    this.tops = Float64Array.from(this.bands, (band) => band.y);
  }

  lay(regions, total, width) {
    const round = width < SMALL ? 1 : 16;
    this.width = Math.max(Math.ceil(width / round) * round, 1);
    const gap = Math.max(1, Math.round(total / this.width / 100));
    this.bands = [];
    let y = 0;
    for (const { arena, first, count } of runs(regions)) {
      const height = Math.ceil(count / this.width);
      this.bands.push({ arena, first, count, y, height });
      y += height + gap;
    }
    this.height = Math.max(y - gap, 1);
  }

  place(index) {
    const band = this.bands[lastNotAbove(this.firsts, index)];
    const within = index - band.first;
    return [within % this.width, band.y + Math.floor(within / this.width)];
  }

  at(x, y) {
    if (x < 0 || y < 0 || x >= this.width || y >= this.height) return -1;
    const band = this.bands[lastNotAbove(this.tops, y)];
    const within = (y - band.y) * this.width + x;
    return within < band.count ? band.first + within : -1;
  }

  // Values for each page, put where the pages stand, row by row.
  fill(values, cells) {
    for (const band of this.bands) cells.set(values.subarray(band.first, band.first + band.count), band.y * this.width);
  }
}

// The pages of each arena, and of the mmapped chunks together: where they begin, and how many there are.
function runs(regions) {
  const found = [];
  for (let region = 0; region < regions.count; ) {
    const arena = regions.arena[region];
    const first = regions.first[region];
    let count = 0;
    for (; region < regions.count && regions.arena[region] === arena; region++) count += regions.pages[region];
    if (count > 0) found.push({ arena, first, count });
  }
  return found;
}

// The squares that hold so many pages with least left over, in a shape that suits a screen.
function squares(total, aspect) {
  let best = null;
  for (let side = 1; side * side <= Math.max(total, 1); side *= 2) {
    const needed = Math.ceil(total / (side * side)) || 1;
    if (needed > MOST_SQUARES) continue;
    for (let across = 1; across <= needed; across++) {
      const down = Math.ceil(needed / across);
      const waste = across * down * side * side - total;
      const shape = Math.abs(Math.log(across / down / aspect));
      const cost = waste / total + 0.3 * shape + needed / MOST_SQUARES / 8;
      if (!best || cost < best.cost) best = { side, across, down, cost };
    }
  }
  return best ?? { side: 1, across: 1, down: 1 };
}

// A Hilbert curve, on which neighbours in memory stay neighbours: squares of one order, each entered where the last was left.
export class Hilbert {
  constructor(regions, total, aspect) {
    this.name = "hilbert";
    this.labels = runs(regions);
    this.total = total;
    Object.assign(this, squares(total, aspect));
    this.area = this.side * this.side;
    this.width = this.across * this.side;
    this.height = this.down * this.side;
    this.bands = [];
  }

  place(index) {
    const square = Math.floor(index / this.area);
    let d = index % this.area;
    let x = 0;
    let y = 0;
    for (let s = 1; s < this.side; s *= 2) {
      const right = (d >> 1) & 1;
      const up = (d ^ right) & 1;
      if (!up) {
        if (right) [x, y] = [s - 1 - x, s - 1 - y];
        [x, y] = [y, x];
      }
      x += s * right;
      y += s * up;
      d >>= 2;
    }
    return [(square % this.across) * this.side + x, Math.floor(square / this.across) * this.side + y];
  }

  at(x, y) {
    if (x < 0 || y < 0 || x >= this.width || y >= this.height) return -1;
    const square = Math.floor(y / this.side) * this.across + Math.floor(x / this.side);
    x %= this.side;
    y %= this.side;
    let d = 0;
    for (let s = this.side / 2; s >= 1; s /= 2) {
      const right = x & s ? 1 : 0;
      const up = y & s ? 1 : 0;
      d += s * s * ((3 * right) ^ up);
      x &= s - 1;
      y &= s - 1;
      if (!up) {
        if (right) [x, y] = [s - 1 - x, s - 1 - y];
        [x, y] = [y, x];
      }
    }
    const index = square * this.area + d;
    return index < this.total ? index : -1;
  }

  fill(values, cells) {
    if (!this.offsets) {
      this.offsets = new Uint32Array(this.area);
      for (let d = 0; d < this.area; d++) {
        const [x, y] = this.place(d);
        this.offsets[d] = y * this.width + x;
      }
    }
    for (let first = 0, square = 0; first < this.total; first += this.area, square++) {
      const corner = Math.floor(square / this.across) * this.side * this.width + (square % this.across) * this.side;
      const count = Math.min(this.area, this.total - first);
      for (let d = 0; d < count; d++) cells[corner + this.offsets[d]] = values[first + d];
    }
  }
}
