"""The paper's predictions on a network: the benchmark's sections run, and what they find has the size it must have."""

import pytest

from benchmarks.lab.studies.cases import make_cases
from benchmarks.lab.studies.dynamics import main
from benchmarks.lab.studies.thresholds import bisected


@pytest.mark.slow
def test_a_quick_section_finds_the_onset_of_oscillation_between_its_bounds():
    found = main(["--quick", "--only", "b"])["b"]["early"]
    for name in ("momentum 0", "momentum 0.5"):
        assert 0.2 < found[name]["stiffest"] < 5.0


@pytest.mark.slow
def test_the_quick_case_is_a_stable_fixed_point():
    (case,) = make_cases(True, ("early",))
    assert case.point.residual < 1e-14
    assert 0.3 < case.point.reward < 0.99
    assert (case.rates > 0).all()
    assert 0 < case.reward.curvature <= case.rates[0]


def test_a_boundary_is_found_by_halves():
    found = bisected(lambda x: x > [0.3, 2.0], [0.01, 0.01], [10.0, 10.0], 30)
    assert abs(found / [0.3, 2.0] - 1.0).max() < 1e-6
