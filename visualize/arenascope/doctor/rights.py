# SPDX-License-Identifier: MIT
"""Doctor's check of whom we may inspect: what the kernel's settings say, and what it says where it is asked."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arenascope.doctor.check import Check, Status, Unreadable, read, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

YAMA: Final = "kernel.yama.ptrace_scope"
CAP_SYS_PTRACE: Final = 19
OPENS_PAGEMAP: Final = (1 << 1) | (1 << 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
OTHERS: Final = 3  # processes that are tried
SUDO: Final = f"sudo sysctl {YAMA}=0, or run arenascope with sudo"


def ptrace() -> Check:
    """Whom the kernel lets us inspect. It is asked about process 1, and about some of other users."""
    scope = read(f"/proc/sys/{YAMA.replace('.', '/')}")
    held = _held()
    if isinstance(scope, Unreadable):
        who = f"{YAMA} is not readable ({scope.why})"
    else:
        who = f"{YAMA} is {scope}" if scope else "Yama is not active"
    if scope == "3":
        words = f"{who}: no process may be inspected until the next boot"
        return Check("ptrace", Status.LIMITED, words, f"set {YAMA}=0 in /etc/sysctl.d and reboot")
    if held >> CAP_SYS_PTRACE & 1:
        return _capable(who, held)
    if scope in {"1", "2"}:
        words = f"{who}: {'only descendants can be inspected' if scope == '1' else 'a snapshot needs CAP_SYS_PTRACE'}"
        return Check("ptrace", Status.LIMITED, words, SUDO)
    words = f"{who}; without CAP_SYS_PTRACE: your own processes can be inspected, {_tried()}"
    return Check("ptrace", Status.LIMITED if isinstance(scope, Unreadable) else Status.OK, words, SUDO)


def _capable(who: str, held: int) -> Check:
    if not held & OPENS_PAGEMAP:
        words = f"{who}; CAP_SYS_PTRACE is held, CAP_DAC_READ_SEARCH is not: only your own processes can be inspected"
        return Check("ptrace", Status.LIMITED, words, "run arenascope with sudo, or with both capabilities")
    refusing = any(map(refusal, _others()))
    why = ": what refuses is in another user namespace, or a security module forbids it" if refusing else ""
    status = Status.LIMITED if refusing else Status.OK
    return Check("ptrace", status, f"{who}; CAP_SYS_PTRACE is held: {_tried()}{why}")


def _held() -> int:
    """Our effective capabilities."""
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)", read_text("/proc/self/status"), re.MULTILINE)
    return int(effective[1], 16) if effective else 0


def _tried() -> str:
    """What came of asking."""
    asked = ((pid, refusal(pid)) for pid in _others())
    return ", ".join(
        f"process {pid} {f'cannot be inspected ({why})' if why else 'can be inspected'}" for pid, why in asked
    )


def _others() -> Iterator[int]:
    """Process 1, and the first of some other users. Kernel threads have no memory, and say nothing of the rights."""
    yield 1
    seen = {os.geteuid()}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            user = folder.stat().st_uid
            if user not in seen and len(seen) < OTHERS and (folder / "cmdline").read_bytes():
                seen.add(user)
                yield int(folder.name)


def refusal(pid: int) -> str | None:
    """Why a process cannot be inspected. What a snapshot needs is opened, and nothing is read. None: it can."""
    try:
        Path(f"/proc/{pid}/exe").readlink()
        for name in ("mem", "pagemap"):  # the kernel asks for the first whether we might trace the process
            os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC))
    except (FileNotFoundError, ProcessLookupError):
        return None  # it has ended
    except OSError as error:
        return error.strerror
    return None
