"""Nothing is advised past its row: every action beside every combination of findings."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from bayes_grpo import diagnose, view
from bayes_grpo.common.text import StepName
from bayes_grpo.diagnosis.actions import ACTIONS, advice, remedies_for
from bayes_grpo.diagnosis.records import Finding
from bayes_grpo.signals.thresholds import THRESHOLDS
from tests.helpers.paths import not_none
from tests.helpers.runs import make_run, steps
from tests.helpers.selection import few

GROWS = Finding(kind="signal_grew", signals=("entropy",), numbers={"early": 0.5, "late": 1.5})
NO_SIGNALS = SimpleNamespace(run=SimpleNamespace(signals={}, suggested={}))


QUIET = {
    "falls": (), "held_out_falls": 0.0, "held_out_stays": 0.0, "spent_rate": None, "ended": False, "early": False,
    "latest": False, "resumed": None, "constant": False, "noisy": True, "truncated_pays": False,
    "every_step": True, "rows_planned": None, "group_size": 8.0, "view": NO_SIGNALS, "fell": 0.0,
    "step_name": StepName, "declined": False, "clearly_fell": False, "part_of_a_log": None,
}  # fmt: skip
"""What no action of these runs depends on."""


def every_run():
    """Facts of runs, the cross product of what they can be."""
    values = {
        "failing": (0.05, 0.3, 0.8),
        "signs": ((), (GROWS,)),
        "falling": (False, True),
        "kl": (np.nan, 0.01, 20.0),
        "checkpoint": (None, 40.0),
        "rose": (False, True),
        "level": (np.nan, 0.05, 0.5, 0.8, 0.96),
        "waste": (np.nan, 0.9),
        "not_finite": ((), ("loss",)),
        "rows": (5, 15, 200),
        "truncated": (np.nan, 0.9),
    }
    for chosen in product(*values.values()):
        known = dict(zip(values, chosen, strict=True))
        held = known["checkpoint"] is not None
        known |= {"held_out": held, "resting": not known["rose"], "at_top": known["level"] > 0.9}
        known |= {"broken": bool(known["not_finite"]), "fails": known["failing"] > THRESHOLDS.probable}
        known |= {"idle": known["waste"] > THRESHOLDS.idle}
        yield cast(Any, SimpleNamespace)(
            **known,
            **QUIET,
            noise=0.1,
            learning_rate=1e-5,
            all_wrong=known["level"] < 0.1,
            mostly_lowest=False,
            capped=False,
            one_score=None,
        )


RUNS = tuple(every_run())


@pytest.mark.parametrize("each", few([1, 7], 7))
@pytest.mark.parametrize("finding", remedies_for())
def test_no_finding_leads_past_a_row(finding, each):
    """Of all runs, or of every seventh, which has all values of every fact."""
    for f in RUNS[::each]:
        lines = [x.sentence for x in advice(finding, f)]
        text = " ".join(lines)
        assert lines
        if "raise the learning rate" in text:
            assert not f.signs
            assert f.kl < 1.0
            assert f.failing <= THRESHOLDS.suspect
            assert f.rows >= THRESHOLDS.waste_rows
            assert not f.not_finite
            assert not f.level > THRESHOLDS.near_top
        if f.not_finite:
            assert not any(word in text for word in ("easier prompts", "harder prompts", "go on", "groups"))
        if "checkpoint of about step" in text or "best evaluation reward" in text:
            assert f.checkpoint is not None
        if f.failing > THRESHOLDS.probable or f.not_finite:
            assert "go on" not in text
        if "go on." in lines:
            assert f.rows >= THRESHOLDS.direct_rows
            assert not f.falling
            assert f.rose or not f.resting
        assert not ("raise the learning rate" in text and "lower the learning rate" in text)


def test_every_action_is_advised_somewhere_and_every_name_is_known():
    assert {name for names in remedies_for().values() for name in names} == set(ACTIONS)


def test_groups_without_variance_at_a_high_reward_are_no_fault_of_verifier_or_limit():
    for f in RUNS:
        if f.level > THRESHOLDS.near_top and f.fails and not f.not_finite:
            first = advice("advantage_degeneracy", f)[0]
            assert (first.kind, first.subject) in (("change_prompts", "mixed"), ("look", "last_completions"))


def test_a_run_that_has_ended_is_not_told_to_stop_and_its_settings_are_of_the_next_run():
    for f in RUNS[::7]:
        over = cast(Any, SimpleNamespace)(**{**vars(f), "ended": True})
        for finding in remedies_for():
            for action in advice(finding, over):
                sentence = action.sentence
                assert action.ended or action.subject == "last_completions"
                assert "stop, and" not in sentence
                setting = action.kind == "change_setting" or action.kind == "change_prompts"
                assert sentence.startswith("in the next run, ") == (setting or action.kind == "log_signal")


def test_a_fall_that_begins_at_a_resume_is_attributed_to_it_first():
    rng = np.random.default_rng(3)
    reward = np.where(steps(90) <= 60, 0.7, 0.1) + 0.02 * rng.standard_normal(90)
    rate = np.where(steps(90) <= 60, 1e-6, 1e-5)
    made = make_run(steps(90), reward, signals={"learning_rate": rate, "kl": 0.1}, reward_low=0.0, reward_high=1.0)
    found = diagnose(replace(made, resumes=(61.0,)))
    assert found.status.status == "failed"
    assert "after the resume at step 61" in found.status.headline
    assert found.status.action.sentence == (
        "stop, and compare both sides of the resume at step 61: the optimizer state is loaded, the learning rate and "
        "the data order continue (here the learning rate went from 1e-06 to 1e-05)."
    )
    assert any(x.kind == "go_back" for x in found.status.actions)
    assert found.evidence["resume"] == "a fall begins at step 61; the learning rate went from 1e-06 to 1e-05"
    assert not_none(view(found).series).events["resumed"] == 61.0
    for other in ((), (20.0,)):
        top = diagnose(replace(made, resumes=other)).status
        assert "resume" not in top.headline + top.action.sentence


def test_a_resume_is_named_and_a_dip_after_one_with_it():
    dip = 0.6 + 0.02 * np.random.default_rng(6).standard_normal(120)
    resumed = replace(make_run(steps(120), dip), resumes=(61.0,))
    assert diagnose(resumed).status.past == "Earlier: the training was resumed at step 61."
    dip[80:88] -= 0.35
    told = diagnose(replace(make_run(steps(120), dip), resumes=(80.0,))).status.past
    assert "at step 81, after the resume at step 80, and came back by step 89." in told
    assert told.count("resume") == 1
