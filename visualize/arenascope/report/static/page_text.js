// SPDX-License-Identifier: MIT
// What is known of a page, in words: for the card beside the pointer, and for those who listen.
import { callName } from "./calls.js";
import { json } from "./data.js";
import { COLOUR_BITS, FREE_SWAPPED, HUGE, MMAPPED, NONE, PINNED, RELEASABLE, RESIDENCY_UNKNOWN, RETURNED, RUNTIME, UNTOUCHED, USED_SWAPPED,
  MIXED, WITHHELD, ZERO, isResident } from "./heaps.js";

const KINDS = ["", "brk segment", "mmapped segment", "heap of a thread arena", "mmapped chunk", "piece of its own heap"];
const CLASSES = ["unknown", "in use", "in a tcache", "in a fastbin", "free, in a bin", "the top", "metadata"];
const SCALES = ["B", "KiB", "MiB", "GiB", "TiB"];

export function hex(address) {
  return `0x${address.toString(16)}`;
}

export function size(bytes) {
  let unit = 0;
  let value = bytes;
  for (; value >= 1023.95 && unit < SCALES.length - 1; unit++) value /= 1024;
  return unit === 0 ? `${bytes} B` : `${value.toFixed(1)} ${SCALES[unit]}`;
}

export function where(index, regions) {
  const region = regions.of(index);
  const arena = regions.arena[region];
  const heap = KINDS[regions.kind[region]];
  if (arena < 0) return `${heap}, ${size(regions.pages[region] * json.pageSize)}`;
  const { name, threads } = json.arenas[arena];
  if (regions.kind[region] === RUNTIME) return `${name}, piece of ${size(regions.pages[region] * json.pageSize)}`;
  return `${heap ? `${name}, ${heap}` : name}${threads ? ` · ${threads}` : ""}`;
}

export function stateName(state) {
  const colour = state & COLOUR_BITS;
  if (colour === NONE) return "not there";
  const notes = [state & HUGE ? "part of a huge page" : "", state & ZERO ? "the shared zero page" : "",
    state & RESIDENCY_UNKNOWN ? "residency unknown" : ""].filter(Boolean);
  return [json.appearances[colour].name, ...notes].join(", ");
}

// How much of a page is in use, where that is a part of it.
export function shareInUse(index, pages) {
  const colour = pages.colour(index);
  if (!pages.units || (colour !== MIXED && colour !== PINNED)) return "";
  const used = (pages.units.in_use[index] + pages.units.metadata[index]) * pages.unit(index);
  return `, ${Math.max(1, Math.round((100 * used) / json.pageSize))} % in use`;
}

// The bytes of a page in each row of the ledger (or beside it, where the page is absent): [name, bytes], none of 0.
export function rows(index, pages) {
  const { units, regions } = pages;
  if (!units || !pages.colour(index)) return [];
  const colour = pages.colour(index);
  const unit = pages.unit(index);
  const bytes = (name) => units[name][index] * unit;
  const free = pages.binned(index) * unit + bytes("top");
  const { titles } = json;
  const found = new Map();
  const add = (name, held) => held > 0 && found.set(name, (found.get(name) ?? 0) + held);
  if (regions.kind[regions.of(index)] === RUNTIME) {
    add("in use", bytes("in_use"));
    add("free", free);
    add("headers and rests", bytes("metadata"));
  } else if (regions.kind[regions.of(index)] === MMAPPED && isResident(colour)) {
    add(titles.mmapped, bytes("in_use"));
    add(titles.slack, json.pageSize - bytes("in_use"));
  } else if (isResident(colour)) {
    const whole = colour === RELEASABLE ? titles.releasable : colour === WITHHELD ? titles.withheld : null;
    add(titles.used, bytes("in_use"));
    add(titles.cached, bytes("tcache"));
    add(whole ?? titles.fastbin, bytes("fastbin"));
    add(whole ?? titles.stranded, free);
    add(titles.metadata, bytes("metadata"));
  } else {
    const kept = { [UNTOUCHED]: "in use, never touched", [USED_SWAPPED]: titles["used-swapped"], [FREE_SWAPPED]: titles["used-swapped"] };
    const gone = { [RETURNED]: titles.returned, [UNTOUCHED]: "free, never touched", [USED_SWAPPED]: titles["free-swapped"], [FREE_SWAPPED]: titles["free-swapped"] };
    add(kept[colour] ?? titles.used, bytes("in_use") + bytes("metadata"));
    add(gone[colour] ?? "free", free + bytes("tcache") + bytes("fastbin"));
  }
  add(titles.unknown, bytes("unknown"));
  return [...found];
}

// The chunk that alone keeps a page, as far as it is known.
export function pin(index, pages) {
  if (pages.colour(index) !== PINNED || json.unit === "cell") return "";
  const held = pages.pins?.get(index);
  return held ? `Kept by one chunk of ${held.toLocaleString("en")} bytes.` : "Kept by one chunk in use.";
}

// Says of what type most of a page is, and who holds that.
export function user(index, pages) {
  const [first, ...others] = pages.usersOf(index);
  if (first === undefined) return "";
  const [type, owner] = json.dumps[pages.which].users[first];
  const more = others.length ? ` (and ${others.length} more)` : "";
  if (first === 0) return `Many different types and owners${more}.`;
  return `${others.length ? "Most: " : ""}${json.names.types[type] ?? "?"}, held by ${json.names.short[owner] ?? "?"}${more}.`;
}

// Who allocated what lies on a page.
export function site(index, pages) {
  const [first, ...others] = pages.sitesOf(index);
  if (first === undefined) return "";
  const more = others.length ? ` (and ${others.length} more)` : "";
  if (first === 0) return `Allocated by calls that the chart leaves out${more}.`;
  return `${others.length ? "Most allocated" : "Allocated"} by ${callName(pages.siteCall[first - 1])}${more}.`;
}

// The blocks that a page of a runtime's heap is divided into.
function pool(index, pages) {
  const at = index - json.mallocTotal;
  if (at < 0 || !pages.pools || !pages.colour(index)) return "";
  const block = pages.pools.block[at] * pages.unit(index);
  const mean = pages.pools.mean[at] ? " The numbers are means over its pool." : "";
  return `${block ? `Blocks of ${block} bytes.` : ""}${mean}`.trim();
}

// The page of Ruby's own heap that a page is part of, or the pool of Python's.
export function ruby(index, pages) {
  if (index >= json.mallocTotal) return pool(index, pages);
  const found = pages.rubyAt(index);
  if (found < 0) return "";
  const { slot_size: size, total_slots: total, free_slots: free } = pages.ruby;
  if (!size[found]) return "A page of Ruby's heap, not yet divided into slots.";
  return `A page of Ruby's heap: ${free[found]} of ${total[found]} slots of ${size[found]} bytes are free.`;
}

export function chunk(found) {
  return `Chunk ${hex(found.address)}: ${found.size.toLocaleString("en")} bytes, ${CLASSES[found.kind] ?? CLASSES[0]}`;
}

// One line for those who listen.
export function spoken(index, all) {
  const { regions } = all[0];
  const parts = [`${hex(regions.address(index))}, ${where(index, regions)}`];
  all.forEach((pages, i) => {
    const held = rows(index, pages).map(([name, bytes]) => `${name} ${size(bytes)}`).join(", ");
    const side = json.sides[i] ? `${json.sides[i]}: ` : "";
    parts.push(`${side}${stateName(pages.state[index])}${shareInUse(index, pages)}${held ? ` (${held})` : ""}. ${pin(index, pages)} ${user(index, pages)} ${site(index, pages)} ${ruby(index, pages)}`.trim());
  });
  return parts.join(". ");
}
