# SPDX-License-Identifier: MIT
"""The JSON Schemas of all documents, made from the classes that read or write them.

A class's docstring describes its objects. What stands behind a field, or straight above it, as a comment describes the
field; else the text of its type does (json_types.py). A field with a default may be missing.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from arenascope.wire import dump_records
from arenascope.wire.json_types import Bounds, EnumNames

Json = dict[str, Any]

DOCUMENTS: Final = {
    "analysis": "experiment.analysis_json:AnalysisJson",
    "diff": "compare.diff_json:Diff",
    "inject": "wire.agent_answers:Inject",
    "leaks": "wire.graph:Leaks",
    "owners": "wire.graph:Owners",
    "policy": "wire.agent_answers:Policy",
    "profile": "wire.profile_json:ReadProfile",
    "summary": "wire.summary:Summary",
    "suspects": "timeline.timeline_json:SuspectsJson",
    "timeline": "timeline.timeline_json:TimelineJson",
    "top": "live.top_json:Top",
    "trace": "wire.trace:Trace",
    "trim": "wire.agent_answers:Trim",
    "types": "wire.graph:Types",
    "why": "wire.graph:Why",
}
PROMISE: Final = (
    "Sizes are in bytes, addresses are strings. An unknown value is null, never 0. Further keys may be added; those "
    "required here stay, with their meaning."
)
PLAIN: Final[dict[Any, str]] = {int: "integer", float: "number", str: "string", bool: "boolean"}
FIELD: Final = re.compile(r"    (\w+): [^#]*(?:# type: ignore\S*)?\s*(?:# (.+))?")


def schema(name: str) -> Json:
    """The schema of a document, one of DOCUMENTS."""
    module, _, kind = DOCUMENTS[name].partition(":")
    parts: dict[str, Json] = {}
    whole = _object(getattr(import_module(f"arenascope.{module}"), kind), parts)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"arenascope.{name}/1",
        **whole,
        "description": f"{whole['description']} {PROMISE}",
        "required": ["schema", *whole["required"]],
        "properties": {"schema": {"const": f"arenascope.{name}/1"}, **whole["properties"]},
        "$defs": dict(sorted(parts.items())),
    }


def _object(kind: Any, parts: dict[str, Json]) -> Json:
    """The schema of a class's objects; into `parts` go those of the classes in it."""
    made: Json = {"type": "object", "description": " ".join((inspect.getdoc(kind) or "").split())}
    if hasattr(kind, "KIND"):  # rows of the ledger, by the table
        rows = {
            row.name: {"type": ["integer", "null"], "minimum": 0, "description": row.definition} for row in kind.KIND
        }
        return {**made, "required": list(rows), "properties": rows}
    required, properties = [], {}
    notes, hints = _notes(kind), get_type_hints(kind, include_extras=True)
    for name in kind._fields:
        if getattr(hints[name], "INLINE", False):
            inner = _object(hints[name], parts)
            required += inner["required"]
            properties.update(inner["properties"])
            continue
        properties[name] = _type(hints[name], parts) | notes.get(name, {})
        required += [name] * (name not in kind._field_defaults)
    return {**made, "required": required, "properties": properties, **getattr(kind, "KEYWORDS", {})}


def _notes(kind: Any) -> dict[str, Json]:
    """The comments of a class's fields, as descriptions."""
    notes: dict[str, Json] = {}
    above: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        if line.startswith("    # "):
            above.append(line[6:])
            continue
        if (field := FIELD.fullmatch(line)) and (text := " ".join(above) or field[2]):
            notes[field[1]] = {"description": text}
        above = []
    return notes


def _type(kind: Any, parts: dict[str, Json]) -> Json:  # noqa: PLR0911 - one for each kind of type
    """The schema of a field's type."""
    origin, given = get_origin(kind), get_args(kind)
    if origin is Annotated:
        made = _type(given[0], parts)
        for each in given[1:]:
            made |= _said(each)
        return made
    if origin is Union:
        return _either([_type(each, parts) for each in given if each is not type(None)], null=type(None) in given)
    if origin is Literal:
        return {"enum": list(given)}
    if origin is tuple:
        return {"type": "array", "items": _type(given[0], parts)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type(given[1], parts)}
    if kind is Any:
        return {}
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if kind.__name__ not in parts:
        parts[kind.__name__] = {}  # no class has itself in it: only its name is taken
        parts[kind.__name__] = _object(kind, parts)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _said(extra: object) -> Json:
    """What Annotated adds to a type."""
    if isinstance(extra, EnumNames):
        table = getattr(dump_records, extra.table)
        names = table if isinstance(table, tuple) else [each.name.lower() for each in table]
        return {"enum": [*(each for each in names if each not in extra.but), *extra.also]}
    if isinstance(extra, Bounds):
        made = {key: value for key, value in extra._asdict().items() if value is not None}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in made.items()}
    return {"description": extra}


def _either(choices: list[Json], *, null: bool) -> Json:
    """One of several types; null may be one."""
    made, kinds = choices[0], [each.get("type") for each in choices] + ["null"] * null
    if "$ref" in made:
        return {"anyOf": [made, {"type": "null"}]}
    if "enum" in made:
        return made | {"enum": [*made["enum"], None]} | ({"type": kinds} if "type" in made else {})
    return made | {"type": kinds}
