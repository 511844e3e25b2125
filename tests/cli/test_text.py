# SPDX-License-Identifier: MIT
"""Numbers in words: sizes and times as every surface shows them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from arenascope import humanize
from arenascope.render.terminal import plain_table

pytestmark = pytest.mark.check


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1024 * 1024 - 1, "1.0 MiB"),
        (1536 << 20, "1.5 GiB"),
        (2**64 - 2, "16.0 EiB"),
        (-1023, "\N{MINUS SIGN}1023 B"),
        (-30240000, "\N{MINUS SIGN}28.8 MiB"),
        (None, "unknown"),
    ],
)
def test_sizes(number: int | None, shown: str) -> None:
    assert humanize.size(number) == shown
    assert humanize.signed(number) == (f"+{shown}" if number and number > 0 else shown)


def test_narrow_sizes() -> None:
    assert [humanize.compact(number) for number in (12_900_000, -12_900_000, -5, 0)] == [
        "12.3M",
        "\N{MINUS SIGN}12.3M",
        "\N{MINUS SIGN}5B",
        "0",
    ]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0009994, "999 µs"),
        (0.0009996, "1.0 ms"),
        (0.9994, "999.4 ms"),
        (0.99997, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1.0 min"),
        (3596, "59.9 min"),
        (3599, "1.0 h"),
        (4520, "1.3 h"),
    ],
)
def test_times_are_rounded_before_the_unit_is_chosen(seconds: float, shown: str) -> None:
    assert humanize.span(seconds) == shown


@pytest.mark.check
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_number_of_a_table_is_cut(width: int) -> None:
    """Beside a name that is longer than the terminal is wide, too: the name is wrapped."""
    name, numbers = "std::vector<std::pair<" * 12, [f"{number},234,567.8 MiB" for number in range(11, 16)]
    table = plain_table("", ">before", ">after", ">change", ">per minute", ">count")
    table.add_row(name, *numbers)
    out = io.StringIO()
    Console(file=out, width=width).print(table, crop=False)
    assert "…" not in out.getvalue()
    assert [number for number in numbers if number not in out.getvalue()] == []


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [("", "1.0 MiB", "")],
        [(Text("in use", style="red"), "1,234", "what the application\nholds"), ("名前 of two cells", "1", "x")],
        [("std::vector<std::pair<" * 3, "1.0 MiB", "é"), ("short",)],
    ],
)
def test_a_table_is_as_wide_as_rich_measures_it(rows: list[tuple[str | Text, ...]]) -> None:
    table = plain_table("", ">bytes", "what it is")
    for row in rows:
        table.add_row(*row)
    console = Console(file=io.StringIO(), markup=False, emoji=False, highlight=False)
    room = console.options.update(width=1000)
    assert console.measure(table, options=room).maximum == Table.__rich_measure__(table, console, room).maximum
