"""A monitor told row by row: the same run as a log, the same updates as in this process, nothing held up or left."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from bayes_grpo.common.errors import BayesGrpoWarning, SettingError
from bayes_grpo.logs.reading import read_log
from bayes_grpo.training.monitor import Monitor

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("jax", "numpyro", "arviz", "scipy", "pandas", "matplotlib")


def reward(step: int) -> float:
    return round(0.2 + 0.5 * (1 - np.exp(-step / 12)) + 0.02 * np.sin(7 * step), 4)


def feed(monitor: Monitor, first: int, last: int) -> None:
    for step in range(first, last + 1):
        monitor.add(step, reward(step), entropy=1 / step)


def until(done: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Whether something comes true in time."""
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.05)
    return done()


def gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")


@pytest.fixture(scope="module")
def beside() -> Iterator[Monitor]:
    """A monitor with a process beside that has made its first update."""
    with Monitor(settings={"group_size": 8}, until=80, background=True, every=0.0, draws=200) as monitor:
        feed(monitor, 1, 30)
        monitor.update()
        yield monitor


# What a row may hold


def test_the_run_is_the_one_of_a_log_with_the_same_rows(tmp_path: Path):
    monitor = Monitor(settings={"group_size": 8, "total_steps": 100}, name="mine")
    rows = [{"step": i, "reward": reward(i), "entropy": 1 / i, "rewards/right/mean": 0.1 * i} for i in range(1, 21)]
    rows[10]["eval_reward"] = 0.5
    for row in rows:
        more = {"eval_reward": row["eval_reward"]} if "eval_reward" in row else {}
        components = {"right": row["rewards/right/mean"]}
        monitor.add(row["step"], row["reward"], entropy=row["entropy"], components=components, **more)
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    log, run = read_log(path, settings={"group_size": 8, "total_steps": 100}), monitor.run
    for name in ("step", "reward", "window", "eval_step", "eval_reward"):
        assert np.array_equal(getattr(run, name), getattr(log, name))
    assert {k: v.tolist() for k, v in run.signals.items()} == {k: v.tolist() for k, v in log.signals.items()}
    assert run.components["right"].tolist() == log.components["right"].tolist()
    assert run.settings.group_size == log.settings.group_size
    assert run.name == "mine"


def test_parts_of_a_step_are_averaged_and_a_resume_cuts_what_it_goes_back_over():
    monitor = Monitor()
    for step in range(1, 9):
        monitor.add(step, 0.25)
        monitor.add(step, 0.75)
    assert monitor.run.reward.tolist() == [0.5] * 8
    again = Monitor()
    for place, step in enumerate((1, 2, 3, 4, 5, 6, 3, 4)):
        again.add(step, 0.1 * place)
    assert again.run.step.tolist() == [1, 2, 3, 4]


def test_values_may_be_arrays_of_one_element_and_what_is_no_number_is_not_logged():
    class Word:
        def item(self) -> float:
            return 0.5

    monitor = Monitor()
    for step in range(1, 4):
        monitor.add(np.int64(step), np.float32(0.5), kl=Word(), loss=float("nan"), entropy=None)  # pyright: ignore[reportArgumentType]
    assert monitor.run.signals["kl"].tolist() == [0.5] * 3
    assert "loss" not in monitor.run.signals


def test_a_name_that_is_no_signal_is_refused_with_the_names_there_are():
    with pytest.raises(SettingError, match=r"reward_std, .*gold_reward, .*found entrpy"):
        Monitor().add(1, 0.5, entrpy=0.1)


@pytest.mark.parametrize("step", [-1, float("nan"), "first"])
def test_a_step_that_is_none_is_refused(step):
    with pytest.raises(SettingError, match="optimizer step as a number of at least 0"):
        Monitor().add(step, 0.5)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"horizon": 5}, "until, question, .* found horizon"),
        ({"settings": {"groups": 8}}, "group_size, .* found 'groups'"),
        ({"question": {"cost": 1}}, "cost_per_step, .* found cost"),
        ({"alarm": 2}, "alarm: expected a probability"),
    ],
)
def test_an_option_that_is_none_is_refused(options, found):
    with pytest.raises(SettingError, match=found):
        Monitor(**options)


# Updates


def test_nothing_is_said_of_fewer_than_two_rewards():
    monitor = Monitor(forecasts=False)
    assert monitor.update() is None
    monitor.add(1, 0.5)
    assert monitor.update() is None
    assert monitor.latest() is None


def test_an_update_in_this_process_is_made_once_for_the_same_rows():
    monitor = Monitor(forecasts=False)
    feed(monitor, 1, 30)
    first = monitor.update()
    assert first is not None
    assert (first.step, first.rows) == (30, 30)
    assert monitor.update() is first
    assert monitor.latest() is first
    monitor.add(31, 0.7)
    second = monitor.update()
    assert second is not None
    assert second.step == 31


@pytest.mark.thorough
def test_the_process_beside_says_what_this_one_would(beside: Monitor):
    here = Monitor(settings={"group_size": 8}, until=80, draws=200)
    feed(here, 1, 30)
    mine, theirs = here.update(), beside.latest()
    assert mine is not None
    assert theirs is not None
    assert mine.outlook is not None
    assert theirs.outlook is not None
    assert theirs.probability == pytest.approx(mine.probability)
    assert theirs.outlook.at_horizon == pytest.approx(mine.outlook.at_horizon)
    assert theirs.outlook.until == 80


def test_findings_are_kept_whether_or_not_their_update_is_asked_for():
    monitor = Monitor(forecasts=False)
    rng = np.random.default_rng(0)
    for step in range(1, 81):
        level = 0.2 + 0.01 * min(step, 50) if step <= 55 else 0.05
        monitor.add(step, level + 0.01 * rng.standard_normal())
    update = monitor.update()
    assert update is not None
    assert [alarm.finding for alarm in update.alarms] == ["dynamical_instability"]
    monitor.add(81, 0.05)
    later = monitor.update()
    assert later is not None
    assert later.alarms == ()
    assert monitor.alarms == update.alarms


# The process beside


@pytest.mark.thorough
def test_who_waits_for_an_update_does_not_wait_for_the_pause_between_two():
    with Monitor(background=True, every=600.0, forecasts=False) as monitor:
        for last in (10, 20, 30):
            feed(monitor, last - 9, last)
            update = monitor.update()
            assert update is not None
            assert update.rows == last


def test_importing_and_feeding_it_brings_nothing_heavy_into_the_trainers_process():
    program = f"""
        import sys
        from bayes_grpo.training import callback
        from bayes_grpo import Monitor
        with Monitor(background=True, until=80, question={{"gain": 0.1}}) as monitor:
            monitor.add(1, 0.5, entropy=1.0)
            monitor.latest()
        print([name for name in {HEAVY} if name in sys.modules])
    """
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[]"


@pytest.mark.thorough
@linux
def test_a_row_is_taken_while_the_process_beside_stands_still_and_none_is_lost(beside: Monitor):
    pid = beside._beside.pid  # pyright: ignore[reportOptionalMemberAccess]
    before = beside.latest()
    assert pid is not None
    assert before is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        feed(beside, 31, 2_000)  # many times what a pipe holds
        assert beside.latest() is before
    finally:
        os.kill(pid, signal.SIGCONT)
    after = beside.update()
    assert after is not None
    assert after.rows == 2_000


@linux
def test_close_leaves_nothing_running():
    monitor = Monitor(background=True)
    pid = monitor._beside.pid  # pyright: ignore[reportOptionalMemberAccess]
    assert pid is not None
    assert not gone(pid)
    feed(monitor, 1, 3)
    monitor.close()
    assert gone(pid)
    monitor.close()
    monitor.add(4, 0.5)
    assert monitor.update() is None
    assert len(monitor.run.step) == 4


@linux
@pytest.mark.parametrize("forks", [False, True], ids=["alone", "with a fork that keeps the pipe"])
def test_the_process_ends_with_a_trainer_that_is_killed(forks: bool):
    program = f"""
        import os, time
        from bayes_grpo import Monitor
        monitor = Monitor(background=True)
        monitor.add(1, 0.5)
        other = os.fork() if {forks} else 1
        if other == 0:
            time.sleep(60)
        print(monitor._beside.pid, other, flush=True)
        time.sleep(60)
    """
    trainer = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, stdout=subprocess.PIPE)
    assert trainer.stdout is not None
    pid, fork = map(int, trainer.stdout.readline().split())
    try:
        assert not gone(pid)
        trainer.kill()
        trainer.wait()
        assert until(lambda: gone(pid))
    finally:
        trainer.stdout.close()
        if forks:
            os.kill(fork, signal.SIGKILL)


@linux
def test_a_process_that_dies_is_one_warning():
    monitor = Monitor(background=True)
    pid = monitor._beside.pid  # pyright: ignore[reportOptionalMemberAccess]
    assert pid is not None
    monitor.add(1, 0.5)
    os.kill(pid, signal.SIGKILL)
    with pytest.warns(BayesGrpoWarning, match=r"no more updates: .* ended with code -9"):
        monitor.update()
    with warnings.catch_warnings(action="error"):
        feed(monitor, 2, 5)
        assert monitor.update() is None


def test_a_process_that_cannot_start_is_one_warning(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.warns(BayesGrpoWarning, match="could not start one"):
        monitor = Monitor(background=True)
    feed(monitor, 1, 5)
    assert monitor.update() is None


@pytest.mark.filterwarnings("error")
def test_where_warnings_are_errors_a_failure_is_silent(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monitor = Monitor(background=True)
    feed(monitor, 1, 5)
    assert monitor.latest() is None


@pytest.mark.thorough
def test_a_run_of_which_nothing_can_be_said_is_told_of_once():
    with Monitor(background=True, every=0.0) as monitor:
        for step in range(1, 25):
            monitor.add(step, None, entropy=1.0)
        with pytest.warns(BayesGrpoWarning, match="nothing can be said of the run: LogReadError"):
            monitor.update()
        monitor.add(25, None, entropy=1.0)
        assert monitor.update() is None
