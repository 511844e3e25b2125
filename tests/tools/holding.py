# SPDX-License-Identifier: MIT
"""Programs of tests/programs that hold structures of well-known libraries, built with these libraries' headers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from . import debian, programs

QT = ("-std=c++17", "-g0", "-fPIC")
# What each program is called: its source, flags, and the package of pkg-config's, or "llvm", that it needs. Static, so
# that it has no debug information but its own, is `typed`.
PROGRAMS: dict[str, tuple[str, tuple[str, ...], str | None]] = {
    "dicts": ("dicts", ("-g0",), None),
    "gobjects": ("gobjects", ("-g0",), "gobject-2.0"),
    "late_dicts": ("late_dicts", ("-g0",), None),
    "libraries": ("libraries", ("-lz", "-g0", "-DWITH_GLIB"), "glib-2.0"),
    "llvm": ("llvm", ("-std=c++17", "-fno-rtti", "-g0", "-Wno-unused-parameter"), "llvm"),
    "openssl": ("openssl", ("-g0",), "libcrypto"),
    "qt5": ("qt", QT, "Qt5Core"),
    "qt6": ("qt", QT, "Qt6Core"),
    "typed": ("typed", ("-std=c++17", "-static"), None),
    "types": ("types", ("-g0",), None),
}


def build(name: str, compiler: str = "") -> Path:
    """The program. Raises UnavailableError when a compiler, or a library's headers, are missing."""
    source, flags, package = PROGRAMS[name]
    more = llvm() if package == "llvm" else packaged(package) if package else []
    return programs.build(source, *flags, *more, compiler=compiler)


def packaged(package: str) -> list[str]:
    """The flags that pkg-config has for a package."""
    if not shutil.which("pkg-config"):
        raise debian.UnavailableError("pkg-config is not installed")
    said = subprocess.run(["pkg-config", "--cflags", "--libs", package], capture_output=True, text=True, check=False)
    if said.returncode:
        raise debian.UnavailableError(f"the headers of {package} are not installed (scripts/install-deps test)")
    return said.stdout.split()


def llvm() -> list[str]:
    configured = shutil.which("llvm-config")
    said = configured and subprocess.run(
        [configured, "--includedir", "--libdir", "--libs"], capture_output=True, text=True, check=False
    )
    if not said or said.returncode or not Path(said.stdout.split()[0], "llvm/ADT/DenseMap.h").exists():
        raise debian.UnavailableError("LLVM's headers are not installed (Debian: llvm-dev)")
    headers, libraries, *names = said.stdout.split()
    return [f"-isystem{headers}", f"-L{libraries}", *names]
