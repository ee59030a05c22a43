"""What `diagnose` and the command give: verdicts on logs whose trouble is known, calibration on simulated runs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bayes_grpo import diagnose
from bayes_grpo.common.errors import FitError
from bayes_grpo.diagnosis.finding_words import CANNOT_TELL
from bayes_grpo.diagnosis.mode import all_modes
from bayes_grpo.diagnosis.status import ALARMING, MODES
from bayes_grpo.views.diagnosis import episodes
from bayes_grpo.views.plots.diagnosis import plot_diagnosis
from tests.diagnosis.conftest import ROWS
from tests.helpers.command import call
from tests.helpers.paths import not_none, view_of
from tests.helpers.runs import make_run, steps
from tests.helpers.shown import text_of


def test_a_hacked_run_is_named_with_onset_and_remedies_and_an_honest_one_is_not(hacked, honest):
    bad, good = diagnose(hacked), diagnose(honest)
    assert bad.probability["reward_hacking"] > 0.5 > 0.1 > good.probability["reward_hacking"]
    assert bad.sentence.startswith("Reward hacking since about step ")
    assert bad.remedies["reward_hacking"]
    found = bad.onsets["reward_hacking"].step
    assert hacked.step[0] <= found.low <= found.median <= found.high <= hacked.step[-1]
    assert good.status.status not in ALARMING
    for result in (bad, good):
        json.dumps(result.to_dict(), allow_nan=False)
    assert bad.to_dict() == diagnose(hacked).to_dict()


def test_rows_after_a_step_play_no_part(hacked):
    assert (
        diagnose(hacked, up_to_step=40).to_dict()["probability"] == diagnose(hacked.until(40)).to_dict()["probability"]
    )
    with pytest.raises(FitError, match="later step"):
        diagnose(hacked, up_to_step=0)


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
        assert all(0.0 <= p < 1.0 for p in result.probability.values())
        assert set(MODES) <= set(result.probability)


def test_what_is_said_of_a_reward_of_zero_is_zero_and_one_evaluation_is_one():
    """The trend of a constant has a spread of rounding's size, which was printed as 2.7e-12."""
    kl = np.concatenate([np.zeros(20), np.linspace(0.0, 0.1, 20)])
    found = diagnose(make_run(steps(40), np.zeros(40), signals={"kl": kl}, evals={40.0: 0.0}))
    said = text_of(found, 2000)
    assert "40 rows, 1 evaluation, steps 1 to 40" in said
    assert "changed by 0 to 0;" in said
    assert "the reward is at 0" in said


def test_command_says_verdict_json_and_exit_code(write_trl_log, tmp_path, rising):
    evals = dict.fromkeys(range(4, ROWS, 4), 0.0)
    log = write_trl_log(tmp_path / "trainer_state.json", rising, evals)
    code, out, _ = call("diagnose", log, "--json", "--fail-on", "reward-hacking:0.3", "--plot", tmp_path / "p.svg")
    content = json.loads(out)
    assert content["probability"]["reward_hacking"] >= 0.3
    assert code == 5
    assert content["fail_on"]["reached"] == {"reward_hacking": content["probability"]["reward_hacking"]}
    assert (tmp_path / "p.svg").exists()
    code, out, _ = call("diagnose", log, "--fail-on", "policy_concentration:0.9", "--up-to-step", "40")
    assert code == 0
    assert "as of step 40" in out


def test_a_log_of_two_rewards_says_that_it_cannot_tell():
    two = diagnose(make_run(steps(2), [0.1, 0.2]))
    assert (two.status.finding.mode, two.status.finding.kind) == (CANNOT_TELL, "few_rows")
    assert text_of(two).startswith("UNCLEAR")
    plot_diagnosis(two)
    assert two.sentence == "Too few rewards for a verdict: the reward is 0.2; 2 rows say nothing of where it goes."
    assert two.status.action.sentence == "check again when the log has 20 rewards."


def test_a_reward_rises_or_rests_but_not_both_and_a_small_rise_is_none():
    rng = np.random.default_rng(5)
    up = np.r_[np.linspace(0.2, 0.8, 60), np.full(60, 0.8)] + 0.02 * rng.standard_normal(120)
    found = diagnose(make_run(steps(120), up, reward_low=0.0, reward_high=1.0))
    whole = not_none(found.timeline)
    rise = next(e for e in whole.episodes if e.mode == "growing" and e.probable)
    assert rise.severity_text.startswith("the reward changed from 0.")
    rest = replace(rise, mode="plateaued", probability=0.55, severity_text="the reward is at 0.5")
    both = replace(found, timeline=replace(whole, episodes=(rise, rest)))
    assert [e.mode for e in episodes(both)] == ["growing"]
    seen = view_of(make_run(steps(120), up))
    growing = next(m for m in all_modes() if m.name == "growing")
    assert growing.text(seen, 100.0, 102.0) == ""
    assert growing.text(seen, 10.0, 50.0) != ""


def test_its_tree_has_the_trend_and_the_probability_of_each_mode(hacked):
    found = diagnose(hacked)
    tree = found.to_datatree()
    last = tree["constant_data"].dataset["probability"].isel(step=-1)
    assert float(last.sel(mode="reward_hacking")) == found.probability["reward_hacking"]
    assert tree["posterior"]["reward"].dims == ("chain", "draw", "step")
    with pytest.raises(FitError, match="rows have no trend"):
        diagnose(make_run(steps(1), np.array([0.1]))).to_datatree()
