# SPDX-License-Identifier: MIT
"""The record of a run, run.json, as far as it is read again. docs/experiments.md describes all of it."""

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class RunMark:
    """The memory at a point of the work, in bytes."""

    name: str
    rss: Optional[int]
    pss: Optional[int]


@dataclass(frozen=True)
class Sampling:
    """How the run was sampled."""

    processes: int  # at most, at a time


@dataclass(frozen=True)
class Machine:
    """What else the machine did meanwhile."""

    noisy: bool
    others_cpu: Optional[float]  # share of its processor time


@dataclass(frozen=True)
class Result:
    """A run that is over."""

    number: int
    block: int
    configuration: str
    warmup: bool
    status: str  # "ok", or "failed"
    reason: Optional[str]  # why it failed
    environment: dict[str, str]
    metrics: dict[str, Optional[float]]
    marks: tuple[RunMark, ...]
    sampling: Sampling
    machine: Machine
    took: float  # seconds

    @property
    def failed(self) -> bool:
        """Whether it did not do what it was to do."""
        return self.status != "ok"
