# SPDX-License-Identifier: MIT
"""Releases of redis and valkey, of other Debian suites, on glibc's malloc.

Debian links them with jemalloc, of which they use more than malloc(): tests/programs/jemalloc_on_glibc.c is loaded in
its stead.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from . import debian, programs

LIBRARIES = ("libatomic1", "liblzf1", "libstdc++6", "libgcc-s1", "libsystemd0", "libcap2", "libssl3t64", "zlib1g")


# Where redis 8.2 or later is, or will be: experimental's releases move on.
LATE_SUITES = ("experimental", "sid", "forky")


def command(name: str, suite: str, scratch: Path) -> list[str]:
    """The command that runs `redis` or `valkey` of a suite. Raises UnavailableError.

    The program that checks files is the server, by another name.
    """
    packages = {"root": [f"{name}-tools", *LIBRARIES, "libzstd1"]}
    root = debian.unpack(f"{name}-server", suite, debian.NATIVE, packages) / "root"
    return _command(name, root, root, suite, scratch)


def late_command(scratch: Path) -> list[str]:
    """The command that runs redis 8.2 or later. Raises UnavailableError."""
    failure = debian.UnavailableError(f"redis 8.2 or later is in none of {', '.join(LATE_SUITES)}")
    for suite in LATE_SUITES:
        try:
            home = debian.unpack("redis-tools", suite, debian.NATIVE, {"root": ["redis-tools"]})
        except debian.UnavailableError as error:
            failure = error
            continue
        version = (home / "versions").read_text().split()[1].rpartition(":")[2]
        if tuple(int(part) for part in version.split(".")[:2]) >= (8, 2):
            libraries = debian.unpack("redis-libraries", "forky", debian.NATIVE, {"root": [*LIBRARIES, "libzstd1"]})
            return _command("redis", home / "root", libraries / "root", "forky", scratch)
    raise failure


def _command(name: str, root: Path, others: Path, suite: str, scratch: Path) -> list[str]:
    libc, shim = debian.libc(suite), scratch / "libjemalloc.so.2"
    shutil.copy(programs.build_portable("jemalloc_on_glibc", debian.NATIVE, "-shared", "-fPIC"), shim)
    libraries = f"{scratch}:{libc.directory}:{others}/usr/lib/{debian.TRIPLETS[debian.NATIVE]}"
    program = root / "usr" / "bin" / f"{name}-check-rdb"
    return [str(libc.loader), "--argv0", f"{name}-server", "--library-path", libraries, str(program)]
