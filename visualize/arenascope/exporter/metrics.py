# SPDX-License-Identifier: MIT
"""A board of snapshots as metrics. What is unknown has no sample: never 0."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable, Final, NamedTuple, Optional

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from arenascope.coverage import total
from arenascope.exporter.poller import alive
from arenascope.humanize import printable
from arenascope.rows import RESIDENT
from arenascope.watch.poll import spent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from arenascope.exporter.poller import Board, Latest
    from arenascope.wire.agent_answers import Policy
    from arenascope.wire.summary.heaps import Arena
    from arenascope.wire.summary.ledger import Rows

    Samples = Iterator[tuple[tuple[str, ...], Optional[float]]]  # own labels, and a value

OTHERS: Final = "others"  # the arena that stands for those beyond the limit; no arena is called so
WHO: Final = ("pid", "command")
UNITS: Final = ("bytes", "seconds")
ARENA_ROWS: Final = tuple(row.name for row in RESIDENT if row.owner != "PROCESS")


class Family(NamedTuple):
    """A metric of each process: one sample for each value of its own label."""

    name: str  # with the unit, and without what a counter's has behind it
    meaning: str
    of: Callable[[Latest, int, float], Samples]  # of a snapshot, the number of arenas, and now
    labels: tuple[str, ...] = ()
    kind: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily


def _one(value: Callable[[Latest], float | None]) -> Callable[[Latest, int, float], Samples]:
    def samples(seen: Latest, _: int, __: float) -> Samples:
        yield (), value(seen)

    return samples


def _rows(rows: Callable[[Latest], Rows]) -> Callable[[Latest, int, float], Samples]:
    def samples(seen: Latest, _: int, __: float) -> Samples:
        for name, held in rows(seen).held.items():
            yield (name,), held

    return samples


def _chunks(seen: Latest, _: int, __: float) -> Samples:
    for name, tally in seen.summary.chunks.items():
        yield (name,), tally.count


def _chunk_bytes(seen: Latest, _: int, __: float) -> Samples:
    for name, tally in seen.summary.chunks.items():
        yield (name,), tally.bytes


def _findings(seen: Latest, _: int, __: float) -> Samples:
    for rule in seen.findings:
        yield (rule,), 1


def _finding_bytes(seen: Latest, _: int, __: float) -> Samples:
    for rule, held in seen.findings.items():
        yield (rule,), held


def _age(seen: Latest, _: int, now: float) -> Samples:
    yield (), max(now - seen.time, 0)


def arenas_of(seen: Latest, most: int) -> Iterator[tuple[str, list[Arena]]]:
    """The largest arenas, each under its name, and all others together."""
    arenas = sorted(seen.summary.arenas, key=lambda each: -(each.sums.resident or 0))
    for arena in arenas[:most]:
        yield arena.name, [arena]
    if arenas[most:]:
        yield OTHERS, arenas[most:]


def _arena_rows(seen: Latest, most: int, _: float) -> Samples:
    for name, arenas in arenas_of(seen, most):
        for row in ARENA_ROWS:
            yield (printable(name), row), total(arena.ledger[row] for arena in arenas)


def _arena_system(seen: Latest, most: int, _: float) -> Samples:
    for name, arenas in arenas_of(seen, most):
        yield (printable(name),), total(arena.system_mem for arena in arenas)


def _arenas_left_out(seen: Latest, most: int, _: float) -> Samples:
    yield (), max(len(seen.summary.arenas) - most, 0)


def _of_policy(value: Callable[[Policy], float | None]) -> Callable[[Latest, int, float], Samples]:
    return _one(lambda seen: None if seen.policy is None else value(seen.policy))


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


FAMILIES: Final = (
    Family(
        "arenascope_rss_bytes",
        "Resident memory of the process, as the kernel counts it.",
        _one(lambda seen: seen.summary.kernel.rss),
    ),
    Family(
        "arenascope_swap_bytes",
        "Swapped memory of the process, as the kernel counts it.",
        _one(lambda seen: seen.summary.kernel.swap),
    ),
    Family(
        "arenascope_row_bytes",
        "A row of the ledger: resident memory by who holds it. The rows of a process are its Rss.",
        _rows(lambda seen: seen.summary.ledger),
        ("row",),
    ),
    Family(
        "arenascope_absent_bytes",
        "malloc's memory that is not resident.",
        _rows(lambda seen: seen.summary.absent),
        ("row",),
    ),
    Family(
        "arenascope_forecast_bytes",
        "What a trim would return now.",
        _rows(lambda seen: seen.summary.forecast),
        ("trim",),
    ),
    Family(
        "arenascope_beside_bytes",
        "malloc's memory that Rss does not count.",
        _rows(lambda seen: seen.summary.beside),
        ("row",),
    ),
    Family("arenascope_chunks", "malloc's chunks by state, resident or not.", _chunks, ("state",)),
    Family("arenascope_chunk_bytes", "malloc's chunks by state, resident or not.", _chunk_bytes, ("state",)),
    Family("arenascope_arenas", "malloc's arenas.", _one(lambda seen: len(seen.summary.arenas))),
    Family(
        "arenascope_arenas_left_out",
        "Arenas that have no name of their own here: they are in the arena others.",
        _arenas_left_out,
    ),
    Family("arenascope_arena_row_bytes", "A row of an arena's ledger.", _arena_rows, ("arena", "row")),
    Family("arenascope_arena_system_bytes", "What an arena has from the kernel.", _arena_system, ("arena",)),
    Family("arenascope_finding", "1: the verdict has this finding.", _findings, ("finding",)),
    Family("arenascope_finding_bytes", "What a finding explains.", _finding_bytes, ("finding",)),
    Family(
        "arenascope_snapshot_timestamp_seconds",
        "When the process was inspected, since the epoch.",
        _one(lambda seen: seen.time),
    ),
    Family("arenascope_snapshot_age_seconds", "Time since the process was inspected.", _age),
    Family(
        "arenascope_snapshot_pause_seconds",
        "How long the snapshot stopped the process.",
        _one(lambda seen: _seconds(seen.summary.snapshot.pause_ms)),
    ),
    Family(
        "arenascope_snapshot_torn_chunks",
        "Chunks that the snapshot could not read whole.",
        _one(lambda seen: seen.summary.snapshot.torn_chunks),
    ),
    Family(
        "arenascope_snapshot_exact",
        "1: the rows of the look add up to Rss to the byte.",
        _one(lambda seen: int(seen.summary.snapshot.exact)),
    ),
    Family(
        "arenascope_policy_on",
        "1: the agent in the process has a policy. 0: the agent has none.",
        _of_policy(lambda policy: int(policy.policy == "on")),
    ),
    Family(
        "arenascope_policy_checks",
        "Checks of the policy's conditions.",
        _of_policy(lambda policy: policy.checks),
        kind=CounterMetricFamily,
    ),
    Family(
        "arenascope_policy_trims",
        "Trims that the policy has made.",
        _of_policy(lambda policy: policy.trims),
        kind=CounterMetricFamily,
    ),
    Family(
        "arenascope_policy_returned_bytes",
        "What these trims have returned.",
        _of_policy(lambda policy: policy.returned),
        kind=CounterMetricFamily,
    ),
    Family(
        "arenascope_policy_faulted_back_bytes",
        "How much of that was resident again at the next check, by the growth of Rss.",
        _of_policy(lambda policy: policy.faulted_back),
        kind=CounterMetricFamily,
    ),
    Family(
        "arenascope_policy_elapsed_seconds",
        "How long these trims took.",
        _of_policy(lambda policy: _seconds(policy.elapsed_ms)),
        kind=CounterMetricFamily,
    ),
    Family(
        "arenascope_policy_longest_hold_seconds",
        "The longest time for which such a trim has locked an arena.",
        _of_policy(lambda policy: _seconds(policy.longest_hold_ms)),
    ),
)


class MetricsPage:
    """A collector, in the words of prometheus_client."""

    def __init__(self, board: Callable[[], Board], arenas: int) -> None:
        """`board`: the newest one. `arenas`: how many of a process have a name of their own."""
        self._board: Final = board
        self._arenas: Final = arenas

    def collect(self) -> Iterable[Metric]:
        """Every metric, as of now. Processes that have ended are gone."""
        board = self._board()
        shown = alive(board.seen.values())
        now = time.time()
        for family in FAMILIES:
            yield self._of_processes(family, shown, now)
        yield _info(shown)
        yield from _of_exporter(board, len(shown))

    def _of_processes(self, family: Family, shown: list[Latest], now: float) -> Metric:
        labels = (*WHO, *family.labels)
        unit = next((unit for unit in UNITS if family.name.endswith(f"_{unit}")), "")
        metric = family.kind(family.name, family.meaning, labels=labels, unit=unit)
        for seen in shown:
            for own, value in family.of(seen, self._arenas, now):
                if value is not None:
                    metric.add_metric([*who(seen), *own], value)
        return metric


def who(seen: Latest) -> tuple[str, str]:
    """The labels of a process. The kernel allows any byte in its name."""
    return str(seen.process.pid), printable(seen.process.comm)


def _info(shown: list[Latest]) -> Metric:
    metric = InfoMetricFamily("arenascope_process", "How the process allocates, and how it was inspected.", labels=WHO)
    for seen in shown:
        allocator, snapshot = seen.summary.allocator, seen.summary.snapshot
        facts = {"malloc": allocator.malloc, "glibc": allocator.glibc, "mode": snapshot.mode}
        metric.add_metric(who(seen), {name: printable(value) for name, value in facts.items() if value})
    return metric


def _of_exporter(board: Board, shown: int) -> Iterator[Metric]:
    processes = GaugeMetricFamily(
        "arenascope_exporter_processes",
        "Processes that were chosen, that are shown here, and that had no snapshot because there are too many.",
        labels=["state"],
    )
    for state, number in (("chosen", board.chosen), ("shown", shown), ("left_out", board.left_out)):
        processes.add_metric([state], number)
    yield processes
    yield CounterMetricFamily("arenascope_exporter_polls", "Polls of snapshots.", board.polls)
    yield CounterMetricFamily("arenascope_exporter_snapshots", "Snapshots that succeeded.", board.snapshots)
    for name, meaning, failures in (
        ("arenascope_exporter_snapshots_failed", "Snapshots that were not possible, by reason.", board.failed),
        (
            "arenascope_exporter_policies_unanswered",
            "Agents that did not tell of their policy, by reason.",
            board.unanswered,
        ),
    ):
        failed = CounterMetricFamily(name, meaning, labels=["reason"])
        for reason, number in sorted(failures.items()):
            failed.add_metric([reason], number)
        yield failed
    yield CounterMetricFamily(
        "arenascope_exporter_cpu_seconds",
        "Processor time of the exporter and of its snapshots, scrapes included.",
        spent(),
    )
    for name, meaning, seconds in (
        ("arenascope_exporter_poll_cpu", "Processor time of the last poll.", board.cost),
        ("arenascope_exporter_interval", "Time from the last poll to the next one.", board.interval),
    ):
        metric = GaugeMetricFamily(name, meaning, unit="seconds")
        if seconds is not None:
            metric.add_metric([], seconds)
        yield metric
