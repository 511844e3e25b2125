# SPDX-License-Identifier: MIT
"""The statistics of leak suspects, on series of known growth: leaks beside churn, caches, saw-teeth and warm-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools import tiers

from arenascope.timeline.trend import LEAST_SNAPSHOTS, STRAIGHT, SURE, fall, theil_sen, trend_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MIB = 1 << 20
MINUTE = 60
CHUNK = 512
SNAPSHOTS = 120
RUNS = 50
BY_DAY = 20  # of these
WITHIN = 10  # snapshots after which a leak is found, and a growth that has ended is forgotten
RATES = (0.1, 1, 10)  # MiB a minute


class Made(NamedTuple):
    """Bytes at each snapshot, and the snapshot from which nothing of it may be taken for a leak."""

    value: Floats
    settled: int = 0


def times(random: np.random.Generator) -> Floats:
    """Some ten seconds from snapshot to snapshot."""
    return np.asarray(np.cumsum(random.uniform(9, 11, SNAPSHOTS)))


def noise(random: np.random.Generator) -> Made:
    """Churn that knows nothing of the snapshot before."""
    return Made(random.uniform(10, 500) * MIB + random.normal(0, random.uniform(0.01, 5) * MIB, SNAPSHOTS))


def lasting(random: np.random.Generator) -> Made:
    """Churn of which half is still there at the next snapshot."""
    made = random.normal(0, random.uniform(0.01, 5) * MIB, SNAPSHOTS)
    for place in range(1, SNAPSHOTS):
        made[place] = made[place - 1] / 2 + made[place]
    return Made(random.uniform(50, 500) * MIB + made)


def chunks(random: np.random.Generator) -> Made:
    """Chunks of one size, so many as chance has it."""
    return Made(CHUNK * random.poisson(random.uniform(10, 5000), SNAPSHOTS).astype(float))


def teeth(random: np.random.Generator) -> Made:
    """A garbage collector's: no two of the same length. What rises before its first fall can be no saw-tooth's."""
    height, many = random.uniform(5, 100) * MIB, random.uniform(4, 30)
    made: list[float] = []
    falls = []
    while len(made) < SNAPSHOTS:
        made += list(height * np.arange(max(int(many * random.uniform(0.75, 1.25)), 2)) / many)
        falls.append(len(made))
    return Made(np.array(made[:SNAPSHOTS]), falls[0] + 1)


def cache(random: np.random.Generator) -> Made:
    """Fills at one rate, and stops."""
    full = int(random.integers(10, 60))
    size = random.uniform(5, 200) * MIB
    value = size * np.minimum(np.arange(SNAPSHOTS) / full, 1) + random.normal(
        0, random.uniform(0, 0.01) * size, SNAPSHOTS
    )
    return Made(value, full + WITHIN)


def warm(random: np.random.Generator, slowest: float = 15) -> Made:
    """Fills the slower, the fuller it is."""
    slow = random.uniform(1, slowest)
    size = random.uniform(5, 200) * MIB
    value = size * (1 - np.exp(-np.arange(SNAPSHOTS) / slow)) + random.normal(
        0, random.uniform(0, 0.01) * size, SNAPSHOTS
    )
    return Made(value, int(3 * slow) + WITHIN)


def steps(random: np.random.Generator) -> Made:
    """Tables that double."""
    value = np.full(SNAPSHOTS, float(MIB))
    for place in random.integers(0, SNAPSHOTS, 4):
        value[place:] *= 2
    return Made(value)


def still(_: np.random.Generator) -> Made:
    """Nothing happens."""
    return Made(np.full(SNAPSHOTS, 7.0 * MIB))


HARMLESS = (noise, lasting, chunks, teeth, cache, warm, steps, still)


@pytest.mark.parametrize(
    "seeds", [range(BY_DAY), pytest.param(range(BY_DAY, RUNS), marks=pytest.mark.nightly("limits"))], ids=str
)
@pytest.mark.parametrize("kind", HARMLESS, ids=lambda kind: kind.__name__)
def test_what_does_not_leak_is_no_suspect(kind: Callable[[np.random.Generator], Made], seeds: range) -> None:
    wrong = []
    for seed in seeds:
        random = np.random.default_rng(seed)
        time, made = times(random), kind(random)
        wrong += [
            (seed, snapshot)
            for snapshot in range(max(LEAST_SNAPSHOTS, made.settled), SNAPSHOTS + 1)
            if trend_of(time[:snapshot], made.value[:snapshot])
        ]
    assert not wrong


def soon_warm(random: np.random.Generator) -> Made:
    """So soon that a leak has lasted long enough before the last snapshot."""
    return warm(random, slowest=4)


BESIDE = (still, noise, chunks, soon_warm)


@pytest.mark.parametrize("rate", tiers.daily(RATES, (1,), "limits"))
@pytest.mark.parametrize("kind", BESIDE, ids=lambda kind: kind.__name__)
def test_a_leak_is_found_when_it_has_passed_the_noise(kind: Callable[[np.random.Generator], Made], rate: float) -> None:
    late, beside, apart = [], 0, []
    for seed in range(RUNS):
        random = np.random.default_rng(seed)
        time, made = times(random), kind(random)
        per_second = rate * MIB / MINUTE
        leak = np.floor(per_second * (time - time[0]) / CHUNK) * CHUNK
        value = made.value + leak
        passed = np.flatnonzero(leak > 1.5 * fall(made.value)[0])
        # A growth must last four times as long as a steeper one before it.
        limit = max(int(passed[0]) if len(passed) else SNAPSHOTS, LEAST_SNAPSHOTS, 4 * made.settled) + WITHIN
        if limit > SNAPSHOTS:
            continue
        found = next(
            (snapshot for snapshot in range(LEAST_SNAPSHOTS, limit + 1) if trend_of(time[:snapshot], value[:snapshot])),
            None,
        )
        if found is None:
            late.append((seed, limit))
        last = trend_of(time, value)
        if last:
            beside += not last.slope.low <= per_second <= last.slope.high
            apart.append(abs(last.slope.slope / per_second - 1))
    assert not late
    assert not apart or max(apart) < 0.15
    assert kind is soon_warm or beside <= 0.2 * len(apart), "the interval is too narrow"


@pytest.mark.check
def test_a_leak_that_begins_later() -> None:
    for seed in range(RUNS):
        random = np.random.default_rng(seed)
        time = times(random)
        value = 50 * MIB + random.normal(0, MIB / 10, SNAPSHOTS)
        value[60:] += MIB / MINUTE * (time[60:] - time[60])
        found = trend_of(time, value)
        assert found
        assert 52 <= found.first <= 66
        assert found.slope.slope == pytest.approx(MIB / MINUTE, rel=0.1)
        assert not trend_of(time[:60], value[:60])


def test_a_leak_among_teeth() -> None:
    """What the collector leaves behind grows."""
    for seed in range(RUNS):
        random = np.random.default_rng(seed)
        time = times(random)
        many = int(random.integers(3, 12))
        value = 20 * MIB * (np.arange(SNAPSHOTS) % many) / many + 5 * MIB / MINUTE * time
        found = trend_of(time, value)
        assert found
        assert found.slope.low <= 5 * MIB / MINUTE <= found.slope.high
        assert found.stayed < 0.9


@pytest.mark.check
def test_a_straight_line_of_whole_chunks_is_a_leak_after_ten_snapshots() -> None:
    """What is beside the line is less than a chunk, and lasts from snapshot to snapshot.

    It says nothing against the line.
    """
    random = np.random.default_rng(5)
    for _ in range(RUNS):
        size = float(random.choice([512, 2016, 3008, 20016]))
        time = np.cumsum(random.uniform(9.9, 10.1, 14))
        value = size * np.floor(random.uniform(20, 200) * time / 10 + random.uniform(0, 1))
        for snapshots in range(LEAST_SNAPSHOTS, len(time) + 1):
            found = trend_of(time[:snapshots], value[:snapshots])
            assert found
            assert found.first == 0
            assert found.slope.low <= (value[snapshots - 1] - value[0]) / (time[snapshots - 1] - time[0]) * 1.01


def test_noise_that_lasts_makes_a_line_less_sure() -> None:
    """A random walk is never so straight that its memory does not count."""
    random = np.random.default_rng(6)
    time = np.asarray(10.0 * np.arange(LEAST_SNAPSHOTS), np.float64)
    for _ in range(4000):
        value = np.asarray(np.cumsum(random.standard_normal(len(time))), np.float64)
        slope = theil_sen(time, value).slope
        rest = value - slope * time
        assert np.std(rest) > STRAIGHT * abs(slope) * time[-1]


@pytest.mark.parametrize(("memory", "least"), [(0.0, 0.92), (0.5, 0.9), (0.9, 0.8)])
def test_the_interval_of_a_straight_line_has_the_rate(memory: float, least: float) -> None:
    """Beside a line, too: of noise that lasts, although it is below STRAIGHT."""
    time = np.arange(100.0)
    within = 0
    for run in range(200):
        draw = np.random.default_rng(run)
        noise = np.zeros(len(time))
        for place in range(1, len(time)):
            noise[place] = memory * noise[place - 1] + draw.normal()
        noise *= 0.008 * 1000 * time[-1] / noise.std()
        found = theil_sen(time, 1000 * time + noise)
        within += found.low <= 1000 <= found.high
        assert 0 < found.low <= found.slope <= found.high < np.inf
        assert found.sure > SURE
    assert within >= least * 200


@pytest.mark.check
def test_the_slope_by_hand() -> None:
    time = np.array([0.0, 1, 2, 4])
    made = theil_sen(time, np.array([0.0, 1, 3, 4]))
    # The slopes of the pairs: 1, 1.5, 1, 2, 1, 0.5.
    assert made.slope == 1.0
    assert made.sure == pytest.approx(5 / np.sqrt(4 * 3 * 13 / 18), abs=1e-9)
    assert (made.low, made.high) == (-np.inf, np.inf), "so few snapshots say nothing"


@pytest.mark.check
def test_equal_values_tell_nothing_of_their_order() -> None:
    made = theil_sen(np.arange(4.0), np.array([0.0, 0, 1, 1]))
    # Four of six pairs rise; two pairs of equal values take 2 * 18 from 156.
    assert made.sure == pytest.approx(3 / np.sqrt(120 / 18), abs=1e-9)


@pytest.mark.check
def test_one_wild_snapshot_moves_nothing() -> None:
    time = np.arange(40.0)
    value = 3 * time
    value[20] = 1e9
    assert theil_sen(time, value).slope == pytest.approx(3, rel=1e-6)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 1 << 40), min_size=1, max_size=80),
    st.floats(0.001, 1000, allow_nan=False),
)
def test_any_series_has_an_answer(values: list[int], gap: float) -> None:
    time = np.arange(len(values), dtype=np.float64) * np.float64(gap)
    found = trend_of(time, np.array(values, float))
    if found:
        assert 0 < found.slope.low <= found.slope.slope <= found.slope.high < np.inf
        assert found.slope.sure >= SURE
        assert 0 <= found.stayed <= 1
        assert 0 <= found.first <= len(values) - LEAST_SNAPSHOTS
