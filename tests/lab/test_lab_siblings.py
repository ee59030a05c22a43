"""Families of siblings in the laboratory: what they change, how they are listed, and how told risks are scored."""

import math

import numpy as np
import pytest

pytest.importorskip("equinox")

from bayes_grpo.risk.failure import failure_risk, learned_failures
from bayes_grpo.risk.threshold import Change, change
from benchmarks.lab.learners.failing import as_pairs, told_of
from benchmarks.lab.learners.failing_scores import calibration_error
from benchmarks.lab.learners.lab_siblings import LADDER, REPO, family_draws, settings_of_draw
from benchmarks.lab.learners.siblings import Sibling, sibling_families


def test_a_family_has_a_ladder_of_rates_and_runs_that_change_more():
    draws = family_draws(1, 3)
    settings = [settings_of_draw(draw) for draw in draws]
    ladder, mixed = settings[: len(LADDER)], settings[len(LADDER) :]
    rates = np.array([s["learning_rate"] for s in ladder])
    np.testing.assert_allclose(rates / rates[1], LADDER)
    assert all({k for k, x in change(ladder[1], s)._asdict().items() if x} <= {"learning_rate"} for s in ladder)
    assert any(x for s in mixed for k, x in change(ladder[1], s)._asdict().items() if k != "learning_rate")
    assert len({draw.seed for draw in draws}) == len(draws)
    again, other = family_draws(1, 3), family_draws(2, 3)
    assert [d.seed for d in again] == [d.seed for d in draws]
    assert other[0].seed != draws[0].seed


def family_of(repo: str):
    rates = {"slow": 1e-6, "usual": 1e-5, "fast": 1e-3}
    runs = [
        Sibling(name, repo, "one", {"learning_rate": rate, "full": 1.0}, "healthy" if rate < 1e-4 else "collapse")
        for name, rate in rates.items()
    ]
    return sibling_families([r._replace(label=r.label.replace("collapse", "dynamical_instability")) for r in runs])


def test_a_small_network_has_no_rate_that_language_models_share():
    """Its rates have a scale of their own: by that of public runs they tell nothing."""
    own, public = learned_failures(), told_of(family_of(REPO), learned_failures(), 0.1, scaled=False)
    for row in public:
        assert row["p"] == failure_risk(Change(*row["change"]), known=own).p
    shifted = own._replace(posterior=dict(own.posterior) | {"scale": own.posterior["scale"] + math.log(1e3)})
    (by_ours,) = (r for r in told_of(family_of(REPO), shifted, 0.1) if r["from"] == "usual" and r["to"] == "fast")
    (by_public,) = (r for r in public if r["from"] == "usual" and r["to"] == "fast")
    assert by_ours["p"] < by_public["p"]
    assert np.exp(as_pairs(family_of(REPO)).rate).tolist() == pytest.approx([1e-6, 1e-5])


def test_pairs_are_told_what_plan_would_say():
    rows = told_of(family_of("somebody/else"), learned_failures(), 0.1)
    assert len(rows) == 4
    (worst,) = [row for row in rows if row["from"] == "usual" and row["to"] == "fast"]
    assert worst["failed"] == 1
    assert worst["p"] == failure_risk(Change(learning_rate=math.log(100.0)), rate=1e-5).p


def test_calibration_error_of_what_comes_true_is_small():
    rng = np.random.default_rng(0)
    p = rng.random(4000)
    honest = [{"p": x, "failed": rng.random() < x} for x in p]
    assert calibration_error(honest) < 0.03
    assert calibration_error([{"p": 0.9, "failed": False}]) == pytest.approx(0.9)
