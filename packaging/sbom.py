# SPDX-License-Identifier: MIT
"""The list of parts, as CycloneDX 1.6 has it: ours, the Python packages that it asks for, the libraries linked in.

Of a Python package it has no version: which one is installed is decided where arenascope is. Nothing depends on place
and time of the build: the time is the commit's, and the serial number comes from the contents.
"""

from __future__ import annotations

import json
import re
import uuid
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import licences

Part = dict[str, Any]


def document(name: str, version: str, commit: str, seconds: int, parts: Iterable[Part]) -> str:
    """The text for `name`, made of these parts."""
    ours = {
        "type": "application",
        "bom-ref": name,
        "name": name,
        "version": version,
        "licenses": [{"license": {"id": "MIT"}}],
        "properties": [{"name": "arenascope:commit", "value": commit}],
    }
    listed = sorted(parts, key=lambda part: str(part["bom-ref"]))
    made: Part = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": datetime.fromtimestamp(seconds, timezone.utc).isoformat(), "component": ours},
        "components": listed,
        "dependencies": [{"ref": name, "dependsOn": [part["bom-ref"] for part in listed]}],
    }
    made["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(made)).urn
    return json.dumps(made, indent=2) + "\n"


def linked(libraries: Iterable[licences.Library]) -> Iterator[Part]:
    """The libraries, by Debian's sources."""
    for library in libraries:
        address = f"pkg:deb/debian/{quote(library.source)}@{quote(library.version, safe='')}?arch=source"
        spdx = " " not in library.licence or re.search(" (OR|AND|WITH) ", library.licence)
        yield {
            "type": "library",
            "bom-ref": address,
            "name": library.source,
            "version": library.version,
            "licenses": [{"expression": library.licence} if spdx else {"license": {"name": library.licence}}],
            "purl": address,
        }


def python_packages(requirements: Iterable[str]) -> Iterator[Part]:
    """The packages that lines of Requires-Dist ask for; of the extras, those that the extra "all" names."""
    lines = list(requirements)
    offered = {
        extra for line in lines for names in re.findall(r"^arenascope\[(.*?)\]", line) for extra in names.split(",")
    }
    for line in lines:
        wanted, _, condition = (word.strip() for word in line.partition(";"))
        extra = re.search(r'extra == "(\w+)"', condition)
        if extra and extra[1] not in offered:
            continue
        (name,) = re.findall(r"^[\w.-]+", wanted)
        address = f"pkg:pypi/{name.lower().replace('_', '-')}"
        yield {
            "type": "library",
            "bom-ref": address,
            "name": name,
            "scope": "optional" if extra else "required",
            "purl": address,
            "properties": [{"name": "arenascope:requirement", "value": line}],
        }
