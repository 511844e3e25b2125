# SPDX-License-Identifier: MIT
"""Signals that tell us to go wait while a program is being started: what we start has to go with us."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """SIGINT and SIGTERM wait until what this yields is called, at the latest until the end of the block.

    An exception of theirs in the middle of Popen would leave a program behind of which nobody knows. What is ignored,
    or ends us at once, stays so. Handlers are the main thread's: in another there is nothing to hold back.
    """
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    here = threading.current_thread() is threading.main_thread()
    handled = [number for number in (signal.SIGINT, signal.SIGTERM) if here and callable(signal.getsignal(number))]
    before = {number: signal.signal(number, note) for number in handled}

    def release() -> None:
        while before:
            signal.signal(*before.popitem())
        while came:
            signal.raise_signal(came.pop(0))

    try:
        yield release
    finally:
        release()
