# SPDX-License-Identifier: MIT
"""A Ruby program that waits in the middle of its way, and says at its end what it has."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import interpreters


class Waiting:
    """The program prints a dot and waits for a byte: twice."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.pid = process, process.pid

    def go_on(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"x")
        self.process.stdin.flush()

    def comes_to_its_count(self) -> None:
        assert self.process.stdout
        assert self.process.stdout.read(1) == b"."

    def says(self) -> Any:
        """The JSON that it prints at its end."""
        self.go_on()
        out, _ = self.process.communicate(timeout=600)
        return json.loads(out)


@contextmanager
def waiting(release: str, program: str, scratch: Path) -> Iterator[Waiting]:
    """The program under the Ruby of a release of Debian's, at its second dot: what it made by running once is there."""
    ruby = interpreters.ruby(release)
    script = scratch / "waiting.rb"
    script.write_text(program)
    with subprocess.Popen(
        ruby.command(script), env=ruby.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            made = Waiting(process)
            made.comes_to_its_count()
            made.go_on()
            made.comes_to_its_count()
            yield made
        finally:
            process.kill()
