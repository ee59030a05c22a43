"""The paper's predictions on a network: the benchmark's sections run, and what they find has the size it must have."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.lab.curvature import RewardSpectrum
from benchmarks.lab.studies.cases import make_cases
from benchmarks.lab.studies.dynamics import main
from benchmarks.lab.studies.fits import courses, covered, seen_curvature
from benchmarks.lab.studies.slow import LAWS, explained
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


def test_a_heavy_ball_decays_at_the_slow_root_of_its_map():
    (found,) = courses(np.array([1e-3]), 0.5)
    root = max(np.roots([1.0, -(1.5 - 1e-3), 0.5]))
    np.testing.assert_allclose(found[6:] / found[5:-1], root**12, rtol=1e-9)
    # At rest it starts behind the slow root alone, by the steps that its momentum takes.
    assert found[5] == pytest.approx(root ** (12 * 5.5), rel=0.01)


def test_the_curvature_of_one_mode_is_seen_and_that_of_two_lies_between_them():
    one = RewardSpectrum(np.array([2.0]), np.array([1.0]), 2.0)
    assert seen_curvature(one, 1e-3, 0.5) == pytest.approx(2.0, rel=0.01)
    two = RewardSpectrum(np.array([0.5, 2.0]), np.array([0.5, 0.5]), 1.25)
    assert 0.5 < seen_curvature(two, 1e-3, 0.5) < two.curvature
    # A short run sees the first slope, a long one what is left.
    assert seen_curvature(two, 3e-5, 0.5) > seen_curvature(two, 3e-3, 0.5)


def test_coverage_counts_where_there_is_something_to_recover():
    found = []
    for i, (held, exposure) in enumerate([(True, 0.5), (False, -0.1), (True, 0.9)]):
        row = {"truth": 2.0, "median": 2.2, "covered": held, "error_in_sd": 0.5}
        found.append({"converged": True, "push": 0.05 * (-1) ** i, "exposure": exposure, "curvature": row})
        if i < 2:
            found[-1]["damping"] = row
    out = covered(found)
    assert (out["runs"], out["curvature_runs"], out["damping_runs"]) == (3, 3, 2)
    assert out["curvature_coverage"] == pytest.approx(2 / 3)
    assert out["curvature_median_error"] == pytest.approx(0.1)
    assert (out["damping_inside_covered"], out["damping_outside_covered"], out["damping_outside_runs"]) == (1, 0, 1)


def test_a_slow_start_is_explained_where_all_other_explanations_are_worse():
    worse = dict.fromkeys(LAWS, "worse")
    assert explained(worse | {"oscillator": "best"}) == "inertia"
    assert explained(worse | {"bernoulli": "best", "logistic": "cannot tell"}) == "p(1 - p)"
    assert explained(worse | {"bernoulli": "best", "oscillator": "cannot tell"}) == "cannot tell"


@pytest.mark.thorough
def test_pictures_are_drawn_from_the_stored_result(tmp_path: Path):
    main(["--plot", str(tmp_path / "new")])
    drawn = sorted((tmp_path / "new").iterdir())
    assert [x.name for x in drawn] == [f"lab_{name}.png" for name in ("a", "adam", "b", "c", "d", "e")]
    assert all(x.stat().st_size > 5_000 for x in drawn)
