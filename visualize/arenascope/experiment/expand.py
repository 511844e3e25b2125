# SPDX-License-Identifier: MIT
"""Placeholders in commands and environments: {here}, {build}, {python}, {port}, {agent}, {env:NAME} and parameters."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arenascope.elf import machine
from arenascope.errors import ArenascopeError, Code
from arenascope.wire.agent import find_agent

if TYPE_CHECKING:
    from collections.abc import Iterable

PLACEHOLDER: Final = re.compile(r"\{\{|\}\}|\{(env:[A-Za-z_][A-Za-z0-9_]*|[a-z_][a-z0-9_]*)\}")
# Where a loader searches when ldconfig has nothing to say (musl, a container without it).
FOLDERS: Final = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib")


class UnavailableError(Exception):
    """Something is not installed here; the text says what."""


def expand(text: str, values: dict[str, str]) -> str:
    """The text with its placeholders filled in; {{ and }} are braces. The values may hold placeholders themselves."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return found[0][0]
        if name.startswith("env:"):
            inner = os.environ.get(name[4:])
            if not inner:
                raise UnavailableError(f"${name[4:]} is not set")
            return inner
        if name == "agent" and name not in values:
            return agent()
        if name not in values:
            known = ", ".join(sorted({*values, "agent", "env:NAME"}))
            raise ArenascopeError(Code.BAD_INPUT, f"'{text}' has a placeholder {{{name}}}; known are {known}")
        rest = {key: other for key, other in values.items() if key != name}  # so that none contains itself
        return expand(values[name], rest) if PLACEHOLDER.search(values[name]) else values[name]

    return PLACEHOLDER.sub(value, text)


def expand_all(words: Iterable[str], values: dict[str, str]) -> list[str]:
    """Each of some words, expanded."""
    return [expand(word, values) for word in words]


def free_port() -> str:
    """A TCP port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def agent() -> str:
    """Where arenascope's own library is."""
    try:
        return str(find_agent())
    except ArenascopeError as error:
        raise UnavailableError(str(error)) from error


@lru_cache
def library(names: str) -> str:
    """The path of a shared library for this machine, by its soname, or by a path; of a|b the first that is there."""
    for name in names.split("|"):
        path = name if "/" in name else _by_soname(name)
        if path and Path(path).is_file():
            return path
    raise UnavailableError(f"{names.replace('|', ' or ')} is not installed")


def _by_soname(soname: str) -> str | None:
    places = [Path(folder) / soname for folder in FOLDERS]
    ldconfig = shutil.which("ldconfig") or shutil.which("ldconfig", path="/sbin:/usr/sbin")
    if ldconfig:
        listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
        found = re.findall(rf"^\s*{re.escape(soname)} .*=> (\S+)$", listed, re.MULTILINE)
        places = [*map(Path, found), *places]
    ours = machine(Path(sys.executable))
    return next((str(place) for place in places if place.is_file() and machine(place) == ours), None)
