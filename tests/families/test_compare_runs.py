"""Two recipes: which is better, in what they differ, and when their totals are no comparison."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from bayes_grpo import compare_runs, diagnose, save_plot, view
from bayes_grpo.cli.printing import EXIT_INPUT
from bayes_grpo.common.errors import LogReadError, SettingError
from bayes_grpo.common.files import file_and_run
from bayes_grpo.families.recipes import (
    RecipeReadings,
    SeedPrior,
    difference_of,
    differences,
    further_seeds,
    seed_prior,
    shared_parts,
    why_not_comparable,
)
from bayes_grpo.views.plots.runs import plot_compare_runs
from tests.families.made import relaxing
from tests.helpers.command import call
from tests.helpers.paths import not_none

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
    assert found.sentence.startswith("The totals are not comparable: by the total B is better, by the gold reward A")
    assert view(found).answer.startswith("The totals are not comparable")


def test_the_verdict_of_every_part_stands_behind_that_of_the_total():
    low = made("low", BOTH, {"form": 1.0, "correct": 1.0})
    high = made("high", BOTH | {"form": FORM + 0.4}, {"form": 1.0, "correct": 1.0}, seed=3)
    found = compare_runs(low, high)
    assert found.answers[0].verdict == "B is better"
    assert found.sentence.endswith("By parts: rewards/form: B is better; rewards/correct: cannot tell.")


def test_totals_that_are_no_comparison_have_no_better_one():
    one = replace(relaxing("one", seed=1, plateau=0.3), components={"form": FORM})
    other = replace(relaxing("other", seed=2, plateau=0.9), components={"correct": CORRECT})
    document = view(compare_runs(one, other))
    assert document.answer == "The totals are not comparable: the rewards differ."
    assert "B is better" not in str(document.table)
    assert "not comparable" in str(document.table)


def test_settings_and_length_are_listed_and_runs_that_differ_are_no_seeds():
    mixed = [relaxing(f"a{i}", seed=i, group_size=8 * (1 + i)) for i in range(2)]
    found = compare_runs(mixed, relaxing("b", seed=5, group_size=8))
    assert "runs of A differ in group_size: their spread is not noise of seeds alone" in found.cautions
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


def test_every_run_has_its_levels_and_the_reason_of_its_status(tmp_path):
    rising = relaxing("rising", seed=1, plateau=0.7)
    lost = relaxing("lost", seed=2, plateau=0.7)
    lost = replace(lost, reward=np.where(np.arange(60) < 40, lost.reward, 0.02 * (np.arange(60) % 2)))
    found = compare_runs(rising, lost)
    assert [(run.recipe, run.name, run.rows, run.last_step) for run in found.runs] == [
        ("A", "rising", 60, 60.0),
        ("B", "lost", 60, 60.0),
    ]
    healthy, collapsed = found.runs
    assert healthy.levels.last == pytest.approx(not_none(diagnose(rising).paths).reward.now.mean(), abs=0.01)
    assert healthy.levels.first < healthy.levels.last
    assert collapsed.levels.best > 0.5
    assert collapsed.levels.last < 0.1
    assert (healthy.status.status, collapsed.status.status) == ("fine", "failed")
    document = view(found)
    assert [point.label for point in document.points] == ["A, rising", "B, lost"]
    assert collapsed.status.headline in document.points[1].sentence
    (axes,) = plot_compare_runs(found).axes
    one, other = axes.get_legend_handles_labels()[1]
    assert one.startswith(f"A, rising: {healthy.levels.first:.3g} to {healthy.levels.last:.3g}, best ")
    assert other.endswith(", failed")
    assert found.to_dict()["runs"][1]["status"]["status"] == "failed"
    many = view(replace(found, runs=4 * found.runs))
    assert many.points == ()
    listed = next(s for s in many.sections if s.title == "Runs").lines
    assert listed[1] == f"B, lost: {document.points[1].sentence}"
    assert len(listed) == 8


PRIOR = SeedPrior(np.log(0.2), 0.5, 1.0, {"recipes": 4, "runs": 10})


def side(*values: float, error: float = 0.0) -> RecipeReadings:
    return RecipeReadings(np.array(values), np.full(len(values), error))


def test_equal_recipes_are_equal_and_swapping_them_swaps_the_probability():
    assert difference_of(side(0.5), side(0.5), 0.2, PRIOR).p_better == pytest.approx(0.5)
    a, b = side(0.5, 0.55, error=0.02), side(0.6, 0.52, error=0.03)
    one, other = difference_of(a, b, 0.2, PRIOR).p_better, difference_of(b, a, 0.2, PRIOR).p_better
    # The prior is about A and the difference: of no account beside data on both.
    assert one + other == pytest.approx(1.0, abs=1e-3)
    assert one > 0.5


def test_a_known_spread_gives_the_textbook_answer():
    sharp = SeedPrior(np.log(0.5), 1e-6, 1e3, {})
    found = difference_of(side(0.0, 0.2), side(0.4, 0.3, 0.5), 0.2, sharp)
    sd = 0.1 * np.sqrt(1 / 2 + 1 / 3)
    assert found.p_better == pytest.approx(norm.cdf((0.4 - 0.1) / sd), abs=1e-4)
    draws = found.draws(20000, np.random.default_rng(0))
    assert draws["difference"].mean() == pytest.approx(0.3, abs=0.003)
    assert draws["difference"].std() == pytest.approx(sd, rel=0.03)


@pytest.mark.thorough
def test_probabilities_are_calibrated_over_draws_from_the_prior():
    rng = np.random.default_rng(4)
    p, truth = [], []
    for _ in range(1500):
        spread, true = 0.2 * np.exp(PRIOR.centre + PRIOR.width * rng.standard_normal()), 0.2 * rng.standard_normal()
        a = RecipeReadings(0.5 + spread * rng.standard_normal(2) + 0.01 * rng.standard_normal(2), np.full(2, 0.01))
        b = RecipeReadings(
            0.5 + true + spread * rng.standard_normal(1) + 0.01 * rng.standard_normal(1), np.full(1, 0.01)
        )
        p.append(float(difference_of(a, b, 0.2, PRIOR).p_better))
        truth.append(true > 0)
    fifth = np.digitize(p, [0.2, 0.4, 0.6, 0.8])
    for inside in (fifth == k for k in range(5)):
        error = 3.0 * np.sqrt(0.25 / max(inside.sum(), 1))
        assert abs(np.mean(np.array(truth)[inside]) - np.mean(np.array(p)[inside])) < error


def test_seeds_that_differ_widen_the_spread():
    alike = difference_of(side(0.5, 0.51, 0.5), side(0.6), 0.2, PRIOR)
    apart = difference_of(side(0.2, 0.8, 0.5), side(0.6), 0.2, PRIOR)
    assert (alike.weight * alike.spread).sum() < 0.5 * (apart.weight * apart.spread).sum()
    assert alike.p_better > apart.p_better


def test_further_seeds_are_few_for_a_clear_difference_and_none_are_enough_for_none():
    rng = np.random.default_rng(1)
    clear = not_none(further_seeds(side(0.50), side(0.58), 0.2, PRIOR, rng))
    hidden = further_seeds(side(0.5, 0.5, 0.5, 0.5), side(0.5, 0.5, 0.5, 0.5), 0.2, PRIOR, rng)
    assert hidden is None or hidden > clear


def test_the_kept_prior_says_where_it_is_from():
    prior = seed_prior()
    assert prior.about["made by"] == "benchmarks/lab/learners/seeds.py"
    assert f"{prior.about['recipes']} public recipes" in prior.words
    assert prior.width > 0
    assert prior.difference > 0


@pytest.fixture
def both(tmp_path):
    """Two runs in one file, with a column that names them."""
    runs = {"old": relaxing("old"), "new": relaxing("new", plateau=0.9, seed=1)}
    rows = [f"{name},{s:g},{y:.4f}" for name, run in runs.items() for s, y in zip(run.step, run.reward, strict=True)]
    path = tmp_path / "metrics.csv"
    path.write_text("\n".join(["run,step,reward", *rows]))
    return path


def test_an_error_about_runs_in_a_file_tells_their_names(both):
    with pytest.raises(SettingError, match=r"in both; name two of its runs: metrics.csv#old, metrics.csv#new$"):
        compare_runs(both, both)
    with pytest.raises(LogReadError, match=r"expected a run among old, new, found 'ol\?'; correct it$"):
        compare_runs(f"{both}#ol?", f"{both}#new")
    with pytest.raises(SettingError, match=r"found it in both; name two"):
        compare_runs(f"{both}#old", f"{both}#old")


def test_runs_of_one_file_by_the_command_line(both, monkeypatch):
    monkeypatch.chdir(both.parent)
    called = call("compare-runs", "metrics.csv#old", "metrics.csv#new", "--json", "-q")
    assert (called.code, [x["name"] for x in json.loads(called.out)["runs"]]) == (0, ["metrics old", "metrics new"])
    nothing = call("compare-runs", "other.csv#old", "other.csv#new")
    assert nothing.code == EXIT_INPUT
    assert "found nothing there" in nothing.err


def test_a_file_whose_name_has_the_mark_is_that_file(tmp_path):
    (tmp_path / "a#b.csv").touch()
    (tmp_path / "a").touch()
    names = ("a#b.csv", "a#b", "a", "c#d", "a#")
    found = [file_and_run(str(tmp_path / name)) for name in names]
    assert [(Path(file).name, run) for file, run in found] == [
        ("a#b.csv", ""), ("a", "b"), ("a", ""), ("c#d", ""), ("a", "")
    ]  # fmt: skip


def test_several_runs_without_one_that_is_read_by_itself_say_how_to_name_one(tmp_path):
    """A chart of W&B has a column a run."""
    runs = [relaxing("old"), relaxing("new", plateau=0.9, seed=1)]
    rows = [f"{s:g},{x:.4f},{y:.4f}" for s, x, y in zip(runs[0].step, runs[0].reward, runs[1].reward, strict=True)]
    chart = tmp_path / "chart.csv"
    chart.write_text("\n".join(["Step,old - train/reward,new - train/reward", *rows]))
    with pytest.raises(LogReadError, match=r"found 2: old, new; choose with chart.csv#NAME$"):
        compare_runs(chart, chart)
    assert [x.name for x in compare_runs(f"{chart}#old", f"{chart}#new").runs] == ["chart old", "chart new"]
