# SPDX-License-Identifier: MIT
"""A page for each run: its ledger and its map, beside its other files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from arenascope.experiment.final_snapshot import DUMP
from arenascope.private_files import write_page
from arenascope.report.page.html import render
from arenascope.report.page.model import build
from arenascope.wire.snapshot import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from arenascope.experiment.results_dir import Store

MAP: Final = "map.html"


def missing(store: Store) -> list[Path]:
    """The directories of runs that have a dump and no page yet."""
    return [folder for _, folder in _with_dump(store) if not (folder / MAP).exists()]


def draw(folder: Path) -> None:
    """Write the page of one run."""
    write_page(str(folder / MAP), render(build([take_snapshot(str(folder / DUMP))])))


def links(store: Store, base: Path) -> dict[int, str]:
    """Number of the run → a link to its page, as seen from a page in `base`."""
    pages = {number: folder / MAP for number, folder in _with_dump(store)}
    return {number: quote(os.path.relpath(page, base)) for number, page in pages.items() if page.exists()}


def _with_dump(store: Store) -> Iterator[tuple[int, Path]]:
    for planned in store.plan:
        folder = store.run_folder(planned)
        if (folder / DUMP).exists():
            yield planned.number, folder
