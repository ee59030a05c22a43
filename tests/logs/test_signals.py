"""Each key of each trainer is read as the signal, and with the definition, that the table of trainers says."""

import numpy as np
import pytest

from bayes_grpo.logs import SIGNALS, read_log
from bayes_grpo.logs.signals import STANDARD, UNDEFINED, CanonicalSignal
from bayes_grpo.logs.trainer import Trainer
from bayes_grpo.logs.trainers import GENERIC, TRAINERS
from tests.logs.log_samples import assert_read, one_key

KNOWN = (*TRAINERS, GENERIC)
VALUES = (0.25, 0.375)
NO_MARKS = ("step", "steps", "runtime")
"""Ends of signature keys that count steps or close a training."""


def cells(trainer: Trainer) -> list[tuple[str, str]]:
    """Signals and their keys in the logs of a trainer."""
    return [(name, key) for name in SIGNALS for key in trainer.keys.get(name, ())]


def lines(trainer: Trainer, name: str, columns: dict[str, tuple[float, float]]) -> list[dict[str, float]]:
    """Two rows with a trainer's signature and reward, without its other keys of a signal, and with some columns."""
    own = {one_key(key) for key in trainer.keys.get(name, ())}
    own |= {one_key(key) for d in trainer.derived if d.signal == name for key in d.terms}
    marks = [key for key in map(one_key, trainer.signature) if key not in own and not key.endswith(NO_MARKS)]
    reward = one_key(trainer.keys["reward"][0])
    return [
        {"step": i + 1, **dict.fromkeys(marks, 0.5), reward: 0.5 + i / 8} | {key: x[i] for key, x in columns.items()}
        for i in range(2)
    ]


@pytest.mark.parametrize("trainer", KNOWN, ids=lambda t: t.name)
def test_every_key_is_read_as_its_signal(trainer):
    for name, key in cells(trainer):
        written = one_key(key)
        run = read_log(lines(trainer, name, {written: VALUES}))
        assert_read(run, signals={name: VALUES}, keys={name: written})
        assert run.definitions[name] == SIGNALS[name].word(trainer.definitions.get(key, "")), key
        assert name == "kl" or "kl" not in run.signals or run.keys["kl"] != written, key


@pytest.mark.parametrize("trainer", [t for t in TRAINERS if t.derived], ids=lambda t: t.name)
def test_a_combination_of_keys_is_read_as_its_signal(trainer):
    for derived in trainer.derived:
        columns = {one_key(key): VALUES for key in derived.terms}
        if derived.over:
            columns[derived.over] = (2.0, 2.0)
        run = read_log(lines(trainer, derived.signal, columns))
        total = sum(derived.terms.values()) * np.array(VALUES) / (2.0 if derived.over else 1.0)
        assert_read(run, signals={derived.signal: derived.constant + total})
        assert run.definitions[derived.signal] == SIGNALS[derived.signal].word(derived.definition), derived.signal


def test_rows_are_whole():
    for name, signal in SIGNALS.items():
        assert signal.name == name
        assert signal.meaning
        assert signal.unit
        words = [d.word for short, d in signal.definitions.items() if short]
        assert "" not in signal.definitions or signal.definitions[""].word == STANDARD
        assert len({*words, STANDARD, UNDEFINED}) == len(words) + 2
        for healthy in (signal.healthy, *(d.healthy for d in signal.definitions.values())):
            assert healthy is None or (healthy.low < healthy.high and healthy.source)
    shorts = {(name, t.definitions[key]) for t in KNOWN for name, key in cells(t) if key in t.definitions}
    assert all(short in SIGNALS[name].definitions for name, short in shorts)


def test_a_healthy_range_is_that_of_the_definition():
    mismatch = SIGNALS["engine_mismatch"]
    assert mismatch.healthy_range("k3") == mismatch.definitions["k3"].healthy
    assert mismatch.healthy_range(UNDEFINED) is None
    assert SIGNALS["importance_ess"].healthy_range("trainer to sampler") == SIGNALS["importance_ess"].healthy
    assert isinstance(mismatch, CanonicalSignal)


def test_the_sampler_is_not_the_reference(write):
    rows = [
        {"step": i, "env/all/reward/total": 0.5, "optim/kl_sample_train_v1": 0.002, "kl_policy_base": 0.1}
        for i in range(1, 4)
    ]
    run = read_log(write("metrics.jsonl", rows))
    assert_read(run, signals={"kl": 0.1, "engine_mismatch": 0.002})
    assert run.definitions == {"kl": STANDARD, "engine_mismatch": "k1"}
    own = read_log(rows, columns={"engine_mismatch": "kl_policy_base"})
    assert own.definitions["engine_mismatch"] == UNDEFINED
    with pytest.raises(TypeError):
        run.definitions["kl"] = "k3"  # type: ignore[index]
