# SPDX-License-Identifier: MIT
"""Doctor's checks of what is installed: arenadump and what it was built with, tools, Python packages."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from arenascope.doctor.check import Check, Status, read_text
from arenascope.errors import ArenascopeError
from arenascope.extras import EXTRAS, line_to_type
from arenascope.version import version
from arenascope.wire import commands

if TYPE_CHECKING:
    from collections.abc import Iterator

# What arenadump may be built without, and what is lost then.
FEATURES: Final = {
    "libdw": ("layouts are found by relocations instead of debug information", "libdw-dev"),
    "libpng": ("there is no command arenadump png", "libpng-dev"),
    "libiberty": ("names of C++ and Rust are shown mangled", "libiberty-dev"),
}

# What does not work without an extra.
LOST: Final = {
    "live": "arenascope top works with --once only",
    "exporter": "there is no command arenascope exporter",
    "pictures": "no pictures (arenascope report --png), and no page of an experiment",
}

GDB_SINCE: Final = 14  # the first that writes back all registers of a processor with AMX


def arenadump() -> Check:
    """The C program: found, able to run, of our version, with all its features."""
    reinstall = "pip install --force-reinstall arenascope"
    try:
        path = commands.program()
        words = " ".join(commands.version().split())
    except ArenascopeError as error:
        return Check("arenadump", Status.MISSING, str(error), reinstall, basic=True)
    found = f"{path}: {words}"
    stated = re.search(r"\d+(?:\.\d+)+", words)
    if stated and stated[0] != version():
        return Check("arenadump", Status.LIMITED, f"{found}; this arenascope is {version()}", reinstall, basic=True)
    for feature, (loss, package) in FEATURES.items():
        if not re.search(rf"\b{feature} yes\b", words):
            fix = f"apt-get install {package} && {reinstall}"
            return Check("arenadump", Status.LIMITED, f"{found}; built without {feature}: {loss}", fix, basic=True)
    return Check("arenadump", Status.OK, found, basic=True)


def gdb_version(words: str) -> int | None:
    """The first number of what `gdb --version` says of itself in its first line, or None."""
    number = re.search(r"\b(\d+)\.\d", words.rpartition(") ")[2])
    return int(number[1]) if number else None


def judge_gdb(path: str, version: int | None, *, amx: bool) -> Check:
    """Whether that gdb can load the agent on such a processor (arenascope.gdb says in full why not)."""
    found = f"{path}, version {version or 'unknown'}"
    if not amx or (version and version >= GDB_SINCE):
        return Check("gdb", Status.OK, found)
    lost = f"gdb before {GDB_SINCE} cannot load the agent on a processor with AMX; arenascope inject PID can"
    return Check("gdb", Status.LIMITED, f"{found}: {lost}")


def gdb() -> Check:
    """Whether there is a gdb, and what it is good for here."""
    path = shutil.which("gdb")
    if not path:
        lost = "not found: no gcore and no gdb script for injection (neither is needed)"
        return Check("gdb", Status.LIMITED, lost, "apt-get install gdb")
    amx = "amx_tile" in read_text("/proc/cpuinfo").split()
    return judge_gdb(path, gdb_version(_first_line([path, "--version"])), amx=amx)


def _first_line(command: list[str]) -> str:
    """What a program says first; nothing where it does not run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.partition("\n")[0]


def checks() -> Iterator[Check]:
    """Optional tools and the Python side."""
    yield gdb()
    versions = [f"Python {platform.python_version()}", f"arenascope {version()}"]
    versions += [f"{name} {_installed(name)}" for name in ("numpy", "click", "rich")]
    yield Check("Python", Status.OK, ", ".join(versions))
    yield from map(extra, EXTRAS)


def _installed(package: str) -> str:
    """Its version. A package without what pip notes of it, as in a zipapp, works all the same."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of unknown version" if find_spec(package) else "missing"


def extra(name: str) -> Check:
    """Whether the packages of an extra are installed."""
    try:
        versions = [f"{module} {metadata.version(module)}" for module in EXTRAS[name]]
    except metadata.PackageNotFoundError as error:
        lost = f"{error.args[0]} is not installed: {LOST[name]}"
        return Check(f"extra {name}", Status.LIMITED, lost, line_to_type(name))
    return Check(f"extra {name}", Status.OK, ", ".join(versions))
