// SPDX-License-Identifier: MIT
// The heaps, in the map's order, and what is known of each page in one dump.
import { lastNotAbove, takeBlock, json } from "./data.js";

// Colours as in report/colours.py; above them, bits of the same byte.
export const NONE = 0, USED = 1, PINNED = 2, CACHED = 3, STRANDED = 4, RELEASABLE = 5, WITHHELD = 6, RETURNED = 7, UNTOUCHED = 8,
  USED_SWAPPED = 9, FREE_SWAPPED = 10, UNKNOWN = 11, FREE_UNKNOWN = 12, METADATA = 13, MIXED = 14;
export const COLOUR_BITS = 0xf, HUGE = 0x10, ZERO = 0x20, RESIDENCY_UNKNOWN = 0x80;
export const MMAPPED = 4; // kind of a heap that is one mmapped chunk
export const RUNTIME = 5; // kind of a piece of a runtime's heap
export const UNIT = 16; // bytes
const RUNTIME_UNIT = 8; // bytes: what the counts of a runtime's page are in

const MORE = 1 << 28; // a chunk's record goes on in the next

export function isResident(colour) {
  return (colour >= USED && colour <= WITHHELD) || colour === MIXED;
}

// Heap after heap: `first` is where each begins on the map, counted in pages.
export class Regions {
  constructor(columns) {
    Object.assign(this, columns); // page, lead, pages, arena, kind
    this.count = this.pages.length;
    this.first = new Float64Array(this.count);
    for (let i = 1; i < this.count; i++) this.first[i] = this.first[i - 1] + this.pages[i - 1];
    // By address, for the search.
    this.order = Uint32Array.from(this.page.keys()).sort((a, b) => this.page[a] - this.page[b]);
  }

  static async take() {
    return new Regions(await takeBlock("regions"));
  }

  of(index) {
    let region = lastNotAbove(this.first, index);
    while (this.pages[region] === 0) region--; // one without pages begins where the next does
    return region;
  }

  // A page's address: a multiple of the page size, and so an exact double.
  address(index) {
    const region = this.of(index);
    return (this.page[region] + index - this.first[region]) * json.pageSize;
  }

  // The page that holds an address; -1 for none of ours.
  find(address) {
    const wanted = Math.floor(address / json.pageSize);
    for (const region of this.order) {
      const within = wanted - this.page[region];
      if (within >= 0 && within < this.pages[region]) return this.first[region] + within;
    }
    return -1;
  }
}

// Where each page's part of a list ends, by how many each has.
function endsOf(count) {
  const ends = new Uint32Array(count.length);
  for (let index = 0, end = 0; index < count.length; index++) ends[index] = end += count[index];
  return ends;
}

function partAt(index, list, ends) {
  return !ends || index >= ends.length ? [] : list.subarray(index ? ends[index - 1] : 0, ends[index]);
}

// One dump: the state of each page, what lies on it, the pins, the chunks. All but the first two come a little later.
export class Pages {
  constructor(regions, which) {
    this.regions = regions;
    this.which = which;
    this.units = null;
    this.pins = null;
    this.ends = new Map(); // region → where each of its chunks ends, in units from the region's first page
  }

  // What the map is painted from.
  async takeStates() {
    this.state = (await takeBlock(`state-${this.which}`)).state;
    this.units = await takeBlock(`units-${this.which}`);
  }

  async takeDetails() {
    this.pools = await takeBlock(`pools-${this.which}`);
    const pins = (await takeBlock(`pins-${this.which}`)).size; // of the pinned pages in turn; 0: not known
    const sizes = json.dumps[this.which].pinSizes;
    this.pins = new Map();
    for (let index = 0, pin = 0; pin < pins.length; index++) {
      if (this.colour(index) !== PINNED) continue;
      if (pins[pin]) this.pins.set(index, sizes[pins[pin] - 1]);
      pin++;
    }
    this.ruby = await takeBlock(`ruby-${this.which}`);
    await this.takeUsers();
    await this.takeSites();
    const chunks = await takeBlock(`chunks-${this.which}`);
    let behind = 0;
    this.records = new Map();
    chunks.region.forEach((region, i) => {
      this.records.set(region, chunks.record.subarray(behind, behind + chunks.count[i]));
      behind += chunks.count[i];
    });
  }

  // The users of each of malloc's pages, those with most bytes on it first: user[userEnd[i - 1]] to user[userEnd[i] - 1].
  async takeUsers() {
    const { count, user } = await takeBlock(`users-${this.which}`);
    this.user = user;
    this.userEnd = endsOf(count);
  }

  // The numbers of the users on a page, as json.dumps[…].users has them.
  usersOf(index) {
    return partAt(index, this.user, this.userEnd);
  }

  // Likewise the sites, as numbers that `siteCall` has the calls of: those at 0 are in no call of the chart.
  async takeSites() {
    const { count, site, call } = await takeBlock(`sites-${this.which}`);
    this.site = site;
    this.siteEnd = endsOf(count);
    this.siteCall = call;
  }

  sitesOf(index) {
    return partAt(index, this.site, this.siteEnd);
  }

  colour(index) {
    return this.state[index] & COLOUR_BITS;
  }

  // In what a page's counts are, bytes. The pages of runtimes' heaps come last.
  unit(index) {
    return index < json.mallocTotal ? UNIT : RUNTIME_UNIT;
  }

  // Units on a page that are in bins: what no other count has.
  binned(index) {
    const u = this.units;
    return json.pageSize / this.unit(index) - u.rest[index] - u.in_use[index] - u.tcache[index] - u.fastbin[index] - u.top[index] -
      u.metadata[index] - u.unknown[index];
  }

  // The page of Ruby's own heap that a page is part of, as an index into `ruby`; -1 for none.
  rubyAt(index) {
    if (!this.ruby) return -1;
    const found = lastNotAbove(this.ruby.first, index);
    return found >= 0 && index < this.ruby.first[found] + this.ruby.pages[found] ? found : -1;
  }

  hasChunks(index) {
    return this.records !== undefined && this.records.has(this.regions.of(index));
  }

  // The chunk at each unit of a page, as classes (255: not the heap's) into `out`; false where no chunks are known.
  classes(index, out) {
    const region = this.regions.of(index);
    const chunks = this.chunks(region);
    if (!chunks) return false;
    const perPage = json.pageSize / UNIT;
    const start = (index - this.regions.first[region]) * perPage;
    out.fill(255);
    let chunk = lastNotAbove(chunks.end, start) + 1;
    for (; chunk < chunks.end.length; chunk++) {
      const from = chunk ? chunks.end[chunk - 1] : chunks.start;
      if (from >= start + perPage) break;
      out.fill(chunks.kind[chunk], Math.max(from - start, 0), Math.min(chunks.end[chunk] - start, perPage));
    }
    return true;
  }

  // The chunk that holds a unit of a page: its address, size and class; null where none is known.
  chunkAt(index, unit) {
    const region = this.regions.of(index);
    const chunks = this.chunks(region);
    if (!chunks) return null;
    const wanted = (index - this.regions.first[region]) * (json.pageSize / UNIT) + unit;
    const chunk = lastNotAbove(chunks.end, wanted) + 1;
    const from = chunk ? chunks.end[chunk - 1] : chunks.start;
    if (chunk >= chunks.end.length || wanted < from) return null;
    const base = this.regions.page[region] * json.pageSize;
    return { address: base + from * UNIT, size: (chunks.end[chunk] - from) * UNIT, kind: chunks.kind[chunk] };
  }

  // A region's chunks, added up when first asked for.
  chunks(region) {
    if (!this.records || !this.records.has(region)) return null;
    let known = this.ends.get(region);
    if (!known) {
      const records = this.records.get(region);
      const end = new Float64Array(records.length);
      const kind = new Uint8Array(records.length);
      const start = this.regions.lead[region] / UNIT;
      let at = start;
      let count = 0;
      for (const record of records) {
        at += record & (MORE - 1);
        if (record & MORE) continue;
        end[count] = at;
        kind[count++] = record >>> 29;
      }
      known = { start, end: end.subarray(0, count), kind: kind.subarray(0, count) };
      this.ends.set(region, known);
    }
    return known;
  }
}
