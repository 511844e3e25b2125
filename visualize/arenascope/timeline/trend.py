# SPDX-License-Identifier: MIT
"""Whether numbers over time grow without end, as a leak does: docs/over-time.md, "Leak suspects".

Pure functions on one series: times in seconds, ascending, and a number at each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEAST_SNAPSHOTS: Final = 10  # of a trend
SURE: Final = 3.8  # standard deviations of Kendall's S that a trend must have: one in 10,000 by chance
STRAIGHT: Final = 0.01  # of the growth: no noise of this deviation makes it; a random walk's is above 0.02
SHOWN: Final = 1.96  # of the interval that is shown: 95 %
STEP: Final = 1.2  # each span that is tried has so many times the snapshots of the one before
MOST_POINTS: Final = 150  # of a span, whose pairs are compared: evenly chosen
PASSED: Final = 1.5  # times the largest fall, that a growth must be
LONGER: Final = 3.0  # times as long as a rise that fell again: then it is another kind of rise
LEAST_RISE: Final = 20  # snapshots: a rise that fell again may have begun before the first snapshot
STEADY: Final = 0.75  # of its growth before, that the later part of a span must have
STEP_SNAPSHOTS: Final = 3  # before a step, and behind it
AWAY: Final = 5.0  # times the median distance: then a snapshot is beside the line
BURST: Final = 0.5  # of the growth between the middles of its first and last third, that one step may be
STEEPER: Final = 1.5  # times the rate: growth before the span was of another kind
HELD: Final = 4.0  # times as long as a steeper rise before it, that a span must be
MOSTLY: Final = (0.1, 0.9)  # of the steeper rise: what counts as its time
RECENT: Final = 0.5  # of the rate, that the last snapshots must have
PAUSES: Final = 3.0  # times the longest pause: the last snapshots


class Slope(NamedTuple):
    """A slope per second with the limits of its interval, and how sure it is (standard deviations)."""

    slope: float
    low: float
    high: float
    sure: float


@dataclass(frozen=True)
class Trend:
    """A growth that goes on. Numbers per second are slopes."""

    first: int  # place of its first snapshot
    slope: Slope
    seconds: float
    growth: float  # by the slope
    stayed: float  # of all that came from snapshot to snapshot: the share that is still there


def theil_sen(time: Floats, value: Floats, width: float = SHOWN) -> Slope:
    """The median of the slopes of all pairs; the interval is Kendall's, for noise that lasts from snapshot to snapshot.

    A straight line is as sure as without such noise, however few its snapshots; its interval is no wider than its
    slopes.
    """
    count = len(time)
    first, second = np.triu_indices(count, 1)
    rise = value[second] - value[first]
    slopes = np.sort(rise / (time[second] - time[first]))
    slope = _middle(slopes)
    score = float(np.sign(rise).sum())
    plain = float(np.sqrt(_variance(value)))
    if plain == 0:
        return Slope(slope, slope, slope, 0.0)
    rest = value - slope * time
    rest -= rest.mean()
    spread = plain * float(np.sqrt(_lasting(rest)))
    straight = _is_straight(rest, slope * float(time[-1] - time[0]))
    pairs = len(slopes)
    low = int(np.floor((pairs - width * spread) / 2)) - 1
    high = int(np.ceil((pairs + width * spread) / 2))
    if straight:
        low, high = max(low, 0), min(high, pairs - 1)
    limits = (
        float(slopes[low]) if low >= 0 else -np.inf,
        float(slopes[high]) if high < pairs else np.inf,
    )
    sure = (score - np.sign(score)) / (plain if straight else spread)
    return Slope(slope, *limits, float(sure))


def _middle(ascending: Floats) -> float:
    half = len(ascending) // 2
    return float(ascending[half] if len(ascending) % 2 else (ascending[half - 1] + ascending[half]) / 2)


def _median(values: Floats) -> float:
    """Returns the median of a few dozen numbers; numpy's own takes ten times as long to see what it was given."""
    return _middle(np.sort(values))


def _variance(value: Floats) -> float:
    """Returns the variance of Kendall's S where there is no trend. Equal values tell nothing of their order."""
    count = len(value)
    _, ties = np.unique(value, return_counts=True)
    tied = (ties * (ties - 1.0) * (2.0 * ties + 5)).sum()
    return float((count * (count - 1.0) * (2 * count + 5) - tied) / 18)


def _lasting(rest: Floats) -> float:
    """By how much the noise's memory makes a trend less sure: of noise of the first order."""
    power = float((rest * rest).sum())
    alike = min(max(float((rest[1:] * rest[:-1]).sum()) / power, 0.0), 0.95) if power > 0 else 0.0
    return (1 + alike) / (1 - alike)


def _is_straight(rest: Floats, growth: float) -> bool:
    """Whether no lasting noise can have made the line. Bytes come in whole chunks: these leave something beside it."""
    return float((rest * rest).sum()) <= (STRAIGHT * growth) ** 2 * len(rest)


def trend_of(time: Floats, value: Floats) -> Trend | None:
    """The growth that goes on at the last snapshot; None: there is none that can be told from what comes and goes."""
    count = len(time)
    if count < LEAST_SNAPSHOTS or value[-1] <= value.min():
        return None
    length = count
    while length >= LEAST_SNAPSHOTS:
        found = _span(time, value, count - length)
        if found:
            return _judged(time, value, _since(time, value, found))
        length = min(int(length / STEP), length - 1)
    return None


def _span(time: Floats, value: Floats, first: int) -> Trend | None:
    """The snapshots from `first` on, if they rise steadily."""
    t, y = time[first:], value[first:]
    if not _steady(y):
        return None
    slope = _slope(t, y)
    return None if slope.sure < SURE or slope.low <= 0 else _trend(t, y, first, slope)


def _slope(time: Floats, value: Floats) -> Slope:
    chosen = _spread(len(time))
    return theil_sen(time[chosen], value[chosen])


def _trend(t: Floats, y: Floats, first: int, slope: Slope) -> Trend:
    seconds = float(t[-1] - t[0])
    rises = np.diff(y)
    came = float(rises[rises > 0].sum())
    growth = slope.slope * seconds
    stayed = min(max(float(y[-1] - y[0]) / came, 0.0), 1.0) if came else 0.0
    return Trend(first, slope, seconds, growth, stayed)


def _since(time: Floats, value: Floats, found: Trend) -> Trend:
    """The same trend from the snapshot on, from which the line of its later half holds."""
    middle = found.first + max((len(time) - found.first) // 2 - LEAST_SNAPSHOTS, 0)
    line = _slope(time[middle:], value[middle:])
    rest = value - line.slope * (time - time[middle])
    rest = np.abs(rest - _median(rest[middle:]))
    unsure = (line.slope - max(line.low, 0.0)) * np.abs(time - time[middle])
    off = rest > AWAY * _median(rest[middle:]) + unsure
    # A single snapshot beside the line does not end it.
    ends = np.flatnonzero(off[1:middle] & off[: middle - 1]) if middle > 1 else np.empty(0)
    first = int(ends[-1]) + 2 if len(ends) else 0
    if len(time) - first < LEAST_SNAPSHOTS:
        return found
    slope = _slope(time[first:], value[first:])
    return found if slope.low <= 0 or slope.sure < SURE else _trend(time[first:], value[first:], first, slope)


def _spread(count: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).round().astype(np.int64))


def _steady(value: Floats) -> bool:
    """The later growth is not much less than the earlier, nor the other way round, nor all of it one step."""
    parts = np.array_split(value, 3)
    middle = [_median(part) for part in parts]
    early, late = middle[1] - middle[0], middle[2] - middle[1]
    if early + late <= 0:
        return False
    # What the medians of such parts differ by, from noise alone.
    noise = 1.5 * _median(np.abs(np.diff(value, 2))) / np.sqrt(len(parts[0]))
    if min(early, late) + noise < STEADY * max(early, late):
        return False
    return _step(value) <= BURST * (middle[2] - middle[0])


def _step(value: Floats) -> float:
    """The largest rise in one step that stays: some snapshots before it are all below some snapshots behind it."""
    views = np.lib.stride_tricks.sliding_window_view(value, STEP_SNAPSHOTS)
    return float((views.min(axis=1)[STEP_SNAPSHOTS:] - views.max(axis=1)[:-STEP_SNAPSHOTS]).max())


def _judged(time: Floats, value: Floats, trend: Trend) -> Trend | None:
    kept = (
        _passes_falls(time, value, trend)
        and not _slowing(time, value, trend)
        and _goes_on(time[trend.first :], value[trend.first :], trend)
    )
    return trend if kept else None


def fall(value: Floats) -> tuple[float, int]:
    """The largest fall from a snapshot to a later one, and the place of the snapshot before it."""
    highest = np.maximum.accumulate(value)
    falls = highest - value
    end = int(falls.argmax())
    return float(falls[end]), int(value[: end + 1].argmax())


def _passes_falls(time: Floats, value: Floats, trend: Trend) -> bool:
    """It has grown by more than ever fell; or it has lasted far longer than the rise that fell before."""
    inside, _ = fall(value[trend.first :])
    if trend.growth <= PASSED * inside:
        return False
    before, top = fall(value[: trend.first + 1])
    if trend.growth > PASSED * before:
        return True
    ahead = value[: top + 1]
    bottom = len(ahead) - 1 - int(ahead[::-1].argmin())
    rose = max(float(time[top] - time[bottom]), LEAST_RISE * trend.seconds / (len(time) - 1 - trend.first))
    return trend.seconds > LONGER * rose


def _slowing(time: Floats, value: Floats, trend: Trend) -> bool:
    """Before it there was a steeper growth, and it has not yet lasted as long: perhaps it comes to an end, too."""
    start = end = trend.first
    length = len(time) - end
    while start > 0:
        begin = max(start - length, 0)
        seconds = float(time[start] - time[begin])
        if float(value[start] - value[begin]) <= STEEPER * trend.slope.slope * seconds:
            break
        start = begin
    rose = value[start : end + 1] - value[start]
    part = time[start : end + 1][(rose > MOSTLY[0] * rose[-1]) & (rose < MOSTLY[1] * rose[-1])]
    return len(part) > 0 and trend.seconds < HELD * float(part[-1] - part[0])


def _goes_on(time: Floats, value: Floats, trend: Trend) -> bool:
    """The last snapshots still rise. Where growth comes in bursts, they are as many as have some."""
    rising = np.flatnonzero(np.diff(value) > 0)
    pause = int(np.diff(rising).max()) if len(rising) > 1 else len(value)
    snapshots = min(max(LEAST_SNAPSHOTS, int(PAUSES * pause)), len(value))
    return _slope(time[-snapshots:], value[-snapshots:]).high >= RECENT * trend.slope.slope
