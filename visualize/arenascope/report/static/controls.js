// SPDX-License-Identifier: MIT
// Pointer, wheel, pinch and keys on a map's canvas, json to the map as what they mean.

const WHEEL = 0.0016; // of a doubling, for each pixel that a wheel polls
const STEP = 60; // pixels, by a Shift-arrow

export function pointers(view, map) {
  const { canvas } = view;
  const down = new Map(); // pointer → where it is
  let moved = false;

  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const spread = () => {
    const [[ax, ay], [bx, by]] = down.values();
    return { distance: Math.hypot(ax - bx, ay - by), x: (ax + bx) / 2, y: (ay + by) / 2 };
  };

  canvas.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, at(event));
    canvas.setPointerCapture(event.pointerId);
    moved = false;
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    const last = down.get(event.pointerId);
    if (!last) {
      map.hover(view, x, y);
      return;
    }
    if (down.size === 1) {
      if (Math.abs(x - last[0]) + Math.abs(y - last[1]) < (moved ? 0 : 3)) return;
      map.pan(x - last[0], y - last[1]);
      down.set(event.pointerId, [x, y]);
    } else if (down.size === 2) {
      const before = spread();
      down.set(event.pointerId, [x, y]);
      const after = spread();
      map.pan(after.x - before.x, after.y - before.y);
      map.zoom(view, after.distance / Math.max(before.distance, 1), after.x, after.y);
    }
    moved = true;
  });
  const up = (event) => {
    if (!down.delete(event.pointerId)) return;
    if (!moved && event.type === "pointerup") map.mark(view, ...at(event));
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => map.leave());
  canvas.addEventListener(
    "wheel",
    (event) => {
      // Out, where all is seen already, is for the page to scroll.
      if (event.deltaY > 0 && map.isWhole(view)) return;
      event.preventDefault();
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      const speed = event.ctrlKey ? 6 : 1; // a pinch on a touchpad
      map.zoom(view, 2 ** (-event.deltaY * lines * WHEEL * speed), ...at(event));
    },
    { passive: false },
  );
  canvas.addEventListener("dblclick", (event) => map.zoom(view, 4, ...at(event)));
}

export function keys(view, map) {
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const others = {
    "+": () => map.zoom(view, 2),
    "=": () => map.zoom(view, 2),
    "-": () => map.zoom(view, 0.5),
    0: () => map.whole(),
    h: () => map.toggleLayout(),
    c: () => map.togglePalette(),
    n: () => map.nextLit(1),
    p: () => map.nextLit(-1),
    "/": () => document.getElementById("address").focus(),
    Escape: () => map.clear(),
  };
  view.canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = arrows[event.key];
    if (arrow && event.shiftKey) map.pan(-arrow[0] * STEP, -arrow[1] * STEP);
    else if (arrow) map.step(view, ...arrow);
    else if (others[event.key]) others[event.key]();
    else return;
    event.preventDefault();
  });
}
