"""The paper's predictions on a network: the benchmark's sections run, and what they find has the size it must have."""

import pytest

from benchmarks.common import bisected
from benchmarks.lab.studies.dynamics import main


@pytest.mark.slow
def test_a_quick_section_finds_the_onset_of_oscillation_between_its_bounds():
    found = main(["--quick", "--only", "b"])["b"]["early"]
    for name in ("momentum 0", "momentum 0.5"):
        assert 0.2 < found[name]["stiffest"] < 5.0


def test_a_boundary_is_found_by_halves():
    found = bisected(lambda x: x > [0.3, 2.0], [0.01, 0.01], [10.0, 10.0], 30)
    assert abs(found / [0.3, 2.0] - 1.0).max() < 1e-6
