// SPDX-License-Identifier: MIT
// The tree of owners as an icicle: owners side by side, below each the types of what only it holds. All names are text, never markup.
import { told } from "./data.js";
import { size } from "./inspect.js";

const SVG = "http://www.w3.org/2000/svg";
const BAR_HEIGHT = 26; // pixels
const BAR_LEAST = 2; // pixels: what is narrower is not drawn
const LETTER_WIDTH = 7; // pixels, about
const BAR_PAD = 6;

function branchName(node) {
  if (node.number < 0) return "smaller ones";
  return node.depth === 0 ? told.names.owners[node.number] : told.names.types[node.number];
}

// The branches as a tree. The root is not drawn, unless one of its branches is magnified.
function growTree(branches) {
  const root = { depth: -1, number: -1, retained: 0, children: [], parent: null };
  const open = [root];
  for (const [depth, number, retained, bytes, count] of branches) {
    const node = { depth, number, retained, bytes, count, children: [], parent: open[depth] };
    node.name = branchName(node);
    open[depth].children.push(node);
    open[depth + 1] = node;
  }
  root.name = "all owners";
  root.retained = root.children.reduce((sum, child) => sum + child.retained, 0);
  return root;
}

export class Icicle {
  constructor(element, branches) {
    this.element = element;
    this.root = growTree(branches);
    this.top = this.root; // what is magnified
    this.marked = null;
    this.wanted = "";
    this.up = document.getElementById("icicle-up");
    this.said = document.getElementById("icicle-said");
    this.up.addEventListener("click", () => this.show(this.top.parent ?? this.root));
    document.getElementById("icicle-find").addEventListener("input", (event) => this.find(event.target.value));
    element.addEventListener("keydown", (event) => this.key(event));
    element.addEventListener("click", (event) => {
      const node = this.nodes?.get(event.target.closest("g"));
      if (node?.parent?.children.includes(node) || node === this.root) this.choose(node);
      else if (node) this.show(node.parent); // of the smaller ones: these get room
    });
    new ResizeObserver(() => this.draw()).observe(element);
  }

  // A bar that was chosen is magnified, one that is magnified already goes back.
  choose(node) {
    this.show(node === this.top ? (node.parent ?? this.root) : node.children.length > 0 ? node : this.top, node);
  }

  show(node, marked = node) {
    this.top = node;
    this.up.disabled = node === this.root;
    this.mark(marked);
  }

  mark(node) {
    this.marked = node === this.root ? null : node;
    this.said.textContent = this.marked ? this.words(this.marked) : "";
    this.draw();
  }

  words(node) {
    const share = this.root.retained ? ` (${((100 * node.retained) / this.root.retained).toFixed(1)} %)` : "";
    const own = node.depth > 0 && node.count ? `, itself ${size(node.bytes)} in ${node.count.toLocaleString("en")} chunks` : "";
    const way = [];
    for (let at = node; at && at !== this.root; at = at.parent) way.unshift(at.name);
    return `${way.join(" › ")}: retains ${size(node.retained)}${share}${own}`;
  }

  key(event) {
    const at = this.marked ?? this.top;
    const siblings = at.parent?.children ?? [];
    const beside = (step) => siblings[siblings.indexOf(at) + step];
    const moves = {
      ArrowRight: () => beside(1), ArrowLeft: () => beside(-1), ArrowDown: () => at.children[0],
      ArrowUp: () => (at === this.top ? null : at.parent),
    };
    if (event.key in moves) {
      const next = moves[event.key]();
      if (next && next !== this.root && this.top !== at) this.mark(next);
      else if (next && next !== this.root && event.key === "ArrowDown") this.mark(next);
    } else if (event.key === "Enter" && this.marked) {
      this.choose(this.marked);
    } else if ((event.key === "Backspace" || event.key === "Escape") && this.top !== this.root) {
      this.show(this.top.parent ?? this.root, this.top);
    } else {
      return;
    }
    event.preventDefault();
  }

  find(text) {
    this.wanted = text.trim().toLowerCase();
    let found = 0;
    let bytes = 0;
    const visit = (node, inside) => {
      const match = this.wanted !== "" && node !== this.root && node.name.toLowerCase().includes(this.wanted);
      found += match;
      if (match && !inside) bytes += node.retained;
      for (const child of node.children) visit(child, inside || match);
    };
    visit(this.root, false);
    document.getElementById("icicle-found").textContent =
      this.wanted === "" ? "" : `${found.toLocaleString("en")} found${found ? `, retaining ${size(bytes)}` : ""}`;
    this.draw();
  }

  draw() {
    const width = this.element.clientWidth;
    const svg = document.createElementNS(SVG, "svg");
    this.nodes = new Map();
    let deepest = 0;
    const put = (node, x, wide, row) => {
      if (wide < BAR_LEAST) return;
      deepest = Math.max(deepest, row);
      this.bar(svg, node, x, wide, row);
      const part = (child) => (wide * child.retained) / (node.retained || 1);
      const drawn = node.children.filter((child) => part(child) >= BAR_LEAST);
      let at = x;
      for (const child of drawn) {
        put(child, at, part(child), row + 1);
        at += part(child);
      }
      const rest = node.children.filter((child) => part(child) < BAR_LEAST);
      const sum = rest.reduce((bytes, child) => bytes + child.retained, 0);
      put({ ...node, number: -1, name: `${rest.length} smaller ones`, retained: sum, count: 0, parent: node, children: [] },
        at, (wide * sum) / (node.retained || 1), row + 1);
    };
    put(this.top, 0, width, 0);
    svg.setAttribute("width", width);
    svg.setAttribute("height", (deepest + 1) * BAR_HEIGHT);
    svg.setAttribute("aria-hidden", "true");
    this.element.replaceChildren(svg);
  }

  bar(svg, node, x, wide, row) {
    const group = document.createElementNS(SVG, "g");
    const rect = document.createElementNS(SVG, "rect");
    const title = document.createElementNS(SVG, "title");
    const found = this.wanted !== "" && node !== this.root && node.name.toLowerCase().includes(this.wanted);
    const kind = node.number < 0 || node.name === "?" ? "ice-none" : node.depth === 0 ? "ice-owner" : `ice-${node.depth % 2}`;
    group.setAttribute("class", `${kind}${found ? " found" : this.wanted ? " faint" : ""}${node === this.marked ? " marked" : ""}`);
    rect.setAttribute("x", x);
    rect.setAttribute("y", row * BAR_HEIGHT);
    rect.setAttribute("width", Math.max(wide - 1, 1));
    rect.setAttribute("height", BAR_HEIGHT - 1);
    title.textContent = this.words(node);
    group.append(title, rect);
    const letters = Math.floor((wide - 2 * BAR_PAD) / LETTER_WIDTH);
    if (letters >= 3) {
      const text = document.createElementNS(SVG, "text");
      const full = `${node.name}  ${size(node.retained)}`;
      text.setAttribute("x", x + BAR_PAD);
      text.setAttribute("y", row * BAR_HEIGHT + 17);
      text.textContent = full.length <= letters ? full : node.name.length <= letters ? node.name : `${node.name.slice(0, letters - 1)}…`;
      group.append(text);
    }
    this.nodes.set(group, node);
    svg.append(group);
  }
}

// Draws the chart where the page has one.
export function icicles() {
  const element = document.getElementById("icicle");
  if (element && told.icicle.length) new Icicle(element, told.icicle).draw();
}
