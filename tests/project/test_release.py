# SPDX-License-Identifier: MIT
"""What `make release` makes: programs that need nothing, wheels of both architectures, equal wherever they are made."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import debian, harness, programs, releases
from tools.odd import running
from tools.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.nightly("release")]

MACHINES = releases.MACHINES
NATIVE = MACHINES[debian.NATIVE]
SESSIONS = """
#include <stdio.h>
#include <stdlib.h>
struct session { struct session *next; char name[200]; } *sessions;
int main(void)
{
    for (int i = 0; i < 1000; i++) {
        struct session *session = malloc(sizeof *session);
        session->next = sessions;
        sessions = session;
    }
    puts("ready");
    fflush(stdout);
    return getchar();
}
"""
CHANGES = re.compile(r'"(time|pause_ms|read_ms|pid)": [^,\n]*')


@pytest.fixture(scope="module")
def dist() -> Path:
    """What this commit makes; the programs are those that are built."""
    return releases.dist()


@pytest.fixture(scope="module")
def typed() -> Iterator[int]:
    """A process whose debug information names what it holds."""
    with running([str(programs.build(SESSIONS, "-g"))]) as pid:
        yield pid


def unpacked(dist: Path, machine: str, folder: Path) -> tuple[Path, Path]:
    """The program and the agent of a wheel."""
    (wheel,) = dist.glob(f"*_{machine}.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    (program,) = folder.glob("*.data/scripts/arenadump")
    program.chmod(0o755)
    return program, program.with_name("libarenascope.so")


def test_names_sizes_and_sums(dist: Path) -> None:
    names = sorted(path.name for path in dist.iterdir())
    (sdist,) = dist.glob("arenascope-*.tar.gz")
    version = sdist.name.removeprefix("arenascope-").removesuffix(".tar.gz")
    for machine in MACHINES.values():
        wheel = dist / f"arenascope-{version}-py3-none-manylinux2014_{machine}.whl"
        assert wheel.stat().st_size <= 2.5e6
        assert (dist / f"arenadump-{machine}").stat().st_size <= 2.9e6
        assert (dist / f"arenadump-{machine}.xz").stat().st_size <= 1.0e6
        assert (dist / f"arenascope-{version}-{machine}-linux.gem").stat().st_size <= 1e6
    assert (dist / f"arenascope-{version}.gem").stat().st_size <= 1.2e6
    assert len(names) == 2 * 9 + 4
    lines = (dist / "SHA256SUMS").read_text().splitlines()
    assert [line.split("  ")[1] for line in lines] == [name for name in names if name != "SHA256SUMS"]
    for line in lines:
        digest, name = line.split("  ")
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize("machine", MACHINES.values())
def test_the_program_needs_nothing_and_the_agent_an_old_libc(dist: Path, machine: str, tmp_path: Path) -> None:
    program, agent = unpacked(dist, machine, tmp_path)
    assert program.read_bytes() == (dist / f"arenadump-{machine}").read_bytes()
    assert agent.read_bytes() in program.read_bytes(), "the agent that arenadump has in itself"
    assert "There is no dynamic section" in said("readelf", "-d", program)
    assert ".debug_" not in said("readelf", "-S", "-W", program)
    needed = re.findall(r"GLIBC_(\d+)\.(\d+)", said("readelf", "-V", agent))
    assert needed
    assert max((int(major), int(minor)) for major, minor in needed) <= (2, 17)


def said(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}).stdout


def asked(program: Path | str, *words: str | int | Path, **environment: str) -> str:
    """As one asks it in a bare container: nothing in its environment."""
    done = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True, check=True, env=environment)
    return done.stdout


@pytest.mark.parametrize("arch", MACHINES)
def test_what_ends_the_static_program_is_called_by_nothing(arch: str) -> None:
    """The link defines two functions as abort(): libpng's reader and its dates call them, and we call neither."""

    def callers(folder: Path, pattern: str) -> set[tuple[str, str]]:
        archives = sorted(map(str, folder.rglob("*.a")))
        command = [debian.tool("nm", arch), "--print-file-name", "--undefined-only", *archives]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = re.findall(r"^(.*):([^:]+):\s+U (\S+)$", listed, re.MULTILINE)
        return {(Path(archive).name, name) for archive, _, name in found if re.fullmatch(pattern, name)}

    libraries = callers(ROOT / f".cache/static-libraries/{arch}", "gmtime|png_destroy_read_struct")
    assert {archive for archive, _ in libraries} <= {"libpng.a", "libpng16.a"}
    ours = {name for _, name in callers(ROOT / f"build-static-{arch}/inspector", r"gmtime|png_\w+")}
    assert "png_write_row" in ours
    assert not [name for name in ours if re.search("gmtime|read|image|convert", name)]


def test_the_static_program_knows_what_the_dynamic_one_knows(
    dist: Path, arenadump: harness.Arenadump, typed: int, tmp_path: Path
) -> None:
    """Debug information, demangled names and pictures."""
    static = dist / f"arenadump-{NATIVE}"
    for command in ("types", "owners"):
        # What mode auto takes depends on how long it has to wait.
        words = (command, "--json", "--mode=freeze", "--max-pause=600s", typed)
        ours, theirs = (CHANGES.sub("", asked(each, *words)) for each in (static, arenadump.path))
        assert ours == theirs
    assert " session\n" in asked(static, "types", typed)
    asked(static, "png", typed, "-o", tmp_path / "pictures")
    assert list((tmp_path / "pictures").glob("*.png"))


def test_the_other_architectures_program_reads_a_dump(dist: Path, typed: int, tmp_path: Path) -> None:
    """The same dump, the same answer."""
    dump = tmp_path / "dump"
    native = dist / f"arenadump-{NATIVE}"
    asked(native, "dump", typed, "-o", dump)
    other = next(arch for arch in MACHINES if MACHINES[arch] != NATIVE)
    emulated = [debian.emulator(other), str(dist / f"arenadump-{MACHINES[other]}")]
    done = subprocess.run([*emulated, "summary", "--json", str(dump)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == json.loads(asked(native, "summary", "--json", dump))


def test_each_wheel_is_what_its_name_says(dist: Path) -> None:
    """Judged by auditwheel, by what the programs in it ask of the system."""
    for wheel in dist.glob("*.whl"):
        machine = next(each for each in MACHINES.values() if each in wheel.name)
        shown = said(sys.executable, "-m", "auditwheel", "show", wheel)
        assert f"manylinux_2_17_{machine}" in " ".join(shown.split()), shown


def test_another_build_is_equal_to_the_byte(dist: Path, tmp_path: Path) -> None:
    """In another folder, at another time, by somebody with another umask."""
    tree = tmp_path / "a clone" / "arenascope"
    subprocess.run(["git", "clone", "--quiet", "--no-local", str(ROOT), str(tree)], check=True)
    caches = tree / ".cache"
    caches.mkdir()
    (caches / "debian").symlink_to(ROOT / ".cache/debian")
    build = ["make", "--no-print-directory", "build-static-amd64", "build-static-arm64"]
    subprocess.run(build, cwd=tree, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"CCACHE_DISABLE": "1"})
    umask = os.umask(0o077)
    try:
        again = releases.make(tree, tmp_path / "dist")
    finally:
        os.umask(umask)
    assert (again / "SHA256SUMS").read_text() == (dist / "SHA256SUMS").read_text()
