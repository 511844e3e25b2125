# SPDX-License-Identifier: MIT
"""The lists of parts that `make release` makes: valid by the official schema, and complete."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from email import message_from_bytes
from typing import Any

import pytest
from tools import debian, releases
from tools.paths import ROOT

sys.path.insert(0, str(ROOT / "packaging"))
import licences
import sbom

pytestmark = [pytest.mark.slow, pytest.mark.nightly("release")]
LINES = [
    "click>=8.0",
    "tomli>=2; python_version < '3.11'",
    'textual>=8; extra == "live"',
    'arenascope[live]; extra == "all"',
    'ruff>=0.6; extra == "lint"',
]


def check(text: str) -> dict[str, Any]:
    """The document; it is valid."""
    validators = pytest.importorskip("cyclonedx.validation.json")
    schemas = pytest.importorskip("cyclonedx.schema")
    error = validators.JsonStrictValidator(schemas.SchemaVersion.V1_6).validate_str(text)
    assert error is None, error
    made: dict[str, Any] = json.loads(text)
    return made


def test_each_package_that_users_may_need() -> None:
    """Without what only developers install."""
    text = sbom.document("arenascope", "1.2.3", "1a2b", 1_000_000_000, sbom.python_packages(LINES))
    made = check(text)
    assert [(part["name"], part["scope"]) for part in made["components"]] == [
        ("click", "required"),
        ("textual", "optional"),
        ("tomli", "required"),
    ]
    assert made["metadata"]["timestamp"] == "2001-09-09T01:46:40+00:00"
    again = sbom.document("arenascope", "1.2.3", "1a2b", 1_000_000_000, sbom.python_packages(reversed(LINES)))
    assert again == text
    other = sbom.document("arenascope", "1.2.4", "1a2b", 1_000_000_000, sbom.python_packages(LINES))
    assert json.loads(other)["serialNumber"] != made["serialNumber"]


@pytest.mark.parametrize("arch", debian.MACHINES)
def test_those_of_a_release(arch: str) -> None:
    """Each library with the version that its notice is of, and in the wheel each package that the wheel asks for."""
    machine = debian.MACHINES[arch]
    alone = check((releases.dist() / f"arenadump-{machine}.cdx.json").read_text())
    linked = {(library.source, library.version) for library in licences.libraries(arch)}
    assert {(part["name"], part["version"]) for part in alone["components"]} == linked
    (wheel,) = releases.dist().glob(f"*_{machine}.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if "/sboms/" in name)
        assert re.fullmatch(r"arenascope-[\d.]+\.dist-info/sboms/arenascope\.cdx\.json", name)
        made = check(archive.read(name).decode())
        metadata = message_from_bytes(archive.read(name.partition("/")[0] + "/METADATA"))
    lines = metadata.get_all("Requires-Dist", [])
    assert any(line.startswith("arenascope[") for line in lines)
    wanted = {line for line in lines if "extra ==" not in line}
    noted = {
        each["value"] for part in made["components"] if part.get("scope") == "required" for each in part["properties"]
    }
    assert noted == wanted
    assert linked < {(part["name"], part.get("version")) for part in made["components"]}
