# SPDX-License-Identifier: MIT
"""The licences and sources of what is linked into arenadump: all of them, and the commands that their README shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from tools import debian, releases
from tools.paths import ROOT

sys.path.insert(0, str(ROOT / "packaging"))
import licences

pytestmark = [pytest.mark.slow, pytest.mark.nightly("release")]


@pytest.fixture(scope="module")
def notices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the archive holds."""
    folder = tmp_path_factory.mktemp("licences")
    (packed,) = releases.dist().glob("arenadump-*-licences.tar.xz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.parametrize("arch", debian.MACHINES)
def test_each_library_that_is_linked_has_its_notice(notices: Path, arch: str) -> None:
    folder = notices / debian.MACHINES[arch]
    built = (ROOT / f"build-static-{arch}/build.ninja").read_text()
    linked = set(re.findall(rf"/static-libraries/{arch}/lib/lib(\w+)\.a\b", built))  # beside glibc's, the compiler's
    assert len(linked) > 5
    lines = (ROOT / f".cache/static-libraries/{arch}/sources").read_text().splitlines()
    sources = {package: source for package, source, _ in map(str.split, lines)}
    readme = (folder / "README").read_text()
    wanted = {sources["zlib1g-dev" if name == "z" else f"lib{name}-dev"] for name in linked}
    found = {library.source: library for library in licences.libraries(arch)}
    assert wanted < set(found)
    assert {name.rstrip("-.0123456789") for name in set(found) - wanted} == {"gcc", "glibc"}
    for source, library in found.items():
        assert (folder / source).read_text() == library.notice.read_text()
        assert re.search(
            rf"^ +{source} +{re.escape(library.version)} +{re.escape(library.licence)}$", readme, re.MULTILINE
        )
        for name in re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", (folder / source).read_text()):
            assert (folder / "common" / name).stat().st_size > 1000
    assert (notices / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@pytest.mark.parametrize("arch", debian.MACHINES)
def test_what_is_asked_of_a_package_names_all_licences(arch: str) -> None:
    """Our own code's alone would be less than what its programs have in them."""
    (package,) = releases.dist().glob(f"*.{debian.MACHINES[arch]}.rpm")
    query = ["rpm", "--query", "--package", "--queryformat=%{LICENSE}", str(package)]
    said = subprocess.run(query, stdout=subprocess.PIPE, text=True, check=True).stdout
    (image,) = releases.dist().glob(f"arenadump-*-oci-{arch}.tar")
    with tarfile.open(image) as archive:

        def read(name: str) -> Any:
            file = archive.extractfile(f"./{name}")
            return json.load(file) if file else None

        (manifest,) = read("index.json")["manifests"]
        annotations = read(f"blobs/sha256/{manifest['digest'].partition(':')[2]}")["annotations"]
    assert annotations["org.opencontainers.image.licenses"] == said
    assert said.startswith("MIT AND ")
    for library in licences.libraries(arch):
        assert library.licence in said or library.licence == licences.PUBLIC


@pytest.mark.parametrize("arch", debian.MACHINES)
def test_wheel_and_package_have_them(notices: Path, arch: str, tmp_path: Path) -> None:
    machine = debian.MACHINES[arch]
    (wheel,) = releases.dist().glob(f"*_{machine}.whl")
    wanted = {str(path.relative_to(notices / machine)) for path in (notices / machine).rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        folder = metadata.replace("METADATA", "licenses/")
        listed = message_from_bytes(archive.read(metadata)).get_all("License-File", [])
        assert set(listed) == {"LICENSE", *(f"linked/{name}" for name in wanted)}
        assert {f"{folder}{name}" for name in listed} <= set(archive.namelist())
    (deb,) = releases.dist().glob(f"*_{arch}.deb")
    subprocess.run(["dpkg-deb", "--extract", deb, tmp_path], check=True)
    (place,) = tmp_path.rglob("licenses/linked")
    assert {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()} == wanted


@pytest.mark.parametrize("arch", debian.MACHINES)
def test_apt_has_the_sources(arch: str) -> None:
    for library in licences.libraries(arch):
        found = debian.has_source(debian.nearest_suite(), library.source, library.version)
        assert found, f"{library}: fetch the libraries anew (.cache/debian/static-libraries-*)"


def test_arenadump_can_be_linked_anew(notices: Path, tmp_path: Path) -> None:
    """By the commands that the README shows, out of the source distribution."""
    readme = (notices / debian.MACHINES[debian.NATIVE] / "README").read_text()
    (sdist,) = (releases.dist() / name for name in re.findall(r"arenascope-\S+\.tar\.gz", readme))
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path)
    (source,) = tmp_path.iterdir()
    folder = ROOT / ".cache/static-libraries" / debian.NATIVE
    for command in re.findall(r"^    ((?:meson|ninja) .*)$", readme, re.MULTILINE):
        words = [word.replace("FOLDER", str(folder)) for word in command.split()]
        subprocess.run(words, cwd=source, check=True, stdout=subprocess.DEVNULL)
    program = source / "build/inspector/cli/arenadump"
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert "libdw yes" in shown
    assert "libpng yes" in shown
