# SPDX-License-Identifier: MIT
"""`python -m arenascope` is `arenascope`."""

from __future__ import annotations

from arenascope.cli.main import run

if __name__ == "__main__":
    run()
