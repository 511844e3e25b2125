# SPDX-License-Identifier: MIT
"""Ruby from source: a release's tree, a patch applied to it, and the smallest build that can run Ruby's own GC tests.

Sources are Debian's (see debian.py), or stand in the directory that $RUBY_SOURCES names, as ruby-2.6.10/ or
ruby-2.6.10.tar.gz.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import debian, programs
from tools.paths import ROOT

CACHE = debian.CACHE.parent / "ruby"

# What Ruby's test runner and its GC tests require; all else is left out, and so is most of the optimisation: a build
# takes one minute instead of four.
EXTENSIONS = (
    *("date_core", "etc", "fcntl", "fiddle", "io/wait", "monitor", "objspace", "pathname", "rbconfig/sizeof"),
    *("ripper", "socket", "stringio", "strscan"),
)
CONFIGURE = (
    "--disable-install-doc",
    "--disable-shared",
    "CC=gcc -std=gnu17",  # up to 3.1 Ruby is no C23, which gcc 15 takes C for
    f"--with-ext={','.join(EXTENSIONS)}",
    "optflags=-O1",
    "debugflags=",
)


class BuildError(Exception):
    """A command of the build failed; the text is the end of what it said."""


@dataclass(frozen=True)
class Release:
    """A minor release of Ruby, its patch, and the Debian suite that has its source, if one does."""

    name: str  # 3.1
    patch: Path
    suite: str | None = None

    def source(self) -> Path:
        """A directory or a tarball with the release's source. Raises debian.UnavailableError."""
        given = os.environ.get("RUBY_SOURCES")
        if given:
            found = sorted(Path(given).glob(f"ruby-{self.name}[.-]*"))
            if found:
                return found[-1].resolve()
        if self.suite is None:
            raise debian.UnavailableError("no source")
        return debian.source(self.suite, f"ruby{self.name}")

    def unpack(self, directory: Path, only: Iterable[str] = ()) -> None:
        """Copies the source, or these files, into a new directory; with its times, so that nothing is made anew."""
        source = self.source()
        directory.mkdir(parents=True)
        if source.is_dir():
            run(["cp", "--archive", "--parents", *(only or ["."]), directory.resolve()], source)
        else:
            members = ["--wildcards", "--no-wildcards-match-slash", *(f"*/{path}" for path in only)] if only else []
            run(["tar", "--extract", "--file", source, "--strip-components=1", *members], directory)


GC_C = ROOT / "patches/malloc-trim-ruby-2.6-3.3.patch"  # what each patch changes
DEFAULT_C = ROOT / "patches/malloc-trim-ruby-3.4-4.0.patch"
RELEASES = {
    release.name: release
    for release in (
        Release("2.6", GC_C),
        Release("2.7", GC_C, "bullseye"),
        Release("3.0", GC_C),
        Release("3.1", GC_C, "bookworm"),
        Release("3.2", GC_C),
        Release("3.3", GC_C, "trixie"),
        Release("3.4", DEFAULT_C, "experimental"),
        Release("4.0", DEFAULT_C),
    )
}


def version(tree: Path) -> str:
    """The full version that a source tree says it is, 3.1.2."""
    own, api = (tree / "version.h").read_text(), (tree / "include/ruby/version.h").read_text()
    teeny = re.search(r'define RUBY_VERSION(?:_TEENY | "\d+\.\d+\.)(\d+)', own)  # the latter up to 2.6
    numbers = dict(re.findall(r"define RUBY_API_VERSION_(MAJOR|MINOR) (\d+)", api))
    if teeny is None or len(numbers) != 2:
        raise BuildError(f"{tree} does not say which Ruby it is")
    return f"{numbers['MAJOR']}.{numbers['MINOR']}.{teeny[1]}"


def patched(release: Release) -> Path:
    """The release's tree in .cache/ with its patch applied, not yet built; kept until patch or source change."""
    source = release.source()
    tree = CACHE / release.name
    key = hashlib.sha256(release.patch.read_bytes()).hexdigest() + f" {source}"
    stamp = tree / ".arenascope"
    if not stamp.exists() or stamp.read_text() != key:
        shutil.rmtree(tree, ignore_errors=True)
        release.unpack(tree)
        apply(release.patch, tree)
        stamp.write_text(key)
    return tree


def apply(patch: Path, tree: Path) -> None:
    """Applies a patch, at another line if need be, but only where its whole context is found. Raises BuildError."""
    run(["patch", "--strip=1", "--fuzz=0", "--forward", "--reject-file=-", f"--input={patch}"], tree)


def build(tree: Path, jobs: int = 2) -> Path:
    """Builds a tree, unless that has been done, and returns the directory of the build.

    Raises BuildError, and UnavailableError for a tree that cannot be built as it is.
    """
    if not (tree / "configure").exists():
        raise debian.UnavailableError(
            "applied, but not built: no configure, so this is a repository's tree, no release's"
        )
    directory = tree / "build"
    if not (directory / "built").exists():
        shutil.rmtree(directory, ignore_errors=True)  # of a build that was interrupted
        directory.mkdir()
        (directory / "make.log").write_text(
            run(["../configure", *CONFIGURE], directory)
            + run(["make", f"-j{jobs}", "V=1"], directory, programs.COMPILED_ANYWHERE)
        )
        (directory / "built").touch()
    return directory


def run(command: Sequence[str | Path], cwd: Path, env: dict[str, str] | None = None, timeout: float = 1800) -> str:
    """What a command says, on both streams. Of Ruby's settings it gets those in `env` only. Raises BuildError."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("RUBY", "GEM", "MAKE", "MFLAGS"))
    }
    done = subprocess.run(
        command,
        cwd=cwd,
        env=clean | (env or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        timeout=timeout,
        check=False,
    )
    if done.returncode != 0:
        said = "\n".join(done.stdout.splitlines()[-30:])
        raise BuildError(f"{' '.join(map(str, command))} in {cwd}: exit status {done.returncode}\n{said}")
    return done.stdout
