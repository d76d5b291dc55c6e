"""Data dealt out to users: nothing twice, at random, the same for whatever else is asked."""

import numpy as np
import pytest
from scipy import stats

from pwfl.learning.partition import deal

FALSE_ALARM = 1e-6


def test_everybody_gets_as_many_as_asked_and_nothing_is_dealt_twice():
    found = deal(100, np.array([30, 0, 5, 65]), seed=1, realization=0)
    assert [len(mine) for mine in found] == [30, 0, 5, 65]
    assert sorted(np.concatenate(found)) == list(range(100))


def test_every_sample_is_as_likely_in_every_hand():
    dealt = np.array([deal(6, np.array([2, 3]), seed=1, realization=r)[1] for r in range(2000)])
    # Drawn without replacement, counts vary less than the test takes them to.
    assert stats.chisquare(np.bincount(dealt.ravel(), minlength=6)).pvalue > FALSE_ALARM


def test_users_who_ask_for_less_take_nothing_from_those_before():
    many, few = (deal(50, np.array([10, last]), seed=3, realization=2) for last in (40, 1))
    assert np.array_equal(many[0], few[0])
    assert np.array_equal(many[1][:1], few[1])


def test_realizations_and_seeds_deal_anew():
    one, other, third = (np.concatenate(deal(50, np.array([50]), *key)) for key in ((1, 0), (1, 1), (2, 0)))
    assert (one != other).any()
    assert (one != third).any()


def test_more_than_there_is_cannot_be_dealt():
    with pytest.raises(ValueError, match="users are to get 11 samples, there are 10"):
        deal(10, np.array([5, 6]), seed=1, realization=0)
