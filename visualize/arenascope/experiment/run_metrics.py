# SPDX-License-Identifier: MIT
"""The figures of one run, of its samples, its times and what the kernel counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Optional

import numpy as np

from arenascope.experiment.procfs import Usage

if TYPE_CHECKING:
    import resource
    from collections.abc import Sequence

    from arenascope.experiment.child import Program
    from arenascope.experiment.sampler import Sample, Sampler

    Figures = dict[str, Optional[float]]  # None: not known

HELD: Final = ("rss", "pss", "swap", "lazy_free")
WHEN: Final = ("average", "peak", "end", "settled")
WORK: Final = ("cpu", "cpu_user", "cpu_system", "minor_faults", "major_faults", "cpu_settling", "wall", "startup")
# What is measured here: no workload can report it in its stead.
MEASURED: Final = frozenset((*(f"{name}_{when}" for name in HELD for when in WHEN), *WORK, "throughput"))


@dataclass
class Times:
    """The instants of a run, in seconds since its start, and what had been used until then. None: did not come."""

    ready: float | None = None
    done: float | None = None
    last: float | None = None  # of the sample that was taken at done
    settled: float | None = None
    usage_ready: Usage | None = None
    usage_done: Usage | None = None
    usage_settled: Usage | None = None
    exited: bool = False  # done was its end


def held(sample: Sample) -> dict[str, int]:
    """What a sample says of memory."""
    return {name: getattr(sample, name) for name in HELD}


def metrics(sampler: Sampler, times: Times, program: Program, reported: dict[str, float]) -> Figures:
    """Every figure; None where it is not known."""
    made: Figures = {}
    samples = sampler.samples
    for name in HELD:
        made |= _memory(name, samples, times)
    single = all(sample.processes == 1 for sample in samples)
    if single and samples and sampler.high_water is not None:
        made["rss_peak"] = max(made["rss_peak"] or 0, sampler.high_water)  # the kernel misses nothing between samples
    made |= _work(times, program.usage)
    made |= reported
    operations, wall = reported.get("operations"), made["wall"]
    made["throughput"] = operations / wall if operations is not None and wall else None
    return made


def average(samples: Sequence[Sample], name: str, begin: float, end: float) -> float | None:
    """The mean over a time of what was sampled, which runs straight from one sample to the next."""
    if not samples or end <= begin:
        return None
    at = np.array([sample.time for sample in samples])
    values = np.array([getattr(sample, name) for sample in samples], dtype=float)
    inside = at[(at > begin) & (at < end)]
    grid = np.concatenate(([begin], inside, [end]))
    there = np.interp(grid, at, values)
    return float(np.sum((there[1:] + there[:-1]) / 2 * np.diff(grid)) / (end - begin))


def _memory(name: str, samples: Sequence[Sample], times: Times) -> Figures:
    made: Figures = dict.fromkeys(f"{name}_{when}" for when in WHEN)
    if times.ready is None or times.done is None:
        return made
    end = times.done if times.last is None else times.last
    work = [sample for sample in samples if times.ready <= sample.time <= end]
    mean = average(samples, name, times.ready, times.done)
    made[f"{name}_average"] = round(mean) if mean is not None else None
    made[f"{name}_peak"] = max((getattr(sample, name) for sample in work), default=None)
    # The sample that was taken just then; of one that ended unseen, the last there is.
    made[f"{name}_end"] = getattr(work[-1], name) if work else None
    if times.settled is not None:
        made[f"{name}_settled"] = next(getattr(each, name) for each in samples if each.time == times.settled)
    return made


def _work(times: Times, whole: resource.struct_rusage | None) -> Figures:
    """Time, processor and faults of the work: between ready and done, or, where done is the end, of the whole life."""
    made: Figures = dict.fromkeys(WORK)
    if times.ready is None or times.done is None:
        return made
    made["wall"], made["startup"] = times.done - times.ready, times.ready
    used = None
    if times.exited and whole is not None:
        begun = times.usage_ready if times.ready and times.usage_ready else Usage(0, 0, 0, 0)
        used = Usage(whole.ru_utime, whole.ru_stime, whole.ru_minflt, whole.ru_majflt).since(begun)
    elif times.usage_ready and times.usage_done:
        used = times.usage_done.since(times.usage_ready)
    if used:
        made |= {"cpu": used.user + used.system, "cpu_user": used.user, "cpu_system": used.system}
        made |= {"minor_faults": used.minor_faults, "major_faults": used.major_faults}
    if times.usage_settled and times.usage_done:
        settling = times.usage_settled.since(times.usage_done)
        made["cpu_settling"] = settling.user + settling.system
    return made
