# SPDX-License-Identifier: MIT
"""`arenascope`, and `python -m arenascope`: the program is loaded, and then run."""

from __future__ import annotations

import gc
import signal
from typing import Final

# New objects until garbage is collected. Modules are objects that stay: with Python's own 700, 8 % of the time of
# `summary PID` is spent on finding no garbage among them.
COLLECT_AFTER: Final = 20_000


def run() -> None:
    """Entry point of the console script."""
    gc.set_threshold(COLLECT_AFTER)
    # Ctrl-C while the modules are loaded ends us at once: Python would show where it was. Who ignores it goes on to.
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from arenascope.cli import main  # noqa: PLC0415 - not before

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main.run()


if __name__ == "__main__":
    run()
