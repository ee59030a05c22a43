"""Trainers are told apart by their keys, whatever the order in which they are known; a new one is one row."""

import itertools
from functools import partial

import pytest

from bayes_grpo.logs import mapping, read_log
from bayes_grpo.logs.keyindex import KeyIndex
from bayes_grpo.logs.options import CANONICAL_COLUMNS, checked
from bayes_grpo.logs.table import Table
from bayes_grpo.logs.trainer import Derived, Trainer
from bayes_grpo.logs.trainers import GENERIC, TRAINERS, identify
from tests.logs.log_samples import assert_read, one_key

MADE_UP = Trainer(
    name="Made Up",
    signature=("learner/points", "learner/**"),
    keys={"step": ("learner/update",), "reward": ("learner/points",), "entropy": ("learner/surprise",)},
    derived=(Derived("frac_reward_zero_std", {"learner/useful": -1.0}, 1.0),),
    defaults={"group_size": 5},
)


def index_of(*keys: str) -> KeyIndex:
    return KeyIndex(Table.from_rows([dict.fromkeys(keys, 1.0)]))


def test_a_new_trainer_is_one_row(write, monkeypatch):
    rows = [
        {"learner/update": s, "learner/points": 0.1 * s, "learner/surprise": 2.0, "learner/useful": 0.25}
        for s in range(1, 6)
    ]
    path = write("log.jsonl", rows)
    monkeypatch.setattr(mapping, "identify", partial(identify, known=(*TRAINERS, MADE_UP)))
    run = read_log(path)
    signals = {"entropy": 2.0, "frac_reward_zero_std": 0.75}
    assert_read(run, step=range(1, 6), signals=signals, keys={"reward": "learner/points"}, settings={"group_size": 5})
    assert run.settings.group_size.note == "Made Up's documented default"


@pytest.mark.parametrize("trainer", TRAINERS, ids=lambda t: t.name)
def test_each_trainer_is_told_by_its_own_keys(trainer):
    keys = [prefix + one_key(p) for prefix in trainer.prefixes for p in trainer.signature]
    assert identify(index_of("step", *keys)) is trainer


def test_keys_of_nobody_are_the_generic_ones():
    assert identify(index_of("step", "reward")) is GENERIC


def test_of_trainers_with_one_key_each_the_first_is_taken():
    for first, second in itertools.combinations(TRAINERS, 2):
        index = index_of(one_key(first.signature[0]), one_key(second.signature[0]))
        assert identify(index, (first, second)) in (first, second)
        assert identify(index) in (first, second)


def test_names_and_what_trainers_state():
    assert len({t.name for t in TRAINERS}) == len(TRAINERS)
    for t in TRAINERS:
        assert isinstance(t, Trainer)
        assert "reward" in t.keys
        assert {*t.keys, *(d.signal for d in t.derived)} <= {*CANONICAL_COLUMNS}
        assert checked(t.defaults, t.name) == t.defaults


def rows_of(**columns):
    return [{"step": i + 1, "reward": 0.1 + 0.01 * i, **{k: v[i] for k, v in columns.items()}} for i in range(8)]


def test_observed_staleness_sets_the_refresh_interval(write):
    log = write("metrics.jsonl", rows_of(**{"async/staleness_mean": [0, 2, 1, 3, 1, 2, 2, 1]}))
    assert_read(run := read_log(log), settings={"refresh_interval": (4, "logged")})
    assert "1.5 steps on average" in run.settings.refresh_interval.note
    assert_read(read_log(log, settings={"refresh_interval": 9}), settings={"refresh_interval": 9})
    fresh = write("metrics.jsonl", rows_of(staleness=[0.0] * 8))
    assert_read(read_log(fresh), settings={"refresh_interval": 1})
    write("bayes_grpo.toml", "[settings]\nrefresh_interval = 8\n")  # a longer one that a user knows
    assert_read(read_log(fresh), settings={"refresh_interval": 8})
