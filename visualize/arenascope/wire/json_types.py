# SPDX-License-Identifier: MIT
"""What the fields of JSON hold, beyond Python's own types: schema.py writes it down, and the decoder checks types.

An enumeration is named and not imported: dump_records needs numpy, which most commands do without.
"""

from typing import Annotated, Any, Callable, NamedTuple, Optional, TypeVar

T = TypeVar("T")


class Bounds(NamedTuple):
    """Keywords of JSON Schema."""

    minimum: Optional[float] = None
    maximum: Optional[float] = None
    pattern: Optional[str] = None
    maxItems: Optional[int] = None  # noqa: N815 - the keyword
    required: Optional[tuple[str, ...]] = None
    enum: Optional[tuple[str, ...]] = None


class EnumNames(NamedTuple):
    """The names of an enumeration of dump_records, as JSON has them: all, or all but some; and others."""

    table: str
    but: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


def keywords(**words: Any) -> Callable[[type[T]], type[T]]:
    """Keywords of JSON Schema for a class's objects. The decoder heeds additionalProperties."""

    def add(kind: type[T]) -> type[T]:
        kind.KEYWORDS = words  # type: ignore[attr-defined]
        return kind

    return add


def inline(kind: type[T]) -> type[T]:
    """A class whose fields stand among those of the object that has it."""
    kind.INLINE = True  # type: ignore[attr-defined]
    return kind


# A text in Annotated describes each field that has no comment of its own.
Unsigned = Annotated[int, Bounds(minimum=0)]
Positive = Annotated[int, Bounds(minimum=1)]
PageSize = Annotated[int, Bounds(minimum=4096)]
Duration = Annotated[float, Bounds(minimum=0)]
Part = Annotated[float, Bounds(minimum=0, maximum=1)]
Address = Annotated[str, Bounds(pattern="^0x[0-9a-f]+$")]
Time = Annotated[str, "UTC (ISO 8601)."]
Mode = Annotated[
    str,
    EnumNames("Mode", but=("in_process",), also=("in-process",)),
    "How the target was kept consistent (docs/safety.md).",
]
