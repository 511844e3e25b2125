# SPDX-License-Identifier: MIT
"""Medians with their intervals, and whether two configurations can be told apart.

Nothing here supposes how figures are distributed. All that is random has a fixed seed: the same results give the same
answer.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Final, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from arenascope.wire.json_types import Part, inline

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 10_000
SEED: Final = 20190307
EXACT_UP_TO: Final = 20_000  # ways to divide the runs among two configurations, each inspected


class Estimate(NamedTuple):
    """A median, and its 95 % interval."""

    median: float
    low: Optional[float]  # lower end of the 95 % interval; null with fewer than three runs
    high: Optional[float]
    runs: int


@inline
class Difference(NamedTuple):
    """How the medians of two configurations differ, b - a, with its interval."""

    median: float  # the median of b minus the median of a
    low: Optional[float]  # lower end of the 95 % interval; null with fewer than three runs
    high: Optional[float]
    chance: Part  # the probability of so uneven an order if the two did not differ: an exact rank test
    apart: bool  # whether the two can be told apart: the interval has no zero in it, and the chance is small
    ratio: Optional[float]  # the median of b divided by the median of a; null if unknown, as a may be zero
    ratio_low: Optional[float]  # lower end of the 95 % interval of the ratio
    ratio_high: Optional[float]

    def reverse(self) -> "Difference":
        """The same as a - b."""
        low, high = (None if each is None else -each for each in (self.high, self.low))
        ratios = (1 / each if each else None for each in (self.ratio, self.ratio_high, self.ratio_low))
        return Difference(-self.median, low, high, self.chance, self.apart, *ratios)


MIN_RUNS: Final = 3  # for an interval
ENOUGH: Final = 4  # runs of each to be told apart: of three, no order is unlikely enough


def estimate(values: Sequence[float]) -> Estimate:
    """The median, and the bootstrap's percentile interval around it."""
    sample = np.asarray(values, dtype=float)
    middle = float(np.median(sample))
    if len(sample) < MIN_RUNS:
        return Estimate(middle, None, None, len(sample))
    low, high = _interval(_medians(sample, np.random.default_rng(SEED)))
    return Estimate(middle, low, high, len(sample))


def compare(a: Sequence[float], b: Sequence[float]) -> Difference:
    """How b differs from a, and whether they can be told apart."""
    first, second = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    middle = float(np.median(second) - np.median(first))
    chance = rank_test(first, second)
    if min(len(first), len(second)) < MIN_RUNS:
        return Difference(middle, None, None, chance, False, None, None, None)  # noqa: FBT003 - a field
    rng = np.random.default_rng(SEED)
    of_second, of_first = _medians(second, rng), _medians(first, rng)
    low, high = _interval(of_second - of_first)
    apart = (low > 0 or high < 0) and chance <= 1 - CONFIDENCE
    if not (first > 0).all():
        return Difference(middle, low, high, chance, apart, None, None, None)
    ratio = float(np.median(second) / np.median(first))
    return Difference(middle, low, high, chance, apart, ratio, *_interval(of_second / of_first))


def rank_test(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The two-sided chance of a sum of ranks as extreme as a's, were all orders alike likely (Wilcoxon, Mann, Whitney).

    Exact, with equal values at their mean rank, where all divisions can be inspected; else of RESAMPLES random ones.
    """
    ranks = _ranks(np.concatenate([a, b]))
    size, total = len(a), len(a) + len(b)
    centre = size * (total + 1) / 2
    seen = abs(float(ranks[:size].sum()) - centre) - 1e-9
    if math.comb(total, size) <= EXACT_UP_TO:
        sums = np.fromiter((sum(chosen) for chosen in itertools.combinations(ranks.tolist(), size)), dtype=float)
        return float(np.mean(np.abs(sums - centre) >= seen))
    rng = np.random.default_rng(SEED)
    sums = rng.permuted(np.tile(ranks, (RESAMPLES, 1)), axis=1)[:, :size].sum(axis=1)
    return float((np.count_nonzero(np.abs(sums - centre) >= seen) + 1) / (RESAMPLES + 1))


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    mean: NDArray[np.float64] = (ends - (counts - 1) / 2)[inverse]
    return mean


def _medians(sample: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    chosen = rng.integers(0, len(sample), (RESAMPLES, len(sample)))
    medians: NDArray[np.float64] = np.median(sample[chosen], axis=1)
    return medians


def _interval(medians: NDArray[np.float64]) -> tuple[float, float]:
    beside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, [beside, 1 - beside])
    return float(low), float(high)
