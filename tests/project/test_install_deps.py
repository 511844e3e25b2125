# SPDX-License-Identifier: MIT
"""scripts/install-deps on releases whose packages have other names than this machine's, or are not there at all.

It sees stand-ins of apt and dpkg: a directory with what is installed and one with what there is. In earnest it installs
in scripts/check-clean-root.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tools.paths import ROOT

pytestmark = pytest.mark.check

SCRIPT = ROOT / "scripts/install-deps"
# installed/ and available/ of a release hold a file for each package; lists is there once apt has been updated.
PROGRAMS = {
    "dpkg-query": 'test -e "$release/installed/${*: -1}" || exit 1; echo -n installed',
    "apt-cache": """
        test "$1" = policy
        test -e "$release/installed/$2" || { test -e "$release/lists" && test -e "$release/available/$2"; } ||
            { printf '%s:\\n  Installed: (none)\\n  Candidate: (none)\\n' "$2"; exit; }
        printf '%s:\\n  Installed: (none)\\n  Candidate: 1.0-1\\n' "$2"
    """,
    "apt-get": """
        echo "$*" >>"$release/asked"
        for word; do
            case $word in
            -* | */*) ;;
            indextargets) test ! -e "$release/lists" || echo Packages; exit ;;
            update) touch "$release/lists"; exit ;;
            install) ;;
            *)
                test -e "$release/available/$word" || { echo "E: no $word" >&2; exit 100; }
                touch "$release/installed/$word"
                ;;
            esac
        done
    """,
    "sudo": '"$@"',
}


class Release:
    def __init__(self, home: Path) -> None:
        self.home = home
        for folder in ("bin", "installed", "available"):
            (home / folder).mkdir()
        for name, text in PROGRAMS.items():
            program = home / "bin" / name
            program.write_text(f"#!/bin/bash\nrelease={home}\n{text}\n")
            program.chmod(0o755)

    def has(self, *names: str) -> None:
        for name in names:
            (self.home / "available" / name).touch()

    def install_deps(self, *groups: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.home}/bin:{os.environ['PATH']}"
        return subprocess.run(
            [SCRIPT, *groups], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
        )

    @property
    def installed(self) -> set[str]:
        return {path.name for path in (self.home / "installed").iterdir()}

    @property
    def changes_asked_for(self) -> list[str]:
        asked = self.home / "asked"
        lines = asked.read_text().splitlines() if asked.exists() else []
        return [line for line in lines if "indextargets" not in line]


@pytest.fixture
def release(tmp_path: Path) -> Release:
    made = Release(tmp_path)
    # What `experiments` and `fuzz` need under the same name everywhere.
    made.has("gcc", "libc6-dev", "golang-go", "ruby", "puma", "ruby-railties", "redis-server", "python3-numpy")
    made.has("libjemalloc2", "clang")
    return made


@pytest.mark.parametrize(
    "names", [("libtcmalloc-minimal4", "libmimalloc2.0"), ("libtcmalloc-minimal4t64", "libmimalloc3")]
)
def test_a_package_goes_by_the_name_that_the_release_has_for_it(release: Release, names: tuple[str, ...]) -> None:
    release.has(*names)
    done = release.install_deps("experiments")
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(names) <= release.installed
    assert "this release has no" not in done.stdout
    before = release.changes_asked_for
    again = release.install_deps("experiments")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", ""), "all is in place"
    assert release.changes_asked_for == before


def test_what_a_release_does_not_have_is_left_out_and_said(release: Release) -> None:
    release.has("libtcmalloc-minimal4t64")
    for _ in range(2):  # and the second time without asking the network again
        done = release.install_deps("experiments", "fuzz")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "this release has no libmimalloc2.0 or libmimalloc3; " in done.stdout
        assert "this release has no libclang-rt-dev; " in done.stdout
    assert {"libtcmalloc-minimal4t64", "clang"} <= release.installed
    assert [line for line in release.changes_asked_for if "update" in line] == ["-qq update"]


def test_what_is_needed_is_not_left_out(release: Release) -> None:
    release.has("libmimalloc3")
    done = release.install_deps("experiments")
    assert done.returncode != 0
    assert "E: no libtcmalloc-minimal4" in done.stderr
