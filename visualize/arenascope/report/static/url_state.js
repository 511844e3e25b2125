// SPDX-License-Identifier: MIT
// What is seen, as the fragment of the page's address: a link to it leads back to it.
import { hex } from "./page_text.js";

let pending = 0;
let written = "";

export function writeLink(map) {
  clearTimeout(pending);
  pending = setTimeout(() => {
    const words = [];
    const marked = map.views[0].marker;
    const middle = map.middle();
    if (marked >= 0) words.push(`mark=${hex(map.regions.address(marked))}`);
    if (!map.atWhole && middle >= 0) words.push(`at=${hex(map.regions.address(middle))}`, `scale=${map.camera.scale.toPrecision(4)}`);
    if (map.layout.name !== "rows") words.push(`layout=${map.layout.name}`);
    if (map.palette !== "phusion") words.push(`palette=${map.palette}`);
    if (map.spec) words.push(`light=${map.spec}`);
    if (map.poll !== undefined) words.push(`poll=${map.poll}`);
    written = words.join("&");
    history.replaceState(null, "", written ? `#${written}` : "#map");
  }, 200);
}

export function readLink(map) {
  const fragment = location.hash.slice(1);
  if (!fragment.includes("=") || fragment === written) return;
  const words = new URLSearchParams(fragment);
  const address = (name) => map.regions.find(parseInt(words.get(name) ?? "", 16));
  if (words.get("palette") === "safe") map.setPalette("safe");
  if (words.has("layout")) map.setLayout(words.get("layout"));
  if (words.has("light")) map.light(words.get("light"));
  if (words.has("poll")) map.toPoll?.(Number(words.get("poll")));
  const scale = Number(words.get("scale"));
  if (address("mark") >= 0) map.setMarker(address("mark"), { go: true, speak: false });
  if (address("at") >= 0 && scale > 0) map.goTo(address("at"), scale);
  document.getElementById("map").scrollIntoView();
}
