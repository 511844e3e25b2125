# SPDX-License-Identifier: MIT
"""arenascope: where did a process's memory go, and what will bring it back?

    import arenascope

    with arenascope.inspect(pid, graph=True) as snapshot:
        print(snapshot.verdict.lead, snapshot.ledger["in_use"])
        print(snapshot.owners().to_pandas())

What is public is here, and in docs/python-api.md. The C program `arenadump` reads processes; this package starts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arenascope.api import (
        Answer,
        Options,
        diff,
        dump,
        inject,
        inspect,
        inspect_all,
        leaks,
        open_dump,
        owners,
        profile,
        read_instant,
        read_profile,
        read_timeline,
        read_trace,
        summary,
        trim,
        types,
        why,
    )
    from arenascope.errors import ArenascopeError as Error
    from arenascope.errors import Code
    from arenascope.snapshot import LeakRow, Ledger, OwnerRow, SiteRow, Snapshot, Table, TypeRow

__all__ = [
    "Answer",
    "Code",
    "Error",
    "LeakRow",
    "Ledger",
    "Options",
    "OwnerRow",
    "SiteRow",
    "Snapshot",
    "Table",
    "TypeRow",
    "__version__",
    "diff",
    "dump",
    "inject",
    "inspect",
    "inspect_all",
    "leaks",
    "open_dump",
    "owners",
    "profile",
    "read_instant",
    "read_profile",
    "read_timeline",
    "read_trace",
    "summary",
    "trim",
    "types",
    "why",
]

__version__: str


def __getattr__(name: str) -> Any:
    """What is public, loaded when somebody asks: a command of the terminal needs a part of it."""
    if name == "__version__":
        from arenascope.version import version  # noqa: PLC0415

        return version()
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from arenascope import api  # noqa: PLC0415

    if hasattr(api, name):
        return getattr(api, name)
    from arenascope import snapshot  # noqa: PLC0415 - numpy comes with it

    return getattr(snapshot, name)


def __dir__() -> list[str]:
    """For those who complete names."""
    return __all__
