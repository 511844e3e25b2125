# SPDX-License-Identifier: MIT
"""Interpreters of other Debian suites, each under the libc of its own suite, without being installed."""

from __future__ import annotations

import dataclasses
import os
import re
from dataclasses import dataclass
from pathlib import Path

from tools import debian

# By release: the suite that has it. Between them they have all four layouts of Ruby's pages.
RUBIES = {"2.7": "bullseye", "3.1": "bookworm", "3.3": "trixie", "3.4": "experimental"}
LIBRARIES = ("libgmp10", "zlib1g", "libcrypt1", "libgcc-s1")
# Experimental has only what is newer than unstable's: the other libraries are those of a suite with an older libc.
COMPLETE = {"experimental": "trixie"}


@dataclass(frozen=True)
class Ruby:
    """An unpacked interpreter."""

    release: str
    root: Path
    libraries: Path  # the root that has LIBRARIES: the same one, if its suite is complete
    more: Path | None = None  # the root of a library beside them
    arch: str = "amd64"

    @property
    def environment(self) -> dict[str, str]:
        """Where its own library of Ruby code is."""
        triplet = debian.TRIPLETS[self.arch]
        places = (self.root / f"usr/lib/ruby/{self.release}.0", self.root / f"usr/lib/{triplet}/ruby/{self.release}.0")
        return {**os.environ, "RUBYLIB": ":".join(map(str, places))}

    def command(self, *arguments: str | Path) -> list[str]:
        """The command that runs it, without gems."""
        roots = dict.fromkeys((self.root, self.libraries, *([self.more] if self.more else [])))
        program = self.root / f"usr/bin/ruby{self.release}"
        return [*_loader(list(roots), self.arch), str(program), "--disable=gems", *map(str, arguments)]


def _loader(roots: list[Path], arch: str) -> list[str]:
    """The loader of a suite, told to take the libraries of these roots."""
    libraries = [root / base / debian.TRIPLETS[arch] for root in roots for base in ("lib", "usr/lib")]
    loader = next(path for folder in libraries for path in folder.glob("ld-linux-*.so.*"))
    return debian.command_with(loader, ":".join(map(str, libraries)), arch)


FFI = "libffi8"  # what fiddle needs, in all suites but bullseye


def ruby(release: str, more: str = "", arch: str = "amd64") -> Ruby:
    """The interpreter of a release in RUBIES, with one more library. Raises debian.UnavailableError."""
    if more:
        suite = COMPLETE.get(RUBIES[release], RUBIES[release])
        root = debian.unpack(f"ruby-{more}", suite, arch, {"root": [more]}) / "root"
        return dataclasses.replace(ruby(release, arch=arch), more=root)
    suite = RUBIES[release]
    packages = [f"ruby{release}", f"libruby{release}", "libc6"]
    if suite not in COMPLETE:
        root = debian.unpack("ruby", suite, arch, {"root": [*packages, *LIBRARIES]}) / "root"
        return Ruby(release, root, root, arch=arch)
    root = debian.unpack("ruby", suite, arch, {"root": packages}) / "root"
    libraries = debian.unpack("ruby-libraries", COMPLETE[suite], arch, {"root": [*LIBRARIES]}) / "root"
    return Ruby(release, root, libraries, arch=arch)


# CPython by release: the suite that has it.
PYTHONS = {"3.9": "bullseye", "3.11": "bookworm", "3.13": "trixie", "3.14": "forky"}


def _of_developer() -> dict[str, Path]:
    """Other releases that a developer has built with pyenv; of each one."""
    found = {}
    for path in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3")):
        release = ".".join(path.parts[-3].split(".")[:2])
        if re.fullmatch(r"3\.([6-9]|1\d)", release) and release not in PYTHONS:
            found[release] = path
    return found


OTHER_PYTHONS = _of_developer()


@dataclass(frozen=True)
class Python:
    """An interpreter that can be run."""

    release: str
    program: tuple[str, ...]
    environment: dict[str, str]

    def command(self, *arguments: str | Path) -> list[str]:
        """The command that runs it, without site-packages."""
        return [*self.program, "-S", *map(str, arguments)]


def old_python() -> tuple[list[str], dict[str, str]]:
    """A Python of before 3.11 that prints a line and waits, and its environment. Raises debian.UnavailableError."""
    found = python("3.9")
    command = found.command("-c", "print(flush=True); import time; time.sleep(600)")
    return command, {"PYTHONHOME": found.environment["PYTHONHOME"]}


def modules(release: str) -> Path:
    """Where the compiled modules of a release in PYTHONS are. Raises debian.UnavailableError."""
    packages = {"root": [f"libpython{release}-stdlib"]}
    root = debian.unpack(f"python{release}-stdlib", PYTHONS[release], "amd64", packages) / "root"
    return root / f"usr/lib/python{release}/lib-dynload"


def python(release: str, arch: str = "amd64") -> Python:
    """The interpreter of a release in PYTHONS or, of this machine, in OTHER_PYTHONS. Raises debian.UnavailableError."""
    if release in OTHER_PYTHONS and arch == "amd64":
        return Python(release, (str(OTHER_PYTHONS[release]),), dict(os.environ))
    packages = [f"python{release}-minimal", f"libpython{release}-minimal", "libexpat1", "zlib1g", "libc6"]
    root = debian.unpack(f"python{release}", PYTHONS[release], arch, {"root": packages}) / "root"
    program = (*_loader([root], arch), str(root / f"usr/bin/python{release}"))
    return Python(release, program, {**os.environ, "PYTHONHOME": str(root / "usr")})


@dataclass(frozen=True)
class Library:
    """An interpreter's library, and how programs are run that load it."""

    path: Path
    prefix: tuple[str, ...]  # of a command: the loader of its suite
    environment: dict[str, str]


def libpython(release: str) -> Library:
    """Returns the library of a release in PYTHONS. Raises debian.UnavailableError."""
    packages = [
        f"libpython{release}",
        f"libpython{release}-minimal",
        f"libpython{release}-stdlib",
        "libexpat1",
        "zlib1g",
        "libc6",
    ]
    root = debian.unpack(f"libpython{release}", PYTHONS[release], "amd64", {"root": packages}) / "root"
    path = root / f"usr/lib/{debian.TRIPLETS['amd64']}/libpython{release}.so.1.0"
    return Library(path, tuple(_loader([root], "amd64")), {"PYTHONHOME": str(root / "usr")})


def libruby(release: str) -> Library:
    """Returns the library of a release in RUBIES. Raises debian.UnavailableError."""
    found = ruby(release)
    roots = list(dict.fromkeys((found.root, found.libraries)))
    path = next(found.root.glob(f"usr/lib/*/libruby-{release}.so.{release}"))
    return Library(path, tuple(_loader(roots, "amd64")), {})
