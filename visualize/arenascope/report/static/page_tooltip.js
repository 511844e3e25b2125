// SPDX-License-Identifier: MIT
// The card beside the pointer (or the marker).
import { json } from "./data.js";
import { NONE } from "./heaps.js";
import { chunk, hex, user, pin, rows, ruby, shareInUse, site, size, stateName, where } from "./page_text.js";

const card = document.getElementById("card");
const MANY = 4; // pages a pixel, from which on a mixture is told and not one page
const MOST_SHOWN = 4;

function add(tag, text, kind = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  if (kind) element.className = kind;
  card.append(element);
  return element;
}

export function hideCard() {
  card.hidden = true;
}

// Shows what is known of a page at (x, y), which are relative to the card's parent. `mixture`: the pages behind that pixel.
export function showCard(index, all, x, y, { mixture = null, unit = -1 } = {}) {
  card.replaceChildren();
  const { regions } = all[0];
  const address = regions.address(index);
  if (mixture && mixture.length >= MANY) {
    addMixture(mixture, all);
  } else {
    all.forEach((pages, i) => {
      add("b", `${json.sides[i] ? `${json.sides[i]}: ` : ""}${stateName(pages.state[index])}${shareInUse(index, pages)}`);
      addRows(rows(index, pages));
      const pinned = pin(index, pages);
      if (pinned) add("div", pinned);
      const held = user(index, pages);
      if (held) add("div", held);
      const allocated = site(index, pages);
      if (allocated) add("div", allocated);
      const rubys = ruby(index, pages);
      if (rubys) add("div", rubys);
      const found = unit >= 0 ? pages.chunkAt(index, unit) : null;
      if (found) add("div", chunk(found));
    });
  }
  add("div", where(index, regions), "side");
  add("div", `${hex(address)} – ${hex(address + json.pageSize)}`, "address");
  card.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = card;
  const box = card.parentElement;
  card.style.left = `${Math.max(0, x + 18 + width > box.clientWidth ? x - width - 18 : x + 18)}px`;
  card.style.top = `${Math.max(0, y + 18 + height > box.clientHeight ? y - height - 12 : y + 18)}px`;
}

function addRows(found) {
  if (!found.length) return;
  const table = document.createElement("table");
  for (const [name, bytes] of found) {
    const row = table.insertRow();
    row.insertCell().textContent = name;
    const held = row.insertCell();
    held.textContent = `${bytes.toLocaleString("en")} B`;
    held.className = "n";
  }
  card.append(table);
}

// What the pages behind one pixel are, in shares.
function addMixture(mixture, all) {
  add("b", `${mixture.length.toLocaleString("en")} ${json.unit ?? "page"}s, ${size(mixture.length * json.pageSize)}`);
  all.forEach((pages, i) => {
    const counts = new Map();
    for (const index of mixture) counts.set(pages.colour(index), (counts.get(pages.colour(index)) ?? 0) + 1);
    const sorted = [...counts].filter(([colour]) => colour !== NONE).sort((a, b) => b[1] - a[1]).slice(0, MOST_SHOWN);
    const words = sorted.map(([colour, count]) => `${json.appearances[colour].name} ${Math.round((100 * count) / mixture.length)} %`);
    add("div", `${json.sides[i] ? `${json.sides[i]}: ` : ""}${words.join(", ") || "not there"}`);
  });
}
