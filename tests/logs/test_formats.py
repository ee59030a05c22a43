"""Every trainer in every place that it writes to: what `docs/formats.md` says is what is read."""

from pathlib import Path

import numpy as np
import pytest

from bayes_grpo.logs import read_log
from bayes_grpo.logs.trainers import TRAINERS
from benchmarks.runs.formats import PAGE, page
from tests.helpers.stores import WRITERS
from tests.helpers.trainer_samples import EVALUATED, HELD_OUT, SAMPLES, STEPS, SlimeSample, reward_at
from tests.logs.log_samples import assert_read

CELLS = [(sample, place) for sample in SAMPLES for place in sample.places()]
EXACT = {"tensorboard": 1e-6, "console": 1e-3}
"""Relative precision of what keeps four bytes, or four digits, a number."""


@pytest.mark.parametrize(("sample", "place"), CELLS, ids=lambda x: x if isinstance(x, str) else x.trainer)
def test_a_cell_of_the_page(sample, place, tmp_path):
    run = read_log(sample.write(place, tmp_path))
    close = EXACT.get(place, 1e-12)
    slime = isinstance(sample, SlimeSample)
    logged = run.step % 2 == 0 if slime else np.ones(len(STEPS), dtype=bool)
    rewards = np.where(logged, [reward_at(int(s)) for s in run.step], np.nan)
    np.testing.assert_allclose(run.reward, rewards, rtol=close)
    evals = {EVALUATED: HELD_OUT} if sample.held_out else None
    assert_read(run, step=range(len(STEPS)) if slime else STEPS, evals=evals)
    assert set(run.signals) == set(sample.signals)
    for name, (_, value) in sample.signals.items():
        if name != "frac_reward_zero_std" or value < 1:  # logged in per cent by NeMo-RL
            found = run.signals[name]
            np.testing.assert_allclose(found[np.isfinite(found)], value, rtol=close)
    if place in WRITERS:
        assert_read(run, settings=sample.settings)
        assert {getattr(run.settings, name).provenance for name in sample.settings} <= {"config", "logged"}
    assumed = [x.note for _, x in run.settings.items() if x.note.endswith("documented default")]
    assert all(note.startswith(sample.trainer) for note in assumed)


def test_every_trainer_has_a_sample():
    known = {t.name for t in TRAINERS}
    assert {sample.trainer for sample in SAMPLES} == known - {"TRL (PPO, RLOO)"}  # its logs are TRL's, with other names


def test_the_page_is_what_is_read():
    assert Path(PAGE).read_text(encoding="utf-8") == page()
