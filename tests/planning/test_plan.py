"""`plan`: thresholds against matrices written another way, outcomes of others, noise at equal cost."""

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from bayes_grpo.common.errors import SettingError
from bayes_grpo.fitting.fit import fit
from bayes_grpo.planning.noise import GroupSettings, row_noises
from bayes_grpo.planning.outcomes import failure_regression, outcomes_of_similar_changes
from bayes_grpo.planning.plan import plan
from bayes_grpo.probing.course import pooled_probes
from bayes_grpo.probing.file import save_probes
from bayes_grpo.probing.predict import limits_of
from bayes_grpo.views.planning import answer_of
from bayes_grpo.views.view import view
from tests.families.made import relaxing
from tests.helpers.command import call
from tests.helpers.probes import noisy_probes
from tests.helpers.runs import FEW


def growth(learning_rate: float, stiffness: float, momentum: float, refresh: int, averaged: bool) -> float:
    """Spectral radius of one refresh cycle: velocity and position stepped from each unit vector in turn."""
    columns = []
    for velocity, position in np.eye(2):
        rollout = position
        for _ in range(refresh):
            gradient = -stiffness * rollout
            velocity = momentum * velocity + ((1.0 - momentum) if averaged else 1.0) * gradient
            position = position + learning_rate * velocity
        columns.append((velocity, position))
    return float(np.abs(np.linalg.eigvals(np.array(columns).T)).max())


@pytest.mark.parametrize(
    ("momentum", "refresh", "convention"),
    [(0.9, 4, "heavy_ball"), (0.9, 4, "ema"), (0.5, 7, "heavy_ball"), (0.0, 2, "heavy_ball"), (0.95, 1, "ema")],
)
def test_thresholds_on_the_command_line_agree_with_the_recurrence_itself(momentum, refresh, convention):
    words = ("--stiffness", 3.2, "--learning-rate", 1e-3, "--momentum", momentum, "--refresh", refresh)
    found = json.loads(call("plan", *words, "--convention", convention, "--json")[1])
    exact = {x["kind"]: x["learning_rate"]["median"] for x in found["thresholds"]}
    averaged = convention == "ema"

    def excess(rate: float) -> float:
        return growth(rate, 3.2, momentum, refresh, averaged) - 1.0

    near = exact["frozen_policy"]
    root = brentq(excess, 0.9 * near, 1.1 * near, xtol=1e-16)
    assert near == pytest.approx(root, rel=1e-10)
    assert max(excess(x) for x in np.linspace(0.01, 0.999, 50) * near) < 0.0
    factor = (1.0 - momentum) if averaged else 1.0
    assert exact["published_rule"] == pytest.approx((1.0 - momentum) / (3.2 * refresh * factor), rel=1e-10)


def test_largest_refresh_interval_and_momentum_lie_at_the_threshold():
    found = plan(stiffness=3.2, learning_rate=0.01, momentum=0.9, convention="heavy_ball", refresh_interval=4)
    k = found.largest_refresh_interval
    assert growth(0.01, 3.2, 0.9, k, False) <= 1.0 < growth(0.01, 3.2, 0.9, k + 1, False)
    fast = plan(stiffness=3.2, learning_rate=0.05, momentum=0.5, convention="heavy_ball", refresh_interval=4)
    root = brentq(lambda m: growth(0.05, 3.2, m, 4, False) - 1.0, 0.5, 0.999, xtol=1e-14)
    assert fast.largest_momentum == pytest.approx(root, abs=1e-10)


def test_verdict_and_answer_name_the_linear_threshold_and_keep_others_apart():
    stable = plan(stiffness=3.2, learning_rate=0.01, convention="heavy_ball", refresh_interval=4)
    unstable = plan(stiffness=3.2, learning_rate=0.1, convention="heavy_ball", refresh_interval=4)
    assert (stable.verdict, unstable.verdict) == ("stable", "unstable")
    document = view(unstable)
    assert document.answer.startswith("Unstable by the exact linear threshold")
    assert "A separate statement, what happened to others: 7 of 28 public pairs" in document.why
    assert all(math.isnan(x.p_fails) for x in stable.others)  # no run that worked


def test_without_a_learning_rate_the_answer_is_the_margin_with_its_number():
    fitted = plan(fit(relaxing("unknown", rows=40, seed=1), "exponential", sampler=FEW))
    assert math.isnan(fitted.settings.learning_rate)
    assert fitted.verdict == "cannot_tell"
    margin = fitted.threshold("frozen_policy").margin
    assert answer_of(fitted).startswith(f"The margin is {margin.median:.3g} [")
    known = plan(stiffness=3.2, learning_rate=0.01, convention="heavy_ball", refresh_interval=4)
    assert ": the largest stable learning rate is 0." in answer_of(known)


def test_a_plan_needs_a_stiffness_and_a_learning_rate():
    with pytest.raises(SettingError, match="expected a log, a stiffness or a probe"):
        plan()
    with pytest.raises(SettingError, match=r"^learning_rate: expected the rate of the planned run, found none"):
        plan(stiffness=3.2)
    for name, value in (("momentum", 1.0), ("refresh_interval", 0), ("learning_rate", 0.0), ("stiffness", -1.0)):
        good: dict[str, Any] = {"stiffness": 3.2, "learning_rate": 0.01}
        with pytest.raises(SettingError, match=rf"^{name}: "):
            plan(**{**good, name: value})


def test_measured_stiffness_on_the_command_line(tmp_path):
    probes = noisy_probes(4)
    path = tmp_path / "probe.json"
    save_probes(probes, path)
    found = json.loads(call("plan", "--learning-rate", 0.01, "--refresh", 4, "--probe", path, "--json")[1])
    whole = pooled_probes(probes)
    exact = next(x for x in found["thresholds"] if x["kind"] == "frozen_policy")
    assert exact["p_below"] == pytest.approx(limits_of(whole, 0.01, 0.9, 4).p_stable, abs=2e-3)
    assert found["settings"]["convention"] == "heavy_ball"
    assert found["measured"]["stiffest"]["mean"] == pytest.approx(whole.stiffest.mean)
    assert found["course"]["last"] == 75.0


def test_a_run_that_failed_is_not_safe_at_its_own_settings(tmp_path):
    rewards = [0.2 + 0.5 * (1 - 2.7 ** (-s / 10)) if s < 40 else 0.02 * (s % 3) for s in range(1, 61)]
    log = tmp_path / "a.csv"
    log.write_text("\n".join(["step,reward,learning_rate", *(f"{s},{r},1e-6" for s, r in enumerate(rewards, 1))]))
    words = ("plan", log, "--stiffness", 1.0, "--json")
    assert json.loads(call(*words).out)["verdict"] == "run_failed"
    lower = json.loads(call(*words, "--learning-rate", 5e-7).out)
    assert lower["verdict"] == "stable"
    assert lower["changes"][0]["ratio"] == 0.5


def test_others_are_counted_by_about_the_same_change():
    up, down = (
        outcomes_of_similar_changes("learning_rate", 2.0, 1e-5),
        outcomes_of_similar_changes("learning_rate", 0.5, 1e-5),
    )
    assert (up.failed > 0, down.failed) == (True, 0)
    assert down.p_fails < up.p_fails < outcomes_of_similar_changes("learning_rate", 10.0, 1e-5).p_fails < 1.0
    assert math.isnan(outcomes_of_similar_changes("learning_rate", 2.0, 1e-2).p_fails)  # no public run is near
    assert math.isnan(outcomes_of_similar_changes("group_size", 2.0, 1e-5).p_fails)


def test_the_probability_is_the_integral_over_coefficients_and_repositories():
    r = failure_regression()
    rng = np.random.default_rng(0)
    q = rng.multivariate_normal(r.mean, r.covariance, 200_000)
    z = q @ [1.0, math.log(4.0), math.log(2.0)] + r.repository_sd * rng.standard_normal(len(q))
    assert r.probability(4.0, 2e-5) == pytest.approx(float(np.mean(1.0 / (1.0 + np.exp(-z)))), abs=0.02)


def test_noise_at_equal_cost_is_that_of_drawn_rows():
    rows = row_noises(GroupSettings(8, 16), GroupSettings(None, None), 0.3, 1.0)
    assert all(x.cost == 1.0 for x in rows)
    rng = np.random.default_rng(0)
    drawn = {}
    for x in rows:
        g, p = int(x.group_size), int(x.prompts_per_step)
        prompts = math.sqrt(0.3) * rng.standard_normal((4000, p))
        drawn[g] = (prompts.mean(axis=1) + math.sqrt(0.7 / (g * p)) * rng.standard_normal(4000)).std()
    for x in rows:
        assert x.ratio == pytest.approx(drawn[int(x.group_size)] / drawn[8], rel=0.06)
        assert x.sd == pytest.approx(x.ratio)
