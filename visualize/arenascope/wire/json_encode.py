# SPDX-License-Identifier: MIT
"""NamedTuples as JSON: the other way from json_decode."""

from __future__ import annotations

from typing import Any


def encode(value: Any) -> Any:
    """A value of such a class as objects and arrays of JSON."""
    if hasattr(value, "_fields"):
        made: dict[str, Any] = {}
        for name, each in zip(value._fields, value):
            made.update(encode(each) if getattr(each, "INLINE", False) else {name: encode(each)})
        return made
    if isinstance(value, (tuple, list)):
        return [encode(each) for each in value]
    return {key: encode(each) for key, each in value.items()} if isinstance(value, dict) else value
