"""The probe in TRL's own trainer: a probed run is the run without it, bit for bit."""

from pathlib import Path

import pytest

pytest.importorskip("trl", reason="the dependency group trl is not installed")

import torch  # pyright: ignore[reportMissingImports]

from bayes_grpo.common.errors import SettingError
from bayes_grpo.probing.file import load_probes
from bayes_grpo.trl import CurvatureProbe
from benchmarks.speed.peers.trl_tiny import trainer


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"optim": "sgd", "max_grad_norm": 0.0, "steps_per_generation": 4, "loss_type": "grpo"},
        {"per_device_train_batch_size": 32, "gradient_accumulation_steps": 2},
    ],
    ids=["Adam", "SGD over four steps", "two micro-batches"],
)
def test_a_probed_run_is_the_run_without_a_probe(tmp_path: Path, settings):
    torch.set_num_threads(1)
    watcher, runs, luck = CurvatureProbe(every=2), [], []
    for name in ("plain", "probed"):
        run = trainer(tmp_path / name, 6, **settings)  # which sets the seeds
        if name == "probed":
            watcher.attach(run)
        run.train()
        runs.append(run)
        luck.append(torch.get_rng_state())
    plain, probed = runs
    for a, b in zip(plain.model.parameters(), probed.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(*luck)
    rows = [
        [
            {k: v for k, v in row.items() if "time" not in k and "per_second" not in k and "curvature" not in k}
            for row in x
        ]
        for x in (plain.state.log_history, probed.state.log_history)
    ]
    assert rows[0] == rows[1]
    seen = [row["step"] for row in probed.state.log_history if "curvature/stiffest" in row]
    assert seen == [2, 4, 6]
    kept = load_probes(tmp_path / "probed" / "probe.json")
    assert [x.to_dict() for x in kept] == [x.to_dict() for x in watcher.probes]
    assert kept[0].optimizer == ("sgd" if "optim" in settings else "adam")
    assert 0.0 <= kept[0].late_share <= 1.0


def test_a_trainer_that_cannot_be_probed(tmp_path: Path):
    with pytest.raises(SettingError, match="float32"):
        CurvatureProbe().attach(trainer(tmp_path, 2, bf16=True))
