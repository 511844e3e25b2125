# SPDX-License-Identifier: MIT
"""rich's Group, by the name that the installed release has for the class: rich 9, Debian 11's, calls it RenderGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import console

if TYPE_CHECKING:
    from rich.console import Group
else:
    Group = console.Group if hasattr(console, "Group") else console.RenderGroup

__all__ = ["Group"]
