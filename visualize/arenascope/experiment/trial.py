# SPDX-License-Identifier: MIT
"""One run: start, ready, load, done, settle, snapshot, end. What was seen becomes a record, of a failed run too."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import re
import socket
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from arenascope.experiment import final_snapshot, machine, procfs, run_metrics
from arenascope.experiment.child import PREFIX, Event, Program
from arenascope.experiment.expand import expand, expand_all, library
from arenascope.experiment.sampler import Sampler
from arenascope.processes import PROC, read_proc
from arenascope.signals import held_back
from arenascope.wire.how import How

if TYPE_CHECKING:
    from arenascope.experiment.procfs import Usage
    from arenascope.experiment.sampler import Sample
    from arenascope.experiment.spec import Configuration, Spec

    Json = dict[str, Any]

PORT_POLL: Final = 0.02  # seconds between two tries to connect
SHOWN_OUTPUT: Final = 12  # lines of a failed run's output in its reason


# What changes an allocator: of our own environment, nothing of that reaches a run.
SETTINGS: Final = re.compile(
    r"MALLOC_\w*|GLIBC_TUNABLES|LD_PRELOAD|TCMALLOC_\w*|MIMALLOC_\w*|RUBY_GC_MALLOC_TRIM|ARENASCOPE_(?!ARENADUMP)\w*"
)


# What a workload may call a figure of its own: a column of runs.csv, and never one of what is measured here.
FIGURE: Final = re.compile(r"[a-z][a-z0-9_]*")
NO_FIGURE: Final = "the name of a figure has small letters, digits and '_', and is not the name of a measured figure"


def environment() -> dict[str, str]:
    """The environment that runs have in common: ours, without what changes an allocator."""
    return {name: value for name, value in os.environ.items() if not SETTINGS.fullmatch(name)}


class FailedRunError(Exception):
    """The run did not do what it was to do; the text says what it did."""


class Trial:
    """One run of a configuration; `run` makes it."""

    def __init__(self, spec: Spec, configuration: Configuration, values: dict[str, str], folder: Path) -> None:
        """`values` fill the placeholders; the run's files go to `folder`."""
        self._spec, self._workload = spec, spec.workload
        self._values = {**values, **spec.parameters, **configuration.parameters}
        self._folder = folder
        self._events: queue.Queue[Event] = queue.Queue()
        self._deadline = 0.0
        self._marks: list[Json] = []
        self._reported: dict[str, float] = {}
        self._notes: dict[str, str] = {}
        self._preload = [library(expand(name, self._values)) for name in configuration.preload]
        self._behind = [library(expand(name, self._values)) for name in self._workload.preload]
        set_here = {**self._workload.env, **configuration.env}
        self._set = {name: expand(value, self._values) for name, value in set_here.items()}
        preload = [*self._preload, *self._behind]
        if preload:
            self._set["LD_PRELOAD"] = ":".join(preload)
        command = expand_all(self._workload.command, self._values)
        self._command = [*expand_all(configuration.wrapper, self._values), *command]
        self._load: Program | None = None
        self._inspected: Json = {"ledger_missing": "the program had ended", "inspected": None}

    def run(self, *, warmup: bool) -> tuple[Json, list[Sample]]:
        """Make the run; its record and samples. A warm-up neither settles nor is inspected."""
        result: Json = {
            "status": "ok",
            "reason": None,
            "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "command": self._command,
            "environment": self._set,
        }
        before, own = machine.busy(), _own()
        load_before = os.getloadavg()[0]
        env = {**environment(), **self._set}
        ends = self._workload.done == "exit"
        spoken_to = not ends or self._workload.load_stdin is not None
        with held_back() as release:
            program = Program(
                "workload", self._command, env, self._folder, self._events, attended=ends, spoken_to=spoken_to
            )
            sampler = Sampler(program.pid, program.begin, self._spec.interval)
            times = run_metrics.Times()
            try:
                sampler.start()
                release()
                self._deadline = program.begin + self._spec.timeout
                self._work(program, sampler, times)
                if not warmup and not times.exited:
                    self._afterwards(program, sampler, times)
            except FailedRunError as failure:
                result |= {"status": "failed", "reason": f"{failure}{self._output()}"}
            finally:
                sampler.stop()
                for each in (self._load, program):
                    if each is not None:
                        each.end()
        spent = _own() - own + sum(_cpu(each) for each in (program, self._load))
        result["metrics"] = run_metrics.metrics(sampler, times, program, self._reported)
        result |= {"marks": self._marks, "notes": self._notes, **self._inspected}
        result["exit"] = program.status
        result["machine"] = {"load_before": round(load_before, 2), **machine.noise(before, machine.busy(), spent)}
        result["sampling"] = {
            "interval": self._spec.interval,
            "samples": len(sampler.samples),
            "cost": round(sampler.cost, 4),
            "processes": max((sample.processes for sample in sampler.samples), default=0),
        }
        return result, sampler.samples

    def _work(self, program: Program, sampler: Sampler, times: run_metrics.Times) -> None:
        """From the start to the end of the work."""
        sampler.take(fresh=True)
        times.ready = self._until_ready(program, sampler) - program.begin
        self._verify_preload(program)
        times.usage_ready = self._usage(program)
        if self._workload.load_stdin is not None:
            program.say(expand(self._workload.load_stdin, self._values))
        elif self._workload.load_command:
            command = expand_all(self._workload.load_command, self._values)
            with held_back():
                self._load = Program("load", command, environment(), self._folder, self._events)
        times.done = self._until_done(program, sampler, times) - program.begin
        if self._workload.done == "exit":
            times.exited = True
        else:
            times.usage_done = self._usage(program)
            self._end_sample(sampler, times)
        if not sampler.samples:
            raise FailedRunError("it ended before the first sample: give it more work")

    def _afterwards(self, program: Program, sampler: Sampler, times: run_metrics.Times) -> None:
        """What is left a while after the work was done, and where it is."""
        if self._workload.done == "line":
            program.say("\n")  # the end was seen
        self._pause(self._spec.settle, program, sampler)
        settled = sampler.take(fresh=True)
        if settled is None:
            raise FailedRunError("it ended during the settling")
        times.settled = settled.time
        times.usage_settled = self._usage(program)
        sampler.stop()
        largest = max(procfs.members(program.pid), key=_resident, default=program.pid)
        self._inspected = {"ledger_missing": final_snapshot.take(largest, self._folder), "inspected": largest}

    @staticmethod
    def _end_sample(sampler: Sampler, times: run_metrics.Times) -> None:
        sample = sampler.take(fresh=True)
        times.last = sample.time if sample else None

    def _usage(self, program: Program) -> Usage:
        return procfs.usage(procfs.members(program.pid))

    # --- waiting for what happens -----------------------------------------------------------------------------------

    def _until_ready(self, program: Program, sampler: Sampler) -> float:
        """When it was ready; as soon as it ran, where nothing tells."""
        what = "to be ready"
        if self._workload.ready_line is not None:
            pattern = re.compile(expand(self._workload.ready_line, self._values))
            while True:
                event = self._next(what)
                if self._line_with(event, pattern, program, sampler, what):
                    return event.time
        if self._workload.ready_port is not None:
            port = int(expand(self._workload.ready_port, self._values))
            while not _listens(port):
                with contextlib.suppress(queue.Empty):
                    self._line_with(self._next(what, PORT_POLL), None, program, sampler, what)
            return time.monotonic()
        return program.begin

    def _until_done(self, program: Program, sampler: Sampler, times: run_metrics.Times) -> float:
        """When the work was done."""
        what, kind = "to be done", self._workload.done
        pattern = None
        if self._workload.done_line is not None:
            pattern = re.compile(expand(self._workload.done_line, self._values))
        exiting = None
        while True:
            event = self._next(what)
            if event.kind == "exiting":
                exiting = event.time
                self._at_the_end(program, sampler, times)
            elif event.kind == "exit" and event.source == "workload" and kind == "exit":
                program.reap()
                if program.status:
                    raise FailedRunError(f"it {_ended(program.status)}")
                return exiting or event.time
            elif event.kind == "exit" and event.source == "load" and self._load:
                self._load.reap()
                if self._load.status:
                    raise FailedRunError(f"its load {_ended(self._load.status)}")
                if kind == "load":
                    return event.time
            elif self._line_with(event, pattern, program, sampler, what):
                return event.time

    def _at_the_end(self, program: Program, sampler: Sampler, times: run_metrics.Times) -> None:
        """The program stands still before its end; its threads are gone, or going. Nothing can settle any more."""
        self._end_sample(sampler, times)
        # It is traced by us, so nobody else can stop it, and nothing changes that a snapshot could miss.
        missing = final_snapshot.take(program.pid, self._folder, How(mode="live"))
        self._inspected = {"ledger_missing": missing, "inspected": program.pid}
        program.release()

    def _pause(self, length: float, program: Program, sampler: Sampler) -> None:
        """Let time pass, unless the program ends; marks count from the last one anew, so that all is settled."""
        until = time.monotonic() + length
        while True:
            try:
                event = self._events.get(timeout=max(until - time.monotonic(), 0))
            except queue.Empty:
                return
            marks = len(self._marks)
            self._line_with(event, None, program, sampler, "settling")
            if len(self._marks) > marks and time.monotonic() < self._deadline:
                until = time.monotonic() + length

    def _next(self, what: str, at_most: float | None = None) -> Event:
        """The next event. queue.Empty after `at_most` seconds without one."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            advice = ""
            if self._workload.done == "exit":
                advice = "; of one that never ends by itself, a spec says when its work is done (docs/experiments.md)"
            raise FailedRunError(f"it was given {self._spec.timeout:g} s, and took longer {what}{advice}")
        try:
            return self._events.get(timeout=left if at_most is None else min(at_most, left))
        except queue.Empty:
            if at_most is not None:
                raise
            return self._next(what)

    def _line_with(
        self, event: Event, pattern: re.Pattern[str] | None, program: Program, sampler: Sampler, what: str
    ) -> bool:
        """Take note of an event; whether it is a line of the workload's that matches."""
        if event.kind == "exiting":
            program.release()  # nobody waits for that yet
            return False
        if event.kind == "exit":
            if event.source == "workload":
                program.reap()
                raise FailedRunError(f"it {_ended(program.status)} when it was {what}")
            return False
        if event.text.startswith(PREFIX):
            speaker = program if event.source == "workload" else self._load
            self._obey(event.text[len(PREFIX) :].split(), sampler, speaker)
            return False
        return event.source == "workload" and pattern is not None and bool(pattern.search(event.text))

    def _obey(self, words: list[str], sampler: Sampler, speaker: Program | None) -> None:
        """A line of the protocol; words that mean nothing are the program's own."""
        if words[:1] == ["mark"] and len(words) == 2 and speaker:  # noqa: PLR2004 - mark NAME
            sample = sampler.take(fresh=True)
            if sample:
                self._marks.append({"name": words[1], "time": round(sample.time, 4), **run_metrics.held(sample)})
            speaker.say("\n")
        elif words[:1] == ["report"]:
            for key, _, value in (word.partition("=") for word in words[1:]):
                number = _number(value)
                if number is None:
                    self._notes[key] = value
                elif not FIGURE.fullmatch(key) or key in run_metrics.MEASURED:
                    raise FailedRunError(f"it reports '{key}': {NO_FIGURE}")
                else:
                    self._reported[key] = number

    def _verify_preload(self, program: Program) -> None:
        """A preload that the loader ignored (a static program, another architecture) would make a false comparison."""
        until = time.monotonic() + 1
        wanted = {str(Path(path).resolve()) for path in self._preload}
        while wanted and not self._is_mapped(wanted, program):
            if time.monotonic() > until or program.status is not None:
                raise FailedRunError(f"{', '.join(sorted(wanted))} was preloaded, but is not in the process")
            time.sleep(0.01)

    @staticmethod
    def _is_mapped(wanted: set[str], program: Program) -> bool:
        mapped = [read_proc(PROC / str(pid) / "maps") for pid in procfs.members(program.pid)]
        # One that was over so soon cannot be asked.
        return not mapped or any(all(path in text for path in wanted) for text in mapped)

    def _output(self) -> str:
        """The end of what it printed."""
        said = ""
        for name in ("workload", "load"):
            path = self._folder / f"{name}.txt"
            if path.exists():
                lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-SHOWN_OUTPUT:]
                if lines:
                    said += f"\nThe end of what the {name} printed:\n" + "\n".join(lines)
        return said


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _resident(pid: int) -> int:
    memory = procfs.memory(pid)
    return memory.rss if memory else 0


def _ended(status: int | None) -> str:
    if status is None:
        return "ended"
    return f"was ended by signal {-status}" if status < 0 else f"ended with exit code {status}"


def _own() -> float:
    """Processor seconds of this process, and of what it ran to the end but for the runs."""
    times = os.times()
    return times.user + times.system


def _cpu(program: Program | None) -> float:
    return program.usage.ru_utime + program.usage.ru_stime if program and program.usage else 0.0
