# SPDX-License-Identifier: MIT
"""How a snapshot is taken: the options of arenadump's commands that take one, with types."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Optional, Union


class How(NamedTuple):
    """The options. Times and sizes are as people type them: arenadump says what is wrong with one."""

    mode: Optional[str] = None  # auto, freeze, clone, live. None: as arenadump has it by default, here and below
    max_pause: Optional[str] = None  # "20ms"
    max_memory: Optional[str] = None  # "2G"
    layout_source: Optional[str] = None  # "symtab,decode"
    force: bool = False
    chunks: bool = False
    objects: bool = False
    graph: bool = False

    def words(self) -> list[str]:
        """The options as arenadump has them."""
        return words_of(self._asdict())

    @property
    def reads_all(self) -> bool:
        """Whether all memory of the target is read for it."""
        return self.objects or self.graph


def words_of(options: Mapping[str, Union[str, bool, None]]) -> list[str]:
    """Options of arenadump's, by their names: True is given without a value, False and None not at all."""
    named = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    given = [f"{name}={value}" for name, value in named.items() if isinstance(value, str)]
    return [*given, *(name for name, value in named.items() if value is True)]


DEFAULT: Final = How()
