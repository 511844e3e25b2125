# SPDX-License-Identifier: MIT
"""Which arenascope this is. Only files are read for it: importlib.metadata takes longer to load than most commands.

setup.py writes BUILT into a package that it builds: the version, and the commit where it knows one. In a source tree
the version is that of meson.build, and the code may be of any commit.
"""

from __future__ import annotations

from functools import cache
from os import path
from typing import Final

BUILT: Final = "built.txt"
_HERE: Final = path.dirname(path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes its time, too
_STATED: Final = path.join(_HERE, "..", "..", "meson.build")  # noqa: PTH118 - likewise


@cache
def version() -> str:
    """The version alone: "0.1.0"."""
    return _built()[0] if path.exists(path.join(_HERE, BUILT)) else _stated()  # noqa: PTH110, PTH118


def described() -> str:
    """The version and, as far as it is known, the commit: "0.1.0 (commit 1a2b3c4d5e6f)"."""
    if not path.exists(path.join(_HERE, BUILT)):  # noqa: PTH110, PTH118
        return f"{_stated()} (working copy)"
    number, commit = _built()
    if not commit:
        return number
    return f"{number} (commit {commit.rstrip('+')}{', with changes' if commit.endswith('+') else ''})"


def _built() -> tuple[str, str]:
    number, _, commit = _text(path.join(_HERE, BUILT)).partition("\n")  # noqa: PTH118
    return number, commit.strip()


def _stated() -> str:
    try:
        words = _text(_STATED).partition("version: '")[2].partition("'")[0]
    except OSError:
        words = ""
    return words or "0+unknown"


def _text(file: str) -> str:
    with open(file, encoding="utf-8") as opened:  # noqa: PTH123
        return opened.read()
