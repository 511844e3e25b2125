# SPDX-License-Identifier: MIT
"""Doctor's checks of what is installed: arenadump and what it was built with, tools, Python packages."""

from __future__ import annotations

import platform
import re
import shutil
from importlib import metadata
from typing import TYPE_CHECKING, Final

from arenascope import __version__
from arenascope.capture import find_arenadump, run_arenadump
from arenascope.doctor.check import Check, Status
from arenascope.errors import ArenascopeError

if TYPE_CHECKING:
    from collections.abc import Iterator

# What arenadump may be built without, and what is lost then.
FEATURES: Final = {
    "libdw": ("no layouts from debug information: found by relocations instead", "libdw-dev"),
    "libpng": ("arenadump png draws nothing", "libpng-dev"),
}


def arenadump() -> Check:
    """The C program: found, able to run, of our version, with all its features."""
    reinstall = "pip install --force-reinstall arenascope"
    try:
        path = find_arenadump()
        words = " ".join(run_arenadump(["--version"]).split())
    except ArenascopeError as error:
        return Check("arenadump", Status.MISSING, str(error), reinstall, basic=True)
    found = f"{path}: {words}"
    version = re.search(r"\d+(?:\.\d+)+", words)
    if version and version[0] != __version__:
        return Check("arenadump", Status.LIMITED, f"{found}; this arenascope is {__version__}", reinstall, basic=True)
    for feature, (loss, package) in FEATURES.items():
        if not re.search(rf"\b{feature} yes\b", words):
            fix = f"apt-get install {package} && {reinstall}"
            return Check("arenadump", Status.LIMITED, f"{found}; built without {feature}: {loss}", fix, basic=True)
    return Check("arenadump", Status.OK, found, basic=True)


def checks() -> Iterator[Check]:
    """Optional tools and the Python side."""
    gdb = shutil.which("gdb")
    if gdb:
        yield Check("gdb", Status.OK, gdb)
    else:
        lost = "not found: no gcore, and no second opinion on arenas (neither is needed)"
        yield Check("gdb", Status.LIMITED, lost, "apt-get install gdb")
    versions = [f"Python {platform.python_version()}", f"arenascope {__version__}"]
    versions += [f"{name} {metadata.version(name)}" for name in ("numpy", "click", "rich")]
    yield Check("Python", Status.OK, ", ".join(versions))
