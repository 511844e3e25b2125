# SPDX-License-Identifier: MIT
"""`arenascope`, and `python -m arenascope`: the program is loaded, and then run."""

from __future__ import annotations

import gc
import signal
from typing import Final

# New objects until garbage is collected. Modules are objects that stay: with 20,000, a command that ends at once spends
# 7 ms on finding no garbage among them. The most that such commands load are 70,000 objects (report).
COLLECT_AFTER: Final = 100_000


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
    try:
        main.run()
    finally:
        gc.freeze()  # Python searches all objects twice when it ends, 8 ms each time: what is frozen it does not


if __name__ == "__main__":
    run()
