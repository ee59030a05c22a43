"""Trainers are told apart by their keys, whatever the order in which they are known; a new one is one row."""

import itertools
import json
from functools import partial

import numpy as np
import pytest

from bayes_grpo.logs import SIGNALS, Provenance, mapping, read_log
from bayes_grpo.logs.keyindex import KeyIndex
from bayes_grpo.logs.options import checked
from bayes_grpo.logs.table import Table
from bayes_grpo.logs.trainers import TRAINERS, Derived, Trainer, identify

MADE_UP = Trainer(
    name="made_up",
    label="Made Up",
    signature=("learner/points", "learner/**"),
    steps=(("learner/update",),),
    reward=("learner/points",),
    signals={"entropy": ("learner/surprise",)},
    derived=(Derived("frac_reward_zero_std", {"learner/useful": -1.0}, 1.0),),
    defaults={"group_size": 5},
)


def index_of(*keys: str) -> KeyIndex:
    return KeyIndex(Table.from_rows([dict.fromkeys(keys, 1.0)]))


def one_key(pattern: str) -> str:
    """A key that a pattern matches."""
    return pattern.replace("**", "a").replace("*", "a")


def test_a_new_trainer_is_one_row(write, monkeypatch):
    rows = [
        {"learner/update": s, "learner/points": 0.1 * s, "learner/surprise": 2.0, "learner/useful": 0.25}
        for s in range(1, 6)
    ]
    path = write("log.jsonl", rows)
    monkeypatch.setattr(mapping, "identify", partial(identify, known=(*TRAINERS, MADE_UP)))
    run = read_log(path)
    assert run.keys["reward"] == "learner/points"
    np.testing.assert_array_equal(run.step, np.arange(1, 6))
    np.testing.assert_allclose(run.signals["entropy"], 2.0)
    np.testing.assert_allclose(run.signals["frac_reward_zero_std"], 0.75)
    assert (run.settings.group_size.value, run.settings.group_size.note) == (5, "Made Up's documented default")


@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda t: t.name)
def test_each_trainer_is_told_by_its_own_keys(trainer):
    keys = [prefix + one_key(p) for prefix in trainer.prefixes for p in trainer.signature]
    assert identify(index_of("step", *keys)) is trainer


def test_keys_of_nobody_are_the_generic_ones():
    assert identify(index_of("step", "reward")).name == "generic"


def test_of_trainers_with_one_key_each_the_first_is_taken():
    for first, second in itertools.combinations(TRAINERS, 2):
        index = index_of(one_key(first.signature[0]), one_key(second.signature[0]))
        assert identify(index, (first, second)) in (first, second)
        assert identify(index) in (first, second)


def test_names_and_what_trainers_state():
    assert len({t.name for t in TRAINERS}) == len(TRAINERS)
    for t in TRAINERS:
        assert isinstance(t, Trainer)
        assert set(t.signals) <= set(SIGNALS)
        assert {d.signal for d in t.derived} <= set(SIGNALS)
        assert checked(t.defaults, t.name) == t.defaults


def rows_of_keys(path, **columns):
    rows = [{"step": i + 1, "reward": 0.1 + 0.01 * i, **{k: v[i] for k, v in columns.items()}} for i in range(8)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_observed_staleness_sets_the_refresh_interval(tmp_path):
    ages = [0, 2, 1, 3, 1, 2, 2, 1]
    log = rows_of_keys(tmp_path / "metrics.jsonl", **{"async/staleness_mean": ages})
    setting = read_log(log).settings.refresh_interval
    assert setting.value == 4
    assert setting.provenance is Provenance.LOGGED
    assert "1.5 steps on average" in setting.note
    assert read_log(log, settings={"refresh_interval": 9}).settings.refresh_interval.value == 9


def test_a_fresh_policy_does_not_hide_a_longer_refresh_that_somebody_stated(tmp_path):
    log = rows_of_keys(tmp_path / "metrics.jsonl", staleness=[0.0] * 8)
    assert read_log(log).settings.refresh_interval.value == 1
    (tmp_path / "bayes_grpo.toml").write_text("[settings]\nrefresh_interval = 8\n")
    assert read_log(log).settings.refresh_interval.value == 8


def test_groups_that_cannot_be_trained_on_have_no_spread(tmp_path):
    path = tmp_path / "history.jsonl"
    rows = [
        {
            "training_step": i + 1,
            "train/reward": 0.1 * i,
            "train/reward_std_dev": 0.2,
            "data/step_num_groups_trainable": 6 - i,
            "data/step_num_groups_submitted": 8 if i else 0,
            "time/step_wall_s": 31.5,
            "costs/all": 0.25,
        }
        for i in range(6)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    run = read_log(path)
    np.testing.assert_allclose(run.signals["frac_reward_zero_std"], [np.nan, *(1 - (6 - np.arange(1, 6)) / 8)])
    assert run.keys["frac_reward_zero_std"] == "1 - data/step_num_groups_trainable / data/step_num_groups_submitted"
    np.testing.assert_array_equal(run.signals["step_time"], np.full(6, 31.5))
    np.testing.assert_array_equal(run.signals["step_cost"], np.full(6, 0.25))


def test_groups_solved_by_none_or_by_all_have_no_spread(tmp_path):
    log = rows_of_keys(
        tmp_path / "metrics.jsonl",
        **{
            "train/agg/all/math/solved_none": [0.25] * 8,
            "train/agg/all/math/solved_all": [0.5] * 8,
            "off_policy/mean": [0.5] * 8,
        },
    )
    run = read_log(log)
    np.testing.assert_allclose(run.signals["frac_reward_zero_std"], 0.75)
    assert run.settings.refresh_interval.value == 2
