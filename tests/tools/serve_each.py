# SPDX-License-Identifier: MIT
"""What a script that stands for arenadump does on `serve`: each request starts the script, with the request's words.

serve_each.py SCRIPT
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from arenascope import __version__


def line_for(script: Path) -> str:
    """Returns the line of a shell script by which it serves."""
    return f'[ "$1" = serve ] && exec "{sys.executable}" "{Path(__file__).resolve()}" "{script}"\n'


def main() -> None:
    ours = socket.socket(fileno=os.dup(0))
    ours.send(f"arenadump serve 1 {__version__}".encode())
    while True:
        request, descriptors, _, _ = socket.recv_fds(ours, 1 << 16, 2)
        if not request:
            return
        words = request.rstrip(b"\0").split(b"\0")
        out, err = descriptors
        code = subprocess.run(
            [os.fsencode(sys.argv[1]), *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False
        ).returncode
        os.close(out)
        os.close(err)
        if code < 0:
            os.kill(os.getpid(), -code)
        ours.send(f"{code} 0".encode())


if __name__ == "__main__":
    main()
