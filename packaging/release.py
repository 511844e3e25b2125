# SPDX-License-Identifier: MIT
"""Makes what people install, out of what `make build-static-amd64 build-static-arm64` has built: `make release`.

    python packaging/release.py FOLDER

FOLDER, which is made anew, gets for each architecture a wheel, a gem, packages for apt and rpm, an OCI image and the
static program (by itself, and packed by xz), a source distribution, a gem of sources, lists of parts, the licences of
what is linked in, and SHA256SUMS. Two builds of one commit are equal to the byte, wherever and whenever they are made:
all times are those of the commit.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from contextlib import contextmanager
from email import message_from_bytes
from pathlib import Path
from typing import TYPE_CHECKING

import deb
import files
import gem
import image
import licences
import manual
import rpm
import sbom

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from tools import debian

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
MAINTAINER = "the arenascope maintainers <maintainers@arenascope.invalid>"  # packages name one; there is no address
PROGRAM, AGENT = "inspector/cli/arenadump", "inspector/agent/libarenascope.so"
LZMA: dict[str, int] = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4}
# That for code of x86 is as old as xz; that for aarch64 needs an xz (5.4) that Debian 11 has not.
XZ_FILTERS = {"x86_64": [{"id": lzma.FILTER_X86}, LZMA], "aarch64": [LZMA]}
BACKEND = "from setuptools import build_meta as b; import sys; getattr(b, 'build_' + sys.argv[1])(*eval(sys.argv[2]))"


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Return what it printed. Raises CalledProcessError."""
    env = os.environ | environment
    return subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout


def commit_time() -> str:
    """When the commit was made, in seconds since 1970; $SOURCE_DATE_EPOCH goes before."""
    return os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct").strip()


def commit() -> str:
    """The commit, as --version names it."""
    return run("git", "rev-parse", "--short=12", "HEAD").strip()


@contextmanager
def source() -> Iterator[Path]:
    """The commit's files alone, in a folder of their own: what lies beside them here is not shipped."""
    with tempfile.TemporaryDirectory(prefix="arenascope-release-") as name:
        tree = Path(name) / "source"
        run("git", "clone", "--quiet", "--no-local", "--depth=1", f"file://{ROOT}", tree)
        yield tree


def strip(arch: str, folder: Path) -> None:
    """Put both programs there, without debug information. They have to be of this commit."""
    folder.mkdir()
    if commit().encode() not in (ROOT / f"build-static-{arch}" / PROGRAM).read_bytes():
        sys.exit(f"release: build-static-{arch} is of another commit: make build-static-{arch}")
    for path in (PROGRAM, AGENT):
        run(
            debian.tool("strip", arch),
            "--strip-unneeded",
            "-o",
            folder / Path(path).name,
            ROOT / f"build-static-{arch}" / path,
        )


def build(kind: str, tree: Path, folder: Path, settings: dict[str, str], **environment: str) -> None:
    """Build a "wheel" or an "sdist" with the setuptools that is installed here: no network."""
    run(sys.executable, "-c", BACKEND, kind, repr((str(folder), settings)), cwd=tree, **environment)


def date(archive: Path, seconds: int) -> None:
    """Give all members of a .tar.gz this time, and nobody as their owner: setuptools leaves those of the files."""
    with tarfile.open(archive) as old:
        members = sorted(old.getmembers(), key=lambda member: member.name)
        contents = {member.name: old.extractfile(member).read() for member in members if member.isfile()}  # type: ignore[union-attr]
    with (
        archive.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=seconds) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in members:
            member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
            member.pax_headers = {}
            new.addfile(member, io.BytesIO(contents[member.name]) if member.isfile() else None)


def list_parts(arch: str, sdist: Path, version: str, seconds: int, folder: Path) -> None:
    """Put the lists of parts into `folder`: arenadump's, and that of all that the wheel has and asks for."""
    with tarfile.open(sdist) as archive:
        file = archive.extractfile(f"arenascope-{version}/PKG-INFO")
        wanted = message_from_bytes(file.read() if file else b"").get_all("Requires-Dist", [])
    linked = list(sbom.linked(licences.libraries(arch)))
    folder.mkdir()
    for name, parts in (("arenadump", linked), ("arenascope", [*linked, *sbom.python_packages(wanted)])):
        text = sbom.document(name, version, commit(), seconds, parts)
        (folder / f"{name}.cdx.json").write_text(text, encoding="ascii")


def release(folder: Path) -> None:
    """Make all. Raises CalledProcessError, where a part fails; its output is above."""
    if changed := run("git", "status", "--porcelain").strip():
        sys.exit(f"release: what is built is of no commit; commit these first, or take them away:\n{changed}")
    os.umask(0o022)  # the modes of what is cloned are in the archives
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    seconds = commit_time()
    os.environ["SOURCE_DATE_EPOCH"] = seconds
    with source() as tree:
        build("sdist", tree, folder, {})
        sdist = next(folder.glob("*.tar.gz"))
        date(sdist, int(seconds))
        version = sdist.name.removeprefix("arenascope-").removesuffix(".tar.gz")
        packages = files.Release(version, int(seconds), MAINTAINER, tree.parent / "share")
        manual.write(packages.share, version, ROOT / "docs")
        for arch, machine in debian.MACHINES.items():
            programs = tree.parent / arch
            strip(arch, programs)
            licences.write(arch, version, programs / "licences")
            list_parts(arch, sdist, version, int(seconds), programs / "sboms")
            platform = {"--build-option": f"--plat-name=manylinux2014_{machine}"}
            build("wheel", tree, folder, platform, ARENASCOPE_PROGRAMS=str(programs))
            shutil.rmtree(tree / "build")
            program = folder / f"arenadump-{machine}"
            shutil.copy(programs / "arenadump", program)
            shutil.copy(programs / "sboms/arenadump.cdx.json", folder / f"{program.name}.cdx.json")
            program.with_suffix(".xz").write_bytes(lzma.compress(program.read_bytes(), filters=XZ_FILTERS[machine]))
            (wheel,) = folder.glob(f"*_{machine}.whl")
            deb.build(packages, wheel, arch, folder)
            rpm.build(packages, wheel, arch, folder)
            image.build(packages, wheel, arch, folder)
        gem.make(tree, folder)
        notices = {machine: tree.parent / arch / "licences" for arch, machine in debian.MACHINES.items()}
        licences.pack(notices, folder / f"arenadump-{version}-licences.tar.xz", int(seconds))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(sums), encoding="ascii")


if __name__ == "__main__":
    release(Path(sys.argv[1]).absolute())
