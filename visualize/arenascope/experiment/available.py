# SPDX-License-Identifier: MIT
"""What of an experiment can be run on this machine, and what to do about the rest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from arenascope.experiment.expand import UnavailableError, expand, expand_all, library

if TYPE_CHECKING:
    from arenascope.experiment.spec import Configuration, Need, Spec

PROBE_SECONDS = 120  # loading Rails takes 2 s, and took more than 20 on a machine that was busy


def missing_for_workload(spec: Spec) -> str | None:
    """Why no configuration of this experiment can be run here; None when they can."""
    try:
        for need in spec.workload.needs:
            _check(need, {**spec.parameters, **_places(spec)})
        for name in spec.workload.preload:
            library(name)
    except UnavailableError as reason:
        return _advice(str(reason), spec.workload.get)
    return None


def missing(spec: Spec, configuration: Configuration) -> str | None:
    """Why this configuration cannot be run here; None when it can."""
    values = {**spec.parameters, **configuration.parameters, **_places(spec)}
    try:
        for need in configuration.needs:
            _check(need, values)
        for name in configuration.preload:
            library(expand(name, values))
        for text in (*configuration.env.values(), *configuration.parameters.values(), *configuration.wrapper):
            expand(text, values)
        if configuration.wrapper:
            _program(expand(configuration.wrapper[0], values))
    except UnavailableError as reason:
        return _advice(str(reason), configuration.get)
    return None


def _places(spec: Spec) -> dict[str, str]:
    """Placeholders whose values do not matter to what is available."""
    return {"here": str(spec.here), "build": str(spec.here), "python": sys.executable, "port": "0"}


def _check(need: Need, values: dict[str, str]) -> None:
    if isinstance(need, str) and need.startswith("$"):
        if not os.environ.get(need[1:]):
            raise UnavailableError(f"{need} is not set")
    elif isinstance(need, str):
        _program(expand(need, values))
    else:
        command = expand_all(need, values)
        _program(command[0])
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PROBE_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(f"`{' '.join(command)}` does not work: {error}") from error
        if done.returncode:
            raise UnavailableError(f"`{' '.join(command)}` fails")


def _program(name: str) -> None:
    if not (shutil.which(name) or ("/" in name and Path(name).is_file())):
        raise UnavailableError(f"{name} is not installed")


def _advice(reason: str, get: str) -> str:
    return f"{reason}; {get}" if get else reason
