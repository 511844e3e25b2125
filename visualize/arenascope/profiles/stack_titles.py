# SPDX-License-Identifier: MIT
"""What a call stack is called in a few words: who wanted the memory, and for what."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from arenascope.profiles.source_lines import plain_name

if TYPE_CHECKING:
    from collections.abc import Iterable

# Functions that allocate for others: the C++ library, operator new, and the wrappers of malloc that many programs have
# (xmalloc, g_strdup, PyMem_RawRealloc, zmalloc_usable, CRYPTO_malloc), but no `reallocate_buffers`.
FOR_OTHERS: Final = re.compile(
    r"operator new\b|std::|__gnu_cxx::"
    r"|(?:\w*_)?(?:x|z|ztry|raw|sqlite3)?(?:[mc]alloc|realloc|strn?dup)"
    r"(?:\d|n|array|_(?:n|num|array|usable|aligned))?$",
    re.IGNORECASE,
)
MOST_NAMES: Final = 1 << 16  # that are remembered: a profile has a name on many stacks
OF_A_FILE: Final = re.compile(r"[^:(]*:(?!:)")  # pool.rb:block in <main>


@lru_cache(MOST_NAMES)
def bare_name(function: str) -> str:
    """A function's name without arguments and without the type that it returns, which templates have before it.

    One of interpreted code stays as it is.
    """
    if OF_A_FILE.match(function):
        return function
    name = plain_name(function)
    depth = start = 0
    for at, letter in enumerate(name):
        if name.startswith("operator", at) and depth == 0:
            break
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == " " and depth == 0:
            start = at + 1
    return name[start:]


@lru_cache(MOST_NAMES)
def is_for_others(function: str) -> bool:
    """Whether a function allocates for its caller."""
    return FOR_OTHERS.match(bare_name(function)) is not None


def caller_and_callee(names: Iterable[str]) -> list[str]:
    """Returns who called, and what was called to allocate, in a stack (innermost first); of one function, its name.

    Functions that allocate for others are passed over, and one that calls itself stands once.
    """
    once = list(dict.fromkeys(names))
    first = next((at for at, name in enumerate(once) if not is_for_others(name)), 0)
    at = max(first, 1)
    return [bare_name(name) for name in reversed(once[at - 1 : at + 1])]
