"""A root or a minimum that SciPy does not find: epsilons and multipliers are then not understated."""

import numpy as np
import pytest
from scipy.optimize import elementwise

from pwfl.privacy import gaussian

DELTA = 1e-5
RHO = np.array([1e-3, 0.5, 4.0, 300.0])
EPSILON = np.array([1e-3, 0.38, 0.95, 60.0])


@pytest.mark.parametrize("search", ["find_root", "find_minimum", "bracket_root", "bracket_minimum"])
@pytest.mark.parametrize(
    ("function", "values"),
    [(gaussian.exact_epsilon, RHO), (gaussian.tight_epsilon, RHO), (gaussian.exact_multiplier, EPSILON)],
    ids=["exact_epsilon", "tight_epsilon", "exact_multiplier"],
)
def test_what_is_not_found_is_not_understated(monkeypatch, function, values, search):
    expected, works = function(values, DELTA), getattr(elementwise, search)

    def fails_in_the_middle(*arguments, **options):
        found = works(*arguments, **options)
        found.success[1:3] = False
        for name in {"x", "f_x"} & set(found):
            if isinstance(found[name], np.ndarray):
                found[name][1:3] = 0.0
        return found

    monkeypatch.setattr(elementwise, search, fails_in_the_middle)
    assert (function(values, DELTA) >= expected * (1 - 1e-12)).all()
