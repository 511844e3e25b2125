# SPDX-License-Identifier: MIT
"""Makes the runs of a plan that are not made yet, in their order."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple, Protocol

from arenascope.errors import ArenascopeError, Code
from arenascope.experiment.expand import expand_all, free_port
from arenascope.experiment.results_dir import RUN
from arenascope.experiment.trial import Trial, environment

if TYPE_CHECKING:
    from arenascope.experiment.plan import Planned
    from arenascope.experiment.result import Result
    from arenascope.experiment.results_dir import Store


class Watcher(Protocol):
    """Who wants to know how far it is."""

    def begins(self, planned: Planned, done: int, total: int, left: float | None) -> None:
        """A run begins; `left`: seconds until all are made, if that can be told."""

    def ends(self, planned: Planned, result: Result) -> None:
        """A run is over."""


class Outcome(NamedTuple):
    """How far it came."""

    made: int  # now
    failed: int  # of these
    left: int  # not made
    hopeless: Result | None = None  # the baseline's failed run, when none of its runs worked


def run(store: Store, watcher: Watcher, *, budget: float | None, retry: bool) -> Outcome:
    """Make what is missing. `budget`: no run is begun that would take longer than these seconds from now on.

    Where the baseline does not work, nothing can be compared, and no more is tried.
    Ctrl-C (KeyboardInterrupt) ends the run under way, of which nothing is kept, and leaves those before as they are.
    """
    _sweep(store)
    _build(store)
    results = {result.number: result for result in store.runs()}
    todo = [each for each in store.plan if each.number not in results or (retry and results[each.number].failed)]
    took: dict[str, list[float]] = defaultdict(list)
    for result in results.values():
        took[result.configuration].append(_length(store, result))
    baseline = store.spec.baseline
    works = any(result.configuration == baseline and not result.failed for result in results.values())
    begun, made, failed = time.monotonic(), 0, 0
    for index, planned in enumerate(todo):
        expected = _expected(took, planned)
        elapsed = time.monotonic() - begun
        if budget is not None and elapsed + (expected or 0) > budget:
            return Outcome(made, failed, len(todo) - index)
        lefts = [_expected(took, each) for each in todo[index:]]
        left = sum(each for each in lefts if each is not None) if expected is not None else None
        watcher.begins(planned, index, len(todo), left)
        result = _one(store, planned)
        took[planned.configuration].append(_length(store, result))
        made, failed = made + 1, failed + result.failed
        store.write_table()
        watcher.ends(planned, result)
        works = works or (planned.configuration == baseline and not result.failed)
        if planned.configuration == baseline and not works:
            return Outcome(made, failed, len(todo) - made, result)
    return Outcome(made, failed, 0)


def _one(store: Store, planned: Planned) -> Result:
    spec = store.spec
    folder = store.begin(planned)
    values = {
        "here": str(spec.here),
        "build": str(store.build.resolve()),
        "python": sys.executable,
        "port": free_port(),
    }
    try:
        started = time.monotonic()
        trial = Trial(spec, spec.configuration(planned.configuration), values, folder)
        result, samples = trial.run(warmup=planned.warmup)
        result["took"] = round(time.monotonic() - started, 3)
        return store.keep(planned, folder, result, samples)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _build(store: Store) -> None:
    """Compile the workload's programs, once for all runs."""
    spec = store.spec
    store.check_own()
    if not spec.workload.build or (store.build / "done").exists():
        return
    store.build.mkdir(mode=0o700, exist_ok=True)
    values = {**spec.parameters, "here": str(spec.here), "build": str(store.build.resolve()), "python": sys.executable}
    for words in spec.workload.build:
        command = expand_all(words, values)
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment(),
                check=False,
            )
        except OSError as error:
            raise ArenascopeError(Code.USAGE, f"{command[0]} could not be started: {error.strerror}") from error
        if done.returncode:
            said = done.stdout.decode("utf-8", "replace").strip()
            raise ArenascopeError(Code.USAGE, f"`{' '.join(command)}` failed:\n{said}")
    (store.build / "done").touch()


def _sweep(store: Store) -> None:
    """Remove what runs left that were under way when something ended us."""
    for folder in (store.folder / "runs").glob(".*"):
        if not (folder / RUN).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _length(store: Store, result: Result) -> float:
    """How long a run of that configuration takes when it is no warm-up, which does not settle."""
    spec = store.spec
    settles = result.warmup and spec.workload.done != "exit"
    return result.took + (spec.settle if settles else 0)


def _expected(took: dict[str, list[float]], planned: Planned) -> float | None:
    """How long a run will take: as those of its configuration did, or else as all did."""
    same = took.get(planned.configuration)
    if same:
        return fmean(same)
    every = [each for some in took.values() for each in some]
    return fmean(every) if every else None
