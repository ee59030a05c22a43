"""What is said of the measurement noise: what was expected, what the rows show, what may be behind a departure."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from bayes_grpo.fitting.summary import measured
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.series import NoiseLevel

LEVEL = NoiseLevel(0.1, 0.2, "mean and groups", 3.0, 0.0, 0.1)


def fit_with(ratio: float, level: NoiseLevel | None = LEVEL, prior: float = 0.1) -> Any:
    """What `measured` reads of a fit."""
    draws = 0.1 * ratio * np.exp(0.01 * np.random.default_rng(0).standard_normal(500))
    return cast(
        "Any",
        SimpleNamespace(
            as_draws=SimpleNamespace(rows=SimpleNamespace(level=level)),
            priors={"observation_sd": Prior(prior, 0.2)},
            draws=lambda name: {"observation_sd": draws}[name],
        ),
    )


@pytest.mark.parametrize(("ratio", "words"), [(1.0, "times as much."), (0.3, "same prompts"), (2.0, "several rewards")])
def test_a_departure_is_named(ratio, words):
    said = measured(fit_with(ratio))
    assert "0.1 of a typical row is expected from mean and groups (give or take 22%)" in said
    assert f"the rows show {ratio:.2f} [" in said
    assert words in said


def test_nothing_is_said_where_nothing_is_known():
    assert measured(fit_with(1.0, level=None)) == ""
    assert measured(fit_with(1.0, prior=0.3)) == ""  # the user's own prior
