# SPDX-License-Identifier: MIT
"""The Debian package, for Debian from 11 on and Ubuntu from 22.04 on: its programs need no library of the machine's."""

from __future__ import annotations

import gzip
import hashlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import files

if TYPE_CHECKING:
    from collections.abc import Iterator

SITE = "/usr/lib/python3/dist-packages"
CONTROL = """Package: arenascope
Version: {version}-1
Architecture: {arch}
Maintainer: {maintainer}
Installed-Size: {kilobytes}
Depends: libc6 (>= 2.17), python3 (>= 3.9), python3-click, python3-jinja2, python3-numpy, python3-rich
Recommends: python3-prometheus-client
Suggests: python3-matplotlib
Section: devel
Priority: optional
Description: where the memory of a process went, and what brings it back
 arenascope reads a running process on glibc from outside, without a restart or
 debug symbols. Each resident byte is in one row of a ledger, which adds up to
 the kernel's Rss: in use, free memory that malloc keeps, cached, withheld.
 .
 It names who holds memory, what has leaked and who allocates, gives free memory
 back to the kernel, and draws each page. arenadump does most of this alone and
 needs no Python.
"""
CHANGES = """arenascope ({version}-1) unstable; urgency=medium

  * See changelog.gz.

 -- {maintainer}  {date}
"""
# What Python makes of the modules is no file of the package: who runs them as root would leave it behind.
SCRIPTS = {
    "postinst": 'if [ "$1" = configure ] && command -v py3compile >/dev/null; then py3compile -p arenascope; fi',
    "prerm": "if command -v py3clean >/dev/null; then py3clean -p arenascope; fi",
}


def build(release: files.Release, wheel: Path, arch: str, folder: Path) -> Path:
    """Make arenascope_VERSION-1_ARCH.deb in `folder`. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        files.install(release, wheel, root, SITE)
        log = root / "usr/share/doc/arenascope/changelog.Debian.gz"
        log.write_bytes(
            gzip.compress(CHANGES.format(date=release.date("%a, %d %b %Y %T +0000"), **vars(release)).encode(), mtime=0)
        )
        sums = dict(_sums(root))
        size = sum((root / path).stat().st_size for path in sums)
        control = root / "DEBIAN"
        control.mkdir()
        text = CONTROL.format(arch=arch, kilobytes=size // 1024, **vars(release))
        (control / "control").write_text(text, encoding="utf-8")
        (control / "md5sums").write_text(
            "".join(f"{digest}  {path}\n" for path, digest in sums.items()), encoding="utf-8"
        )
        for name, line in SCRIPTS.items():
            (control / name).write_text(f"#!/bin/sh\nset -e\n{line}\n", encoding="ascii")
            (control / name).chmod(0o755)
        files.date(root, release.seconds)
        deb = folder / f"arenascope_{release.version}-1_{arch}.deb"
        files.run("dpkg-deb", "--root-owner-group", "--uniform-compression", "-Zxz", "--build", root, deb)
    return deb


def _sums(root: Path) -> Iterator[tuple[str, str]]:
    """Each file and its MD5: what dpkg compares is no secret."""
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(root)), hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
