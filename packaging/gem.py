# SPDX-License-Identifier: MIT
"""The gem: of sources, which needs a compiler, and for each architecture one with libraries, which needs none.

A library is of one minor release of Ruby. Those of all Debian suites are served, by the headers of their packages,
fetched by apt and not installed. The libraries are built against the oldest glibc of these suites, and need only
functions that glibc 2.17 has; the others are used where they are.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from tools import debian, interpreters, programs

HERE = Path(__file__).resolve().parent
LIBRARY = "arenascope.so"
# Nothing of the folder where it is built is in it: what has debug information only is stripped.
STRIP = ("--strip-unneeded", "--remove-section=.note.gnu.build-id")


def make(tree: Path, folder: Path) -> None:
    """Put the gems of the sources in `tree` into `folder`. Raises UnavailableError and CalledProcessError."""
    _run(["rake", "--quiet", "build"], tree / "ruby-ext")
    (source,) = (tree / "ruby-ext/pkg").glob("*.gem")
    shutil.copy(source, folder)
    for arch, machine in debian.MACHINES.items():
        stage = tree.parent / f"gem-{arch}"
        shutil.copytree(source.with_suffix(""), stage)
        for release in interpreters.RUBIES:
            place = stage / "lib/arenascope" / release
            place.mkdir()
            _library(stage, arch, release, place / LIBRARY)
        output = folder / f"{source.stem}-{machine}-linux.gem"
        _run(["ruby", str(HERE / "precompiled_gem.rb"), f"{machine}-linux", str(output)], stage)


def _library(stage: Path, arch: str, release: str, output: Path) -> None:
    """Compile the extension for one release of Ruby."""
    packages = [f"ruby{release}-dev", f"libruby{release}"]
    home = debian.unpack(f"ruby{release}-headers", interpreters.RUBIES[release], arch, {"root": packages})
    build = stage / f"build-{release}"
    build.mkdir()
    # By the way from here, none has a space in its name, at which make would split it.
    (build / "other").symlink_to(home / "root")
    (settings,) = build.glob("other/usr/lib/*/ruby/*/rbconfig.rb")
    compiler = build / "cc"
    compiler.write_text(f'#!/bin/sh\nexec {shlex.join(programs.portable_command(arch))} "$@"\n')
    compiler.chmod(0o755)
    other = {"OTHER_RUBY": str(settings.relative_to(build)), "OTHER_CC": "./cc"}
    configure = ["ruby", "--disable-gems", "-r", str(HERE / "other_ruby.rb"), "../ext/arenascope/extconf.rb"]
    _run(configure, build, **other)
    _run(["make", "--quiet", f"--jobs={os.cpu_count()}"], build, **programs.COMPILED_ANYWHERE)
    _run([debian.tool("strip", arch), *STRIP, "-o", str(output), LIBRARY], build)


def _run(command: list[str], cwd: Path, **environment: str) -> None:
    env = os.environ | environment
    subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.DEVNULL, check=True)
