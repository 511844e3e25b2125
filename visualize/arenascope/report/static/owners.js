// SPDX-License-Identifier: MIT
// The tree of owners as an icicle: owners side by side, below each the types of what only it holds.
import { json } from "./data.js";
import { Icicle } from "./icicle.js";
import { size } from "./page_text.js";

// The branches as a tree.
function growOwners(branches) {
  const root = { depth: -1, name: "all owners", value: 0, children: [], parent: null };
  const open = [root];
  for (const [depth, number, value, bytes, count] of branches) {
    const names = depth === 0 ? json.names.owners : json.names.types;
    const rest = number < 0;
    const node = { depth, rest, name: rest ? "smaller ones" : names[number], value, bytes, count, children: [], parent: open[depth] };
    open[depth].children.push(node);
    open[depth + 1] = node;
  }
  root.value = root.children.reduce((sum, child) => sum + child.value, 0);
  return root;
}

function ownerWords(node, share) {
  const own = node.depth > 0 && node.count ? `, itself ${size(node.bytes)} in ${node.count.toLocaleString("en")} chunks` : "";
  return `retains ${size(node.value)}${share}${own}`;
}

// Draws the chart where the page has one.
export function ownersChart() {
  if (!document.getElementById("icicle") || !json.icicle.length) return;
  const shape = {
    id: "icicle", height: 26, words: ownerWords, title: (node) => size(node.value), found: (sum) => `, retaining ${size(sum)}`,
    kind: (node) => (node.depth < 0 ? "ice-none" : node.depth === 0 ? "ice-owner" : `ice-${node.depth % 2}`),
  };
  new Icicle(growOwners(json.icicle), shape).draw();
}
