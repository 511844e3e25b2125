# SPDX-License-Identifier: MIT
"""How far an experiment is: a bar with the time left where somebody watches, else a line for each run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from rich.progress import BarColumn, Progress, TextColumn

from arenascope.humanize import printable, size
from arenascope.render.terminal import console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arenascope.experiment.plan import Planned
    from arenascope.experiment.result import Result
    from arenascope.experiment.runner import Watcher


@contextmanager
def progress(title: str) -> Iterator[Watcher]:
    """Who is told how far it is."""
    err = console(stderr=True)
    if not err.is_terminal:
        yield _Lines()
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}", markup=False),
        TextColumn("{task.fields[left]}", markup=False),
    )
    # Drawn once a second: what it costs is taken from the machine that is measured.
    with Progress(*columns, console=err, transient=True, refresh_per_second=1) as bar:
        yield _Bar(bar, title)


class _Lines:
    def begins(self, planned: Planned, done: int, total: int, left: float | None) -> None:
        pass

    def ends(self, planned: Planned, result: Result) -> None:
        click.echo(_line(planned, result), err=True)


class _Bar:
    def __init__(self, bar: Progress, title: str) -> None:
        self._bar = bar
        self._task = bar.add_task(printable(title), total=None, left="")

    def begins(self, planned: Planned, done: int, total: int, left: float | None) -> None:
        words = "" if left is None else f"about {_clock(left)} left"
        self._bar.update(self._task, completed=done, total=total, left=words, description=f"{planned.configuration:16}")

    def ends(self, planned: Planned, result: Result) -> None:
        self._bar.advance(self._task)
        self._bar.console.print(_line(planned, result), soft_wrap=True)


def _line(planned: Planned, result: Result) -> str:
    words = f"{planned.number:3} {planned.configuration:16}{' warm-up' if planned.warmup else ''}"
    if result.failed:
        reason = (result.reason or "").partition("\n")[0]
        return f"{words} failed: {printable(reason)}"
    cpu, average, end, wall = (result.metrics.get(name) for name in ("cpu", "rss_average", "rss_end", "wall"))
    used = "" if cpu is None else f"{cpu:.2f} s CPU, "
    noise = ", noisy" if result.machine.noisy else ""
    took = "" if wall is None else f"{wall:.2f} s"
    return f"{words} Rss {_size(average)} on average, {_size(end)} at the end, {used}{took}{noise}"


def _size(held: float | None) -> str:
    return size(None if held is None else int(held))


def _clock(time: float) -> str:
    return f"{time:.0f} s" if time < 100 else f"{time / 60:.0f} min"  # noqa: PLR2004 - as people say it
