# SPDX-License-Identifier: MIT
"""A group of commands that says which one was meant by a word that is none."""

from __future__ import annotations

import click


class Suggesting(click.Group):
    """Each of our groups. `help COMMAND` is `COMMAND --help`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take `help` for what it is; a command of this name there is not."""
        if args[:1] == ["help"]:
            while args[:1] == ["help"]:
                args = args[1:]
            args = [*args, "--help"]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command, as click has it, or the one that was meant, in a line to type."""
        word, *others = args
        names = self.list_commands(ctx)
        if word not in names and not word.startswith("-"):
            import shlex  # noqa: PLC0415 - a command that there is needs neither
            from difflib import get_close_matches  # noqa: PLC0415

            near = get_close_matches(word, names, 1)
            meant = [near[0], *others] if near else self.meant_without_command(args)
            line = f" Did you mean: {ctx.command_path} {shlex.join(meant)}" if meant else ""
            ctx.fail(f"No such command {word!r}.{line}")
        return super().resolve_command(ctx, args)

    def meant_without_command(self, args: list[str]) -> list[str]:  # noqa: ARG002
        """What was meant by words of which the first resembles no command; nothing: it is not known."""
        return []
