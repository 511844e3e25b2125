# SPDX-License-Identifier: MIT
"""The OCI image with arenadump alone, as an archive that docker, podman and skopeo load: buildah needs no daemon."""

from __future__ import annotations

import tempfile
from pathlib import Path

import files

ANNOTATIONS = {
    "title": "arenadump",
    "description": "Where did the memory of a process on glibc go, and what will bring it back?",
    "licenses": "MIT",
    "version": "{version}",
    "created": "{created}",
}


def build(release: files.Release, programs: Path, arch: str, folder: Path) -> Path:
    """Make arenadump-VERSION-oci-ARCH.tar in `folder`, of the programs in `programs`. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        buildah = ("buildah", f"--root={place}/storage", f"--runroot={place}/run", "--storage-driver=vfs")
        container = files.run(*buildah, "from", f"--arch={arch}", "scratch").strip()
        for name in ("arenadump", "libarenascope.so"):
            files.run(
                *buildah, "copy", "--quiet", "--chmod=0755", "--chown=0:0", container, programs / name, f"/{name}"
            )
        created = release.date("%Y-%m-%dT%H:%M:%SZ")
        for name, text in ANNOTATIONS.items():
            key = f"org.opencontainers.image.{name}={text.format(version=release.version, created=created)}"
            files.run(*buildah, "config", f"--annotation={key}", f"--label={key}", container)
        files.run(*buildah, "config", f"--arch={arch}", '--entrypoint=["/arenadump"]', "--cmd=--help", container)
        layout = f"oci:{place}/image:arenadump:{release.version}"
        dated = f"--timestamp={release.seconds}"
        files.run(
            *buildah, "commit", "--quiet", "--format=oci", dated, "--disable-compression=false", container, layout
        )
        image = folder / f"arenadump-{release.version}-oci-{arch}.tar"
        owner = ("--owner=0", "--group=0", "--numeric-owner", "--mode=go=rX,u+rw,a-s")
        order = ("--sort=name", f"--mtime=@{release.seconds}", "--format=ustar")
        files.run("tar", "--create", f"--file={image}", *order, *owner, f"--directory={place}/image", ".")
    return image
