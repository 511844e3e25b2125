// SPDX-License-Identifier: MIT
// A tree as an icicle, or upside down as a flame graph: a bar for each node, as wide as its value, and below it those of its children.
// All names are text, never markup.

const SVG = "http://www.w3.org/2000/svg";
const BAR_LEAST = 2; // pixels: what is narrower is not drawn
const LETTER_WIDTH = 7; // pixels, about
const BAR_PAD = 6;

// `shape`: what the chart says and how it appears.
//   id: of its element, and the beginning of those of its tools; height: of a bar, pixels; flame: the root is at the bottom;
//   title(node): beside a bar's name; words(node): all that there is to say; found(count, sum): of a search; kind(node): a class;
//   chosen(node): is told of a click or Enter. A node has name, value, parent, children, and rest where it stands for several.
export class Icicle {
  constructor(root, shape) {
    const element = document.getElementById(shape.id);
    this.element = element;
    this.shape = shape;
    this.root = root;
    this.top = this.root; // what is magnified
    this.marked = null;
    this.wanted = "";
    this.up = document.getElementById(`${shape.id}-up`);
    this.said = document.getElementById(`${shape.id}-said`);
    this.up.addEventListener("click", () => this.show(this.top.parent ?? this.root));
    document.getElementById(`${shape.id}-find`).addEventListener("input", (event) => this.find(event.target.value));
    element.addEventListener("keydown", (event) => this.key(event));
    element.addEventListener("click", (event) => {
      const node = this.nodes?.get(event.target.closest("g"));
      if (node?.parent?.children.includes(node) || node === this.root) this.choose(node);
      else if (node) this.show(node.parent); // of the smaller ones: these get room
    });
    let width = 0;
    new ResizeObserver(() => {
      if (element.clientWidth !== width) this.draw();
      width = element.clientWidth;
    }).observe(element);
  }

  // Shows another tree, or the same with other values.
  plant(root) {
    this.root = root;
    this.show(root);
    this.find(this.wanted);
  }

  // A bar that was chosen is magnified, one that is magnified already goes back.
  choose(node) {
    this.show(node === this.top ? (node.parent ?? this.root) : node.children.length > 0 ? node : this.top, node);
    this.shape.chosen?.(this.marked);
  }

  show(node, marked = node) {
    const other = node !== this.top;
    this.top = node;
    this.up.disabled = node === this.root;
    this.mark(marked, other);
  }

  mark(node, home = false) {
    this.marked = node === this.root ? null : node;
    this.said.textContent = this.marked ? this.words(this.marked) : "";
    this.draw(home || !this.marked);
  }

  // The way from the root to a node, and what is said of it.
  words(node) {
    const way = [];
    for (let at = node; at && at !== this.root; at = at.parent) way.unshift(at.name);
    const share = this.root.value ? ` (${((100 * node.value) / this.root.value).toFixed(1)} %)` : "";
    return `${way.join(" › ") || this.root.name}: ${this.shape.words(node, share)}`;
  }

  key(event) {
    const at = this.marked ?? this.top;
    const siblings = at.parent?.children ?? [];
    const beside = (step) => siblings[siblings.indexOf(at) + step];
    const [inwards, outwards] = this.shape.flame ? ["ArrowUp", "ArrowDown"] : ["ArrowDown", "ArrowUp"];
    const moves = {
      ArrowRight: () => beside(1), ArrowLeft: () => beside(-1), [inwards]: () => at.children[0],
      [outwards]: () => (at === this.top ? null : at.parent),
    };
    if (event.key in moves) {
      const next = moves[event.key]();
      if (next && next !== this.root && (this.top !== at || event.key === inwards)) {
        this.mark(next);
        this.element.querySelector(".marked")?.scrollIntoView({ block: "nearest" }); // in the window, too
      }
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
    let sum = 0;
    const visit = (node, inside) => {
      const match = this.matches(node);
      found += match;
      if (match && !inside) sum += node.value;
      for (const child of node.children) visit(child, inside || match);
    };
    visit(this.root, false);
    document.getElementById(`${this.shape.id}-found`).textContent =
      this.wanted === "" ? "" : `${found.toLocaleString("en")} found${found ? this.shape.found(sum) : ""}`;
    this.draw();
    const first = [...this.nodes.values()].find((node) => this.matches(node));
    if (first) this.reveal(first);
  }

  matches(node) {
    const { name, beside = "" } = node;
    return this.wanted !== "" && node !== this.root && (name.toLowerCase().includes(this.wanted) || beside.toLowerCase().includes(this.wanted));
  }

  // `home`: scrolls to where the root is; else the chart stays as it was scrolled, but for what shows the marked bar.
  draw(home = !this.marked) {
    const { clientWidth: width, scrollTop } = this.element;
    const svg = document.createElementNS(SVG, "svg");
    this.nodes = new Map();
    this.places = new Map(); // of bars: their upper edges
    const bars = [];
    const put = (node, x, wide, row) => {
      if (wide < BAR_LEAST) return;
      bars.push([node, x, wide, row]);
      const part = (child) => (wide * child.value) / (node.value || 1);
      const drawn = node.children.filter((child) => part(child) >= BAR_LEAST);
      let at = x;
      for (const child of drawn) {
        put(child, at, part(child), row + 1);
        at += part(child);
      }
      const rest = node.children.filter((child) => part(child) < BAR_LEAST);
      const sum = rest.reduce((value, child) => value + child.value, 0);
      if (rest.length)
        put({ depth: node.depth + 1, rest: true, name: `${rest.length} smaller ones`, value: sum, parent: node, children: [] },
          at, part({ value: sum }), row + 1);
    };
    put(this.top, 0, width, 0);
    const rows = bars.reduce((most, bar) => Math.max(most, bar[3] + 1), 0);
    const { height, flame } = this.shape;
    for (const [node, x, wide, row] of bars) this.bar(svg, node, x, wide, (flame ? rows - 1 - row : row) * height);
    svg.setAttribute("width", width);
    svg.setAttribute("height", rows * height);
    svg.setAttribute("aria-hidden", "true");
    this.element.replaceChildren(svg);
    this.element.scrollTop = !home ? scrollTop : flame ? this.element.scrollHeight : 0;
    if (this.marked) this.reveal(this.marked);
  }

  // Scrolls the chart, and nothing else, just as far as it takes to show a bar; one that is too narrow to be drawn has no place.
  reveal(node) {
    const upper = this.places.get(node);
    if (upper === undefined) return;
    const { scrollTop, clientHeight } = this.element;
    const lower = upper + this.shape.height;
    if (upper < scrollTop) this.element.scrollTop = upper;
    else if (lower > scrollTop + clientHeight) this.element.scrollTop = lower - clientHeight;
  }

  bar(svg, node, x, wide, y) {
    const group = document.createElementNS(SVG, "g");
    const rect = document.createElementNS(SVG, "rect");
    const title = document.createElementNS(SVG, "title");
    const found = this.matches(node);
    const kind = node.rest || node.name === "?" || node.name === "…" ? "ice-none" : this.shape.kind(node);
    group.setAttribute("class", `${kind}${found ? " found" : this.wanted ? " faint" : ""}${node === this.marked ? " marked" : ""}`);
    rect.setAttribute("x", x);
    rect.setAttribute("y", y);
    rect.setAttribute("width", Math.max(wide - 1, 1));
    rect.setAttribute("height", this.shape.height - 1);
    title.textContent = this.words(node);
    group.append(title, rect);
    const letters = Math.floor((wide - 2 * BAR_PAD) / LETTER_WIDTH);
    if (letters >= 3) {
      const text = document.createElementNS(SVG, "text");
      const full = `${node.name}  ${this.shape.title(node)}`;
      text.setAttribute("x", x + BAR_PAD);
      text.setAttribute("y", y + this.shape.height / 2 + 4);
      text.textContent = full.length <= letters ? full : node.name.length <= letters ? node.name : `${node.name.slice(0, letters - 1)}…`;
      group.append(text);
    }
    this.nodes.set(group, node);
    this.places.set(node, y);
    svg.append(group);
  }
}
