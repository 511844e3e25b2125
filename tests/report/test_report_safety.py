# SPDX-License-Identifier: MIT
"""The report against hostile dumps, against axe-core, on three sizes of screen, and on paper.

Screenshots are kept in .cache/report, to be inspected; nothing is compared with them.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import synthetic_dump as synthetic
from tools import tiers
from tools.paths import ROOT
from tools.tab import Tab, violations, write

from arenascope.wire import dump_records as fmt
from arenascope.wire.dump import Dump

SHOTS = ROOT / ".cache" / "report"
SIZES = {"desktop": (1440, 900), "tablet": (820, 1180), "phone": (390, 844)}

HOSTILE = [
    b"</script><script>window.owned=1</script>",
    b'"><img src=x onerror=window.owned=1>',
    b"{{ 7*7 }}<svg/onload=window.owned=1>",
    b"\xff\xfe<!--\xe2\x80\xa8\x1b[31m\x01</title>",
]


def test_a_hostile_dump_stays_text(browser: Any, tmp_path: Path) -> None:
    made = synthetic.sections()
    strings = bytearray(made["strings"].tobytes())

    def add(text: bytes) -> int:
        strings.extend(text + b"\0")
        return len(strings) - len(text) - 1

    meta = made["meta"][0]
    meta["comm"] = b"</title><script>"
    meta["malloc_kind"] = fmt.MallocKind.UNKNOWN
    meta["exe"], meta["cmdline"], meta["malloc_detail"] = add(HOSTILE[0]), add(HOSTILE[1]), add(HOSTILE[2])
    for field in ("path", "version", "build_id", "layout_versions"):
        made["mallocs"][0][field] = add(HOSTILE[3])
    made["threads"][0]["name"], made["threads"][0]["arena"] = b"<script>owned=1", 0
    made["mappings"][0]["path"], made["mappings"][0]["malloc_rss"] = add(HOSTILE[0]), 0
    made["warnings"][0]["text"] = add(HOSTILE[0] + HOSTILE[1])
    made["strings"] = np.frombuffer(bytes(strings), fmt.STRINGS)
    path = write(tmp_path, Dump(synthetic.write(tmp_path / "dump", made)))
    tab = Tab(browser, path)
    assert tab.js("window.owned") is None
    assert tab.js("document.images.length") == 0
    assert tab.js("[...document.scripts].filter(s => !s.type.startsWith('application/')).length") == 1
    assert HOSTILE[0].decode() in tab.page.locator("#trust").inner_text()
    assert HOSTILE[1].decode() in tab.page.locator("header").inner_text()
    tab.goto(synthetic.HEAP_START, 64)
    tab.page.focus("#canvas-0")
    tab.page.keyboard.press("ArrowLeft")
    assert "<script>" in tab.page.locator("#card").inner_text()
    assert not tab.said
    assert tab.asked == [path.as_uri()]
    tab.context.close()


def test_the_policy_lets_nothing_in(browser: Any, one: tuple[Path, Dump]) -> None:
    tab = Tab(browser, one[0])
    tab.js("""() => {
        const script = document.createElement("script");
        try { script.textContent = "window.owned = 1"; document.body.append(script); } catch { }
        document.body.setAttribute("style", "opacity: 0.5");
        const image = new Image(); image.src = "https://example.invalid/x.png"; document.body.append(image);
    }""")
    deadline = time.monotonic() + 20
    while not tab.refused:
        tab.still()
        assert time.monotonic() < deadline
    assert tab.js("window.owned") is None
    assert tab.js("getComputedStyle(document.body).opacity") == "1"
    assert tab.refused == ["https://example.invalid/x.png csp"]
    assert tab.said  # the browser says what it refused
    tab.context.close()


@pytest.mark.parametrize("scheme", tiers.daily(["light", "dark"], ["dark"], "limits"))
@pytest.mark.parametrize("which", ["one", "two"])
def test_axe_finds_nothing(browser: Any, scheme: str, which: str, request: pytest.FixtureRequest) -> None:
    shown = violations(browser, request.getfixturevalue(which)[0], scheme)
    assert not shown, json.dumps(shown, indent=1)


@pytest.mark.parametrize("scheme", tiers.daily(["light", "dark"], ["dark"], "limits"))
@pytest.mark.parametrize("which", tiers.daily(["one", "two"], ["two"], "limits"))
def test_screenshots_to_inspect(browser: Any, scheme: str, which: str, request: pytest.FixtureRequest) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    tab = Tab(browser, request.getfixturevalue(which)[0], color_scheme=scheme)
    for name, (width, height) in SIZES.items():
        tab.page.set_viewport_size({"width": width, "height": height})
        tab.still()
        tab.page.screenshot(path=SHOTS / f"{which}-{name}-{scheme}.png", full_page=True)
        # Nothing sticks out to the right.
        assert tab.js("document.documentElement.scrollWidth") <= width
    assert not tab.said
    tab.context.close()


@pytest.mark.parametrize("which", ["one", "two"])
def test_no_word_widens_the_page(browser: Any, which: str, request: pytest.FixtureRequest) -> None:
    """Which file's path, or which thread's name, a finding has differs from run to run."""
    width, height = SIZES["phone"]
    tab = Tab(browser, request.getfixturevalue(which)[0], viewport={"width": width, "height": height})
    tab.lengthen()
    assert tab.js("document.documentElement.scrollWidth") <= width
    tab.context.close()


def test_prints(browser: Any, one: tuple[Path, Dump]) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    tab = Tab(browser, one[0])
    tab.page.emulate_media(media="print")
    assert not tab.page.locator(".tools").is_visible()
    assert tab.page.locator("#arenas table").is_visible()
    (SHOTS / "one.pdf").write_bytes(tab.page.pdf())
    tab.context.close()
