# SPDX-License-Identifier: MIT
"""The report at scale: how long and how much memory for a dump of a large heap, and how the page behaves in Chromium.

report.py [DUMP]    without a dump, that of a process of --megabytes in --threads arenas (bench/hoard.c)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from children import peak
from figures import Figure, Limit, parser, publish
from run import hoard
from tools.browser import chromium

FRAMES = 120

# Pans by 7 pixels a frame, as a hand would: how long each frame took to come, by the browser's own clock. Then how long
# a frame takes to draw, read back.
PAN = """
async (frames) => {
  const map = window.arenascope, between = [], own = [];
  let last = await new Promise(requestAnimationFrame);
  for (let i = 0; i < frames; i++) {
    const way = i < frames / 2 ? -7 : 7;
    map.pan(way, way / 2);
    const now = await new Promise(requestAnimationFrame);
    between.push(now - last);
    last = now;
  }
  for (let i = 0; i < frames / 4; i++) {
    map.camera.x += 1;
    const before = performance.now();
    for (const view of map.views) {
      view.draw();
      view.context.getImageData(0, 0, 1, 1); // until it is drawn, not only told
    }
    own.push(performance.now() - before);
  }
  return { between, own };
}
"""


def rendered(dump: Path, page: Path) -> tuple[float, int]:
    """Seconds and peak resident bytes of `arenascope report`."""
    return peak([sys.executable, "-m", "arenascope", "report", str(dump), "-o", str(page)])


def in_browser(page: Path) -> dict[str, Any]:
    """First paint and panning, by Chromium's own timing."""
    found: dict[str, Any] = {}
    with chromium() as browser:
        tab = browser.new_page(viewport={"width": 1280, "height": 860})
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready]", timeout=60_000)
        paints = tab.evaluate("performance.getEntriesByType('paint').map(e => [e.name, e.startTime])")
        marks = tab.evaluate("performance.getEntriesByType('mark').map(e => [e.name, e.startTime])")
        found.update(paints)
        found.update(marks)
        tab.evaluate("document.getElementById('map').scrollIntoView({behavior: 'instant'})")
        for name, zoom in (("whole", 1), ("pages", 12), ("units", 100)):
            tab.evaluate(f"arenascope.whole(); arenascope.zoom(arenascope.views[0], {zoom})")
            tab.evaluate(PAN, 10)
            found[f"pan {name}"] = tab.evaluate(PAN, FRAMES)
    return found


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("dump", type=Path, nargs="?")
    arguments.add_argument("--megabytes", type=int, default=12_300, help="asked for; 13.1 GB come of the default")
    arguments.add_argument("--threads", type=int, default=64)
    arguments.add_argument("--chunks", action="store_true", help="a dump with a record for every chunk")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="arenascope-bench-") as folder:
        dump = options.dump or Path(folder) / "bench.dump"
        if not options.dump:
            os.environ["MALLOC_ARENA_MAX"] = str(options.threads)  # an arena for each, however few processors there are
            with hoard(options.build / "bench/hoard", options.megabytes, options.threads) as target:
                program = options.build / "inspector/cli/arenadump"
                chunks = ["--chunks"] if options.chunks else []
                # Freeze: a clone takes memory of its own, and nothing but the dump counts here.
                subprocess.run(
                    [program, "dump", "--mode=freeze", *chunks, str(target.pid), "-o", str(dump)], check=True
                )
        page = Path(folder) / "report.html"
        rendered(dump, page)
        seconds, memory = min(rendered(dump, page) for _ in range(3))
        figures: list[tuple[str, float, str, float]] = [
            ("from start to end", seconds, "s", 3.0),
            ("memory", memory / 1e6, "MB", 300.0),
            ("file", page.stat().st_size / 1e6, "MB", 5.0),
        ]
        browser = in_browser(page)
        figures.append(("first contentful paint", browser["first-contentful-paint"] / 1000, "s", 1.0))
        figures.append(("map painted", browser["map-painted"] / 1000, "s", 1.0))
        for name in ("whole", "pages", "units"):
            pan = browser[f"pan {name}"]
            figures.append((f"pan, {name}: a frame, median", percentile(pan["between"], 0.5), "ms", 16.8))
            figures.append((f"pan, {name}: a frame, 95 %", percentile(pan["between"], 0.95), "ms", 17.5))
            figures.append((f"pan, {name}: drawing it, 95 %", percentile(pan["own"], 0.95), "ms", 16.7))
    of = options.dump or f"{options.megabytes / 1000:g} GB in {options.threads} arenas"
    of = f"{of}, each chunk" if options.chunks else f"{of}"
    publish(
        options.page, "report", [Figure(f"{what}, {of}", ours, unit, Limit(goal)) for what, ours, unit, goal in figures]
    )


if __name__ == "__main__":
    main()
