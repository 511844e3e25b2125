# SPDX-License-Identifier: MIT
"""The results directory: what was planned, and every run that was made. docs/experiments.md describes the files.

experiment.json stands from the beginning, each run's directory appears when that run is over, and nothing is changed
afterwards: so a directory is whole whenever the program ends, and can be gone on with.
"""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from arenascope.errors import ArenascopeError, Code
from arenascope.experiment import machine
from arenascope.experiment.plan import Planned, plan
from arenascope.experiment.result import Result
from arenascope.experiment.sampler import Sample
from arenascope.experiment.spec import Spec, parse
from arenascope.private_files import check_own, create_text, is_own, write_json
from arenascope.wire.json_decode import DecodeError, decode

if TYPE_CHECKING:
    from collections.abc import Iterable

    Json = dict[str, Any]

SCHEMA: Final = "arenascope.experiment/1"
EXPERIMENT: Final = "experiment.json"
RUN: Final = "run.json"
SAMPLES: Final = "samples.csv"
TABLE: Final = "runs.csv"


class Store:
    """A results directory."""

    def __init__(self, folder: Path) -> None:
        """Open one that is there."""
        self.folder = folder
        path = folder / EXPERIMENT
        try:
            self.about: Json = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ArenascopeError(
                Code.NO_TARGET, f"'{folder}' has no {EXPERIMENT}, so it is not a directory of results"
            ) from error
        except ValueError as error:
            raise ArenascopeError(Code.BAD_INPUT, f"{path}: not JSON: {error}") from error
        if not isinstance(self.about, dict) or self.about.get("schema") != SCHEMA:
            raise ArenascopeError(Code.BAD_INPUT, f"{path}: not of schema {SCHEMA}: made by another arenascope")
        try:
            self.spec: Spec = parse(self.about["spec"], str(path), Path(self.about["here"]))
            self.left_out: dict[str, str] = dict(self.about["left_out"])
        except (KeyError, TypeError, ValueError) as error:
            raise ArenascopeError(Code.BAD_INPUT, f"{path}: incomplete: {error!r}") from error

    @classmethod
    def create(cls, folder: Path, data: Json, here: Path, left_out: dict[str, str]) -> Store:
        """Begin one. `data` is the spec as read, with what the command line changed; `left_out`: name → why."""
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ArenascopeError(
                Code.IO, f"'{folder}' exists already: choose another with -o, or continue it with --resume {folder}"
            )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_own(folder)
        about = {
            "schema": SCHEMA,
            "spec": data,
            "here": str(here.resolve()),
            "left_out": left_out,
            "machine": machine.describe(),
        }
        write_json(folder / EXPERIMENT, about)
        return cls(folder)

    def check_own(self) -> None:
        """ArenascopeError IO: others could have written what is to be run, or can write among the results."""
        check_own(self.folder)
        for path in (self.folder / EXPERIMENT, self.folder / "runs", self.build, self.build / "done"):
            if path.is_symlink() or (path.exists() and not is_own(path)):
                raise ArenascopeError(
                    Code.IO, f"will not go on in '{self.folder}': others own '{path}', or may write to it"
                )

    def withdraw(self) -> None:
        """Remove the directory again where no run was made; else nothing."""
        if not self.runs():
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def configurations(self) -> list[str]:
        """Those that can be run here."""
        return [each.name for each in self.spec.configurations if each.name not in self.left_out]

    @property
    def plan(self) -> list[Planned]:
        """All runs that belong to it, made or not."""
        return plan(self.configurations, self.spec.baseline, self.spec.repeats, self.spec.warmup, self.spec.seed)

    @property
    def build(self) -> Path:
        """{build}: where the workload's programs are compiled."""
        return self.folder / "build"

    def run_folder(self, planned: Planned) -> Path:
        """The directory of a run."""
        return self.folder / "runs" / planned.folder

    def made(self, planned: Planned) -> bool:
        """Whether the run is over."""
        return (self.run_folder(planned) / RUN).exists()

    def begin(self, planned: Planned) -> Path:
        """An empty directory for a run under way; `keep` gives it its name, or it is to be removed."""
        (self.folder / "runs").mkdir(mode=0o700, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{planned.folder}-", dir=self.folder / "runs"))

    def keep(self, planned: Planned, folder: Path, result: Json, samples: Iterable[Sample]) -> Result:
        """The run is over: its record and samples, and its name. Returns the record as `runs` will."""
        kept = {**planned._asdict(), **result}
        with create_text(folder / SAMPLES) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(Sample._fields)
            writer.writerows((f"{sample.time:.4f}", *sample[1:]) for sample in samples)
        write_json(folder / RUN, kept)
        final = self.run_folder(planned)
        if final.exists():
            shutil.rmtree(final)  # it failed, and was made again
        folder.rename(final)
        return decode(Result, kept)

    def runs(self) -> list[Result]:
        """The records of all runs that are over, in their order."""
        results = []
        for planned in self.plan:
            path = self.run_folder(planned) / RUN
            try:
                results.append(decode(Result, json.loads(path.read_text(encoding="utf-8"))))
            except FileNotFoundError:
                continue
            except DecodeError as error:
                advice = "remove the run's directory, then use --resume"
                raise ArenascopeError(Code.BAD_INPUT, f"{path}: not the record of a run ({error}): {advice}") from error
            except ValueError as error:
                raise ArenascopeError(Code.BAD_INPUT, f"{path}: not JSON: {error}") from error
        return results

    def samples(self, planned: Planned) -> list[Sample]:
        """The samples of a run."""
        path = self.run_folder(planned) / SAMPLES
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))[1:]
        try:
            samples = [Sample(float(row[0]), *map(int, row[1:])) for row in rows]
        except (ValueError, TypeError, IndexError) as error:
            raise ArenascopeError(Code.BAD_INPUT, f"{path}: not the samples of a run: {error}") from error
        if not samples:
            raise ArenascopeError(Code.BAD_INPUT, f"{path}: holds no samples, and the run is one that counts")
        return samples

    def write_table(self) -> None:
        """runs.csv: a line for each run, for whatever else one calculates with."""
        results = self.runs()
        figures = list(dict.fromkeys(name for result in results for name in result.metrics))
        path = self.folder / f"{TABLE}.new"
        with create_text(path) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["number", "block", "configuration", "warmup", "status", "others_cpu", *figures])
            for result in results:
                metrics = result.metrics
                values = ["" if metrics.get(name) is None else metrics[name] for name in figures]
                about = [result.number, result.block, result.configuration]
                row = [*about, int(result.warmup), result.status, result.machine.others_cpu, *values]
                writer.writerow(row)
        path.replace(self.folder / TABLE)
