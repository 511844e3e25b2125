# SPDX-License-Identifier: MIT
"""From JSON to classes whose fields are the keys: NamedTuples, and dataclasses.

A key that a class does not have is ignored, unless the class is closed (json_types.keywords): a newer arenadump may
print more. A key that is missing, or holds something else than its field takes, is an error that names the key. A field
with a default may be missing. null is None, where the field takes None.

A field's type is str, int, float, bool, Literal, such a class, Optional[…], tuple[…, ...], dict[str, …], or a class
with a `from_json`; each of them may be Annotated. A class inherits no fields. Types are evaluated, and `int | None`
cannot be before Python 3.10: so modules of such classes write Optional, and do without "from __future__ import
annotations".

A command makes its classes anew each time it starts, and a frozen dataclass takes nine times as long as a NamedTuple.
"""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Callable, Final, Literal, TypeVar, Union, get_args, get_origin

from arenascope.errors import ArenascopeError, Code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

T = TypeVar("T")
Convert = Callable[[Any, str], Any]  # a value, and where it stands
Reader = tuple[str, Convert, bool, frozenset[type]]  # of a field: its name, whether it is inline, types that stay


class DecodeError(ValueError):
    """What is wrong with the JSON, and where: "arenas[3].ledger.in_use is missing"."""


def document(text: str, schema: str) -> dict[str, Any]:
    """What arenadump printed, whole. ArenascopeError INTERNAL where it is no JSON of that schema."""
    try:
        made = json.loads(text)
    except ValueError as error:
        raise _unexpected(schema, f"not JSON: {error}") from error
    if not isinstance(made, dict) or made.get("schema") != schema:
        found = made.get("schema") if isinstance(made, dict) else made
        raise _unexpected(schema, f"schema {json.dumps(found)[:80]}")
    return made


def answer(kind: type[T], made: Mapping[str, Any], schema: str) -> T:
    """Such a document as such a class. ArenascopeError INTERNAL names the key that is not as it should be."""
    try:
        return decode(kind, made)
    except DecodeError as error:
        raise _unexpected(schema, str(error)) from error


def parse(kind: type[T], text: str) -> T:
    """What arenadump printed, as the class of the document's name. ArenascopeError INTERNAL: it is something else."""
    schema = f"arenascope.{kind.__name__.removeprefix('Read').lower()}/1"
    return answer(kind, document(text, schema), schema)


def _unexpected(schema: str, found: str) -> ArenascopeError:
    kind = schema.partition(".")[2].partition("/")[0]  # "summary"
    return ArenascopeError(
        Code.INTERNAL,
        f"arenadump printed no {kind} of {schema} ({found}): reinstall arenascope together with arenadump",
    )


def decode(kind: type[T], value: Any, place: str = "") -> T:
    """A value out of JSON as such a class. `place`: where it stands, for the message of a DecodeError."""
    made: T = _converter(kind)(value, place)
    return made


MOST_PLANS: Final = 64  # of a class: arenadump's documents need a few

_MISSING: Any = object()
_MADE: dict[Any, Convert] = {}  # a type's hints are read once, when there is a value: most answers lack some of them


def _bare(kind: Any) -> Any:
    """A type without what Annotated says besides."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _converter(kind: Any) -> Convert:
    kind = _bare(kind)
    if kind not in _MADE:
        _MADE[kind] = _make(kind)
    return _MADE[kind]


def _make(kind: Any) -> Convert:  # noqa: PLR0911 - one for each kind of type
    if hasattr(kind, "from_json"):
        read: Convert = kind.from_json
        return read
    if hasattr(kind, "_fields") or dataclasses.is_dataclass(kind):
        return _of_fields(kind)
    if get_origin(kind) is Literal:
        return _one_of(get_args(kind))
    if get_origin(kind) is Union:
        return _optional(*(each for each in get_args(kind) if each is not type(None)))
    if get_origin(kind) is tuple:
        return _each(get_args(kind)[0])
    if get_origin(kind) is dict:
        return _by_name(get_args(kind)[1])
    return _plain(kind)


def _as_they_are(kind: Any) -> frozenset[type]:
    """The types of values that need no conversion."""
    kind = _bare(kind)
    itself = map(_bare, get_args(kind)) if get_origin(kind) is Union else (kind,)
    return frozenset(itself) & {int, str, bool, type(None)}


def _of_fields(kind: Any) -> Convert:
    hints = kind.__annotations__  # get_type_hints() makes each type anew, and takes longer than all else here
    names = getattr(kind, "_fields", None) or [field.name for field in dataclasses.fields(kind)]
    readers = [
        (name, _converter(hints[name]), getattr(hints[name], "INLINE", False), _as_they_are(hints[name]))
        for name in names
    ]
    optional = getattr(kind, "_field_defaults", {})
    closed = getattr(kind, "KEYWORDS", {}).get("additionalProperties", True) is False

    def read(value: Any, place: str) -> Any:
        table = mapping(value, place)
        made = {}
        if closed and (unknown := table.keys() - set(names)):
            raise DecodeError(f"{place}.{min(unknown)} is unknown")
        for name, convert, inline, as_they_are in readers:
            if inline:  # its keys stand among those of this object
                made[name] = convert(value, place)
                continue
            found = table.get(name, _MISSING)
            if type(found) in as_they_are:
                made[name] = found
                continue
            here = f"{place}.{name}" if place else name
            if found is not _MISSING:
                made[name] = convert(found, here)
            elif name not in optional:
                raise DecodeError(f"{here} is missing")
        return kind(**made)

    has_all = len(names) > 1 and not optional and not closed and not any(inline for _, _, inline, _ in readers)
    return _at_once(kind, readers, read) if has_all else read


def _at_once(kind: Any, readers: Sequence[Reader], read: Convert) -> Convert:
    """As `read`, of a class each of whose fields is a key that must be there. One call takes all values."""
    values_of = itemgetter(*(name for name, _, _, _ in readers))
    plans: dict[tuple[type, ...], list[tuple[int, str, Convert]]] = {}  # what is to be converted, by the values' types

    def plan(types: tuple[type, ...]) -> list[tuple[int, str, Convert]]:
        made = [
            (index, name, convert)
            for index, (name, convert, _, as_they_are) in enumerate(readers)
            if types[index] not in as_they_are
        ]
        if len(plans) < MOST_PLANS:
            plans[types] = made
        return made

    def read_at_once(value: Any, place: str) -> Any:
        try:
            made = list(values_of(value))
        except (KeyError, TypeError):
            return read(value, place)  # says what is wrong
        types = tuple(map(type, made))
        found = plans.get(types)
        for index, name, convert in plan(types) if found is None else found:
            made[index] = convert(made[index], f"{place}.{name}" if place else name)
        return kind(*made)

    return read_at_once


def _optional(kind: Any) -> Convert:
    return lambda value, place: None if value is None else _converter(kind)(value, place)


def _each(kind: Any) -> Convert:
    as_they_are = _as_they_are(kind)

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, list):
            raise DecodeError(f"{place} is no array")
        if set(map(type, value)) <= as_they_are:  # a profile has millions of numbers
            return tuple(value)
        all_at_once = _all_at_once(_bare(kind))
        made = all_at_once(value) if all_at_once else None
        if made is None:
            convert = _converter(kind)
            made = tuple([convert(each, f"{place}[{index}]") for index, each in enumerate(value)])
        return made

    return read


@cache
def _all_at_once(kind: Any) -> Callable[[list[Any]], tuple[Any, ...] | None] | None:
    """Makes a list of objects into NamedTuples whose values all stay as they are; None: one of them does not.

    None for what has other fields, too, or is no such class.
    """
    names = () if hasattr(kind, "from_json") else getattr(kind, "_fields", ())
    types = [_as_they_are(kind.__annotations__[name]) for name in names]
    plain = all(types) and not getattr(kind, "_field_defaults", {}) and not hasattr(kind, "KEYWORDS")
    if len(names) < 2 or not plain:  # noqa: PLR2004 - of one field itemgetter makes no tuple
        return None
    values_of = itemgetter(*names)

    def made_of(value: list[Any]) -> tuple[Any, ...] | None:
        try:
            found = list(map(values_of, value))
        except (KeyError, TypeError):
            return None
        fit = all(each.issuperset(map(type, column)) for each, column in zip(types, zip(*found)))
        return tuple(map(kind._make, found)) if fit else None

    return made_of


def _by_name(kind: Any) -> Convert:
    convert = _converter(kind)
    return lambda value, place: {key: convert(each, f"{place}.{key}") for key, each in mapping(value, place).items()}


def _one_of(values: tuple[Any, ...]) -> Convert:
    def read(value: Any, place: str) -> Any:
        if not isinstance(value, str) or value not in values:
            raise DecodeError(f"{place} is {json.dumps(value)[:40]}, and none of {', '.join(values)}")
        return value

    return read


def _plain(kind: type) -> Convert:
    def read(value: Any, place: str) -> Any:
        numbers = (int, float) if kind is float else kind  # 1 stays 1: a float's field takes an int, as in typing
        if not isinstance(value, numbers) or (isinstance(value, bool) and kind is not bool):
            raise DecodeError(f"{place} is {json.dumps(value)[:40]}, and not {kind.__name__}")
        return value

    return read


def mapping(value: Any, place: str) -> Mapping[str, Any]:
    """A JSON object. DecodeError: it is none."""
    if not isinstance(value, dict):
        raise DecodeError(f"{place or 'it'} is no object")
    return value
