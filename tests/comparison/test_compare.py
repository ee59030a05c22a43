"""Comparison of laws: the scores against dense normals and exact refits, what is left out, what is said."""

import json
import warnings
from dataclasses import replace
from typing import Any, cast

import arviz as az
import numpy as np
import pytest
from scipy.stats import norm, ttest_1samp

import bayes_grpo.comparison.compare as module
import bayes_grpo.comparison.scores as scores_module
from bayes_grpo import SamplerSettings, compare
from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.comparison.result import ComparisonLine, verdict_of
from bayes_grpo.comparison.scores import exact_density, leave_one_out, relative_efficiency
from bayes_grpo.regimes import REGIMES
from bayes_grpo.views.view import view
from tests.helpers.command import call
from tests.helpers.runs import make_run


@pytest.fixture(scope="module")
def found(synthetic_run):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return compare(synthetic_run, ["exponential", "flat"], seed=1)


def test_a_curve_with_a_clear_rise_speaks_against_the_constant(found):
    assert found.best == "exponential"
    flat = found.line("flat")
    assert flat.verdict == "worse"
    assert flat.difference < -4
    assert flat.p_worse > 0.95
    assert found.sentence.startswith("The data favor exponential over flat")
    assert found.line("exponential").growth > 0.99
    assert np.isnan(flat.growth)


@pytest.mark.thorough
def test_psis_agrees_with_exact_refits(found):
    scores = found.loo["exponential"]
    for row in (0, 17, 39):
        # The mean of the densities of a refit has an error of its own, 0.05 on the first row: three make one reference.
        refits = [exact_density(found.posteriors["exponential"].draws, row, seed=seed) for seed in (3, 4, 5)]
        exact = np.logaddexp.reduce(refits) - np.log(len(refits))
        assert float(scores.data.elpd_i[row]) == pytest.approx(exact, abs=0.1)


@pytest.mark.thorough
def test_leave_one_out_is_that_of_arviz(found):
    draws = found.posteriors["exponential"]
    groups = {"posterior": dict(draws.draws.values), "log_likelihood": {"y": draws.loo_log_density}}
    theirs: Any = az.loo(az.from_dict(groups), pointwise=True, reff=relative_efficiency(draws.draws))
    ours = found.loo["exponential"].data
    for name in ("elpd", "se", "p", "n_samples", "n_data_points", "good_k", "warning"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-9)
    np.testing.assert_allclose(ours.elpd_i, theirs.elpd_i, rtol=1e-9)
    np.testing.assert_allclose(ours.pareto_k, theirs.pareto_k, rtol=1e-6, atol=1e-9)


@pytest.mark.thorough
def test_rows_where_psis_fails_are_refitted_and_the_rest_is_said(found, monkeypatch):
    honest = scores_module.smoothed_weights

    def failing(*args):
        weight, k = honest(*args)
        k[[3, 20]] = [0.9, 0.8]
        return weight, k

    monkeypatch.setattr(scores_module, "smoothed_weights", failing)
    scores = leave_one_out(found.posteriors["exponential"], refits=1)
    assert scores.refitted == (3,)
    assert scores.unreliable == (20,)
    before = found.loo["exponential"].data.elpd_i.values
    assert 0.0 < abs(scores.data.elpd_i[3] - before[3]) < 0.1
    assert scores.data.elpd_i[20] == before[20]
    assert scores.data.elpd == pytest.approx(float(scores.data.elpd_i.sum()))
    assert scores.data.pareto_k[3] == 0.0


@pytest.mark.thorough
def test_laws_that_do_not_fit_this_log_are_left_out_with_the_reason(monkeypatch):
    rng = np.random.default_rng(0)
    run = make_run(np.arange(1.0, 8), 0.5 + 0.1 * rng.standard_normal(7))
    monkeypatch.setattr(module, "fast_posterior", lost_on("exponential"))
    monkeypatch.setattr(module, "REGIMES", {k: REGIMES[k] for k in ("flat", "exponential", "reduction", "sigmoid")})
    found = compare(run)
    assert set(found.posteriors) == {"flat"}
    assert "did not converge; Their Pareto k is 2.00 (limit 0.7)" in found.left_out["exponential"]
    assert "not in the log" in found.left_out["reduction"]
    assert "rows" in found.left_out["sigmoid"]
    assert "nothing to compare" in found.sentence
    assert found.line("flat").weight == 1.0
    assert any("No forecast scores" in x for x in found.cautions)


def test_a_law_that_did_not_converge_has_no_place_and_the_exit_code_is_4(synthetic_run, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "fast_posterior", lost_on("exponential"))
    path = tmp_path / "run.csv"
    rows = zip(synthetic_run.step, synthetic_run.reward, strict=True)
    path.write_text("\n".join(["step,reward", *(f"{step:g},{reward}" for step, reward in rows)]))
    told = call("compare", path, "--regimes", "exponential,flat", "--no-lfo", "--json")
    content = json.loads(told.out)
    assert told.code == 4
    assert content["not_converged"] == ["exponential"]
    assert [x["regime"] for x in content["table"]] == ["flat"]


def test_nothing_converged_is_an_error_with_reasons(synthetic_run, monkeypatch):
    monkeypatch.setattr(module, "fast_posterior", lost_on("exponential"))
    with pytest.raises(FitError, match=r"none of the regimes .* did not converge"):
        compare(synthetic_run, ["exponential"])
    with pytest.raises(SettingError, match="chains"):
        compare(synthetic_run, ["exponential"], sampler=SamplerSettings(num_chains=1))


def test_rows_of_a_law_that_nuts_had_to_sample_are_not_refitted(synthetic_run, monkeypatch):
    honest, score, asked = module.fast_posterior, module.leave_one_out, {}

    def noted(target, **options):
        found = honest(target, **options)
        return replace(found, note="sampled by NUTS") if target.regime.name == "exponential" else found

    def scored(found, *, refits, seed):
        asked[found.draws.regime.name] = refits
        return score(found, refits=0, seed=seed)

    monkeypatch.setattr(module, "fast_posterior", noted)
    monkeypatch.setattr(module, "leave_one_out", scored)
    found = compare(synthetic_run, ["exponential", "flat"], lfo=False)
    assert asked == {"exponential": 0, "flat": module.REFITS}
    assert "exponential: sampled by NUTS" in found.cautions


def lost_on(name):
    """The fast posterior, untrusted for one law as where NUTS did not converge either."""
    honest = module.fast_posterior

    def lost(target, **options):
        found = honest(target, **options)
        doubtful = replace(found.diagnostics, pareto_k=2.0)
        mine = target.regime.name == name
        return replace(found, diagnostics=doubtful, usable=False, note=doubtful.sentence) if mine else found

    return lost


def test_few_blocks_call_for_student_s_distribution():
    """Five blocks that a normal distribution would call 97% certain are not."""
    best, other = np.zeros(5), np.array([-1.0, -3.4, 1.0, -2.2, -1.6])
    total, error, p_worse = module._score_differences(other, best)
    assert total == pytest.approx(-7.2)
    assert p_worse == pytest.approx(1.0 - float(cast(Any, ttest_1samp(other, 0.0, alternative="less")).pvalue))
    assert norm.cdf(-total / error) > 0.95 > p_worse
    assert module._verdict(total, p_worse) == "cannot tell"
    assert np.isnan(module._score_differences(best, best)[2])


@pytest.mark.parametrize("bad", [[], ["exponential", "exponential"], ["pendulum"]])
def test_impossible_choices_of_laws(synthetic_run, bad):
    with pytest.raises(SettingError, match="expected"):
        compare(synthetic_run, bad)


def line(name, difference, error, p_worse, verdict, ahead="", lfo_difference=0.0, lfo_error=0.0):
    rest: dict[str, Any] = dict.fromkeys(ComparisonLine.__dataclass_fields__, 0.0) | {"verdict_ahead": ahead}
    return ComparisonLine(**rest | {
        "regime": name, "difference": difference, "difference_se": error, "p_worse": p_worse, "verdict": verdict,
        "lfo_difference": lfo_difference, "lfo_difference_se": lfo_error,
    })  # fmt: skip


def test_the_sentence_names_what_is_favored_and_what_is_open():
    a, b = line("a", 0.0, 0.0, np.nan, "best"), line("b", -1.0, 0.5, 0.97, "cannot tell")
    c, d = line("c", -9.0, 3.0, 0.999, "worse"), line("d", -30.0, 5.0, 1.0, "worse")
    assert verdict_of((a, b), "reward").sentence == (
        "This log cannot distinguish a and b: none predicts the reward clearly better."
    )
    assert verdict_of((a, b, c, d), "reward").sentence == (
        "The data speak against c (elpd -9.0 ± 3.0) and d (elpd -30.0 ± 5.0); they do not distinguish a and b."
    )


def test_the_sentence_counts_rows_ahead_as_much_as_holes():
    e, f = line("e", 0.0, 0.0, np.nan, "best", "best"), line("f", -1.0, 2.0, 0.7, "cannot tell", "worse", -8.0, 1.0)
    c, g = line("c", -9.0, 3.0, 0.999, "worse"), line("g", -1.0, 2.0, 0.7, "cannot tell", "cannot tell")
    assert (
        verdict_of((e, f), "evaluation reward").sentence == "The data favor e over f (elpd -8.0 ± 1.0 on rows ahead)."
    )
    assert verdict_of((e, f, c), "reward").sentence == (
        "The data favor e over f (elpd -8.0 ± 1.0 on rows ahead) and c (elpd -9.0 ± 3.0)."
    )
    assert verdict_of((e, g), "reward").sentence.endswith("clearly better, nor do the rows ahead.")
    # The best at one is clearly worse at the other.
    h = line("h", 0.0, 0.0, np.nan, "best", "worse", -8.0, 1.0)
    i = line("i", -9.0, 3.0, 0.999, "worse", "best")
    assert "leave-one-out favors h and leave-future-out favors i" in verdict_of((h, i), "reward").sentence


def test_regimes_that_fit_equally_well_are_named_before_what_the_data_speak_against(found):
    best, other = found.line("exponential"), found.line("flat")
    lines = (best, replace(other, verdict="cannot tell", verdict_ahead=""), replace(other, regime="third"))
    shown = view(replace(found, table=lines, breaks=("It jumps near step 9",)))
    assert shown.answer == "2 of 3 regimes fit equally well: exponential, flat."
    assert shown.why.startswith("The data speak against third (elpd ")
    assert shown.why.endswith("). It jumps near step 9: no regime describes that.")


def test_the_command_line_compares(tmp_path, write_trl_log, curve):
    log = write_trl_log(tmp_path / "trainer_state.json", curve)
    words = ("compare", log, "--regimes", "exponential,flat", "--no-lfo", "--set", "schedule=constant")
    done = call(*words, "--json", "--plot", tmp_path / "picture.png")
    assert done.code == 0, done.err
    assert [x["regime"] for x in json.loads(done.out)["table"]] == ["exponential", "flat"]
    assert (tmp_path / "picture.png").stat().st_size > 10_000
