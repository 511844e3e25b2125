# SPDX-License-Identifier: MIT
"""The report open in a real Chromium, and what there is to ask of it."""

from __future__ import annotations

import io
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from arenascope.report.colours import APPEARANCES, Colour, page_bytes
from arenascope.report.map.page_colours import encoded, light_of
from arenascope.report.page.html import render
from arenascope.report.page.model import build
from arenascope.wire.dump import Dump
from arenascope.wire.snapshot import TakenDump

CLOSE = 3  # a colour channel may be off by rounding


class Tab:
    """A page that is open, and all that it said."""

    def __init__(self, browser: Any, path: Path, fragment: str = "", **options: Any) -> None:
        self.context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options}
        )
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.refused: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("requestfailed", lambda request: self.refused.append(f"{request.url} {request.failure}"))
        self.page.goto(path.as_uri() + fragment)
        self.page.wait_for_selector("html[data-ready]", timeout=20_000)

    def js(self, expression: str, value: Any = None) -> Any:
        return self.page.evaluate(expression, value)

    def still(self) -> None:
        """Everything that was asked for is drawn."""
        self.js("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def lengthen(self) -> None:
        """Each sentence ends with a word that does not fit on a phone; labels, keys and tables do not."""
        self.js(
            """word => {
                const not = "script, svg, button, option, label, kbd, .together, table";
                const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
                const texts = [];
                while (walk.nextNode()) texts.push(walk.currentNode);
                for (const text of texts)
                    if (text.textContent.trim() && !text.parentElement.closest(not)) text.textContent += ` ${word}`;
            }""",
            "/" + "long" * 30,
        )

    def until(self, expression: str, value: Any = None) -> None:
        """Wait until it holds. Playwright's own way needs eval, which the page's policy forbids."""
        deadline = time.monotonic() + 10
        while not self.js(expression, value):
            assert time.monotonic() < deadline, expression
            time.sleep(0.05)

    def colour(self, x: float, y: float, canvas: int = 0) -> tuple[int, int, int]:
        """The pixel that one sees at a point of a map."""
        self.still()
        shown = self.page.locator(f"#canvas-{canvas}")
        shown.scroll_into_view_if_needed()
        box = shown.bounding_box()
        # A canvas that lies at fractions of a pixel is drawn at the nearest whole ones.
        clip = {"x": round(box["x"]) + int(x), "y": round(box["y"]) + int(y), "width": 1, "height": 1}
        if not 0 <= clip["y"] < self.page.viewport_size["height"]:
            self.js("at => scrollBy(0, at)", clip["y"] - 200)
            return self.colour(x, y, canvas)
        shot = Image.open(io.BytesIO(self.page.screenshot(clip=clip))).convert("RGB")
        return shot.getpixel((0, 0))  # type: ignore[return-value]

    def goto(self, address: int, scale: float) -> dict[str, Any]:
        self.js("([at, scale]) => { const m = arenascope; m.goTo(m.regions.find(at), scale); }", [address, scale])
        return self.js("at => arenascope.probe(at)", address)  # type: ignore[no-any-return]

    def nearby(self, addresses: Iterable[int], scale: float = 14) -> tuple[int, dict[str, Any]] | None:
        """Goes to the first of these pages on which no arena's name stands; None: one stands on each.

        On a Hilbert curve names lie on the map, in the middle of their arenas: where they are dark, pages are.
        """
        for address in addresses:
            probe = self.goto(address, scale)
            if not probe["named"]:
                return address, probe
        return None

    def seen(self, probe: dict[str, Any], canvas: int = 0) -> tuple[int, int, int]:
        """The colour of a page's cell, beside the letter in its middle."""
        assert not probe["named"], "an arena's name stands on it"
        aside = 0.28 * probe["scale"]
        return self.colour(probe["x"] - aside, probe["y"] - aside, canvas)


def violations(browser: Any, path: Path, scheme: str) -> list[tuple[str, list[str]]]:
    """What axe-core finds on a page, a marked cell and opened details among it."""
    axe = pytest.importorskip("axe_playwright_python")
    source = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    tab = Tab(browser, path, color_scheme=scheme, bypass_csp=True)
    tab.js("arenascope.setMarker(10)")
    tab.page.locator("details").first.click()
    tab.js(source)
    found = tab.js("axe.run().then(found => found.violations)")
    tab.context.close()
    return [(v["id"], [node["html"][:120] for node in v["nodes"]][:4]) for v in found]


def write(folder: Path, *dumps: Dump) -> Path:
    path = folder / "report.html"
    path.write_text(render(build([TakenDump(dump, from_dump=True) for dump in dumps])), encoding="utf-8")
    return path


def rgb(colour: Colour, palette: str = "phusion") -> tuple[int, int, int]:
    text = getattr(APPEARANCES[colour], palette)
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def means(dump: Dump, palette: str = "phusion") -> dict[int, tuple[int, ...]]:
    """The colour of each page, by address: the mean of its bytes' colours."""
    light = encoded(light_of(dump.pages, palette))
    return {int(address): tuple(int(c) for c in mean) for address, mean in zip(page_addresses(dump), light)}


def near(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(abs(a - b) <= CLOSE for a, b in zip(one, other))


def page_addresses(dump: Dump) -> np.ndarray[Any, Any]:
    """The address of each page record."""
    out = np.zeros(len(dump.pages), np.uint64)
    for heap in dump.heaps:
        first, count = int(heap["first_page"]), int(heap["page_count"])
        start = int(heap["start"]) // 4096 * 4096
        out[first : first + count] = start + 4096 * np.arange(count, dtype=np.uint64)
    return out


def some(dump: Dump, each: int = 3) -> list[tuple[int, Colour]]:
    """Addresses of some pages of every state that the dump has."""
    return [(addresses[0], colour) for addresses, colour in begins(dump, each)]


def begins(dump: Dump, each: int = 3) -> list[tuple[list[int], Colour]]:
    """Some pages of every state that the dump has, each followed by up to 99 more of its state."""
    colours, addresses = page_bytes(dump.pages) & 0xF, page_addresses(dump)
    chosen = []
    for colour in np.unique(colours):
        places = np.flatnonzero(colours == colour)
        for place in np.linspace(0, len(places) - 1, each).astype(int):
            turned = np.roll(places, -place)[:100]
            chosen.append(([int(addresses[one]) for one in turned], Colour(int(colour))))
    return chosen
