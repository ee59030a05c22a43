"""`learn_prior`: the example of its docstring, run as it stands."""

import doctest

import numpy as np
import pytest

from bayes_grpo.learning.learn_prior import learn_prior


@pytest.mark.thorough
def test_the_example_of_the_docstring_runs(tmp_path, monkeypatch, write_trl_log, curve):
    rng = np.random.default_rng(0)
    (tmp_path / "runs").mkdir()
    for i in range(6):
        rewards = 0.2 + (0.5 + 0.05 * i) * (curve - 0.2) + 0.01 * rng.standard_normal(len(curve))
        write_trl_log(tmp_path / "runs" / f"run{i}.json", rewards)
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestFinder().find(learn_prior, "learn_prior", globs={})[0]
    assert len(example.examples) == 6
    told: list[str] = []
    failed, tried = doctest.DocTestRunner().run(example, out=told.append)
    assert (failed, tried) == (0, 6), "".join(told)
