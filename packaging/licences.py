# SPDX-License-Identifier: MIT
"""What a static arenadump has in it besides our own code: Debian's sources, their versions and licences.

The libraries are those that packaging/static_libraries.py fetched. libc.a and libgcc.a are those of this machine's
compiler for the architecture: a cross compiler's package says which sources it was built from.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from tools import debian

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
# Debian's source package without its number, and the licence of what is linked in: an expression of SPDX, or words.
PUBLIC = "public domain"  # asks for nothing
LICENCES = {
    "bzip": "bzip2-1.0.6",
    "elfutils": "LGPL-3.0-or-later OR GPL-2.0-or-later",
    "gcc": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "glibc": "LGPL-2.1-or-later",
    "libiberty": "LGPL-2.0-or-later AND GPL-2.0-or-later WITH GCC-exception-2.0",
    "libpng": "libpng-2.0",
    "libzstd": "BSD-3-Clause OR GPL-2.0-only",
    "xz-utils": PUBLIC,  # 0BSD from 5.6 on, which asks for nothing either
    "zlib": "Zlib",
}
COMMON = Path("/usr/share/common-licenses")
MACHINES_OWN = {"glibc": "-print-file-name=libc.a", "gcc": "-print-libgcc-file-name"}
README = """arenadump, {machine}: what is in it

arenadump is one static program. Its own code has the MIT licence (LICENSE). These libraries are linked into it, as
Debian's packages have them:

{table}
The notice of each is in the file with its name; the licences that notices name are in common/.

The sources of a library, on a Debian whose apt has deb-src lines:

    apt-get source --download-only SOURCE=VERSION

The library can be exchanged: all of arenascope's own sources are in arenascope-{version}.tar.gz. With another build of
the libraries in FOLDER/lib and their headers in FOLDER/include, in the unpacked sources:

    meson setup build -Dstatic=true -Dtests=false -Dstatic_libraries=FOLDER
    ninja -C build inspector/cli/arenadump
"""


@dataclass(frozen=True)
class Library:
    """What is linked in of one of Debian's source packages."""

    source: str
    version: str
    notice: Path

    @property
    def licence(self) -> str:
        """As LICENCES has it. Raises KeyError: what is new has to be read first."""
        return LICENCES[self.source.rstrip("-.0123456789")]


def libraries(arch: str) -> list[Library]:
    """What an arenadump for `arch` is linked with, by name. Raises CalledProcessError and KeyError."""
    folder = ROOT / ".cache/static-libraries" / arch
    found = {}
    for line in (folder / "sources").read_text(encoding="ascii").splitlines():
        package, source, version = line.split()
        found[source] = Library(source, version, folder / "licences" / package)
    for kind, option in MACHINES_OWN.items():
        library = _of_compiler(arch, kind, option)
        found[library.source] = library
    return [found[source] for source in sorted(found)]


def expression(arch: str) -> str:
    """The licences of arenadump as SPDX writes them: our own code's, and those of what is linked in."""
    linked = dict.fromkeys(each.licence for each in libraries(arch) if each.licence != PUBLIC)
    return " AND ".join(["MIT", *(f"({each})" if " OR " in each or " AND " in each else each for each in linked)])


def write(arch: str, version: str, folder: Path) -> None:
    """Make `folder`, with all that is to be handed on with the program. Raises as libraries() does."""
    (folder / "common").mkdir(parents=True)
    rows = [("source", "version", "licence"), *((each.source, each.version, each.licence) for each in libraries(arch))]
    table = "".join(f"    {source:12} {number:22} {licence}\n" for source, number, licence in rows)
    text = README.format(machine=debian.MACHINES[arch], version=version, table=table)
    (folder / "README").write_text(text, encoding="ascii")
    for library in libraries(arch):
        shutil.copyfile(library.notice, folder / library.source)
        for name in _named(library.notice):
            shutil.copyfile(COMMON / name, folder / "common" / name)


def pack(folders: dict[str, Path], output: Path, seconds: int) -> None:
    """Pack the folders of all architectures, and our own licence, into a .tar.xz; all of that time."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
        return member

    with tarfile.open(output, "w:xz", preset=9) as archive:
        archive.add(ROOT / "LICENSE", "LICENSE", filter=plain)
        for machine, folder in folders.items():
            archive.add(folder, machine, filter=plain)


def _named(notice: Path) -> Iterator[str]:
    """The licences that a notice names, and does not have in it."""
    yield from re.findall(rf"{COMMON}/([\w.-]*\w)", notice.read_text(encoding="utf-8"))


def _of_compiler(arch: str, kind: str, option: str) -> Library:
    path = Path(_said(debian.tool("gcc", arch), option)).resolve()
    package = _said("dpkg-query", "--search", str(path)).rpartition(":")[0]
    form = "--showformat=${source:Package} (= ${source:Version}), ${Built-Using}"
    built = _said("dpkg-query", "--show", form, package)
    source, version = re.findall(rf"(?:^|, )({kind}(?:-\d+)?) \(= (\S+)\)", built)[0]
    return Library(source, version, Path("/usr/share/doc", package.partition(":")[0], "copyright"))


def _said(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
