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
from tests.helpers.paths import there
from tests.helpers.runs import evaluated, make_run, steps
from tests.helpers.selection import few

GROWS = Finding(kind="signal_grew", signals=("entropy",), numbers={"early": 0.5, "late": 1.5})
NO_SIGNALS = SimpleNamespace(run=SimpleNamespace(signals={}))


QUIET = {
    "falls": (), "held_out_falls": 0.0, "held_out_stays": 0.0, "spent_rate": None, "ended": False, "early": False,
    "latest": False, "resumed": None, "stuck": None, "constant": False, "noisy": True, "truncated_pays": False,
    "suggested": {}, "every_step": True, "rows_planned": None, "group_size": 8.0, "view": NO_SIGNALS, "fell": 0.0,
    "step_name": StepName, "declined": False, "clearly_fell": False,
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
        known |= {"entropy_grew": bool(known["signs"]), "idle": known["waste"] > THRESHOLDS.idle}
        yield cast(Any, SimpleNamespace)(
            **known,
            **QUIET,
            noise=0.1,
            entropy=True,
            learning_rate=1e-5,
            all_wrong=known["level"] < 0.1,
            mostly_lowest=False,
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


def test_flat_rows_are_not_told_to_go_on():
    y = 0.03 + 0.01 * np.random.default_rng(0).standard_normal(200)
    top = diagnose(make_run(steps(200), np.abs(y), signals={"kl": 0.01})).status
    assert top.status == "watch"
    assert not top.action.sentence.startswith("go on")


def test_no_higher_rate_beside_a_falling_held_out_score_or_a_growing_gradient():
    rng = np.random.default_rng(1)
    y, at = 0.3 + 0.03 * rng.standard_normal(120), np.arange(5.0, 121.0, 5.0)
    held = evaluated(at, np.where(at < 60, 0.26, 0.18) + 0.005 * rng.standard_normal(len(at)))
    for signals, evals in (({"kl": 0.01}, held), ({"kl": 0.01, "grad_norm": np.geomspace(1.0, 60.0, 120)}, {})):
        top = diagnose(make_run(steps(120), y, signals=signals, evals=evals)).status
        assert top.status == "watch"
        assert not any("raise the learning rate" in x.sentence for x in (top.action, *top.actions))


def test_truncated_completions_that_earn_are_not_called_worthless():
    y = np.linspace(0.3, 0.65, 100) + 0.02 * np.random.default_rng(2).standard_normal(100)
    top = diagnose(make_run(steps(100), y, signals={"completions_clipped_ratio": 0.9})).status
    assert top.finding.mode == "truncated_completions"
    assert "some truncated completions earn reward" in top.action.sentence


def test_groups_without_variance_at_a_high_reward_are_no_fault_of_verifier_or_limit():
    for f in RUNS:
        if f.level > THRESHOLDS.near_top and f.fails and not f.not_finite:
            first = advice("advantage_degeneracy", f)[0]
            assert (first.kind, first.subject) in (("change_prompts", "mixed"), ("look", "last_completions"))


def test_rows_without_variance_are_named_unless_the_reward_clearly_rises():
    """Two rows of three without variance: a rise within the noise does not make up for them, a clear one does."""
    rng = np.random.default_rng(8)
    idle = rng.permutation(np.repeat([1.0, 0.0], [40, 20]))
    noise = 0.004 * rng.standard_normal(60)
    kinds = []
    for rise in (0.002, 0.02):
        y = np.linspace(-0.10, -0.10 + rise, 60) + noise
        status = diagnose(make_run(steps(60), y, signals={"frac_reward_zero_std": idle})).status
        kinds.append((status.finding.kind, status.action.kind))
    assert kinds == [("idle_steps", "change_prompts"), ("rising", "go_on")]


def test_solved_needs_a_held_out_score():
    y = np.minimum(np.linspace(0.4, 1.2, 80), 0.99) + 0.003 * np.random.default_rng(3).standard_normal(80)
    alone = diagnose(make_run(steps(80), np.minimum(y, 1.0), reward_low=0.0, reward_high=1.0)).status
    assert alone.status == "done"
    assert "solved" not in alone.headline
    assert "best evaluation reward" not in alone.action.sentence
    at = np.arange(4.0, 81.0, 4.0)
    both = make_run(
        steps(80), np.minimum(y, 1.0), evals=evaluated(at, np.full(len(at), 0.97)), reward_low=0.0, reward_high=1.0
    )
    assert "the task is solved" in diagnose(both).status.headline


def test_a_part_that_falls_beneath_a_mean_that_stands_comes_first():
    rng = np.random.default_rng(4)
    up, down = (np.linspace(*ends, 100) + 0.02 * rng.standard_normal(100) for ends in ((0.4, 0.85), (0.9, 0.45)))
    top = diagnose(make_run(steps(100), 0.5 * (up + down), components={"math": up, "code": down})).status
    assert top.status == "watch"
    assert top.headline.startswith("Component code fell from 0.")


def both_rewards(train, held, **more):
    """A train reward and an evaluation one every fourth step, each between two levels with little noise."""
    rng, at = np.random.default_rng(5), np.arange(4.0, 121.0, 4.0)
    y = np.linspace(train[0], train[1], 120) + 0.01 * rng.standard_normal(120)
    path = np.interp(at, np.linspace(4.0, 120.0, len(held)), held) + 0.005 * rng.standard_normal(len(at))
    return make_run(steps(120), y, evals=evaluated(at, path), reward_low=0.0, reward_high=1.0, **more)


def test_a_held_out_score_that_falls_or_stays_is_neither_fine_nor_done():
    fell = diagnose(both_rewards((0.2, 0.35), (0.15, 0.25, 0.21))).status
    assert fell.status == "watch"
    assert fell.headline.startswith("The evaluation reward fell from 0.2")
    assert "while the train reward rose" in fell.headline
    assert "best evaluation reward" in fell.action.sentence
    stays = diagnose(both_rewards((0.2, 0.5), (0.5, 0.5))).status
    assert stays.status == "watch"
    assert "while the evaluation reward stays at 0.5" in stays.headline
    assert not any("raise the learning rate" in x.sentence for x in (stays.action, *stays.actions))
    for train, held in (((0.2, 0.5), (0.4, 0.6)), ((0.4, 0.4), (0.5, 0.5))):
        assert "evaluation" not in diagnose(both_rewards(train, held)).status.headline


def test_what_happened_at_once_and_is_over_is_told_with_its_step():
    rng = np.random.default_rng(6)
    dip, jump = (0.6 + 0.02 * rng.standard_normal(120) for _ in range(2))
    dip[80:88] -= 0.35
    jump[30:] += 0.3
    told = diagnose(make_run(steps(120), dip)).status
    assert told.status not in ("fine", "failed", "failing")
    assert told.past.startswith("Earlier: the reward fell to 0.2")
    assert "at step 81 and came back by step 89" in told.past
    assert "jumped from 0.59 to 0.9 at step 31" in diagnose(make_run(steps(120), jump)).sentence
    resumed = replace(make_run(steps(120), dip[:80].tolist() + dip[:40].tolist()), resumes=(61.0,))
    assert diagnose(resumed).status.past == "Earlier: the training was resumed at step 61."
    assert diagnose(make_run(steps(120), 0.6 + 0.02 * rng.standard_normal(120))).status.past == ""


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
    assert there(view(found).series).events["resumed"] == 61.0
    for other in ((), (20.0,)):
        top = diagnose(replace(made, resumes=other)).status
        assert "resume" not in top.headline + top.action.sentence


def test_a_dip_after_a_resume_is_named_with_it():
    dip = 0.6 + 0.02 * np.random.default_rng(6).standard_normal(120)
    dip[80:88] -= 0.35
    told = diagnose(replace(make_run(steps(120), dip), resumes=(80.0,))).status.past
    assert "at step 81, after the resume at step 80, and came back by step 89." in told
    assert told.count("resume") == 1


def test_a_plateau_far_from_the_planned_end_is_no_reason_to_stop():
    y = np.minimum(0.2 + 0.03 * steps(35), 0.5) + 0.02 * np.random.default_rng(7).standard_normal(35)
    far = diagnose(make_run(steps(35), y, total_steps=299))
    assert far.status.status == "fine"
    assert "after 35 of 299 planned rewards" in far.status.headline
    assert far.status.action.sentence == "go on, and check again when the log has 70 rewards."
    assert not any(x.stops for x in (*far.status.actions, *far.remedies["plateaued"]))
    for planned in (None, 50):
        near = diagnose(make_run(steps(35), y, total_steps=planned)).status
        assert (near.status, near.action.sentence) == ("done", "stop here if this reward level is enough.")


@pytest.mark.parametrize(("noise", "status"), [(0.05, "fine"), (0.002, "done")])
def test_few_noisy_rows_are_no_plateau_while_a_rise_may_go_on_beneath(noise, status):
    pattern = np.tile([1.0, -1.0, 0.5, -0.5], 6)
    top = diagnose(make_run(steps(24), np.minimum(0.2 + 0.03 * steps(24), 0.45) + noise * pattern)).status
    assert (top.status, top.finding.mode) == (status, "plateaued")
    assert ("stop" in top.action.sentence) == (status == "done")
    assert ("after 24 rewards; no failure detected" in top.headline) == (status == "fine")


def test_a_way_back_to_where_the_reward_was_is_no_rise():
    noise = 0.02 * np.random.default_rng(8).standard_normal(120)
    humps = 0.3 + 0.3 * np.sin(2.0 * np.pi * np.linspace(0.0, 0.85, 120)) ** 2 + noise
    assert "is rising" not in diagnose(make_run(steps(120), humps)).status.headline
    valley = np.repeat([0.6, 0.4, 0.6], 40) + noise
    back = diagnose(make_run(steps(120), valley)).status
    assert back.status == "unclear"
    assert "is rising" in diagnose(make_run(steps(120), np.repeat([0.6, 0.4, 0.8], 40) + noise)).status.headline
