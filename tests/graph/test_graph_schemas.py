# SPDX-License-Identifier: MIT
"""The JSON of types, leaks, owners and why, and the summary's "graph", against their schemas, on real processes."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest
from tools import harness
from tools.keeps import Keeps
from tools.running import started

from arenascope.schema import schema

SCHEMAS = {name: schema(name) for name in ("types", "leaks", "owners", "why")}


def closed(schema: Any) -> Any:
    """The schema, such that an object has no other members than those named."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(each) for name, each in schema.items()}
    return {**made, "additionalProperties": False} if "properties" in made else made


def check(arenadump: harness.Arenadump, name: str, *arguments: str | int) -> Any:
    answer = json.loads(arenadump.check(name, "--json", *arguments))
    jsonschema.validate(answer, closed(SCHEMAS[name]))
    return answer


@pytest.mark.check
@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_schemas(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["properties"]["schema"]["const"] == f"arenascope.{name}/1"


@pytest.mark.parametrize("mode", ["freeze", "clone", "live"])
def test_answers_keep_to_the_schemas(keeps: Keeps, arenadump: harness.Arenadump, mode: str) -> None:
    leaks = check(arenadump, "leaks", f"--mode={mode}", keeps.pid)
    assert leaks["by_type"]
    types = check(arenadump, "types", f"--mode={mode}", keeps.pid)
    assert sum(each["bytes"] for each in types["types"]) == types["graph"]["bytes"]
    owners = check(arenadump, "owners", f"--mode={mode}", keeps.pid)
    kinds = {branch["owner"]["kind"] for branch in owners["branches"] if branch["owner"]}
    assert {"variable", "several"} <= kinds
    (together,) = [
        each["retained"] for each in owners["branches"] if each["owner"] and each["owner"]["kind"] == "several"
    ]
    assert owners["several"]["bytes"] == together
    assert len(owners["several"]["leading"]) == owners["several"]["owners"] >= 2
    held = min(keeps.of["Connection"]) + 16
    assert check(arenadump, "why", f"--mode={mode}", keeps.pid, hex(held))["reached"]
    lost = check(arenadump, "why", f"--mode={mode}", keeps.pid, leaks["by_type"][0]["example"])
    assert not lost["reached"]


RUNTIMES = {
    "python3": "import time; held = [bytes(5000) for i in range(500)]; print('ready', flush=True); time.sleep(60)",
    "ruby": "held = (1..500).map { |i| 'value' * 1000 }; puts 'ready'; $stdout.flush; sleep 600",
}


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_runtime_keeps_to_the_schemas(arenadump: harness.Arenadump, name: str) -> None:
    with started([name, "-c" if name == "python3" else "-e", RUNTIMES[name]], "ready") as pid:
        check(arenadump, "types", pid)
        owners = check(arenadump, "owners", pid)
        check(arenadump, "leaks", pid)
    assert "interpreter" in {branch["owner"]["kind"] for branch in owners["branches"] if branch["owner"]}


@pytest.mark.parametrize(
    "place", [("graph", "pointers"), ("branches", 0, "owner", "kind"), ("branches", 0, "retained")]
)
def test_the_schemas_see_what_is_wrong(keeps: Keeps, arenadump: harness.Arenadump, place: tuple[Any, ...]) -> None:
    answer = check(arenadump, "owners", keeps.pid)
    for value in (None, "surprise"):
        bent = copy.deepcopy(answer)
        at = bent
        for step in place[:-1]:
            at = at[step]
        at[place[-1]] = value
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bent, SCHEMAS["owners"])
    del at[place[-1]]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(bent, SCHEMAS["owners"])
