# SPDX-License-Identifier: MIT
"""The memory of PartitionAlloc in the processes of a real browser, held against what the browser says of itself."""

from __future__ import annotations

from typing import Any

import pytest
from tools import harness
from tools.browser import chromium
from tools.mallocs import allocator

PAGE = """<body><script>
for (let i = 0; i < 30000; i++) {
    const element = document.createElement("div");
    element.textContent = "x".repeat(i % 200);
    document.body.append(element);
}
</script>"""
TRACE = {
    "traceConfig": {
        "includedCategories": ["disabled-by-default-memory-infra"],
        "excludedCategories": ["*"],
        "memoryDumpConfig": {"triggers": []},
    },
    "transferMode": "ReportEvents",
}
PATIENCE = 300  # tenths of a second


def said(browser: Any, page: Any) -> dict[int, dict[str, int]]:
    """What each process of the browser tells of its partitions of malloc: bytes, by the attribute's name."""
    session = browser.new_browser_cdp_session()
    events: list[dict[str, Any]] = []
    complete: list[bool] = []
    session.on("Tracing.dataCollected", lambda message: events.extend(message["value"]))
    session.on("Tracing.tracingComplete", lambda _: complete.append(True))
    session.send("Tracing.start", TRACE)
    assert session.send("Tracing.requestMemoryDump", {"levelOfDetail": "detailed"})["success"]
    session.send("Tracing.end")
    for _ in range(PATIENCE):
        if complete:
            break
        page.wait_for_timeout(100)
    found = {}
    for event in events:
        partitions = event.get("args", {}).get("dumps", {}).get("allocators", {}).get("malloc/partitions")
        if partitions:
            scalars = {k: v["value"] for k, v in partitions["attrs"].items() if v["type"] == "scalar"}
            found[int(event["pid"])] = {name: int(value, 16) for name, value in scalars.items()}
    return found


@pytest.fixture(scope="module")
def snapshots(arenadump: harness.Arenadump) -> list[tuple[dict[str, int], dict[str, Any]]]:
    """Returns what each process says, and a snapshot of it."""
    with chromium() as browser:
        page = browser.new_page()
        page.set_content(PAGE)
        says = said(browser, page)
        assert len(says) > 2  # renderers, and the processes for graphics and the network
        patient = ("--mode=freeze", "--max-pause=600s")
        return [(answer, arenadump.summary(pid, *patient)) for pid, answer in says.items()]


def test_all_that_is_committed_is_in_it(snapshots: list[tuple[dict[str, int], dict[str, Any]]]) -> None:
    """The browser goes on between its own count and the snapshot, and its other partitions are in the same pools."""
    for answer, summary in snapshots:
        found = allocator(summary, "partitionalloc")
        assert found["found"]
        assert "slot spans lead back" in found["evidence"]
        assert found["size"] == found["committed"]
        assert found["resident"] == summary["ledger"]["other_malloc"]
        assert 0.8 * answer["virtual_committed_size"] < found["size"]
        assert 0.8 * answer["allocated_objects_size"] < found["resident"]
        assert sum(value or 0 for value in summary["ledger"].values()) == summary["kernel"]["rss"]


def test_little_is_left_where_no_script_runs(snapshots: list[tuple[dict[str, int], dict[str, Any]]]) -> None:
    """Renderers have V8's heap, too."""
    others = [s for _, s in snapshots if "--type=renderer" not in s["target"]["cmdline"]]
    assert others
    for summary in others:
        assert summary["ledger"]["other_anon"] < 0.1 * summary["kernel"]["rss"]
