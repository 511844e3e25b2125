# SPDX-License-Identifier: MIT
"""Stops a child at the end of its life, when its memory is still there to be inspected.

A program that ends when its work is done leaves nothing to measure. As its tracer one is told by the kernel before it
gives the memory up (PTRACE_EVENT_EXIT, ptrace(2)). Of a traced thread only signals are slower, and only the first
thread is traced.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

SEIZE, CONT, LISTEN = 0x4206, 7, 0x4208
OPTION_TRACEEXIT: Final = 0x40
EVENT_EXIT, EVENT_STOP = 6, 128

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long


def attend(pid: int, exiting: Callable[[], None]) -> None:
    """Return when the child has ended, and is to be reaped still; call `exiting` before, while it stands still.

    Everything happens in the calling thread, which is the tracer. Where tracing is not allowed, or the child was
    quicker, `exiting` is not called.
    """
    _ptrace(SEIZE, pid, OPTION_TRACEEXIT)
    while True:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        if found is None or found.si_code != os.CLD_TRAPPED:
            return
        event, number = found.si_status >> 8, found.si_status & 0xFF
        if event == EVENT_STOP:  # stopped by a signal, as a group: that is its own affair
            _ptrace(LISTEN, pid, 0)
            continue
        if event == EVENT_EXIT:
            exiting()
        _ptrace(CONT, pid, 0 if event else number)  # a signal is passed on


def _ptrace(request: int, pid: int, data: int) -> None:
    """Without a word where it fails: then the child is gone, or not ours to trace."""
    _libc.ptrace(*map(ctypes.c_long, (request, pid, 0, data)))
