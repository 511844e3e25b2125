# SPDX-License-Identifier: MIT
"""How templates are read. setup.py compiles those of the report: to do so at each report takes a third of its time."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

import jinja2

from arenascope.humanize import count, plural

if TYPE_CHECKING:
    from pathlib import Path

COMPILED: Final = "compiled"  # folder beside the templates
COMPILER: Final = "jinja2.txt"  # in it: the release that has compiled them; another one may want other code
UNIT: Final = re.compile(r"(?<=\d) (?=(?:[KMGTPE]i)?B\b|%|ms\b|s\b|µs\b)")


@cache
def templates(folder: Path) -> jinja2.Environment:
    """The templates in a folder, compiled by setup.py or else when they are used, once each."""
    compiled = folder / COMPILED
    if _compiler(compiled) == jinja2.__version__:
        return environment(jinja2.ModuleLoader(compiled))
    return environment(jinja2.FileSystemLoader(folder))


def compile_into(folder: Path, target: Path) -> None:
    """Compile the templates of a folder for templates()."""
    target.mkdir(parents=True, exist_ok=True)
    environment(jinja2.FileSystemLoader(folder)).compile_templates(target, extensions=["j2"], zip=None)
    (target / COMPILER).write_text(jinja2.__version__, encoding="ascii")


def environment(loader: jinja2.BaseLoader) -> jinja2.Environment:
    """What a template may use."""
    made = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"count": count, "plural": plural, "firm": firm}
    return made


def firm(text: str) -> str:
    """Text in which a number and its unit stay on one line."""
    return UNIT.sub("\N{NO-BREAK SPACE}", text)


def _compiler(compiled: Path) -> str | None:
    try:
        return (compiled / COMPILER).read_text(encoding="ascii")
    except OSError:
        return None
