# SPDX-License-Identifier: MIT
"""The page as one file: template, style sheet, script and data, under a policy that lets nothing else in.

The script is plain ES modules in static/, each importing from its siblings by name. An inline module cannot import, so
they are put behind one another in the order of their imports, without the import and export words: one scope, in
which the browser refuses names that are declared twice. The Content-Security-Policy names the hashes of that
script and of the style sheet.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from arenascope.report.colours import classes, properties
from arenascope.report.page.environment import templates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arenascope.report.page.model import Page

HERE: Final = Path(__file__).parents[1]
STATIC: Final = HERE / "static"
IMPORT: Final = re.compile(r'^import (?:\{[^}]*\} from )?"\./([\w-]+\.js)";\n', re.MULTILINE)
EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|class|const|let)\b)", re.MULTILINE)
# What would end a script element or begin another, and what JSON allows but old scripts did not.
ESCAPES: Final = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def render(page: Page) -> str:
    """The whole file."""
    style, script = _style(page.styles), bundle(page.entry) if page.entry else ""
    policy = {
        "default-src": "'none'",
        "style-src": _hash(style),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    if script:
        policy |= {"script-src": _hash(script), "require-trusted-types-for": "'script'", "trusted-types": "'none'"}
    return (
        templates(HERE / "templates")
        .get_template(page.template)
        .render(
            page.values,
            policy="; ".join(f"{name} {value}" for name, value in policy.items()),
            style=Markup(style),  # noqa: S704 - ours, from static/
            script=Markup(script),  # noqa: S704 - likewise
            data=Markup(embedded(page.script)),  # noqa: S704 - escaped by embedded()
            blocks=page.blocks,
        )
    )


def embedded(value: Any) -> str:
    """JSON that can stand in a script element, whatever a target put into it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(ESCAPES)


def bundle(entry: str) -> str:
    """A module and all that it imports, in one."""
    seen: dict[str, str] = {}

    def add(name: str) -> None:
        if name in seen:
            return
        seen[name] = ""  # its place among those that import one another
        source = (STATIC / name).read_text(encoding="utf-8")
        for imported in IMPORT.findall(source):
            add(imported)
        del seen[name]
        seen[name] = EXPORT.sub("", IMPORT.sub("", source))

    add(entry)
    return "\n".join(seen.values())


def _style(sheets: Sequence[str]) -> str:
    """The style sheets, behind the colours of the map."""
    selectors = {":root": "phusion", ':root[data-palette="safe"]': "safe"}
    palettes = "".join(f"{selector}{{{properties(palette)}}}\n" for selector, palette in selectors.items())
    return palettes + classes() + "".join((STATIC / sheet).read_text(encoding="utf-8") for sheet in sheets)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
