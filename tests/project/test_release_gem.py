# SPDX-License-Identifier: MIT
"""The gem as people get it: of sources, with a compiler; of binaries, without one, in each Ruby that they are for.

That two builds are equal to the byte is tested in test_release.py, with all else in dist/.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tools import debian, interpreters, releases
from tools.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.nightly("release")]

MACHINES = debian.MACHINES
LOAD = """
require "arenascope"
raise "not supported" unless Arenascope.supported?
puts Arenascope::VERSION, $LOADED_FEATURES.grep(/arenascope\\.so/)
"""
# One string of a thousand is kept: so there are free pages below the top.
TRIM = f"""{LOAD}
kept = Array.new(20_000) {{ "x" * 3_000 }}.each_slice(1_000).map(&:first)
GC.start
returned = Arenascope.trim
raise "a trim returned #{{returned.inspect}}" unless returned.is_a?(Integer) && returned.positive?
raise "a part is larger than the whole" if Arenascope.summary.in_use > Arenascope.summary.rss
raise unless kept.size == 20
"""


def said(command: Sequence[str | Path], **given: object) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, **given).stdout  # type: ignore[call-overload, no-any-return]


@pytest.fixture(scope="module")
def gems() -> Path:
    return releases.dist()


def one(folder: Path, platform: str = "") -> Path:
    (found,) = (path for path in folder.glob("*.gem") if path.stem.endswith(platform or version(path)))
    return found


def version(gem: Path) -> str:
    return gem.name.removesuffix(".gem").split("-")[1]


def environment(home: Path, path: str) -> dict[str, str]:
    """A user's who has no gem yet."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GEM_", "RUBY", "BUNDLE"))}
    return kept | {"GEM_HOME": str(home), "GEM_PATH": str(home), "PATH": path}


def install(gem: Path, home: Path, path: str) -> dict[str, str]:
    env = environment(home, path)
    said(["gem", "install", "--local", "--no-document", str(gem)], env=env)
    return env


def without_compiler(folder: Path) -> str:
    """A $PATH where Ruby is all that there is."""
    for name in ("ruby", "gem"):
        program = shutil.which(name)
        assert program
        (folder / name).symlink_to(program)
    return str(folder)


def test_a_plain_clone_makes_no_gem(tmp_path: Path) -> None:
    """Without the inspector it would install, and do nothing."""
    said(["git", "clone", "--quiet", "--depth=1", f"file://{ROOT}", str(tmp_path / "clone")])
    folder = tmp_path / "clone/ruby-ext"
    command = ["gem", "build", "arenascope.gemspec"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.strip().count("\n") == 0
    assert "run `rake build`" in done.stderr
    assert not list(folder.glob("*.gem"))


def test_the_gem_of_sources(gems: Path, tmp_path: Path) -> None:
    """All sources, the licence and the version; a compiler is all that it needs."""
    gem = one(gems)
    unpacked = tmp_path / "unpacked" / gem.stem
    said(["gem", "unpack", str(gem), "--target", str(unpacked.parent)])
    sources = {path.relative_to(ROOT) for kind in ("c", "h", "def") for path in (ROOT / "inspector").rglob(f"*.{kind}")}
    assert {unpacked / "ext/arenascope" / path for path in sources} <= set(unpacked.rglob("*.*"))
    assert (unpacked / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert f'VERSION = "{version(gem)}"' in (unpacked / "lib/arenascope/version.rb").read_text()
    env = install(gem, tmp_path / "home", os.environ["PATH"]) | {"CCACHE_BASEDIR": str(tmp_path)}
    lines = said(["ruby", "-w", "-e", TRIM], env=env, cwd="/").splitlines()
    assert (lines[0], len(lines)) == (version(gem), 2)


def test_the_gem_of_binaries_needs_no_compiler(gems: Path, tmp_path: Path) -> None:
    gem = one(gems, f"-{MACHINES[debian.NATIVE]}-linux")
    (tmp_path / "bin").mkdir()
    env = install(gem, tmp_path / "home", without_compiler(tmp_path / "bin"))
    number, library = said(["ruby", "-w", "-e", TRIM], env=env, cwd="/").splitlines()
    assert number == version(gem)
    own = said(["ruby", "-e", "puts RUBY_VERSION[/\\d+\\.\\d+/]"]).strip()
    assert library.endswith(f"/lib/arenascope/{own}/arenascope.so")
    shutil.rmtree(Path(library).parent)  # a Ruby that it has no library for is told, and so is what to do
    done = subprocess.run(["ruby", "-e", TRIM], env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    others = ", ".join(release for release in interpreters.RUBIES if release != own)
    wanted = f"built for Ruby {others} and cannot serve {own}; install the gem of sources, {one(gems).name} (LoadError)"
    assert wanted in done.stderr


@pytest.mark.parametrize("release", interpreters.RUBIES)
@pytest.mark.parametrize("arch", MACHINES)
def test_each_library_in_its_ruby(gems: Path, arch: str, release: str, tmp_path: Path) -> None:
    """Under the libc of its suite; no function of it is younger than glibc 2.17.

    qemu-user, which has no page tables to read and locks itself out where a trim gives pages back, only loads it.
    """
    gem = one(gems, f"-{MACHINES[arch]}-linux")
    said(["gem", "unpack", str(gem), "--target", str(tmp_path)])
    folder = tmp_path / gem.stem / "lib"
    library = folder / "arenascope" / release / "arenascope.so"
    read = said(["readelf", "-V", library], env=os.environ | {"LC_ALL": "C"})
    needed = [(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", read)]
    assert needed
    assert max(needed) <= (2, 17)
    ruby = interpreters.ruby(release, arch=arch)
    native = arch == debian.NATIVE
    command = ruby.command("-I", folder, "-e", TRIM if native else LOAD)
    shown = said(command if native else [debian.emulator(arch), *command], env=ruby.environment, cwd="/")
    assert shown.splitlines() == [version(gem), str(library)]
