# SPDX-License-Identifier: MIT
"""Debian's Chromium, run by Playwright, without anything that asks the network for something of its own accord."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .debian import UnavailableError

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium() -> Iterator[Any]:
    """A running browser."""
    program = shutil.which("chromium")
    if not program:
        raise UnavailableError("chromium is not installed")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - a test that needs no browser needs no Playwright
    except ImportError as error:
        raise UnavailableError("playwright is not installed") from error
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield running
        finally:
            running.close()


@contextmanager
def renderers(address: str) -> Iterator[tuple[Any, Any, list[int]]]:
    """A page of a running browser, a session of the DevTools protocol with it, and the PIDs of what draws pages."""
    with chromium() as running:
        page = running.new_page()
        page.goto(address)
        processes = running.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
        pids = [int(each["id"]) for each in processes if each["type"] == "renderer"]
        yield page, page.context.new_cdp_session(page), pids
