"""How a command ends: interrupted, asked to end, nobody reading, no room on the disk, no home that can be written."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from bayes_grpo.cli.printing import EXIT_ENDED, EXIT_INTERRUPTED
from bayes_grpo.cli.signals import ended_by_signals
from bayes_grpo.common.errors import OutputError
from bayes_grpo.common.files import atomic_write, folder_for_a_while, undo_all, undo_on_exit
from tests.helpers.command import comes_true
from tests.helpers.selection import few

ROWS = "".join(f"{s},{0.1 + s / 100}\n" for s in range(1, 40))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(f"step,reward\n{ROWS}")
    return path


def begun(code: str, **more) -> subprocess.Popen:
    """A command line of ours whose command does what is asked, and says when it has begun."""
    words = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from bayes_grpo.cli.signals import ended_by_signals\n"
        f"with ended_by_signals():\n    print('begun', flush=True)\n{code}"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )
    assert child.stdout is not None
    return child


STUCK = {
    "waiting for a thread": "    import threading; threading.Event().wait()",
    "in a callback that swallows": (
        "    import gc, time\n    class Held:\n        def __del__(self): time.sleep(30)\n    Held(); gc.collect()"
    ),
    "in work that catches everything": (
        "    while True:\n        try:\n            sum(range(10**6))\n        except BaseException: pass"
    ),
    "half-way through a file": (
        "    import sys, time\n    from bayes_grpo.common.files import folder_for_a_while, atomic_write\n"
        "    with folder_for_a_while(), atomic_write('out.txt') as path:\n"
        "        path.write_text('half'); print('half', flush=True); time.sleep(30)"
    ),
    "with workers": (
        "    import multiprocessing, time\n"
        "    for _ in range(2): multiprocessing.get_context('spawn').Process(target=time.sleep, args=(30,)).start()\n"
        "    print('half', flush=True); time.sleep(30)"
    ),
}


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("where", few(STUCK, "in a callback that swallows", "half-way through a file"))
def test_a_signal_ends_a_command_within_a_second(tmp_path, where, kind):
    child = begun(STUCK[where], cwd=tmp_path, env=os.environ | {"TMPDIR": str(tmp_path)}, start_new_session=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    if "half" in STUCK[where]:
        assert child.stdout.readline() == "half\n"
    time.sleep(0.1)
    begin = time.monotonic()
    child.send_signal(kind)
    _, said = child.communicate(timeout=20)
    assert time.monotonic() - begin < 1.0 + 2.0  # the second is that of a machine with nothing else to do
    assert child.returncode == {signal.SIGINT: EXIT_INTERRUPTED, signal.SIGTERM: EXIT_ENDED}[kind]
    assert said == f"bayes-grpo: {'interrupted' if kind == signal.SIGINT else 'ended by SIGTERM'}\n"
    assert list(tmp_path.iterdir()) == []
    assert comes_true(lambda: gone(child.pid), 5.0)


def gone(group: int) -> bool:
    """Whether a group of processes has none left; those that have ended count until their new parent has seen it."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_signal_that_was_ignored_stays_ignored():
    code = "    import os, signal\n    os.kill(os.getpid(), signal.SIGHUP)\n    print('alive')"
    child = begun(code, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert child.communicate(timeout=20)[0] == "begun\nalive\n"


def test_nothing_is_kept_after_a_command():
    def surroundings():
        return [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)], threading.active_count()

    before = surroundings()
    with ended_by_signals(), ended_by_signals():
        assert surroundings() != before
    assert surroundings() == before
    assert signal.set_wakeup_fd(-1) == -1
    heard = []
    thread = threading.Thread(target=lambda: heard.append(ended_by_signals().__enter__()))
    thread.start()
    thread.join()
    assert surroundings() == before


def test_what_is_under_way_is_taken_back_and_what_is_done_is_not(tmp_path):
    taken_back = []
    with undo_on_exit(lambda: taken_back.append(1)):
        pass
    with (
        undo_on_exit(lambda: 1 / 0),
        folder_for_a_while() as folder,
        suppress(OutputError),
        atomic_write(tmp_path / "a.txt") as path,
    ):
        undo_all()
        assert not folder.exists()
        assert not path.exists()  # so that it cannot be put in its place
    undo_all()
    assert taken_back == []
    assert list(tmp_path.iterdir()) == []


def command(*words: object, **more) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "bayes_grpo", *map(str, words)], stderr=subprocess.PIPE, text=True, timeout=120, **more
    )


def test_a_reader_that_has_gone_is_no_error(log):
    read, write = os.pipe()
    os.close(read)
    done = command("inspect", log, "--json", stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_no_room_for_the_output_is_one_line(log):
    with open("/dev/full", "w") as full:
        done = command("inspect", log, "--json", stdout=full)
    assert done.returncode == 3
    assert done.stderr == "bayes-grpo: standard output: cannot write there (No space left on device); free some room\n"


@pytest.mark.thorough
def test_a_home_that_cannot_be_written_costs_nothing(log, tmp_path):
    (tmp_path / "home").write_text("")
    home = str(tmp_path / "home")
    kept = {"HOME": home, "XDG_CACHE_HOME": home, "XDG_STATE_HOME": home, "MPLCONFIGDIR": str(tmp_path)}
    done = command("inspect", log, "--json", stdout=subprocess.DEVNULL, env=os.environ | kept)
    assert (done.returncode, done.stderr) == (0, "")
