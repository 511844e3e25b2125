// SPDX-License-Identifier: MIT
// What a click lights up: a byte for each page, 1 where it belongs to the thing that was chosen.
import { callsOf } from "./calls.js";
import { json } from "./data.js";
import { unitColour } from "./map_canvas.js";
import { COLOUR_BITS, FREE_UNKNOWN, MMAPPED, PINNED, RELEASABLE, RUNTIME, RETURNED, UNKNOWN, USED, USED_SWAPPED, FREE_SWAPPED, WITHHELD, isResident } from "./heaps.js";

const isMallocs = (page) => page.kind !== RUNTIME;

// Rows of the ledger, by their paint (rows.def): whether a page has bytes in it.
const ROWS = {
  used: (page) => page.resident && isMallocs(page) && page.kind !== MMAPPED && page.units.in_use[page.index] > 0,
  mmapped: (page) => page.resident && page.kind === MMAPPED && page.units.in_use[page.index] > 0,
  slack: (page) => page.resident && page.kind === MMAPPED && page.units.in_use[page.index] < json.pageSize / 16,
  cached: (page) => page.resident && page.units.tcache[page.index] > 0,
  fastbin: (page) => page.resident && page.colour !== RELEASABLE && page.colour !== WITHHELD && page.units.fastbin[page.index] > 0,
  stranded: (page) =>
    page.resident && isMallocs(page) && page.colour !== RELEASABLE && page.colour !== WITHHELD && page.kind !== MMAPPED &&
    page.pages.binned(page.index) + page.units.top[page.index] > 0,
  releasable: (page) => page.colour === RELEASABLE,
  withheld: (page) => page.colour === WITHHELD,
  ruby: (page) => page.resident && (page.pages.rubyAt(page.index) >= 0 || page.row === "ruby_pages"),
  python: (page) => page.resident && page.row === "python_arenas",
  metadata: (page) => page.resident && isMallocs(page) && page.units.metadata[page.index] > 0,
  unknown: (page) => page.colour === UNKNOWN || page.colour === FREE_UNKNOWN || page.units.unknown[page.index] > 0,
  returned: (page) => isMallocs(page) && page.colour === RETURNED,
  "used-swapped": (page) => page.colour === USED_SWAPPED,
  "free-swapped": (page) => page.colour === FREE_SWAPPED,
};

// Which users are meant, by their type, owner and leak.
const HELD = {
  type: (value) => ([type]) => type === Number(value),
  owner: (value) => ([, owner]) => owner === Number(value),
  leak: (value) => ([, , leak]) => leak === Number(value),
  pair: (value) => ([type, owner]) => `${type}/${owner}` === value,
};

// Fills in the mask with the pages of calls.
function callMask(mask, wanted, pages) {
  for (let index = 0; pages.siteEnd && index < pages.siteEnd.length; index++) {
    for (const site of pages.sitesOf(index)) if (site > 0 && wanted[pages.siteCall[site - 1]]) mask[index] = 1;
  }
}

// Fills in the mask; false: no dump has such a user.
function userMask(mask, meant, pages) {
  const wanted = json.dumps.map(({ users }) => users.map((user, number) => number > 0 && meant(user)));
  const { userEnd, user, which } = pages;
  for (let index = 0, at = 0; userEnd && index < userEnd.length; index++) {
    for (; at < userEnd[index]; at++) if (wanted[which][user[at]]) mask[index] = 1;
  }
  return wanted.some((each) => each.includes(true));
}

// The pages that `spec` ("row:in_use", "bytes:1", "state:5", "arena:2", "pin:48", "type:3", "call:7", "idle", "changed") names in one dump; null when it
// names nothing that is on the map.
export function lit(spec, pages, all) {
  const { regions } = pages;
  const mask = new Uint8Array(json.total);
  const [what, value] = spec.split(":");
  if (what === "pin") {
    for (const [page, size] of pages.pins ?? []) if (size === Number(value)) mask[page] = 1;
  } else if (what === "arena" || what === "idle") {
    const wanted = new Set(what === "idle" ? json.idle : [Number(value)]);
    for (let region = 0; region < regions.count; region++) {
      if (wanted.has(regions.arena[region])) mask.fill(1, regions.first[region], regions.first[region] + regions.pages[region]);
    }
    for (let i = 0; i < mask.length; i++) if (!(pages.state[i] & COLOUR_BITS)) mask[i] = 0;
  } else if (what === "bytes") {
    for (let i = 0; i < mask.length; i++) mask[i] = hasBytes(i, Number(value), pages) ? 1 : 0;
  } else if (what === "state") {
    for (let i = 0; i < mask.length; i++) mask[i] = (pages.state[i] & COLOUR_BITS) === Number(value) ? 1 : 0;
  } else if (Object.hasOwn(HELD, what)) {
    if (!userMask(mask, HELD[what](value), pages)) return null;
  } else if (what === "call" || what === "function") {
    const wanted = callsOf(spec);
    if (!wanted) return null;
    callMask(mask, wanted, pages);
  } else if (what === "changed" && all.length > 1) {
    for (let i = 0; i < mask.length; i++) mask[i] = (all[0].state[i] ^ all[1].state[i]) & COLOUR_BITS ? 1 : 0;
  } else if (what === "row" && Object.hasOwn(ROWS, json.rows[value] ?? "") && pages.units) {
    rowMask(mask, ROWS[json.rows[value]], pages);
  } else {
    return null;
  }
  return mask;
}

// Has a page bytes of a colour?
function hasBytes(index, colour, pages) {
  const state = pages.state[index];
  if ((state & COLOUR_BITS) === 0) return false;
  const { units } = pages;
  const amounts = [units.unknown, units.in_use, units.tcache, units.fastbin, null, units.top, units.metadata];
  return amounts.some((held, kind) => {
    const shown = unitColour(kind, state);
    return (shown === colour || (shown === PINNED && colour === USED)) && (held ? held[index] : pages.binned(index)) > 0;
  });
}

function rowMask(mask, belongs, pages) {
  const { regions, units } = pages;
  for (let region = 0; region < regions.count; region++) {
    const kind = regions.kind[region];
    const end = regions.first[region] + regions.pages[region];
    for (let index = regions.first[region]; index < end; index++) {
      const colour = pages.state[index] & COLOUR_BITS;
      if (colour && belongs({ index, kind, row: json.runtimes[regions.arena[region]], colour, units, pages, resident: isResident(colour) })) mask[index] = 1;
    }
  }
}

// The page after (or before) `from` at which a run of lit pages begins, all the way round; -1 when none is lit.
export function nextRun(mask, from, step) {
  const begins = (i) => mask[i] && !(i > 0 && mask[i - 1]);
  for (let tried = 1, i = from; tried <= mask.length; tried++) {
    i = (i + step + mask.length) % mask.length;
    if (begins(i)) return i;
  }
  return -1;
}
