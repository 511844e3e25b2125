# SPDX-License-Identifier: MIT
"""Names of libraries for LD_PRELOAD, which the loader splits at spaces and colons: a checkout may have any name."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path


def preloadable(library: Path) -> Path:
    """The library itself, or a link to it that is there as long as this process."""
    if not set(str(library)) & set(" :\t\n"):
        return library
    place = _links() / hashlib.sha256(os.fsencode(library)).hexdigest()[:16]
    place.mkdir(exist_ok=True)
    link = place / library.name
    if not link.is_symlink():
        link.symlink_to(library)
    return link


@cache
def _links() -> Path:
    """Programs of other users may preload what is in it."""
    made = Path(tempfile.mkdtemp(prefix="arenascope-links-"))
    made.chmod(0o755)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
