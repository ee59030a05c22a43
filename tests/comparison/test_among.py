import io

import numpy as np
import pytest
from rich.console import Console

from bayes_grpo import SamplerSettings, among_siblings, fit, render_among
from tests.siblings.made import family

RUNS = family([0, 0, 0, 0], share=0.6, seed=2, spread=0.1)


@pytest.fixture(scope="module")
def fitted():
    return fit(RUNS[0], "flat", sampler=SamplerSettings(chains=2, warmup=50, draws=100))


def test_a_fit_stands_among_its_siblings_and_tells_how_much_of_its_noise_is_the_order_of_data(fitted):
    found = among_siblings(fitted, RUNS[0], RUNS)
    assert found.used == ("run1", "run2", "run3")
    assert [x.name for x in found.left_out] == ["run0"]
    level = next(x for x in found.standings if x.name == "fixed_point")
    means = np.array([r.reward.mean() for r in RUNS])
    assert level.above == np.sum(means[1:] < means[0])
    assert level.siblings.low == pytest.approx(means[1:].min(), abs=0.03)
    assert level.count == 3
    assert 0.0 <= level.p_above <= 1.0
    assert found.order is not None
    assert len(found.order.runs) == 3
    assert found.order.left < 0.9 * found.order.sd
    assert 0.4 < found.order.share.median < 0.8
    told = io.StringIO()
    render_among(found, Console(file=told, width=2000))
    assert f"fixed point above {level.above} of 3" in told.getvalue()
    assert "a copy of it" in told.getvalue()
    assert found.to_dict()["sentence"] == found.sentence
    assert found.to_frame().loc["fixed_point", "count"] == 3


def test_without_siblings_a_fit_stands_alone(fitted):
    found = among_siblings(fitted, RUNS[0], RUNS[0])
    assert found.used == ()
    assert found.order is None
    assert "none of the runs named" in found.sentence
