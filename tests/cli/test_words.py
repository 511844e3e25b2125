# SPDX-License-Identifier: MIT
"""Numbers and names for people: arenadump's words are those of Python's humanize."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.paths import ROOT

from arenascope import runtime_names
from arenascope.humanize import count, plural, printable, share, size
from arenascope.wire.dump_records import RUNTIME_NAMES

SAY = Path(os.environ.get("SAY", ROOT / "build/tests/unit/say"))
UNKNOWN = (1 << 64) - 1
NUMBERS = [
    0, 1, 2, 999, 1000, 1023, 1024, 1025, 1_048_524, 1_048_525, (1 << 20) - 1, 1 << 20, 1_234_567, 1_073_689_395,
    1_073_689_396, 1 << 30, 1 << 40, 1 << 50, 1 << 60, UNKNOWN - 1, UNKNOWN,
]  # fmt: skip
SHARES = [(0, 0), (0, 5), (1, 1999), (1, 2000), (1, 2001), (1, 8), (1, 3), (49, 400), (5, 5), (7, 5), (UNKNOWN, 5)]
NAMES = [
    b"worker", b"\x1b[31m", b"gr\xc3\xbc\xc3\x9fe", b"a\tb\x7f", b"\xff\xfe",
    b"\xe2\x80\xae", b"\xc2\x85", b"\xf0\x9f\x92\xa9",
    b"\xed\xa0\x80", b"\xc0\x80", b"\\x1b", b'"%s"', b"\xe2\x80\xa8",
]  # fmt: skip


def said(lines: Iterable[str]) -> list[str]:
    done = subprocess.run([SAY], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def known(number: int) -> int | None:
    return None if number == UNKNOWN else number


def check(numbers: list[int], shares: list[tuple[int, int]]) -> None:
    words: dict[str, Callable[[int | None], str]] = {
        "size": size,
        "count": count,
        "plural": lambda number: plural(number, "thread"),
    }
    asked = [(f"{what} {number}", say(known(number))) for what, say in words.items() for number in numbers]
    asked += [(f"share {part} {whole}", share(known(part), known(whole))) for part, whole in shares]
    assert dict(zip((line for line, _ in asked), said(line for line, _ in asked))) == dict(asked)


@pytest.mark.check
def test_numbers() -> None:
    check(NUMBERS, SHARES)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.integers(0, UNKNOWN), min_size=1),
    st.lists(st.tuples(st.integers(0, 1 << 46), st.integers(1, 1 << 46)), min_size=1),
)
def test_any_numbers(numbers: list[int], shares: list[tuple[int, int]]) -> None:
    check(numbers, shares)


@pytest.mark.check
def test_hostile_names() -> None:
    expected = [printable(name.decode("utf-8", "surrogateescape")) for name in NAMES]
    assert said(f"name {name.hex()}" for name in NAMES) == expected


@pytest.mark.check
def test_titles_of_runtimes() -> None:
    """A name that one of the two has not has no title in the other: of all that JSON has, some have none."""
    names = sorted({*runtime_names.NAMES, *RUNTIME_NAMES})
    assert said(f"title {name}" for name in names) == [runtime_names.NAMES.get(name, "") for name in names]
