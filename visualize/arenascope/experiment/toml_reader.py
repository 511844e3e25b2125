# SPDX-License-Identifier: MIT
"""Reads tables of a TOML file key by key, and says of each mistake where it stands and what was expected."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, NoReturn

from arenascope.errors import ArenascopeError, Code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Json = dict[str, Any]

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float | None:
    """A time such as "50ms", "1.5s", "8m"; None when it is none."""
    found = _DURATION.fullmatch(text)
    return float(found[1]) * _UNITS[found[2]] if found else None


class TomlTable:
    """A table of a TOML file. Every key is taken once; those that nobody took are mistakes, found by `finish`."""

    def __init__(self, data: Any, file: str, name: str = "") -> None:
        """`file` and `name` are for messages: "article.toml", "[workload]"."""
        self._file, self._name = file, name
        if not isinstance(data, dict):
            self.fail(f"is {_kind(data)}, and not a table")
        self._data: Json = data
        self._taken: set[str] = set()

    def fail(self, problem: str) -> NoReturn:
        """Refuse the file."""
        raise ArenascopeError(Code.BAD_INPUT, f"{self._file}: {self._name}{' ' if self._name else ''}{problem}")

    def finish(self) -> None:
        """Refuse keys that mean nothing."""
        for key in self._data:
            if key not in self._taken:
                close = difflib.get_close_matches(key, self._taken, 1)
                hint = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(sorted(self._taken))}"
                self.fail(f"has a key '{key}', which means nothing here; {hint}")

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return key in self._data

    def text(self, key: str, default: str | None = None) -> str:
        """A string; without a default it must be there and not be empty."""
        value = self._take(key, default, str, "a string")
        if default is None and not value:
            self.fail(f"has an empty '{key}'")
        return str(value)

    def number(self, key: str, default: int, least: int) -> int:
        """A whole number, not less than `least`."""
        value = self._take(key, default, int, "a whole number")
        if value < least:
            self.fail(f"has {key} = {value}, but the minimum is {least}")
        return int(value)

    def duration(self, key: str, default: str) -> float:
        """Seconds, from "50ms", "2s", "3m"."""
        value = self._take(key, default, str, 'a time such as "50ms", "2s" or "3m"')
        time = seconds(value)
        if time is None:
            self.fail(f"has {key} = '{value}', which is not a time: write 50ms, 2s, 3m")
        return time

    def choice(self, key: str, default: str, among: Sequence[str]) -> str:
        """One of some words."""
        value = self.text(key, default)
        if value not in among:
            self.fail(f"has {key} = '{value}'; it can be {', '.join(among)}")
        return value

    def words(self, key: str, *, required: bool = False) -> tuple[str, ...]:
        """An array of strings: a command, say."""
        value = self._take(key, None if required else [], list, "an array of strings")
        if not all(isinstance(word, str) for word in value):
            self.fail(f"has in '{key}' something that is not a string")
        if required and not value:
            self.fail(f"has an empty '{key}'")
        return tuple(value)

    def each(self, key: str, read: Callable[[Any], Any]) -> tuple[Any, ...]:
        """An array of whatever `read` takes."""
        return tuple(read(value) for value in self._take(key, [], list, "an array"))

    def strings(self, key: str) -> dict[str, str]:
        """A table of strings and numbers, as strings: environment variables, parameters."""
        table = self._take(key, {}, dict, "a table")
        for name, value in table.items():
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                self.fail(f"has {key}.{name}, which is {_kind(value)}: write a string or a number")
        return {name: str(value) for name, value in table.items()}

    def table(self, key: str) -> TomlTable:
        """A table within; an empty one when it is not there."""
        return TomlTable(self._take(key, {}, dict, "a table"), self._file, f"[{key}]")

    def tables(self, key: str) -> list[TomlTable]:
        """An array of tables."""
        data = self._take(key, [], list, f"an array of tables, [[{key}]]")
        return [TomlTable(each, self._file, f"[[{key}]] number {index}") for index, each in enumerate(data, 1)]

    def raw(self, key: str) -> Any:
        """Whatever stands there, or None."""
        self._taken.add(key)
        return self._data.get(key)

    def _take(self, key: str, default: Any, kind: type, expected: str) -> Any:
        self._taken.add(key)
        value = self._data.get(key, default)
        if value is None:
            close = difflib.get_close_matches(key, self._data, 1)
            self.fail(
                f"has no '{key}': {expected} is needed{f'; is {close[0]!r} a misspelling of it?' if close else ''}"
            )
        if not isinstance(value, kind) or isinstance(value, bool):
            self.fail(f"has '{key}', which is {_kind(value)}: {expected} is needed")
        return value


def _kind(value: Any) -> str:
    names = {str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "an array", dict: "a table"}
    return names.get(type(value), "something else")
