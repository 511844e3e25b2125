# SPDX-License-Identifier: MIT
"""Numbers and names for people: sizes, unknowns, and names that a target chose."""

from __future__ import annotations

import json
from typing import Any

UNKNOWN = "unknown"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size(number: int | None) -> str:
    """Bytes with a binary unit: three digits at most before the point; "unknown" for None."""
    if number is None:
        return UNKNOWN
    value, unit = float(number), 0
    # 1023.95 would round up to "1024.0".
    while value >= 1023.95 and unit < len(_UNITS) - 1:  # noqa: PLR2004
        value, unit = value / 1024, unit + 1
    return f"{number} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def count(number: int | None) -> str:
    """A number with thousands set apart; "unknown" for None."""
    return UNKNOWN if number is None else f"{number:,}"


def share(part: int | None, whole: int | None) -> str:
    """A part of a whole in per cent; empty when it cannot be said."""
    if part is None or not whole:
        return ""
    per_cent = 100 * part / whole
    return "< 0.1 %" if 0 < per_cent < 0.05 else f"{per_cent:.1f} %"  # noqa: PLR2004 - what would show as 0.0


def duration(milliseconds: float | None) -> str:
    """A time in the unit that fits; "unknown" for None."""
    if milliseconds is None:
        return UNKNOWN
    if milliseconds < 1:
        return f"{milliseconds * 1000:.0f} µs"
    return f"{milliseconds:.1f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"  # noqa: PLR2004


def plural(number: int | None, noun: str) -> str:
    """Render a count of things: "1 thread", "2 threads"."""
    return f"{count(number)} {noun}" + ("" if number == 1 else "s")


def printable(name: str) -> str:
    r"""A name that a target chose, safe in a terminal: what is not printable comes out as \xNN or \u{NNNN}."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" if c < "\x80" else f"\\u{{{ord(c):x}}}" for c in name)


def json_text(value: Any) -> bytes:
    """JSON as a command prints it: UTF-8, whatever the locale. What a terminal might obey is escaped."""
    plain = json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in plain).encode()
