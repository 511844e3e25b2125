# SPDX-License-Identifier: MIT
"""A dump as the summary's JSON, schema "arenascope.summary/1" (docs/summary.schema.json): what inspector/cli/json.c
prints, value for value. What is not known is None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from arenascope import format as fmt
from arenascope.dump import text

if TYPE_CHECKING:
    import enum

    from arenascope.dump import Dump

    Json = dict[str, Any]

SCHEMA: Final = "arenascope.summary/1"


def summarize(dump): return {}
