// SPDX-License-Identifier: MIT
// Brings the page of a timeline to life: the chart with its slider first, then the map.
import { takeBlock, json } from "./data.js";
import { keys, pointers } from "./controls.js";
import { Course } from "./time_cursor.js";
import { hideCard } from "./page_tooltip.js";
import { readLink, writeLink } from "./url_state.js";
import { MovingMap } from "./map_animation.js";
import { buttons, byId, lights } from "./map_toolbar.js";
import { Reel } from "./frames.js";
import { sortableTables } from "./tables.js";

const SETTLED = 250; // ms without a step, after which what is lit is counted and told

async function takeReels() {
  const made = [];
  for (const [number, { polls }] of json.reels.entries()) made.push(polls.length ? await Reel.take(number) : null);
  return made;
}

// The map follows the slider. Where a generation has no map, the page says why.
function follow(map, course, reels) {
  const chips = [...document.querySelectorAll("[data-state]")];
  let settling = 0;
  course.shown = (poll) => {
    const number = json.reels.findIndex(({ generation }) => generation === json.generations[poll]);
    const reel = reels[number];
    byId("map-frame").hidden = !reel;
    byId("map-says").textContent = reel ? "" : (json.reels[number]?.why ?? "There is no map of this generation.");
    map.poll = poll;
    map.moved();
    if (!reel) {
      hideCard();
      return;
    }
    if (map.reel !== reel) map.take(reel);
    const frame = reel.frameAt(poll);
    map.seek(frame);
    const counts = reel.counts();
    for (const chip of chips) chip.textContent = counts[chip.dataset.state].toLocaleString("en");
    const seen = reel.polls[frame];
    byId("map-when").textContent = seen === poll ? "" : `The map is of ${course.words(seen).slice(11, 23)}.`;
    clearTimeout(settling);
    settling = setTimeout(() => map.changed?.(), SETTLED);
  };
  map.toPoll = (poll) => course.go(poll);
}

async function start() {
  sortableTables();
  const course = new Course(await takeBlock("course"));
  const reels = await takeReels();
  const any = reels.findLast((reel) => reel);
  if (any) {
    const map = MovingMap.start(any);
    for (const view of map.views) {
      pointers(view, map);
      keys(view, map);
    }
    buttons(map);
    lights(map);
    follow(map, course, reels);
    course.show(course.count - 1);
    map.changed();
    readLink(map);
    map.moved = () => writeLink(map);
    addEventListener("hashchange", () => readLink(map));
    window.arenascope = map;
  }
  course.show(course.count - 1);
  window.course = course;
  document.documentElement.dataset.ready = "true";
}

start();
