"""Two recipes: which is better, in what they differ, and when their totals are no comparison."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo import compare_runs, save_plot, view
from bayes_grpo.common.errors import SettingError
from bayes_grpo.families.differing import differences, shared_parts, why_not_comparable
from bayes_grpo.views.plots.families import plot_compare_runs
from tests.families.made import relaxing

RNG = np.random.default_rng(0)
FORM, CORRECT = (relaxing(name, plateau=p, seed=i).reward for i, (name, p) in enumerate((("x", 0.3), ("y", 0.6))))


def made(name, parts, weights, **settings):
    """A run whose total is a weighted sum of its parts."""
    run = relaxing(name, **settings)
    noisy = {k: v + 0.01 * RNG.standard_normal(len(v)) for k, v in parts.items()}
    return replace(run, reward=sum(w * noisy[k] for k, w in weights.items()), components=noisy)


BOTH = {"form": FORM, "correct": CORRECT}
ONE = made("one", BOTH, {"form": 1.0, "correct": 1.0})


def why(a, b):
    class Open:
        verdict = "cannot tell"

    return why_not_comparable([a], [b], Open(), [])  # pyright: ignore[reportArgumentType]


def test_totals_of_other_parts_or_other_weights_are_no_comparison():
    other = made("other", BOTH | {"length": -FORM}, {"form": 1.0, "correct": 1.0, "length": 0.5})
    assert why(ONE, other) == "A's reward is made of correct, form, B's of correct, form, length"
    heavier = made("heavier", BOTH, {"form": 2.0, "correct": 1.0})
    assert why(ONE, heavier) == "form counts 1 in A, 2 in B"
    assert why(ONE, made("same", BOTH, {"form": 1.0, "correct": 1.0})) == ""
    assert [x.at for x in shared_parts([ONE], [other], "reward")] == ["rewards/form", "rewards/correct"]


def test_a_total_that_rises_while_the_task_falls_is_no_comparison():
    fair = replace(relaxing("fair", plateau=0.3, seed=1), signals={"gold_reward": CORRECT})
    hacked = replace(relaxing("hacked", plateau=0.7, seed=2), signals={"gold_reward": CORRECT - 0.3})
    found = compare_runs(fair, hacked)
    assert found.answers[0].verdict == "B is better"
    assert found.answer("gold_reward").verdict == "A is better"
    assert found.not_comparable == "by the total B is better, by the gold reward A is better"
    assert found.sentence.startswith("The totals are no comparison: by the total B is better, by the gold reward A")
    assert view(found).answer.startswith("The totals are no comparison")


def test_runs_of_one_recipe_that_differ_are_no_seeds():
    a = [relaxing(f"a{i}", seed=i, group_size=8 * (1 + i)) for i in range(2)]
    found = compare_runs(a, relaxing("b", seed=5, group_size=8))
    assert "runs of A differ in group_size: their spread is not noise of seeds alone" in found.cautions


def test_settings_and_length_are_listed():
    a = [relaxing("a", group_size=8, kl_weight=0.1), relaxing("a2", group_size=8, kl_weight=0.1)]
    b = [relaxing("b", group_size=16, kl_weight=0.1, rows=80)]
    assert differences(a, b) == ("group size 8 in A, 16 in B", "last step 60 in A, 80 in B")
    assert differences(a[:1], a[1:]) == ()


@pytest.mark.parametrize("rows", [0, 2])
def test_a_part_with_too_few_rows_is_none(rows):
    gold = np.where(np.arange(60) < rows, 0.5, np.nan)
    runs = [replace(relaxing(f"r{i}", seed=i), signals={"gold_reward": gold}) for i in range(2)]
    assert shared_parts(runs[:1], runs[1:], "reward") == []


def test_recipes_that_differ_are_found_and_one_recipe_is_not(tmp_path):
    slow = [relaxing(f"a{i}", seed=i, group_size=8, prompts_per_step=4, plateau=0.4) for i in range(2)]
    fast = [relaxing(f"b{i}", seed=9 + i, group_size=16, prompts_per_step=4, plateau=0.7) for i in range(2)]
    clear = compare_runs(slow, fast)
    assert clear.answer("step").verdict == "B is better"
    assert [x.at for x in clear.answers] == ["step", "completions", "plateau"]
    # At equal completions B, with twice the group, has made half of the steps.
    assert clear.answer("completions").b.median < clear.answer("step").b.median
    same = compare_runs(slow[0], slow[1])
    assert 0.05 < same.answer("step").p_better < 0.95
    assert "Cannot tell which is better at step 60" in same.sentence
    assert "one seed of each" in view(same).unchecked
    assert "public recipes" in same.spread_from
    json.dumps(same.to_dict(), allow_nan=False)
    assert save_plot(plot_compare_runs(same), tmp_path / "pair.png").stat().st_size > 10_000
    with pytest.raises(SettingError, match="step: expected one that all runs have, 1 to 60, found 100"):
        compare_runs(slow, fast, step=100.0)
