"""The same tasks on a Dask cluster, one of whose workers is killed."""

import sys
import time

import numpy as np
import pandas as pd
import pytest

from bayes_grpo.common import cluster as module
from bayes_grpo.common.errors import MissingExtraError, SettingError
from bayes_grpo.common.workers import outcomes
from bayes_grpo.fleets.fleet import fleet
from tests.helpers import tasks
from tests.helpers.runs import rising_run


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as running:
        yield running.scheduler_address


def values(task, arguments, address):
    with outcomes(task, arguments, dask=address) as found:
        return {x.place: x for x in found}


@pytest.mark.thorough
def test_a_killed_worker_of_the_cluster_costs_no_task(cluster, tmp_path):
    found = values(tasks.killed_once, [(tmp_path, x) for x in range(6)], cluster)
    assert {i: x.value for i, x in found.items()} == {i: i for i in range(6)}
    assert len(list(tmp_path.glob("2.*"))) >= 2


def test_what_a_task_raises_there_is_data(cluster):
    found = values(tasks.failing, range(3), cluster)
    assert (found[0].value, str(found[1].error), found[2].value) == (0, "one is not welcome", 2)
    found = values(tasks.awkward, range(3), cluster)
    assert str(found[1].error) == "AwkwardError: this and that"


@pytest.mark.thorough
def test_a_fleet_on_a_cluster_has_the_numbers_of_one_here(cluster):
    runs = [rising_run(30, seed=i, name=f"run{i}") for i in range(3)]
    there, here = (fleet(runs, ["diagnose"], dask=address).frame for address in (cluster, None))
    pd.testing.assert_frame_equal(there.drop(columns="seconds"), here.drop(columns="seconds"), check_exact=True)
    assert np.isfinite(there["p_healthy"]).all()


def test_an_address_where_nobody_answers_is_refused_in_seconds(monkeypatch):
    monkeypatch.setattr(module, "CLUSTER_PATIENCE", 1.0)
    begin = time.perf_counter()
    for address in ("tcp://127.0.0.1:1", "no such address"):
        with pytest.raises(SettingError, match="dask: expected the scheduler"):
            values(tasks.doubled, [1.0], address)
    assert time.perf_counter() - begin < 15.0


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"bayes-grpo\[dask\]"):
        values(tasks.doubled, [1.0], "tcp://127.0.0.1:1")
