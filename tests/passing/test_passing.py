"""pass@1 and pass@k: counts, the unbiased estimate, the verdict on known courses, and what is refused."""

from itertools import combinations

import numpy as np
import pytest

from bayes_grpo import read_rollouts, view
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.passing.passing import passing
from bayes_grpo.rollouts.passes import pass_at, pass_counts, right_of
from tests.helpers.made_rollouts import rollouts_of

STEPS, PROMPTS, GROUP = 30, 10, 8


def made(mean, spread, *, parts: tuple[str, ...] = (), seed=0, group=GROUP):
    """Groups whose mean logit and spread over prompts move in a line."""
    rng = np.random.default_rng(seed)
    level, wide = (np.linspace(x[0], x[1], STEPS)[:, None] for x in (mean, spread))
    p = 1.0 / (1.0 + np.exp(-(level + wide * rng.standard_normal((STEPS, PROMPTS)))))
    right = (rng.random((STEPS, PROMPTS, group)) < p[..., None]).ravel().astype(float)
    step = np.repeat(np.arange(1, STEPS + 1), PROMPTS * group)
    prompt = np.repeat(np.arange(STEPS * PROMPTS), group)
    reward = right if not parts else 0.3 * rng.random(len(right))
    return rollouts_of(reward, step, prompt, parts=dict(zip(parts, [right] * len(parts), strict=True)))


@pytest.mark.parametrize(("n", "c", "k"), [(5, 2, 1), (5, 2, 3), (6, 0, 2), (6, 5, 4), (4, 4, 4)])
def test_the_estimate_is_the_mean_over_all_ways_to_choose_k(n, c, k):
    tries = [any(x < c for x in chosen) for chosen in combinations(range(n), k)]
    assert pass_at(np.array([n]), np.array([c]), k)[0] == pytest.approx(np.mean(tries))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("mean", "spread", "says"),
    [
        ((-2.0, 1.0), (1.0, 1.0), "More prompts are solved"),
        ((-1.0, 0.3), (0.3, 6.0), "Sharpening: pass@1 rises while pass@8 falls"),
    ],
)
def test_the_verdict_on_a_known_course(mean, spread, says):
    found = passing(made(mean, spread))
    assert found.convergence.passed
    assert found.verdict.startswith(says)
    assert found.p_rise_1 > 0.95
    assert (found.p_sharpening > 0.9) == says.startswith("Sharpening")
    assert len(found.phases) == 5
    for phase in found.phases:
        assert phase.pass_k.low - 0.05 < phase.estimate_k < phase.pass_k.high + 0.05
    assert "tries beyond 8" in view(found).unchecked


def test_right_answers_are_those_of_the_reward_or_of_a_part():
    run = made((-1.0, 0.0), (1.0, 1.0), parts=("accuracy", "format_ok"))
    assert right_of(run).by == "accuracy"
    assert right_of(run, "format_ok").by == "format_ok"
    plain = made((-1.0, 0.0), (1.0, 1.0))
    assert np.array_equal(right_of(plain).right, plain.reward)
    with pytest.raises(SettingError, match="expected one of reward, accuracy, format_ok, found 'none'"):
        right_of(run, "none")
    with pytest.raises(SettingError, match="expected NAME>=NUMBER"):
        right_of(run, "reward>=x")
    assert right_of(run, "accuracy>=0.5").by == "accuracy>=0.5"


def test_what_has_no_pass_at_k_is_refused_in_words():
    with pytest.raises(FitError, match="found groups of one"):
        passing(made((-1.0, 0.0), (1.0, 1.0), group=1))
    with pytest.raises(FitError, match=r'name one as in right="reward>=1"$'):
        passing(made((-1.0, 0.0), (1.0, 1.0), parts=("style",)))
    with pytest.raises(FitError, match="at 6 steps or more"):
        passing(made((-1.0, 0.0), (1.0, 1.0)).until(4))


def test_distinct_right_answers_are_counted(tmp_path):
    run = made((-1.0, 1.0), (1.0, 1.0))
    table = run.to_frame().rename(columns={"prompt": "prompt_id"})[["step", "prompt_id", "reward"]]
    two = table.assign(completion=[f"answer {i % 2}" for i in range(len(table))])
    two.to_csv(tmp_path / "c.csv", index=False)
    counts = pass_counts(read_rollouts(tmp_path / "c.csv"), right_of(run))
    assert counts.distinct.max() == 2
    assert np.all(counts.distinct <= np.minimum(counts.c, 2))
