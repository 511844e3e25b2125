#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds a release of Ruby with its patch, in .cache/ruby, and prints a program that runs it: build.py 2.7.

It is the smallest build that the patches' check needs, without gems: enough for the experiments `article` and `burst`.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from tools import debian, rubies  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", choices=rubies.RELEASES, metavar="RELEASE", help=", ".join(rubies.RELEASES))
    name = parser.parse_args().release
    try:
        tree = rubies.patched(rubies.RELEASES[name])
        ruby = rubies.build(tree) / "ruby"
    except (debian.UnavailableError, rubies.BuildError) as error:
        print(f"build.py: {name}: {error}", file=sys.stderr)
        return 1
    program = tree / f"ruby-{name}"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(str(ruby))} --disable-gems "$@"\n')
    program.chmod(0o755)
    print(program)
    return 0


if __name__ == "__main__":
    sys.exit(main())
