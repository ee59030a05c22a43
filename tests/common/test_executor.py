"""Tasks in other processes: same values, errors as data, deaths that cost one task, and an end when asked."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest

from bayes_grpo.common import executor as module
from bayes_grpo.common.errors import SettingError, WorkerError
from bayes_grpo.common.executor import outcomes
from bayes_grpo.common.programs import call
from bayes_grpo.common.runtime import cores
from tests.helpers import tasks
from tests.helpers.command import comes_true
from tests.helpers.pages import ROOT
from tests.helpers.selection import few


def values(task, arguments, **options):
    with outcomes(task, arguments, **options) as found:
        return {x.place: x for x in found}


def begun(folder: Path, x: int) -> int:
    return len(list(folder.glob(f"{x}.*")))


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_task_is_done_once(jobs):
    found = values(tasks.doubled, [0.1, 0.2, 0.3, 0.4, 0.5], jobs=jobs)
    assert sorted(found) == [0, 1, 2, 3, 4]
    assert [found[i].value for i in range(5)] == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert all(x.error is None for x in found.values())
    assert values(tasks.doubled, [], jobs=jobs) == {}


def test_processes_are_others_share_the_cores_and_do_not_hear_an_interrupt():
    found = values(tasks.process_of, range(6), jobs=2)
    processes, shares, hears = zip(*(x.value for x in found.values()), strict=True)
    assert os.getpid() not in processes
    assert 1 <= len(set(processes)) <= 2
    assert set(shares) == {str(max(1, cores() // 2))}
    assert set(hears) == {0}
    assert "NPROC" not in os.environ


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_task_raises_is_data(jobs):
    found = values(tasks.failing, range(3), jobs=jobs)
    assert (found[0].value, found[2].value) == (0, 2)
    assert isinstance(found[1].error, ValueError)
    assert str(found[1].error) == "one is not welcome"


def test_what_cannot_be_pickled_is_an_error_of_the_same_words():
    found = values(tasks.awkward, range(3), jobs=2)
    assert found[0].value == 0
    assert str(found[1].error) == "AwkwardError: this and that"
    assert found[2].value is None
    assert found[2].error is not None


def test_a_dead_worker_is_an_error_of_its_task_and_costs_no_other(tmp_path):
    found = values(tasks.killed, [(tmp_path, x) for x in range(5)], jobs=2)
    assert [found[x].value for x in range(5)] == [0, 1, None, 3, 4]
    assert isinstance(found[2].error, WorkerError)
    assert "its worker process died" in str(found[2].error)
    assert [begun(tmp_path, x) for x in range(5)] == [1] * 5


@pytest.mark.thorough
def test_workers_are_replaced_after_some_tasks(monkeypatch):
    monkeypatch.setattr(module, "WORKER_TASKS", 2)
    found = values(tasks.process_of, range(12), jobs=2)
    assert sorted(found) == list(range(12))
    assert len({x.value[0] for x in found.values()}) >= 3


def test_any_executor_does_the_tasks_and_stays_open():
    with ThreadPoolExecutor(2) as threads:
        found = values(tasks.failing, range(3), executor=threads)
        assert (found[0].value, str(found[1].error), found[2].value) == (0, "one is not welcome", 2)
        assert threads.submit(int, 3).result() == 3


def doubling():
    return lambda y: 2.0 * y


def doubled_by_a_program(x: float) -> list[float]:
    return call(doubling, (), np.full(3, x, np.float32)).tolist()


def test_a_call_leaves_no_setting_thread_or_signal_handler_behind():
    def surroundings():
        names = ("jax_enable_x64", "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
        threads = {x for x in threading.enumerate() if x.is_alive()}
        handlers = [signal.getsignal(x) for x in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
        return [getattr(jax.config, x) for x in names], threads, handlers, dict(os.environ), list(warnings.filters)

    before = surroundings()
    values(doubled_by_a_program, [1.0, 2.0])
    values(tasks.doubled, [1.0, 2.0], jobs=2)
    assert surroundings() == before


def test_leaving_early_ends_the_processes_at_once(tmp_path):
    begin = time.perf_counter()
    with outcomes(tasks.slow, [(tmp_path, 0), (tmp_path, 1)], jobs=2):
        pass
    waited = 1.5
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background are deaf to Ctrl-C
    try:
        threading.Timer(waited, os.kill, [os.getpid(), signal.SIGINT]).start()
        with outcomes(tasks.slow, [(tmp_path, x) for x in (2, 3)], jobs=2) as found, pytest.raises(KeyboardInterrupt):
            next(found)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.perf_counter() - begin - waited < 5.0


SCRIPT = """
import signal
import sys
from pathlib import Path
from bayes_grpo.common.executor import outcomes
from tests.helpers import tasks
if __name__ == "__main__":
    # A shell starts what it puts into the background deaf to Ctrl-C, and so would be the script of such tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with outcomes(tasks.slow, [(Path(sys.argv[1]), x) for x in range(2)], jobs=2) as found:
        list(found)
"""


def started(script: Path, *words: object) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(script), *map(str, words)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        start_new_session=True,  # a group of its own, which Ctrl-C in a terminal reaches as a whole
        text=True,
    )


def children(pid: int) -> list[int]:
    return [int(x) for x in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's list of children")
@pytest.mark.parametrize("kind", few([signal.SIGINT, signal.SIGKILL], signal.SIGKILL))
def test_children_end_with_their_parent(tmp_path, kind):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = started(script, tmp_path)
    assert comes_true(lambda: begun(tmp_path, 0) and begun(tmp_path, 1))
    own = children(process.pid)
    assert len(own) >= 2
    os.killpg(process.pid, kind) if kind == signal.SIGINT else process.kill()
    error = process.communicate(timeout=10)[1]
    assert comes_true(lambda: not any(Path(f"/proc/{pid}").exists() for pid in own), 5.0)
    if kind == signal.SIGINT:
        assert error.count("Traceback") == 1  # the script's own; none of a worker


def test_a_script_without_a_guard_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace('if __name__ == "__main__"', "if True"))
    process = started(script, tmp_path)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert "__main__" in error.strip().splitlines()[-1]


@pytest.mark.parametrize("jobs", [0, -1, 1.5, True])
def test_an_impossible_number_of_processes_is_refused(jobs):
    with pytest.raises(SettingError, match="jobs: expected"), outcomes(tasks.doubled, [1], jobs=jobs):
        pass
