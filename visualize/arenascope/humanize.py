# SPDX-License-Identifier: MIT
"""Numbers and names for people: sizes, unknowns, and names that a target chose."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from typing import Any, Final

UNKNOWN = "unknown"
MINUS: Final = "\N{MINUS SIGN}"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_STRING: Final = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
LONGEST: Final = 100  # of a function's name in a line; folded stacks and pprof's file have it whole


def size(number: int | None) -> str:
    """Bytes with a binary unit: three digits at most before the point; "unknown" for None."""
    if number is None:
        return UNKNOWN
    if number < 0:
        return MINUS + size(-number)
    value, unit = float(number), 0
    # 1023.95 would round up to "1024.0".
    while value >= 1023.95 and unit < len(_UNITS) - 1:  # noqa: PLR2004
        value, unit = value / 1024, unit + 1
    return f"{number} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def plain_size(number: int) -> str:
    """The same of a round number, without a zero behind the point: a bound of a class, a line of a grid."""
    return size(number).replace(".0 ", " ")


def compact(number: int | None) -> str:
    """Bytes in at most five characters, as in a table of many columns: 12.3M is 12.3 MiB; a dash for None.

    A minus sign is one more.
    """
    if number is None:
        return "\N{EN DASH}"
    if number < 0:
        return MINUS + compact(-number)
    value, unit = float(number), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:  # noqa: PLR2004 - 1000 would have four digits
        value, unit = value / 1024, unit + 1
    if unit == 0:
        return f"{number}B" if number else "0"
    return f"{value:.0f}{_UNITS[unit][0]}" if value >= 99.95 else f"{value:.1f}{_UNITS[unit][0]}"  # noqa: PLR2004


def age(seconds: float | None) -> str:
    """How long ago, in at most four characters; a dash for None."""
    if seconds is None:
        return "\N{EN DASH}"
    for unit, length, most in (("s", 1, 100), ("m", 60, 100), ("h", 3600, 48)):
        if seconds < length * most:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds / 86400:.0f}d"


def signed(number: int | None) -> str:
    """A difference in bytes with its sign; "unknown" for None."""
    if number is None:
        return UNKNOWN
    return f"+{size(number)}" if number > 0 else size(number)


def signed_count(number: int | None) -> str:
    """A difference in numbers of things, likewise."""
    if number is None:
        return UNKNOWN
    return f"{number:+,}".replace("-", MINUS) if number else "0"


def rate(per_minute: float | None) -> str:
    """Bytes per minute, with their sign; empty for None."""
    return "" if per_minute is None else f"{signed(round(per_minute))}/min"


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
    if milliseconds < 0.9995:  # noqa: PLR2004 - what would show as 1000 µs
        return f"{milliseconds * 1000:.0f} µs"
    return f"{milliseconds:.1f} ms" if milliseconds < 999.95 else f"{milliseconds / 1000:.1f} s"  # noqa: PLR2004


def span(seconds: float) -> str:
    """A time between two snapshots: in milliseconds, seconds, minutes or hours."""
    minute, hour = 60, 3600
    if seconds < 59.95:  # noqa: PLR2004 - what would show as 60.0 s
        return duration(seconds * 1000)
    return f"{seconds / minute:.1f} min" if seconds < 59.95 * minute else f"{seconds / hour:.1f} h"


def time_words(time_ns: int) -> str:
    """A time as arenadump prints it: UTC, to the millisecond."""
    whole = datetime.fromtimestamp(time_ns // 10**9, timezone.utc)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{time_ns // 10**6 % 1000:03}Z"


def plural(number: int | None, noun: str) -> str:
    """Render a count of things: "1 thread", "2 threads"."""
    return f"{count(number)} {noun}" + ("" if number == 1 else "s")


def printable(name: str) -> str:
    r"""A name that a target chose, safe in a terminal: what is not printable comes out as \xNN or \u{NNNN}.

    A byte that is not UTF-8 is \xNN, too, as arenadump prints it.
    """
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else _escaped(ord(c)) for c in name)


def _escaped(rune: int) -> str:
    byte = rune - 0xDC00  # as surrogateescape marks it
    if rune < 0x80 or 0x80 <= byte <= 0xFF:  # noqa: PLR2004 - ASCII, and bytes that are not
        return f"\\x{rune & 0xFF:02x}"
    return f"\\u{{{rune:x}}}"


def utf8(name: str) -> str:
    """A name as text that every program takes: U+FFFD for each byte that is not UTF-8, as in a dump's strings."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", name)


def lines(text: str) -> list[str]:
    """Returns the lines of a file of the kernel's: names in it may have what else separates lines, to Python."""
    return text.removesuffix("\n").split("\n") if text else []


def short_name(function: str) -> str:
    """A function's name for a line of a terminal."""
    short = printable(function).replace(_STRING, "std::string")
    return short if len(short) <= LONGEST else short[: LONGEST - 1] + "…"


def json_text(value: Any) -> bytes:
    """JSON as a command prints it: UTF-8, whatever the locale. What a terminal might obey is escaped."""
    plain = utf8(json.dumps(value, indent=2, ensure_ascii=False))
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in plain).encode()
