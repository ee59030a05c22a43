"""A probe inside a training, with a trainer made of NumPy: where it leads, what it writes, what it leaves alone."""

import contextlib
import json
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bayes_grpo import read_log
from bayes_grpo.common.errors import BayesGrpoWarning, SettingError
from bayes_grpo.dynamics.reduction import critical_gain
from bayes_grpo.probing.file import load_probes
from bayes_grpo.probing.probe import ProbeTracker
from bayes_grpo.training.curvature import CurvatureWatcher, ProbeInputs
from bayes_grpo.training.trl_updates import refusal, same_random_state
from tests.helpers.probes import noisy_parts

SIZE, RATE = 12, 0.005
STIFF = np.diag(4.0 * 0.6 ** np.arange(SIZE))


def test_a_direction_is_kept_and_found_over_batches():
    """Two gradients a look: after a few batches the direction is the stiffest one, and looks are fair."""
    tracker = ProbeTracker()
    looks = [tracker.measure(noisy_parts(STIFF, seed)) for seed in range(40)]
    assert looks[0].gradients > looks[1].gradients == 2.0
    assert abs(tracker.direction[0]) > 0.99
    late = np.array([look.stiffest.mean for look in looks[10:]])
    assert late.mean() == pytest.approx(4.0, rel=0.02)
    inside = [look.stiffest.interval.low <= 4.0 <= look.stiffest.interval.high for look in looks[10:]]
    assert np.mean(inside) >= 0.75
    kept = tracker.measure(noisy_parts(STIFF, 99, 0.0), unweighted=[lambda s: -0.75 * STIFF @ (np.ones(SIZE) + s)] * 8)
    assert kept.late_share == pytest.approx(0.25, abs=1e-3)
    with pytest.raises(SettingError, match="4 parts of a first batch"):
        ProbeTracker().measure(noisy_parts(STIFF)[:3])


class Trainer:
    """What a watcher asks of a trainer, around descent on a quadratic."""

    def __init__(self, folder: Any) -> None:
        self.args = SimpleNamespace(output_dir=str(folder))
        self.state = SimpleNamespace(global_step=0, log_history=[], is_world_process_zero=True)
        self.callback_handler = SimpleNamespace(callbacks=["one that reports"])
        self.model = SimpleNamespace(training=True)
        self.luck = np.random.default_rng(0)

    def compute_loss(self, model: Any, inputs: Any) -> float:
        return float(inputs)

    def train(self, steps: int, watcher: CurvatureWatcher) -> list[dict[str, Any]]:
        for _ in range(steps):
            self.compute_loss(self.model, self.state.global_step)
            self.state.global_step += 1
            watcher.on_step_end(self.args, self.state, None)
            logs: dict[str, Any] = {"reward": float(self.luck.uniform()), "num_tokens": 1.0}
            self.state.log_history.append(logs | {"step": self.state.global_step})
            watcher.on_log(self.args, self.state, None, logs)
        return self.state.log_history


@contextlib.contextmanager
def opened(trainer: Trainer, inputs: list[Any], parts: int):
    with same_random_state():
        yield ProbeInputs(noisy_parts(STIFF, inputs[0], 0.05, parts), [], 1.0, "sgd", RATE, 0.9, 4.0)


def test_probes_stand_in_the_log_and_in_a_file(tmp_path):
    plain = Trainer(tmp_path)
    quiet = plain.train(12, CurvatureWatcher(every=100, opened=opened))
    trainer = Trainer(tmp_path)
    watcher = CurvatureWatcher(every=4, opened=opened).attach(trainer)
    assert trainer.callback_handler.callbacks[0] is watcher
    rows = trainer.train(12, watcher)
    assert [row["step"] for row in rows if "curvature/stiffest" in row] == [4, 8, 12]
    last = rows[-1]
    assert last["curvature/stiffest"] == pytest.approx(4.0, rel=0.1)
    assert last["curvature/margin"] == pytest.approx(
        critical_gain(0.9, 4, "hold") / (RATE * last["curvature/stiffest"])
    )
    assert last["curvature/p_stable"] > 0.9
    assert last["curvature/seconds"] >= 0.0
    assert [row["reward"] for row in rows] == [row["reward"] for row in quiet]
    assert [x.step for x in load_probes(tmp_path / "probe.json")] == [4.0, 8.0, 12.0]
    json.dumps(rows, allow_nan=False)
    run = read_log(rows)
    assert np.isfinite(run.signals["stiffness"]).sum() == np.isfinite(run.signals["stability_margin"]).sum() == 3


def test_a_failure_is_one_warning_and_the_training_goes_on(tmp_path):
    @contextlib.contextmanager
    def broken(*_: Any):
        raise RuntimeError("no memory")
        yield

    trainer = Trainer(tmp_path)
    watcher = CurvatureWatcher(every=2, opened=broken).attach(trainer)
    with pytest.warns(BayesGrpoWarning, match="no memory"):
        trainer.train(2, watcher)
    with warnings.catch_warnings(action="error"):
        assert len(trainer.train(4, watcher)) == 6


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"deepspeed": "zero3.json"}, "DeepSpeed"),
        ({"fsdp": "full_shard"}, "FSDP"),
        ({"bf16": True}, "float32"),
        ({"gradient_checkpointing": True}, "use_reentrant"),
        ({}, "GRPOTrainer"),
    ],
)
def test_what_cannot_be_probed_is_refused_in_a_sentence(tmp_path, given, word):
    trainer = Trainer(tmp_path)
    trainer.args = SimpleNamespace(**given)
    with pytest.raises(SettingError, match=word) as error:
        CurvatureWatcher(opened=opened, refused=refusal).attach(trainer)
    assert "\n" not in str(error.value)
    with pytest.raises(SettingError, match="expected a trainer of TRL"):
        CurvatureWatcher(opened=opened).attach(object())
    for every, parts, length in ((0, 8, 1e-3), (25, 2, 1e-3), (25, 8, -1.0)):
        with pytest.raises(SettingError, match="CurvatureProbe: expected"):
            CurvatureWatcher(opened=opened, every=every, parts=parts, length=length)
