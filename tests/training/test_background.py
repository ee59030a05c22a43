"""A process that follows a training: the same updates as in this process, nothing held up or left."""

import os
import signal
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bayes_grpo.common.errors import BayesGrpoWarning
from bayes_grpo.logs.assembling import run_of
from bayes_grpo.training.background import Background, BackgroundSetup
from bayes_grpo.watching.result import Update, Watching
from bayes_grpo.watching.watch import update_of
from tests.helpers.command import comes_true, printed_by
from tests.helpers.pages import ROOT
from tests.helpers.paths import not_none
from tests.helpers.selection import few

HEAVY = ("jax", "numpyro", "arviz", "scipy", "pandas", "matplotlib")


def reward(step: int) -> float:
    return round(0.2 + 0.5 * (1 - np.exp(-step / 12)) + 0.02 * np.sin(7 * step), 4)


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [{"step": step, "reward": reward(step), "entropy": 1 / step} for step in range(first, last + 1)]


def started(every: float = 10.0, **watching: Any) -> Background:
    return Background(BackgroundSetup(watching=Watching(**watching), every=every))


def updated(background: Background) -> Update | None:
    """The update about all rows."""
    while not background.current:
        background.wait(60.0)
    return background.latest()


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")


@pytest.fixture(scope="module")
def running() -> Iterator[Background]:
    """A process that has made its first update."""
    background = started(horizon=80, every=0.0)
    background.add(rows(1, 30))
    updated(background)
    yield background
    background.close()


@pytest.mark.thorough
def test_the_process_says_what_this_one_would(running: Background):
    mine, theirs = update_of(run_of(rows(1, 30)), Watching(horizon=80))[0], not_none(running.latest())
    assert theirs.probability == pytest.approx(mine.probability)
    assert not_none(theirs.outlook).at_horizon == pytest.approx(not_none(mine.outlook).at_horizon)
    assert not_none(theirs.outlook).until == 80


@pytest.mark.thorough
def test_alarms_are_kept_and_who_waits_does_not_wait_for_the_pause_between_two_updates():
    background, rng = started(every=600.0, forecasts=False), np.random.default_rng(0)
    fallen = [
        {"step": n, "reward": (0.2 + 0.01 * min(n, 50) if n <= 55 else 0.05) + 0.01 * rng.standard_normal()}
        for n in range(1, 82)
    ]
    assert updated(background) is None
    for first, last in ((0, 40), (40, 80), (80, 81)):
        background.add(fallen[first:last])
        update = not_none(updated(background))
        assert update.rows == last
    assert update.alarms == ()
    assert [alarm.finding for alarm in background.alarms] == ["dynamical_instability"]
    background.close()


def test_importing_and_feeding_it_brings_nothing_heavy_into_the_trainers_process():
    program = f"""
        import sys
        from bayes_grpo.training import callback
        from bayes_grpo.training.background import Background, BackgroundSetup
        costs = {{"cost_per_step": 1.0, "value_per_reward": 9.0}}
        background = Background(BackgroundSetup(watching=callback.watching_of(80, costs, {{}})))
        background.add([{{"step": 1, "reward": 0.5}}])
        background.latest()
        background.close()
        print([name for name in {HEAVY} if name in sys.modules])
    """
    assert printed_by(textwrap.dedent(program)) == "[]"


@pytest.mark.thorough
@linux
def test_a_row_is_taken_while_the_process_stands_still_and_none_is_lost(running: Background):
    pid, before = not_none(running.pid), not_none(running.latest())
    os.kill(pid, signal.SIGSTOP)
    try:
        running.add(rows(31, 2_000))  # many times what a pipe holds
        assert running.latest() is before
    finally:
        os.kill(pid, signal.SIGCONT)
    assert not_none(updated(running)).rows == 2_000


@linux
def test_close_leaves_nothing_running():
    background = started()
    pid = not_none(background.pid)
    assert not gone(pid)
    background.add(rows(1, 3))
    background.close()
    assert gone(pid)
    background.close()
    background.add(rows(4, 4))
    assert background.latest() is None


@linux
@pytest.mark.parametrize("forks", few([False, True], True), ids=["alone", "with a fork that keeps the pipe"])
def test_the_process_ends_with_a_trainer_that_is_killed_and_leaves_no_file(forks: bool, tmp_path: Path):
    program = f"""
        import os, time
        from bayes_grpo.training.background import Background, BackgroundSetup
        background = Background(BackgroundSetup())
        background.add([{{"step": 1, "reward": 0.5}}])
        other = os.fork() if {forks} else 1
        if other == 0:
            time.sleep(60)
        print(background.pid, other, flush=True)
        time.sleep(60)
    """
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    trainer = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=environment)
    assert trainer.stdout is not None
    pid, fork = map(int, trainer.stdout.readline().split())
    try:
        assert not gone(pid)
        trainer.kill()
        trainer.wait()
        assert comes_true(lambda: gone(pid))
        assert not list(tmp_path.iterdir())
    finally:
        trainer.stdout.close()
        if forks:
            os.kill(fork, signal.SIGKILL)


@linux
def test_a_process_that_dies_is_one_warning():
    background = started()
    background.add(rows(1, 1))
    os.kill(not_none(background.pid), signal.SIGKILL)
    with pytest.warns(BayesGrpoWarning, match=r"no more updates: .* ended with code -9"):
        updated(background)
    with warnings.catch_warnings(action="error"):
        background.add(rows(2, 5))
        assert updated(background) is None


def test_a_process_that_cannot_start_is_one_warning_and_silent_where_warnings_are_errors(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.warns(BayesGrpoWarning, match="could not start one"):
        background = started()
    background.add(rows(1, 5))
    assert updated(background) is None
    with warnings.catch_warnings(action="error"):
        assert started().latest() is None


@pytest.mark.thorough
def test_a_run_of_which_nothing_can_be_said_is_told_of_once():
    background = started(every=0.0)
    background.add([{"step": step, "entropy": 1.0} for step in range(1, 25)])
    with pytest.warns(BayesGrpoWarning, match="no update of the run: LogReadError"):
        updated(background)
    background.add([{"step": 25, "entropy": 1.0}])
    assert updated(background) is None
    background.close()
