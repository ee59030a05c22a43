import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from bayes_grpo import SamplerSettings, among_siblings, fit, get_regime, render_among
from bayes_grpo.comparison import among as rooms
from tests.siblings.made import family

RUNS = family([0, 0, 0, 0], share=0.6, seed=2, spread=0.1)


def drawn(table):
    rng = np.random.default_rng(0)
    values = {p.name: 0.1 + 0.01 * rng.random(200) for p in get_regime("flat").parameters}
    return values | {"fixed_point": table.y.mean() + 0.01 * rng.standard_normal(200)}


@pytest.fixture
def made(monkeypatch) -> Any:
    """A fit of the first run by draws that take no time, and siblings likewise."""
    monkeypatch.setattr(rooms, "_fitted", lambda _, table, seed: drawn(table))
    own = drawn(SimpleNamespace(y=RUNS[0].reward))
    return SimpleNamespace(regime=get_regime("flat"), about=SimpleNamespace(signal="reward"), draws=own.__getitem__)


def check(found):
    assert found.used == ("run1", "run2", "run3")
    assert [x.name for x in found.left_out] == ["run0"]
    level = next(x for x in found.standings if x.name == "fixed_point")
    means = np.array([r.reward.mean() for r in RUNS])
    assert level.above == np.sum(means[1:] < means[0])
    assert level.siblings.low == pytest.approx(means[1:].min(), abs=0.05)
    assert level.count == 3
    # By medians it is counted whole; by draws the less, the wider the posteriors are.
    assert 0.5 < level.p_above <= 1.0 if level.above == 3 else 0.0 <= level.p_above < 0.9
    assert found.order is not None
    assert len(found.order.runs) == 3
    assert found.order.left < 0.9 * found.order.sd
    assert 0.4 < found.order.share.median < 0.8
    return level


def test_a_fit_stands_among_its_siblings_and_tells_how_much_of_its_noise_is_the_order_of_data(made):
    found = among_siblings(made, RUNS[0], RUNS)
    level = check(found)
    assert level.p_above == pytest.approx(level.above / 3, abs=0.2)  # these posteriors are narrow
    told = io.StringIO()
    render_among(found, Console(file=told, width=2000))
    assert f"fixed point above {level.above} of 3" in told.getvalue()
    assert "a copy of it" in told.getvalue()
    assert found.to_dict()["sentence"] == found.sentence
    assert found.to_frame().loc["fixed_point", "count"] == 3


def test_without_siblings_a_fit_stands_alone(made):
    found = among_siblings(made, RUNS[0], RUNS[0])
    assert found.used == ()
    assert found.order is None
    assert "none of the runs named" in found.sentence


@pytest.mark.thorough
def test_siblings_are_fitted_with_the_same_law():
    result = fit(RUNS[0], "flat", sampler=SamplerSettings(chains=2, warmup=100, draws=200))
    check(among_siblings(result, RUNS[0], RUNS))
