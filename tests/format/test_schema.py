# SPDX-License-Identifier: MIT
"""The JSON Schemas: made from the classes that decode and write the documents, so that the three cannot differ."""

import json
from importlib import import_module
from typing import Annotated, Any, Literal, NamedTuple, Optional, get_args, get_type_hints

import jsonschema
import pytest
from click.testing import CliRunner

from arenascope import rows
from arenascope import schema as module
from arenascope.cli.main import cli
from arenascope.schema import DOCUMENTS, schema
from arenascope.wire.dump_records import Mode
from arenascope.wire.json_decode import DecodeError, decode
from arenascope.wire.json_encode import encode
from arenascope.wire.json_types import Address, Bounds, EnumNames, Unsigned, inline, keywords

pytestmark = pytest.mark.check


@keywords(additionalProperties=False)
class Inner(NamedTuple):
    """Has no other keys."""

    name: str
    at: Optional[Address]  # Where it is.


@inline
class Beside(NamedTuple):
    """Its keys stand among the others."""

    beside: bool


class Planted(NamedTuple):
    """A document.

    In two lines.
    """

    count: Unsigned  # type: ignore[assignment]  # How many.
    # A comment above it,
    # of two lines.
    inner: Optional[Inner]
    parts: Annotated[tuple[Inner, ...], Bounds(maxItems=2)]
    by_name: dict[str, Optional[float]]
    kind: Literal["one", "other"]
    mode: Optional[Annotated[str, EnumNames("Mode", but=("live",), also=("none",)), "Said by the type."]]
    more: Beside
    late: tuple[str, ...] = ()  # May be missing.


GOOD: dict[str, Any] = {
    "schema": "arenascope.planted/1",
    "count": 3,
    "inner": {"name": "a", "at": "0x1f"},
    "parts": [{"name": "b", "at": None}],
    "by_name": {"c": 1.5, "d": None},
    "kind": "one",
    "mode": "core",
    "beside": True,
    "late": ["f"],
}


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The schema of a document of this page."""
    monkeypatch.setitem(DOCUMENTS, "planted", "planted:Planted")
    monkeypatch.setattr(module, "import_module", lambda name: {"arenascope.planted": CLASSES}[name])
    return schema("planted")


class CLASSES:
    Planted = Planted


def test_the_schema_has_all_that_a_class_says(planted: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(planted)
    fields = planted["properties"]
    assert planted["title"] == fields["schema"]["const"] == "arenascope.planted/1"
    assert planted["description"].startswith("A document. In two lines. ")
    assert planted["required"] == ["schema", *NEEDED]
    assert fields["count"] == {"type": "integer", "minimum": 0, "description": "How many."}
    inner = {"$ref": "#/$defs/Inner"}
    assert fields["inner"] == {
        "anyOf": [inner, {"type": "null"}],
        "description": "A comment above it, of two lines.",
    }
    assert fields["parts"] == {"type": "array", "items": inner, "maxItems": 2}
    assert fields["by_name"] == {"type": "object", "additionalProperties": {"type": ["number", "null"]}}
    assert fields["kind"] == {"enum": ["one", "other"]}
    modes = [each.name.lower() for each in Mode if each.name != "LIVE"]
    assert fields["mode"] == {
        "type": ["string", "null"],
        "enum": [*modes, "none", None],
        "description": "Said by the type.",
    }
    assert fields["late"] == {"type": "array", "items": {"type": "string"}, "description": "May be missing."}
    assert planted["$defs"]["Inner"]["properties"]["at"]["pattern"] == "^0x[0-9a-f]+$"


def test_decoder_and_encoder_have_the_same_keys(planted: dict[str, Any]) -> None:
    jsonschema.validate(GOOD, planted)
    made = decode(Planted, GOOD)
    assert made.more.beside
    assert {"schema": GOOD["schema"], **encode(made)} == GOOD
    short = {key: value for key, value in GOOD.items() if key != "late"}
    jsonschema.validate(short, planted)
    assert decode(Planted, short).late == ()
    newer = {**GOOD, "newer": 1}
    jsonschema.validate(newer, planted)
    assert decode(Planted, newer) == made


NEEDED = [name for name in GOOD if name not in {"schema", "late"}]
ILL: list[tuple[dict[str, Any], str]] = [
    *(({key: each for key, each in GOOD.items() if key != gone}, gone) for gone in NEEDED),
    *(({**GOOD, name: value}, name) for name in (*NEEDED, "late") for value in (7.5, None)
      if (name, value) not in {("inner", None), ("mode", None)}),
    ({**GOOD, "kind": "third"}, "kind"),
    ({**GOOD, "by_name": {"c": "1"}}, "by_name.c"),
    ({**GOOD, "inner": {"name": "a", "at": None, "odd": 1}}, "inner.odd"),
    ({**GOOD, "parts": [{"name": "a", "at": 1}]}, "parts[0].at"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "place"), ILL)
def test_both_refuse_what_does_not_fit(planted: dict[str, Any], document: dict[str, Any], place: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, planted)
    with pytest.raises(DecodeError, match=place.replace("[", r"\[")):
        decode(Planted, document)


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_each_document_has_a_schema(name: str) -> None:
    printed = CliRunner().invoke(cli, ["schema", name])
    assert printed.exit_code == 0
    made = json.loads(printed.output)
    jsonschema.Draft202012Validator.check_schema(made)
    assert made == schema(name)
    assert made["properties"]["schema"]["const"] == f"arenascope.{name}/1"
    assert made["required"][0] == "schema"


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_names_of_classes_are_different(name: str) -> None:
    """Each is a definition of its own in the schema."""
    where, _, kind = DOCUMENTS[name].partition(":")
    found: dict[str, Any] = {}

    def visit(each: Any) -> None:
        for part in get_args(each):
            visit(part)
        if hasattr(each, "_fields"):
            assert found.setdefault(each.__name__, each) is each
            for hint in get_type_hints(each).values():
                visit(hint)

    visit(getattr(import_module(f"arenascope.{where}"), kind))
    apart = {name for name, each in found.items() if not getattr(each, "INLINE", False)}
    assert set(schema(name)["$defs"]) >= apart - {kind}


def test_rows_are_those_of_the_table() -> None:
    ledger = schema("summary")["$defs"]["Resident"]
    assert ledger["required"] == list(ledger["properties"]) == [row.name for row in rows.RESIDENT]
    assert {name: each["description"] for name, each in ledger["properties"].items()} == {
        row.name: row.definition for row in rows.RESIDENT
    }
    for place in (schema("summary"), schema("summary")["$defs"]["Arena"]):
        assert {row.name for row in rows.BESIDE} <= set(place["required"])
