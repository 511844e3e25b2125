# SPDX-License-Identifier: MIT
"""arenascope's own snapshot of the end of a run: the dump, and the ledger as the summary's JSON."""

import json
from pathlib import Path
from typing import Final, Optional

from arenascope.errors import ArenascopeError, Code
from arenascope.private_files import write_json
from arenascope.wire import commands
from arenascope.wire.dump import Dump
from arenascope.wire.how import DEFAULT, How
from arenascope.wire.json_decode import DecodeError, decode
from arenascope.wire.summary import Summary, document_of

DUMP: Final = "dump.arenascope"
LEDGER: Final = "ledger.json"


def take(pid: int, folder: Path, how: How = DEFAULT) -> Optional[str]:
    """Write the dump and the ledger of a process; why there is none, or None."""
    try:
        commands.dump(str(pid), how, str(folder / DUMP))
        summary = document_of(Dump(str(folder / DUMP)), from_dump=False)
    except ArenascopeError as error:
        return str(error)
    write_json(folder / LEDGER, summary)
    return None


def read(folder: Path) -> Optional[Summary]:
    """The snapshot in a run's folder; None where there is none. ArenascopeError BAD_INPUT."""
    path = folder / LEDGER
    try:
        return decode(Summary, json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except DecodeError as error:
        raise ArenascopeError(Code.BAD_INPUT, f"{path}: not the summary of a run: {error}") from error
    except ValueError as error:
        raise ArenascopeError(Code.BAD_INPUT, f"{path}: not JSON: {error}") from error
