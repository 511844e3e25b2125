// SPDX-License-Identifier: MIT
// The buttons around a map: those below it, and those that light something up on it.
import { callWords } from "./calls.js";
import { json } from "./data.js";

export const byId = (id) => document.getElementById(id);

export function buttons(map) {
  byId("zoom-in").addEventListener("click", () => map.zoom(map.views[0], 2));
  byId("zoom-out").addEventListener("click", () => map.zoom(map.views[0], 0.5));
  byId("whole").addEventListener("click", () => map.whole());
  byId("layout-rows").addEventListener("click", () => map.setLayout("rows"));
  byId("layout-hilbert").addEventListener("click", () => map.setLayout("hilbert"));
  byId("palette").addEventListener("click", () => map.togglePalette());
  byId("next-lit").addEventListener("click", () => map.nextLit(1));
  byId("previous-lit").addEventListener("click", () => map.nextLit(-1));
  byId("unlit").addEventListener("click", () => map.light(null));
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const input = byId("address");
    const found = map.search(input.value);
    input.setAttribute("aria-invalid", String(!found));
    if (!found) byId("spoken").textContent = "This address is in no heap of malloc.";
    else map.views[0].canvas.focus({ preventScroll: true });
  });
}

const SEEN = 100; // pixels of the map that must be in the window, or a click that lights something up goes there

export function lights(map) {
  const all = [...document.querySelectorAll("button[data-light]")];
  for (const button of all) {
    button.addEventListener("click", () => {
      const { light, go } = button.dataset;
      map.light(map.spec === light ? null : light);
      const shown = byId("maps").getBoundingClientRect();
      const away = shown.bottom < SEEN || shown.top > window.innerHeight - SEEN;
      if (map.spec && (go || away)) byId(go ?? "map").scrollIntoView();
    });
  }
  map.changed = () => {
    for (const button of all) button.setAttribute("aria-pressed", String(button.dataset.light === map.spec));
    byId("lit").hidden = !map.spec;
    if (map.spec) {
      const words = all.find((button) => button.dataset.light === map.spec && button.dataset.name)?.dataset.name ?? callWords(map.spec);
      const pages = [...new Set(map.litCounts())].map((count) => count.toLocaleString("en")).join(" → ");
      byId("lit-name").textContent = `${words ?? map.spec}: ${pages} ${json.unit ?? "page"}s`;
      byId("spoken").textContent = byId("lit-name").textContent;
    }
    byId("layout-rows").setAttribute("aria-pressed", String(map.layout.name === "rows"));
    byId("layout-hilbert").setAttribute("aria-pressed", String(map.layout.name === "hilbert"));
    byId("palette").setAttribute("aria-pressed", String(map.palette === "safe"));
  };
}
