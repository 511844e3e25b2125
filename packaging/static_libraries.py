# SPDX-License-Identifier: MIT
"""Makes a folder with the headers and archives of the libraries that a static arenadump has in it.

    python3 packaging/static_libraries.py ARCH FOLDER

They are Debian's own packages, of the suite whose glibc is nearest to this machine's, for ARCH (amd64, arm64): fetched
by apt, which checks them, and not installed. FOLDER has include/, lib/, and of each package its name and version
(versions), those of its source (sources) and its licence (licences/). Exit status 0: it is there; 1: the packages
cannot be had.
"""

from __future__ import annotations

import gzip
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from tools import debian

PACKAGES = (
    "libdw-dev", "libelf-dev", "libpng-dev", "libiberty-dev", "zlib1g-dev", "liblzma-dev", "libbz2-dev", "libzstd-dev",
    "libbz2-1.0",  # its licence: the -dev package has none
)  # fmt: skip


def make(arch: str, folder: Path) -> None:
    """Make the folder anew. Raises UnavailableError."""
    suite = debian.nearest_suite()
    home = debian.unpack("static-libraries", suite, arch, {"root": list(PACKAGES)})
    usr, triplet = home / "root/usr", debian.TRIPLETS[arch]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(usr / "include", folder / "include")
    if (usr / "include" / triplet).exists():
        shutil.copytree(usr / "include" / triplet, folder / "include", dirs_exist_ok=True)
    (folder / "lib").mkdir()
    for archive in (usr / "lib" / triplet).glob("*.a"):
        shutil.copy2(archive, folder / "lib")
    (folder / "licences").mkdir()
    for package in PACKAGES:
        if (notice := usr / "share/doc" / package / "copyright").exists():
            shutil.copy(notice, folder / "licences" / package)
    noted = {package: _source(usr / "share/doc" / package) for package in PACKAGES}
    (folder / "sources").write_text("".join(f"{package} {noted[package]}\n" for package in PACKAGES), encoding="ascii")
    shutil.copy(home / "versions", folder / "versions")


def _source(documents: Path) -> str:
    """Source and version, of the first line of Debian's changelog: a rebuild without changes has one of its own."""
    with gzip.open(documents / "changelog.Debian.gz", "rt", encoding="utf-8") as log:
        name, version = log.readline().split()[:2]
    return f"{name} {version.strip('()')}"


if __name__ == "__main__":
    try:
        make(sys.argv[1], Path(sys.argv[2]))
    except debian.UnavailableError as missing:
        sys.exit(f"static_libraries: {missing}")
