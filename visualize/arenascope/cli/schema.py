# SPDX-License-Identifier: MIT
"""`arenascope schema NAME`."""

from __future__ import annotations

import json

import click

from arenascope.schema import DOCUMENTS
from arenascope.schema import schema as schema_of


@click.command("schema")
@click.argument("name", type=click.Choice(sorted(DOCUMENTS)))
def schema(name: str) -> None:
    """Print the JSON Schema of what --json prints.

    NAME is the middle of the document's own "schema": summary for "arenascope.summary/1".
    """
    click.echo(json.dumps(schema_of(name), indent=2, ensure_ascii=False))
