"""Trainers are told apart by their keys, whatever the order in which they are known; a new one is one file."""

import itertools

import numpy as np
import pytest

from bayes_grpo.logs import SIGNALS, read_log, trainers
from bayes_grpo.logs.identify import all_trainers, identify
from bayes_grpo.logs.keyindex import KeyIndex
from bayes_grpo.logs.options import checked
from bayes_grpo.logs.table import Table
from bayes_grpo.logs.trainer import Trainer

MADE_UP = """
from bayes_grpo.logs.trainer import Derived, Trainer

TRAINER = Trainer(
    name="made_up",
    label="Made Up",
    signature=("learner/points", "learner/**"),
    steps=(("learner/update",),),
    reward=("learner/points",),
    signals={"entropy": ("learner/surprise",)},
    derived=(Derived("frac_reward_zero_std", {"learner/useful": -1.0}, 1.0),),
    defaults={"group_size": 5},
)
"""


def index_of(*keys: str) -> KeyIndex:
    return KeyIndex(Table.from_rows([dict.fromkeys(keys, 1.0)]))


def one_key(pattern: str) -> str:
    """A key that a pattern matches."""
    return pattern.replace("**", "a").replace("*", "a")


def test_a_new_trainer_is_one_file(write, tmp_path, monkeypatch):
    rows = [
        {"learner/update": s, "learner/points": 0.1 * s, "learner/surprise": 2.0, "learner/useful": 0.25}
        for s in range(1, 6)
    ]
    path = write("log.jsonl", rows)
    write("more/made_up.py", MADE_UP)
    monkeypatch.setattr(trainers, "__path__", [*trainers.__path__, str(tmp_path / "more")])
    run = read_log(path)
    assert run.keys["reward"] == "learner/points"
    np.testing.assert_array_equal(run.step, np.arange(1, 6))
    np.testing.assert_allclose(run.signals["entropy"], 2.0)
    np.testing.assert_allclose(run.signals["frac_reward_zero_std"], 0.75)
    assert (run.settings.group_size.value, run.settings.group_size.note) == (5, "Made Up's documented default")


@pytest.mark.parametrize("trainer", [t for t in all_trainers() if t.signature], ids=lambda t: t.name)
def test_each_trainer_is_told_by_its_own_keys(trainer):
    keys = [prefix + one_key(p) for prefix in trainer.prefixes for p in trainer.signature]
    assert identify(index_of("step", *keys)) is trainer


def test_keys_of_nobody_are_the_generic_ones():
    assert identify(index_of("step", "reward")).name == "generic"


def test_the_order_in_which_trainers_are_known_does_not_matter():
    """Also where a log has one key of each of two trainers: then the rank decides."""
    known = all_trainers()
    signed = [t for t in known if t.signature]
    for first, second in itertools.combinations(signed, 2):
        index = index_of(one_key(first.signature[0]), one_key(second.signature[0]))
        found = identify(index, known)
        assert found in (first, second)
        assert identify(index, known[::-1]) is found


def test_names_ranks_and_what_trainers_state():
    known = all_trainers()
    assert len({t.name for t in known}) == len(known)
    signed = [t.rank for t in known if t.signature]
    assert len(set(signed)) == len(signed)
    for t in known:
        assert isinstance(t, Trainer)
        assert set(t.signals) <= set(SIGNALS)
        assert {d.signal for d in t.derived} <= set(SIGNALS)
        assert checked(t.defaults, t.name) == t.defaults
