// SPDX-License-Identifier: MIT
// Brings the page to life: the map first, what it needs for details once that is painted.
import { json } from "./data.js";
import { HeapMap } from "./map.js";
import { keys, pointers } from "./controls.js";
import { readLink, writeLink } from "./url_state.js";
import { takeCalls } from "./calls.js";
import { callsChart } from "./flame.js";
import { ownersChart } from "./owners.js";
import { buttons, lights } from "./map_toolbar.js";
import { copyButtons, sortableTables } from "./tables.js";

async function start() {
  sortableTables();
  copyButtons();
  ownersChart();
  await takeCalls();
  const chart = callsChart();
  if (json.total > 0) await startMap(chart);
  document.documentElement.dataset.ready = "true";
}

async function startMap(chart) {
  const map = await HeapMap.open();
  for (const view of map.views) {
    pointers(view, map);
    keys(view, map);
  }
  buttons(map);
  lights(map);
  performance.mark("map-painted");
  await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
  await map.takeDetails();
  readLink(map);
  map.moved = () => writeLink(map);
  if (chart) chart.map = map;
  addEventListener("hashchange", () => readLink(map));
  performance.mark("details-taken");
  window.arenascope = map;
}

start();
