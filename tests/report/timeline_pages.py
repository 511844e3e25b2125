# SPDX-License-Identifier: MIT
"""Timelines of real processes, and their pages in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from timeline.test_timeline import next_line, opened
from tools.paths import ROOT
from tools.tab import Tab

from arenascope.report.page.html import render
from arenascope.report.timeline.page import build
from arenascope.timeline.store import Poll, Taken

SHOTS = ROOT / ".cache" / "report"
SIZES = {"desktop": (1440, 900), "phone": (400, 844)}
SECOND = 10**9
BEGIN = 1_800_000_000 * SECOND
# Threads with arenas of their own, which hold more and more, free a part of it, and hold again.
MOVES = """
import ctypes, random, sys, threading
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
go, done = threading.Semaphore(0), threading.Semaphore(0)
def move(number):
    held, chance = [], random.Random(number)
    while True:
        go.acquire()
        for size in chance.choices([40, 300, 3000, 20000], k=300):
            held.append(libc.malloc(size))
            ctypes.memset(held[-1], 1, size)
        chance.shuffle(held)
        for _ in range(len(held) // 3):
            libc.free(held.pop())
        done.release()
for number in range(3):
    threading.Thread(target=move, args=(number,), daemon=True).start()
for line in sys.stdin:
    for _ in range(3):
        go.release()
    for _ in range(3):
        done.acquire()
    print("moved", flush=True)
"""


def moved(child: Any) -> None:
    print("x", file=child.stdin, flush=True)
    assert next_line(child) == "moved\n"


def page_of(timeline: Path) -> Path:
    path = timeline.with_suffix(".html")
    path.write_text(render(build(str(timeline))), encoding="utf-8")
    return path


def written(path: Path, polls: list[tuple[int, list[Taken]]], every: int = 10) -> Path:
    """A timeline of snapshots: a poll every ten seconds, each with its generation."""
    with opened(path) as file:
        for number, (generation, snapshots) in enumerate(polls):
            file.add(Poll(BEGIN + number * every * SECOND, generation, len(snapshots), 1000, 10_000, None, snapshots))
    return path


def show(tab: Tab, digest: int) -> None:
    tab.js("instant => course.show(instant)", digest)


def held(tab: Tab, name: str, kind: str = "now") -> int | None:
    text = tab.page.locator(f"td[data-{kind}='{name}']").get_attribute("data-bytes")
    return None if text is None else int(text)


def screenshots(browser: Any, page: Path, name: str, scheme: str) -> None:
    """Pinned to be inspected; nothing is wider than the window."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    tab = Tab(browser, page, color_scheme=scheme)
    for kind, (width, height) in SIZES.items():
        tab.page.set_viewport_size({"width": width, "height": height})
        tab.still()
        tab.page.screenshot(path=SHOTS / f"{name}-{kind}-{scheme}.png", full_page=True)
        assert tab.js("document.documentElement.scrollWidth") <= width
    assert not tab.said
    tab.context.close()
