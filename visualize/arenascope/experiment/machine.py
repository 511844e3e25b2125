# SPDX-License-Identifier: MIT
"""What machine the runs were made on, and how busy others kept it meanwhile."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from arenascope.experiment.procfs import TICK
from arenascope.version import version

if TYPE_CHECKING:
    Json = dict[str, Any]

NOISY: Final = 0.1  # of the machine's processor time used by others: such a run is marked


def describe() -> Json:
    """What results depend on."""
    return {
        "arenascope": version(),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "system": _system(),
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cpus": len(os.sched_getaffinity(0)),
        "memory": _bytes("MemTotal"),
        "swap": _bytes("SwapTotal"),
        "page_size": os.sysconf("SC_PAGE_SIZE"),
        "transparent_hugepages": _chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "overcommit": _text("/proc/sys/vm/overcommit_memory"),
        "governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "python": sys.version.split()[0],
    }


@dataclass(frozen=True)
class Busy:
    """Counters of the whole machine at one instant: seconds."""

    busy: float
    capacity: float
    stalled: dict[str, float | None]  # on cpu, memory, io (PSI, some)


def busy() -> Busy:
    """The counters now."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    user, nice, system, idle, waiting, irq, softirq, steal = (int(field) * TICK for field in first)
    used = user + nice + system + irq + softirq + steal
    return Busy(used, used + idle + waiting, {name: _stalled(name) for name in ("cpu", "memory", "io")})


def noise(before: Busy, after: Busy, own: float) -> Json:
    """What others did between two instants, given the processor seconds that the run and we ourselves used."""
    capacity = after.capacity - before.capacity
    others = max(after.busy - before.busy - own, 0.0)
    stalled = {}
    for name, then in before.stalled.items():
        now = after.stalled[name]
        stalled[name] = round(now - then, 3) if now is not None and then is not None else None
    share = round(min(others / capacity, 1.0), 4) if capacity > 0 else None
    return {
        "load": [round(each, 2) for each in os.getloadavg()],
        "others_cpu": share,
        "stalled": stalled,
        "noisy": share is not None and share > NOISY,
    }


def _stalled(name: str) -> float | None:
    for line in (_text(f"/proc/pressure/{name}") or "").splitlines():
        if line.startswith("some "):
            return int(line.rpartition("total=")[2]) / 1e6
    return None


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _field(path: str, name: str) -> str | None:
    for line in (_text(path) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _bytes(name: str) -> int | None:
    value = _field("/proc/meminfo", name)
    return int(value.split()[0]) * 1024 if value else None


def _chosen(path: str) -> str | None:
    text = _text(path)
    return text.partition("[")[2].partition("]")[0] if text and "[" in text else text


def _system() -> str | None:
    release = dict(line.split("=", 1) for line in (_text("/etc/os-release") or "").splitlines() if "=" in line)
    return release.get("PRETTY_NAME", "").strip('"') or None
