"""Groups, variances of prompts and two runs compared by prompt, on simulated prompts."""

from itertools import combinations

import numpy as np
import pytest

from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.rollouts.cells import Variances, cells_of, variances_of
from bayes_grpo.rollouts.groups import _all_equal, _values, groups_of
from bayes_grpo.rollouts.paired import compare_by_prompt
from tests.helpers.made_rollouts import graded, rollouts_of

STEPS, PROMPTS = 50, 8
LEVEL = np.linspace(-1.5, 1.5, STEPS)


def runs(seed: int, many: int = 2, gain: float = 0.0, own_order: bool = False, passing: float = 0.3):
    """Runs over the same prompts; the last is better by so many logits."""
    rng = np.random.default_rng(seed)
    effect = 1.5 * rng.standard_normal(STEPS * PROMPTS)
    out = []
    for i in range(many):
        order = rng.permutation(STEPS * PROMPTS) if own_order else np.arange(STEPS * PROMPTS)
        level = LEVEL + (gain if i == many - 1 else 0.0)
        prompts = order.reshape(STEPS, PROMPTS)
        out.append(graded(rng, level, prompts, effect, passing=passing, name=f"run {i}"))
    return out, effect


@pytest.mark.thorough
@pytest.mark.parametrize("own_order", [False, True])
def test_differences_by_prompt_are_unbiased_and_their_intervals_hold(own_order):
    errors, hits, ratios = [], [], []
    gain = 0.8
    z = 1.5 * np.random.default_rng(0).standard_normal(20_000)
    last = LEVEL[-5:, None]
    logistic = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    for seed in range(150):
        (a, b), _ = runs(seed, gain=gain, own_order=own_order)
        found = compare_by_prompt(a, b)
        truth = float(np.mean(logistic(last + gain + z) - logistic(last + z)))
        errors.append(found.difference.median - truth)
        hits.append(found.difference.low <= truth <= found.difference.high)
        ratios.append(found.variance_ratio)
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(150)
    assert abs(np.mean(hits) - 0.9) < 3 * np.sqrt(0.09 / 150)
    assert np.median(ratios) < (0.6 if not own_order else 0.95)


def test_two_runs_on_the_same_prompts_are_told_apart():
    (a, b), _ = runs(4, gain=1.2)
    found = compare_by_prompt(a, b)
    assert found.verdict == "B is better"
    assert compare_by_prompt(b, a).verdict == "A is better"
    assert found.variance_ratio < 0.7
    assert found.shared == 1.0
    np.testing.assert_allclose(compare_by_prompt(b, a).difference.median, -found.difference.median)
    same = compare_by_prompt(a, a)
    assert (same.difference.median, same.verdict) == (0.0, "cannot tell")
    shuffled = compare_by_prompt(*runs(4, gain=1.2, own_order=True)[0])
    assert found.variance_ratio < shuffled.variance_ratio < 1.0
    several, _ = runs(4, 5, gain=1.2, own_order=True)
    alone, informed = (compare_by_prompt(several[0], several[-1], others=x) for x in ((), several[1:-1]))
    assert informed.variance_ratio < 0.9 * alone.variance_ratio
    other = rollouts_of(a.reward, a.step, (a.prompt + 10**6).astype(int))
    with pytest.raises(FitError, match="expected prompts that run 0 and made share"):
        compare_by_prompt(a, other)
    with pytest.raises(SettingError, match="expected a step that both runs have"):
        compare_by_prompt(a, b, at=99)


def test_normal_equations_are_those_of_dense_least_squares():
    """The levels' contrast and its variance against V written out in full."""
    from bayes_grpo.rollouts.paired import _Design

    (a, b), _ = runs(5, own_order=True)
    every = [cells_of(x.until(12)) for x in (a, b)]
    window = [((12 - c.step) // 4).astype(int) for c in every]
    v = Variances(0.2, 0.1, 0.6)
    design = _Design(every, window)
    n, s, prompt = (np.concatenate([getattr(c, k) for c in every]) for k in ("n", "spread", "prompt"))
    x = np.eye(len(design.levels))[design.column]
    shared = (prompt[:, None] == prompt[None, :]) * v.lasting
    cov = s[:, None] * s[None, :] * (shared + np.diag(v.passing + v.luck / n))
    inverse = np.linalg.inv(cov)
    variance = np.linalg.inv(x.T @ inverse @ x)
    beta = variance @ x.T @ inverse @ design.y
    contrast = np.zeros(len(beta))
    contrast[design.levels == 0], contrast[design.levels == 1] = -1.0, 1.0
    found = design.contrast(v)
    np.testing.assert_allclose(found[:2], (contrast @ beta, contrast @ variance @ contrast), rtol=1e-8)
    pull = (inverse @ x @ variance @ contrast) * (design.y - x @ beta)
    each = [
        (inverse[np.ix_(at, at)] @ (x @ variance @ contrast)[at]) @ (design.y - x @ beta)[at]
        for at in (np.flatnonzero(prompt == p) for p in np.unique(prompt))
    ]
    assert found.robust == pytest.approx(np.sum(np.square(each)))
    assert np.sum(each) == pytest.approx(np.sum(pull))


def test_groups_are_counted_and_smaller_ones_are_exact():
    (run,), _ = runs(6, 1, passing=0.0)
    found = groups_of(run)
    spread = [np.ptp(run.reward[run.group == g]) > 0 for g in range(run.group_count)]
    np.testing.assert_allclose(found.useful.median, np.mean(spread))
    assert found.sizes[-1].useful == pytest.approx(np.mean(spread))
    assert found.useful.low < found.useful.median < found.useful.high < found.implied
    p = 1 / (1 + np.exp(-(LEVEL[:, None] + 1.5 * np.random.default_rng(0).standard_normal(20_000))))
    true = np.mean(np.var(p, axis=1)) / np.mean(p.mean(axis=1) * (1 - p.mean(axis=1)))
    assert found.icc.low < true < found.icc.high
    assert found.repeated == 0.0
    assert "where the mean reward implies" in found.sentence
    assert found.to_frame().index.name == "group_size"
    noise = [x.row_noise for x in found.sizes]
    assert noise == sorted(noise)


def test_shares_of_smaller_groups_are_means_over_all_choices():
    group, reward = np.repeat([0, 1, 2], 6), np.array([0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 3.0])
    counts, n = _values(group, reward), np.bincount(group)
    for size in (2, 3, 4):
        for g in range(3):
            picked = [len(set(x)) == 1 for x in combinations(reward[group == g], size)]
            assert _all_equal(counts, n, size)[g] == pytest.approx(np.mean(picked))


def test_prompts_that_come_back_every_step_are_no_noise_of_a_row():
    rng = np.random.default_rng(7)
    effect = 1.5 * rng.standard_normal(8)
    run = graded(rng, np.zeros(40), np.tile(np.arange(8), (40, 1)), effect)
    found = groups_of(run)
    assert found.repeated == 1.0
    assert found.sizes[2].prompts_share == 0.0
    rows = np.bincount(run.step, run.reward)[1:] / 64
    assert found.sizes[2].row_noise == pytest.approx(np.std(rows), rel=0.35)


def test_rollouts_without_groups_say_so():
    lonely = rollouts_of(np.arange(6) % 2, np.repeat([1, 2], 3), np.arange(6))
    with pytest.raises(FitError, match="expected groups of at least 2"):
        groups_of(lonely)
    with pytest.raises(FitError, match="expected rewards that vary"):
        cells_of(rollouts_of(np.ones(6), np.repeat([1, 2], 3), np.arange(6)))


def test_what_lasts_is_told_from_what_passes_where_prompts_come_twice():
    rng = np.random.default_rng(8)
    often = variances_of([cells_of(graded(rng, np.zeros(20), np.tile(np.arange(6), (20, 1)), np.linspace(-2, 2, 6)))])
    assert often.passing < 0.2 * often.lasting
    once = variances_of([cells_of(graded(rng, np.zeros(20), np.arange(80).reshape(20, 4), rng.standard_normal(80)))])
    assert once.lasting == pytest.approx(3.0 * once.passing)
