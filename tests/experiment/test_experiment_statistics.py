# SPDX-License-Identifier: MIT
"""Medians, intervals, and what can be told apart: against what is known of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from arenascope.experiment.run_metrics import average
from arenascope.experiment.sampler import Sample
from arenascope.experiment.statistics import CONFIDENCE, compare, estimate, rank_test

pytestmark = pytest.mark.check


def test_an_estimate() -> None:
    found = estimate([5.0, 1.0, 3.0, 2.0, 4.0])
    assert found.median == 3
    assert found.low is not None
    assert found.high is not None
    assert 1 <= found.low < 3 < found.high <= 5
    assert found == estimate([5.0, 1.0, 3.0, 2.0, 4.0]), "the same results, the same answer"


def test_too_few_have_no_interval() -> None:
    assert estimate([1.0, 2.0]) == (1.5, None, None, 2)
    assert not compare([1.0, 2.0], [10.0, 20.0]).apart


def test_the_interval_holds_the_true_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(200):
        found = estimate(rng.lognormal(0, 1, 9).tolist())
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1 <= found.high
    assert held / 200 >= CONFIDENCE - 0.05


def test_the_rank_test_is_exact() -> None:
    assert rank_test(np.array([1.0, 2, 3, 4]), np.array([5.0, 6, 7, 8])) == pytest.approx(2 / 70)
    assert rank_test(np.array([1.0, 2, 3]), np.array([4.0, 5, 6])) == pytest.approx(2 / 20)
    assert rank_test(np.array([1.0, 1, 1, 1]), np.array([1.0, 1, 1, 1])) == 1
    by_hand = [sum(chosen) for chosen in itertools.combinations([1, 2.5, 2.5, 4, 5], 2)]
    seen = abs(1 + 2.5 - 6)
    chance = sum(abs(each - 6) >= seen for each in by_hand) / len(by_hand)
    assert rank_test(np.array([1.0, 2.0]), np.array([2.0, 3, 4])) == pytest.approx(chance)


def test_the_rank_test_of_many_is_near_what_theory_says() -> None:
    # 15 and 15 are too many to inspect all; the normal approximation of this shift gives about 0.05.
    first, second = np.arange(15.0), np.arange(15.0) + 3.3
    assert 0.02 < rank_test(first, second) < 0.09


def test_three_runs_of_each_tell_nothing_and_four_may() -> None:
    assert not compare([1.0, 2, 3], [101.0, 102, 103]).apart
    found = compare([1.0, 2, 3, 4], [101.0, 102, 103, 104])
    assert found.apart
    assert found.median == 100
    assert found.low is not None
    assert 97 <= found.low <= 100


def test_a_share_has_an_interval_of_its_own() -> None:
    # Less is never less by more than all: the difference's interval, divided by one median, would go below -100 %.
    found = compare([700.0, 500, 900, 600, 800], [20.0, 21, 19, 22, 18])
    assert found.low is not None
    assert found.low < -700
    assert found.apart
    assert found.ratio == pytest.approx(20 / 700)
    assert found.ratio_low is not None
    assert found.ratio_high is not None
    assert 0 < found.ratio_low < 20 / 700 < found.ratio_high < 1
    back = found.reverse()
    assert (back.median, back.low, back.high) == (-found.median, -(found.high or 0), -found.low)
    assert back.ratio == pytest.approx(35)
    assert back.ratio_low == pytest.approx(1 / found.ratio_high)
    assert compare([0.0, 1, 1, 1], [5.0, 6, 7, 8]).ratio is None


def test_what_does_not_differ_is_seldom_told_apart() -> None:
    rng = np.random.default_rng(3)
    apart = sum(compare(rng.normal(0, 1, 7).tolist(), rng.normal(0, 1, 7).tolist()).apart for _ in range(200))
    assert apart / 200 <= 1 - CONFIDENCE + 0.03


def test_average_is_over_time_and_not_over_samples() -> None:
    samples = [Sample(at, held, 0, 0, 0, 1) for at, held in ((0, 0), (1, 10), (1.5, 10), (2, 10), (4, 0))]
    assert average(samples, "rss", 0, 4) == pytest.approx((5 + 10 + 10) / 4)
    assert average(samples, "rss", 1, 2) == pytest.approx(10)
    assert average(samples, "rss", 0.5, 1) == pytest.approx(7.5)
    assert average([], "rss", 0, 1) is None
    assert average(samples, "rss", 1, 1) is None
