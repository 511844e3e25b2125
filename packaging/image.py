# SPDX-License-Identifier: MIT
"""OCI images, as archives that docker, podman and skopeo load: arenadump alone, and all with Python of Debian.

buildah makes them without a daemon, and runs nothing in them: so they can be of another architecture.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import files
import licences

sys.path.insert(0, str(files.ROOT / "tests"))
from tools import debian

SITE = "usr/lib/python3/dist-packages"
SUITE = "trixie"
PACKAGES = [
    "base-files",
    "python3",
    "python3-click",
    "python3-jinja2",
    "python3-numpy",
    "python3-prometheus-client",
    "python3-rich",
]
# A package that is only unpacked has no alternatives: these are numpy's libraries.
LIBRARIES = "LD_LIBRARY_PATH=/usr/lib/{triplet}/blas:/usr/lib/{triplet}/lapack"
UNUSED = ("usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian")
# Both images have these. The second has the notices of Debian's packages in /usr/share/doc, not a line of all licences.
ANNOTATIONS = {
    "title": "{name}",
    "description": "Where did the memory of a process on glibc go, and what will bring it back?",
    "version": "{version}",
    "created": "{created}",
}


def build(release: files.Release, wheel: Path, arch: str, folder: Path) -> None:
    """Make arenadump-VERSION-oci-ARCH.tar and arenascope-VERSION-oci-ARCH.tar in `folder`.

    Raises CalledProcessError, and UnavailableError where Debian's packages cannot be had.
    """
    with tempfile.TemporaryDirectory() as scratch:
        installed, bare, full = (Path(scratch) / name for name in ("installed", "bare", "full"))
        files.install(release, wheel, installed, f"/{SITE}")
        bare.mkdir()
        shutil.copy(installed / "usr/bin/arenadump", bare)
        shutil.copy(installed / "usr/lib/arenascope/libarenascope.so", bare)
        shutil.copytree(next((installed / SITE).glob("arenascope-*/licenses")), bare / "licenses")
        _commit(release, bare, arch, "/arenadump", folder, licenses=licences.expression(arch))
        shutil.copytree(_debian(arch), full, symlinks=True)
        shutil.copytree(installed, full, symlinks=True, dirs_exist_ok=True)
        for unused in UNUSED:
            shutil.rmtree(full / unused, ignore_errors=True)
        for page in (full / "usr/share/doc").rglob("*"):
            if page.name != "copyright" and not page.is_dir():
                page.unlink()
        _commit(release, full, arch, "/usr/bin/arenascope", folder)


def _debian(arch: str) -> Path:
    return debian.unpack("image", SUITE, arch, {"root": debian.closure(SUITE, arch, PACKAGES)}) / "root"


def _commit(release: files.Release, tree: Path, arch: str, program: str, folder: Path, **annotations: str) -> None:
    name = Path(program).name
    files.date(tree, release.seconds)
    with tempfile.TemporaryDirectory() as scratch:
        buildah = ("buildah", f"--root={scratch}/storage", f"--runroot={scratch}/run", "--storage-driver=vfs")
        container = files.run(*buildah, "from", f"--arch={arch}", "scratch").strip()
        files.run(*buildah, "copy", "--quiet", "--chown=0:0", container, tree, "/")
        created = release.date("%Y-%m-%dT%H:%M:%SZ")
        for key, text in {**ANNOTATIONS, **annotations}.items():
            pair = f"org.opencontainers.image.{key}={text.format(name=name, version=release.version, created=created)}"
            files.run(*buildah, "config", f"--annotation={pair}", f"--label={pair}", container)
        libraries = LIBRARIES.format(triplet=debian.TRIPLETS[arch])
        files.run(
            *buildah,
            "config",
            f"--arch={arch}",
            f'--entrypoint=["{program}"]',
            "--cmd=--help",
            f"--env={libraries}",
            container,
        )
        layout = f"oci:{scratch}/image:{name}:{release.version}"
        dated = f"--timestamp={release.seconds}"
        files.run(
            *buildah, "commit", "--quiet", "--format=oci", dated, "--disable-compression=false", container, layout
        )
        archive = folder / f"{name}-{release.version}-oci-{arch}.tar"
        order = ("--sort=name", f"--mtime=@{release.seconds}", "--format=ustar")
        owner = ("--owner=0", "--group=0", "--numeric-owner", "--mode=go=rX,u+rw,a-s")
        files.run("tar", "--create", f"--file={archive}", *order, *owner, f"--directory={scratch}/image", ".")
