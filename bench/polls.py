#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a poll of `arenascope watch` costs where nothing happens: processor time of Python and of its arenadump.

The target is a Python of which 20 MB are resident. The limit is one copy of these bytes (bench/limits.c), made in turn
with the polls; the best of each counts. It has no child, and so no poll scans /proc.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from children import raw_read
from figures import Figure, Limit, parser, publish
from startup import target

from arenascope.cli.watch import group_of
from arenascope.timeline.store import TimelineStore
from arenascope.watch.loop import Watch, boot_id
from arenascope.wire import arenadump
from arenascope.wire.arenadump_server import serving
from arenascope.wire.how import How

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GOAL = 10.0  # milliseconds


class Cost(NamedTuple):
    """Milliseconds of processor time."""

    python: float
    inspector: float
    copy: float


def costs(build: Path, pid: int, polls: int) -> Iterator[Cost]:
    """Each of so many polls, behind those that start the server and fill its memory."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(TimelineStore(f"{folder}/timeline", {}, 1 << 27, boot_id())) as store,
        serving(print),
    ):
        watch = Watch(store, group_of(str(pid), None, None), How("freeze", "600s"), lambda _: None)
        for number in range(-3, polls):
            own, others = time.process_time(), arenadump.seconds_of_children()
            watch.poll(1.0)
            python, inspector = time.process_time() - own, arenadump.seconds_of_children() - others
            if number >= 0:
                yield Cost(1000 * python, 1000 * inspector, 1000 * raw_read(build, pid))


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--polls", type=int, default=100)
    options = made.parse_args()
    with target() as pid:
        best = Cost(*map(min, zip(*costs(options.build, pid, options.polls))))
    copy = Limit(best.copy, "process_vm_readv of it", goal=None)
    figures = [
        Figure("a poll of a quiet Python of 20 MB", best.python + best.inspector, "ms", Limit(GOAL)),
        Figure("arenadump's part of it", best.inspector, "ms", copy),
        Figure("Python's part of it", best.python, "ms"),
    ]
    publish(options.page, "polls", figures)


if __name__ == "__main__":
    main()
