"""Families: draws that depend on nothing but their name, seed and number."""

import pytest

from benchmarks.lab.families import deep_families, draw_run
from benchmarks.lab.setups import SETUPS


@pytest.mark.parametrize("family", deep_families())
def test_every_draw_can_be_run(family):
    for index in range(20):
        draw = draw_run(family, 0, index)
        task, structure = draw.setup.make_task(), draw.setup.lab.structure
        assert structure.n_steps % (structure.eval_every or structure.n_steps) == 0
        assert draw.setup.lab.limit >= task.train_answer.shape[1]
        assert draw.numbers.base.refresh_interval % draw.numbers.epochs == 0
        assert draw.setup in SETUPS
        assert 0.0 < draw.success <= 1.0
        assert 1 <= draw.logging_steps <= 10


@pytest.mark.parametrize("family", deep_families())
def test_a_draw_depends_on_family_seed_and_number_alone(family):
    assert draw_run(family, 3, 7) == draw_run(family, 3, 7)
    others = [draw_run(family, 3, 8), draw_run(family, 4, 7)]
    assert all(draw_run(family, 3, 7).seed != other.seed for other in others)


def test_causes_set_what_they_say():
    for index in range(20):
        assert draw_run("hacking_loophole", 0, index).numbers.anywhere == 1.0
        assert draw_run("explosion", 0, index).numbers.base.entropy_weight >= 0.2
        assert draw_run("collapse_stale", 0, index).numbers.base.refresh_interval >= 8
        broken = draw_run("broken_reward", 0, index)
        assert 0 < broken.numbers.broken_from < broken.setup.lab.structure.n_steps
        assert draw_run("solved", 0, index).success >= 0.97
        assert draw_run("too_hard", 0, index).success <= 0.02
