# SPDX-License-Identifier: MIT
"""Signals: those that wait while a program is being started, and those that end a wait."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

leaving: Final = threading.Event()
"""Set: programs that other threads have started are ended, within a second. Signals reach the first thread alone."""


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


@contextmanager
def waking(handlers: Mapping[int, Callable[[int, FrameType | None], None]]) -> Iterator[int]:
    """Signals with these handlers. Yields a file descriptor that becomes readable when one of them comes (see `heard`).

    Python runs a handler between two of its own instructions. A signal that comes just before poll() goes to sleep
    would wait as long as poll() does: wait for the descriptor, too. Only for the main thread.
    """
    heard_at, signalled_at = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    woken_before = signal.set_wakeup_fd(signalled_at, warn_on_full_buffer=False)
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield heard_at
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(woken_before)
        os.close(heard_at)
        os.close(signalled_at)


def heard(descriptor: int) -> None:
    """Make the descriptor of `waking` quiet until the next signal."""
    with suppress(BlockingIOError):
        os.read(descriptor, 4096)
