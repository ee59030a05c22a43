"""Probabilities: Bayes' rule, calibration on simulated runs, what `diagnose` and the command give."""

import io
import json
import sys
from contextlib import redirect_stdout

import numpy as np
import pytest
from rich.console import Console

from bayes_grpo import diagnose
from bayes_grpo.common.errors import FitError, PriorError
from bayes_grpo.common.picture import save_plot
from bayes_grpo.diagnosis.classes import ANSWERS, CANNOT_TELL, CLASSES, MODES, PRIOR
from bayes_grpo.diagnosis.classify import checked_prior, effective, posterior
from bayes_grpo.diagnosis.layer import shipped_layer
from bayes_grpo.diagnosis.plot import plot_diagnosis
from bayes_grpo.diagnosis.render import render_diagnosis
from bayes_grpo.laboratory.learners import simulated_runs
from bayes_grpo.laboratory.learners.diagnosis import frequencies
from bayes_grpo.laboratory.learners.simulated_runs import labelled_runs
from benchmarks.diagnosis import calibration_error, judged, scores
from benchmarks.diagnosis_rivals import AlarmOdds, thresholds
from tests.diagnosis.conftest import ROWS
from tests.helpers.command import call
from tests.helpers.runs import evaluated, make_run, steps


def test_default_prior_is_one():
    assert set(PRIOR) == set(ANSWERS)
    assert sum(PRIOR.values()) == pytest.approx(1.0)


def test_a_stated_prior_keeps_the_rest_in_proportion():
    found = checked_prior({"healthy": 0.9})
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["plateaued"] / found["reward_hacking"] == pytest.approx(PRIOR["plateaued"] / PRIOR["reward_hacking"])


@pytest.mark.parametrize("bad", [{"hacking": 0.1}, {"healthy": 1.2}, {"healthy": 0.8, "plateaued": 0.5}])
def test_impossible_priors_are_named(bad):
    with pytest.raises(PriorError, match="--prior"):
        checked_prior(bad)


def test_no_evidence_means_cannot_tell():
    found = posterior({})
    assert found.probability[CANNOT_TELL] == pytest.approx(1.0)
    assert found.own == pytest.approx({mode: PRIOR[mode] for mode in MODES})


def test_no_log_is_more_certain_than_the_events_at_their_bounds():
    names = ("grew", "uncoupled", "wasted", "spent", "collapse", "held_out_collapse", "swings", "strain")
    for signs in np.random.default_rng(0).choice([-1.0, 1.0], (20, len(names))):
        wild, bound = (posterior(dict(zip(names, size * signs, strict=True))) for size in (1e6, 3.0))
        assert max(wild.probability.values()) == pytest.approx(max(bound.probability.values()), abs=0.02)
        assert sum(wild.probability.values()) == pytest.approx(1.0)


def test_cannot_tell_read_as_the_prior_gives_the_posterior_back():
    layer, prior = shipped_layer(), np.array([PRIOR[name] for name in CLASSES])
    features = {"grew": 0.3, "uncoupled": -0.5, "wasted": 0.2, "spent": -0.5, "collapse": -0.8, "train_reward": 1.0}
    found, likelihood = posterior(features), layer.log_likelihoods(features)
    wanted = prior * np.exp([likelihood[name] for name in CLASSES])
    np.testing.assert_allclose(effective(found.probability, PRIOR), wanted / wanted.sum(), rtol=1e-9)
    assert found.probability[CANNOT_TELL] == pytest.approx(np.min(wanted / wanted.sum() / (prior / prior.sum())))
    assert min(found.probability.values()) == pytest.approx(0.0, abs=1e-12)  # nothing of the prior is left in it


def test_what_cannot_be_seen_stays_at_its_prior():
    seen = {"grew": 2.0, "uncoupled": -2.0, "wasted": -2.0, "spent": -2.0, "collapse": -2.0, "train_reward": 1.0}
    blind = {k: v for k, v in seen.items() if k not in ("uncoupled", "spent")}
    for stated in (0.08, 0.3):
        prior = checked_prior({"reward_hacking": stated})
        p = posterior(blind, prior)
        whole = effective(p.probability, prior)
        hacking, healthy = (whole[CLASSES.index(name)] for name in ("reward_hacking", "healthy"))
        assert hacking / (hacking + healthy) == pytest.approx(stated, rel=1e-6)
    assert posterior(seen).probability["reward_hacking"] < 0.01


def test_a_collapse_that_anyone_can_see_is_named():
    """A reward from .9 to 0 that stays there, whatever else is logged."""
    rng = np.random.default_rng(0)
    reward = np.clip(np.where(np.arange(40) < 12, 0.89, np.maximum(0.89 - 0.05 * (np.arange(40) - 12), 0.0)), 0, 1)
    reward = np.where(reward > 0, reward + 0.02 * rng.standard_normal(40), 0.0)
    signals = {"entropy": np.linspace(0.1, 2.6, 40), "frac_reward_zero_std": np.where(reward > 0, 0.3, 1.0)}
    for run in (make_run(steps(40), reward), make_run(steps(40), reward, signals=signals)):
        assert diagnose(run).own["dynamical_instability"] > 0.9


def test_a_higher_prior_gives_a_higher_posterior(hacked):
    low, high = (diagnose(hacked, prior={"reward_hacking": p}).probability["reward_hacking"] for p in (0.02, 0.4))
    assert high > low


def test_hacked_and_honest_runs_are_told_apart(hacked, honest):
    bad, good = diagnose(hacked), diagnose(honest)
    assert bad.own["reward_hacking"] > 0.5 > good.own["reward_hacking"]
    assert good.answer == "healthy"
    assert bad.remedies["reward_hacking"]
    assert bad.onsets["reward_hacking"].step.low <= bad.onsets["reward_hacking"].step.high
    for result in (bad, good):
        assert sum(result.probability.values()) == pytest.approx(1.0)
        json.dumps(result.to_dict(), allow_nan=False)


def test_a_held_out_reward_alone_that_falls_is_hacking_or_instability():
    """Nothing in such a log says which; that something is wrong, it does say."""
    at = np.arange(4.0, ROWS + 1, 4)
    held = np.where(at < 30, 0.1 + 0.015 * at, 0.55 - 0.01 * (at - 30))
    held = held + 0.015 * np.random.default_rng(4).standard_normal(len(at))
    found = diagnose(make_run(steps(ROWS), np.full(ROWS, np.nan), evals=evaluated(at, held)))
    p = found.probability
    assert p["reward_hacking"] / p["dynamical_instability"] == pytest.approx(
        PRIOR["reward_hacking"] / PRIOR["dynamical_instability"]
    )
    assert p["reward_hacking"] + p["dynamical_instability"] > 0.5


def test_the_same_log_gives_the_same_numbers(hacked):
    assert diagnose(hacked).to_dict() == diagnose(hacked).to_dict()


def test_rows_after_a_step_play_no_part(hacked):
    assert diagnose(hacked, at=40).to_dict()["probability"] == diagnose(hacked.until(40)).to_dict()["probability"]
    with pytest.raises(FitError, match="later step"):
        diagnose(hacked, at=0)


def test_a_log_of_two_rows_cannot_tell():
    result = diagnose(make_run(steps(2), [0.1, 0.2]))
    assert result.answer == CANNOT_TELL
    render_diagnosis(result, Console(file=io.StringIO()))
    plot_diagnosis(result)


def test_every_signal_may_be_missing_or_constant():
    for run in (
        make_run(
            steps(ROWS),
            np.full(ROWS, 0.0),
            signals={"frac_reward_zero_std": 1.0, "reward_std": 0.0, "kl": 0.0, "entropy": 0.0, "grad_norm": 0.0},
        ),
        make_run(steps(ROWS), np.full(ROWS, np.nan), evals={10.0: 0.1, 20.0: 0.2, 30.0: 0.2, 40.0: 0.3}),
        make_run(steps(ROWS), np.linspace(-5, 900, ROWS), signals={"completion_length": 0.0}),
        make_run(steps(ROWS), np.where(np.arange(ROWS) % 9 == 0, 0.4, np.nan)),
        make_run(steps(3), [0.1, 0.4, 0.2]),
    ):
        result = diagnose(run)
        assert all(np.isfinite(list(result.probability.values())))
        assert sum(result.probability.values()) == pytest.approx(1.0)


def test_picture_and_terminal(hacked, tmp_path):
    result = diagnose(hacked)
    save_plot(plot_diagnosis(result), tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000
    out = io.StringIO()
    render_diagnosis(result, Console(file=out, width=120))
    first = out.getvalue().splitlines()[1]
    assert first.startswith("Reward hacking with probability")
    assert "90%" in out.getvalue()
    assert "What to do" in out.getvalue()


def test_calibration_error_of_a_good_and_a_bad_forecaster():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20_000)
    happened = (rng.uniform(size=20_000) < p).astype(float)
    assert calibration_error(p, happened) < 0.02
    assert calibration_error(np.sqrt(p), happened) > 0.1


def test_thresholds_alarm_as_they_say(rising):
    entropy = np.full(ROWS, 1.0)
    entropy[50:] = 0.3
    kl = np.full(ROWS, 0.01) + 0.001 * np.random.default_rng(0).standard_normal(ROWS)
    kl[40] = 0.5
    found = thresholds(
        make_run(steps(ROWS), rising, signals={"entropy": entropy, "kl": kl, "frac_reward_zero_std": 0.2})
    )
    assert found["policy_concentration"] == 51
    assert found["dynamical_instability"] == 41
    assert "advantage_degeneracy" not in found
    odds = AlarmOdds([found, {}], ["policy_concentration", "healthy"])
    assert CLASSES[odds(found).argmax()] == "policy_concentration"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "groups", [simulated_runs.GROUPS[3:4], pytest.param(simulated_runs.GROUPS, marks=pytest.mark.slow)]
)
def test_better_than_thresholds_on_a_few_simulated_runs(groups, monkeypatch):
    """Both know how often each label comes from other runs; the layer was learned mostly from real logs."""
    monkeypatch.setattr(simulated_runs, "GROUPS", groups)  # each compiles programs of its own
    practice, runs = (labelled_runs(120, seed=seed) for seed in (76, 77))
    labels, known = ([r.label for r in x] for x in (runs, practice))
    p, own, *_ = judged([r.run for r in runs], frequencies(known))
    odds = AlarmOdds([thresholds(r.run) for r in practice], known)
    rival = scores(np.array([odds(thresholds(r.run)) for r in runs]), labels)
    found = scores(p, labels)
    assert found["log score"] > rival["log score"] + 0.1
    assert found["balanced accuracy"] > rival["balanced accuracy"] + 0.1
    present = np.array([[mode in r.modes for mode in MODES] for r in runs], float)
    # 120 runs leave an error of 0.03 to 0.05 by chance alone.
    assert calibration_error(own.ravel(), present.ravel()) < 0.1


def test_command_says_verdict_json_and_exit_code(write_trl_log, tmp_path, rising):
    evals = dict.fromkeys(range(4, ROWS, 4), 0.2)
    log = write_trl_log(tmp_path / "trainer_state.json", rising, evals)
    code, out, _ = call("diagnose", log, "--json", "--fail-on", "reward-hacking:0.3", "--plot", tmp_path / "p.svg")
    content = json.loads(out)
    assert content["own"]["reward_hacking"] >= 0.3
    assert code == 5
    assert content["fail_on"]["reached"] == {"reward_hacking": content["own"]["reward_hacking"]}
    assert (tmp_path / "p.svg").exists()
    code, out, _ = call("diagnose", log, "--fail-on", "policy_concentration:0.9", "--at", "40")
    assert code == 0
    assert "as of step 40" in out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--fail-on", "hacking:0.5"], "MODE:P"),
        (["--fail-on", "any:7"], "MODE:P"),
        (["--prior", "healthy"], "--prior"),
        (["--prior", "ill=0.3"], "--prior"),
        (["--at", "0.5"], "later step"),
    ],
)
def test_wrong_flags_are_one_line(write_trl_log, tmp_path, rising, flags, words):
    from bayes_grpo.cli.app import main

    log = write_trl_log(tmp_path / "trainer_state.json", rising)
    err = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()):
        patch.setattr(sys, "argv", ["bayes-grpo", "diagnose", str(log), *flags])
        patch.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 3
    assert words in err.getvalue()
    assert len(err.getvalue().strip().splitlines()) == 1
