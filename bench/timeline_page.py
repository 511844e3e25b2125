# SPDX-License-Identifier: MIT
"""The page of a large timeline: how long it takes to write, and how long a step of its slider takes in Chromium.

A process is inspected once. Its timeline is that of a larger one: --pages pages, of which --changing per cent change,
in runs, from poll to turn.
"""

from __future__ import annotations

import dataclasses
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from figures import ROOT, Figure, Limit, parser, publish
from report import percentile
from tools.browser import chromium

from arenascope.compare.digest import Pages
from arenascope.processes import process_at
from arenascope.report.page.html import render
from arenascope.report.timeline.page import build
from arenascope.timeline.store import Poll, TimelineStore
from arenascope.watch.loop import boot_id
from arenascope.watch.poll import spent, take
from arenascope.wire.how import How

STEPS = 150
ROUNDS = 6
RUN = 50  # pages that change together
SECOND = 10**9
# Each step until it is drawn: one instant further, and to any other.
SLIDE = """
(steps) => {
  const found = { step: [], leap: [] };
  const show = (instant) => {
    const before = performance.now();
    course.show(instant);
    arenascope.views[0].draw();
    arenascope.views[0].context.getImageData(0, 0, 1, 1);
    return performance.now() - before;
  };
  course.show(0);
  for (let i = 1; i < steps; i++) found.step.push(show(i % course.count));
  for (let i = 1; i < steps; i++) found.leap.push(show((i * 7919) % course.count));
  return found;
}
"""


def write(path: Path, pages: int, polls: int, changing: float) -> None:
    chance = np.random.default_rng(17)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = process_at(child.pid)
        snapshot = take(process, How(mode="live")) if process else None
        child.kill()
    if snapshot is None:
        raise SystemExit("the process has ended")
    state = chance.choice(np.array([1, 2, 4, 5], np.uint8), pages)
    address = np.uint64(0x7000_0000_0000) + np.arange(pages, dtype=np.uint64) * np.uint64(4096)
    store = TimelineStore(str(path), {"watched": "a large process"}, 190 << 20, boot_id())
    for number in range(polls):
        for at in chance.integers(0, pages - RUN, int(pages * changing / 100 / RUN)).tolist():
            state[at : at + RUN] = chance.integers(1, 8)
        digest = dataclasses.replace(snapshot.digest, pages=Pages(address, state.copy(), None), rss=pages * 4096)
        taken = [dataclasses.replace(snapshot, digest=digest)]
        store.add(Poll(snapshot.time_ns + number * 10 * SECOND, 1, 1, 100, 10_000, None, taken))
    store.close()


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--pages", type=int, default=1 << 20)
    arguments.add_argument("--polls", type=int, default=120)
    arguments.add_argument("--changing", type=float, default=2.0, help="per cent of the pages, from poll to poll")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="arenascope-bench-", dir=ROOT) as folder:
        timeline, page = Path(folder) / "timeline", Path(folder) / "page.html"
        write(timeline, options.pages, options.polls, options.changing)
        before = spent()
        page.write_text(render(build(str(timeline))), encoding="utf-8")
        seconds = spent() - before
        with chromium() as browser:
            tab = browser.new_page(viewport={"width": 1280, "height": 860})
            tab.goto(page.as_uri())
            tab.wait_for_selector("html[data-ready]", timeout=60_000)
            rounds = [tab.evaluate(SLIDE, STEPS) for _ in range(ROUNDS)]
        size = page.stat().st_size
    of = f"{options.polls} polls of {options.pages >> 8} MiB, of which {options.changing:g} % change"
    figures = [
        Figure(f"writing the page, processor time, {of}", seconds, "s"),
        Figure(f"memory for this, {of}", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, "MB", Limit(300)),
        Figure(f"the file, {of}", size / 1e6, "MB", Limit(5)),
    ]
    for name in ("step", "leap"):
        least = [min(times) for times in zip(*(each[name] for each in rounds))]  # of each: others run here, too
        for share in (0.5, 0.95):
            what = f"a {name} of the slider, in {share:.0%} of all, {of}"
            figures.append(Figure(what, percentile(least, share), "ms", Limit(16.7)))
    publish(options.page, "timeline", figures)


if __name__ == "__main__":
    main()
