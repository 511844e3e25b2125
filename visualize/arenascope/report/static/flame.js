// SPDX-License-Identifier: MIT
// The calls as a flame graph.
import { calls } from "./calls.js";
import { json } from "./data.js";
import { Icicle } from "./icicle.js";
import { size } from "./page_text.js";

const COLOURS = 6; // of modules, or languages; more share the last one

// The calls as a tree with one measure's values; by modules, calls within a module are one bar, and so by languages.
function growCalls(measure, group) {
  const root = { depth: -1, name: "all", value: json.calls.wholes[measure], children: [], parent: null };
  const tree = group === "threads" ? calls.threads : calls;
  const [of, titles] = group === "languages" ? [calls.language, calls.languages] : [tree.module, calls.modules];
  const together = group === "modules" || group === "languages";
  const values = tree[json.calls.measures[measure][0]];
  const nodes = [];
  for (let call = 0; call < tree.count; call++) {
    if (values[call] === 0) continue;
    const part = of[call];
    const caller = tree.caller[call] < 0 ? root : nodes[tree.caller[call]];
    if (together && caller.part === part) {
      nodes[call] = caller;
      continue;
    }
    const same = together && caller.children.find((child) => child.part === part);
    if (same) same.value += values[call];
    const name = together ? titles[part] : calls.names[tree.name[call]];
    const node = { depth: caller.depth + 1, call, part, name, beside: titles[part], value: values[call], children: [], parent: caller };
    if (!same) caller.children.push(node);
    nodes[call] = same || node;
  }
  const sort = (node) => {
    node.children.sort((a, b) => b.value - a.value);
    node.children.forEach(sort);
  };
  sort(root);
  return root;
}

// Draws the chart where the page has one. The map comes later: `chart.map`.
export function callsChart() {
  const element = document.getElementById("flame");
  if (!element || !calls.count) return null;
  const byId = (name) => document.getElementById(`flame-${name}`);
  const chart = { map: null };
  const state = { measure: 0, group: "functions" };
  const shown = (value) => (json.calls.measures[state.measure][1] === "bytes" ? size(value) : Math.round(value).toLocaleString("en"));
  const shape = {
    id: "flame", height: 21, flame: true,
    words: (node, share) => {
      const [, unit, of] = json.calls.measures[state.measure];
      return `${shown(node.value)}${unit === "bytes" ? "" : ` ${unit}`} ${of}${share}${node.beside === undefined || state.group === "modules" || state.group === "languages" ? "" : `; ${node.beside}`}`;
    },
    title: (node) => shown(node.value),
    found: (sum) => `, ${shown(sum)} ${json.calls.measures[state.measure][2]}`,
    kind: (node) => (node.depth < 0 ? "ice-none" : `flame-${Math.min(node.part, COLOURS - 1)}`),
    chosen: (node) => {
      const can = chart.map && node && !node.rest && state.group === "functions";
      byId("show").disabled = !can;
      if (can) chart.map.light(`call:${node.call}`);
    },
  };
  const icicle = new Icicle(growCalls(0, state.group), shape);
  const again = () => {
    icicle.plant(growCalls(state.measure, state.group));
    byId("show").disabled = true;
  };
  byId("measure").addEventListener("change", (event) => {
    state.measure = Number(event.target.value);
    again();
  });
  // What is kept on a page is not known by thread.
  const offer = () => {
    for (const option of byId("measure").options) option.disabled = state.group === "threads" && !calls.threads[json.calls.measures[option.value][0]];
    if (!byId("measure").selectedOptions[0].disabled) return;
    state.measure = 0;
    byId("measure").value = "0";
  };
  byId("group").addEventListener("change", (event) => {
    state.group = event.target.value;
    offer();
    again();
  });
  const flip = (flame) => {
    shape.flame = flame;
    byId("up-side").setAttribute("aria-pressed", String(flame));
    byId("down-side").setAttribute("aria-pressed", String(!flame));
    icicle.draw();
  };
  byId("up-side").addEventListener("click", () => flip(true));
  byId("down-side").addEventListener("click", () => flip(false));
  byId("show").addEventListener("click", () => document.getElementById("map").scrollIntoView());
  icicle.draw();
  return chart;
}
