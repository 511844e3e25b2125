# SPDX-License-Identifier: MIT
"""Packages that a plain installation lacks: few commands need them. The groups are the extras of pyproject.toml."""

from __future__ import annotations

import shlex
import sys
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final

from arenascope.errors import ArenascopeError, Code

if TYPE_CHECKING:
    from collections.abc import Iterator

EXTRAS: Final = {  # extra → what it requires, by the name of its module
    "live": {"textual": "textual>=8"},
    "exporter": {"prometheus_client": "prometheus_client>=0.14"},
    "pictures": {"matplotlib": "matplotlib>=3.7"},
}


@contextmanager
def needing(extra: str, what: str, otherwise: str = "") -> Iterator[None]:
    """Imports of an extra's packages inside: one that fails is an ArenascopeError USAGE with the command that mends it.

    `what` needs them; `otherwise`: what to do without them.
    """
    try:
        yield
    except ImportError as error:
        package = EXTRAS[extra].get((error.name or "").partition(".")[0])
        if package is None:
            raise
        words = f"{what} needs {package} ({error}): {line_to_type(extra)}"
        raise ArenascopeError(Code.USAGE, f"{words}\n{otherwise}".rstrip()) from error


def need(extra: str, what: str, otherwise: str = "") -> None:
    """The same before anything is done: the packages are imported."""
    with needing(extra, what, otherwise):
        for module in EXTRAS[extra]:
            import_module(module)


def line_to_type(extra: str) -> str:
    """What installs an extra into the environment that this program runs in."""
    return f"{shlex.quote(sys.executable)} -m pip install 'arenascope[{extra}]'"
