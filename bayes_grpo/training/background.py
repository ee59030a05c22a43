"""Updates computed by a process of their own, for which a trainer neither computes nor waits.

Rows go to the process, and updates come back, as lines of two files in a folder that both remove. A file takes any
number of rows at once, so that a trainer never waits for a process that is busy or stopped, and needs no thread. The
process is a fresh interpreter, neither forked nor spawned by `multiprocessing`: a fork would copy the trainer's GPU
context, and `multiprocessing` would run the trainer's script again. It computes on the CPU alone, at the lowest
priority, and ends with the trainer, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any

from bayes_grpo.common.errors import BayesGrpoWarning, WorkerError
from bayes_grpo.common.runtime import cores, threads
from bayes_grpo.common.text import plain
from bayes_grpo.logs.formats import NO_ROWS, Parsed
from bayes_grpo.watching.result import Alarm, Memory, Update, Watching

EVERY = 10.0
"""Seconds between the starts of two updates."""
MOST_THREADS = 2
"""Default threads of the process at most; more would gain little."""
_AT_ONCE: list[Mapping[str, Any]] = []
"""Message without rows: the next update starts now."""
_FEWEST = 20
"""Rows from which on it is a warning that there is no update."""
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from bayes_grpo.training.background import serve; "
    "serve(sys.argv[2], int(sys.argv[3]))"
)
_HIDDEN = ("XLA_FLAGS", "JAX_PLATFORM_NAME", "JAX_ENABLE_X64", "JAX_DISABLE_JIT", "JAX_DEBUG_NANS")
"""A trainer's settings of its own JAX; XLA ends a process at a flag that it does not know."""
_FILES = ("rows", "updates")
_NICENESS = 19
_GRACE = 1.0
"""Seconds that the process has to end by itself, and between two checks that the trainer is alive."""
_TICK = 0.02
"""Seconds between two looks at a file."""


@dataclass(frozen=True, kw_only=True)
class BackgroundSetup:
    """The first message to the process: facts of the trainer, the user's checked settings, what to compute.

    ``memory`` is what earlier updates left, ``every`` the seconds between the starts of two updates.
    """

    facts: Parsed = NO_ROWS
    settings: Mapping[str, Any] = field(default_factory=dict)
    watching: Watching = field(default_factory=Watching)
    memory: Memory = field(default_factory=Memory)
    every: float = EVERY


class Guard:
    """Keeps our errors out of a training: the first is a warning, later ones are silent.

    Args:
        what: What the training will not have.
        failed: Called at every error.
    """

    def __init__(self, what: str, failed: Callable[[], object] = lambda: None) -> None:
        self._what = what
        self._failed = failed
        self._warned = False

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        """A block whose errors end here."""
        try:
            yield
        except Exception as error:
            self._failed()
            self.warn(f"{self._what}: {type(error).__name__}: {error}", 4)

    def warn(self, text: str, stacklevel: int = 3) -> None:
        """Warns, the first time."""
        if not self._warned:
            self._warned = True
            with contextlib.suppress(Warning):  # where warnings are errors, the training goes on all the same
                warnings.warn(text, BayesGrpoWarning, stacklevel=stacklevel)


class Background:
    """Updates of a run by a process of their own. No method raises: an error is one warning and ends the process.

    Attributes:
        alarms: All alarms that have come by the last call of `latest` or `wait`.

    Args:
        setup: The first message.
        threads: Threads of the process; by default half of the cores, at most `MOST_THREADS`.
    """

    def __init__(self, setup: BackgroundSetup, threads: int | None = None) -> None:
        self.alarms: tuple[Alarm, ...] = ()
        self._sent = self._answered = 0
        self._update: Update | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._files: list[FileIO] = []
        self._owner = os.getpid()
        self._rest = bytearray()
        self._guard = Guard("no more updates", self.close)
        with self._guard():
            self._folder = Path(tempfile.mkdtemp(prefix="bayes_grpo_"))
            self._files = [FileIO(self._folder / name, "a+") for name in _FILES]
            _send(self._files[0], setup)
            self._process = _started(self._folder, threads or max(1, min(MOST_THREADS, cores() // 2)))

    @property
    def pid(self) -> int | None:
        """Number of the process; None without one."""
        return None if self._process is None else self._process.pid

    @property
    def current(self) -> bool:
        """True where the last answer is about all rows, or no other will come."""
        return self._process is None or self._answered == self._sent

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Sends rows and returns at once."""
        if self._process is not None and (new := list(rows)):
            with self._guard():
                _send(self._files[0], new)
                self._sent += len(new)

    def latest(self) -> Update | None:
        """The last update that has come; None before the first."""
        if self._process is not None:
            with self._guard():
                self._receive()
        return self._update

    def wait(self, seconds: float) -> Update | None:
        """The last update, after waiting at most so many seconds for the one about all rows."""
        end = time.monotonic() + seconds
        if not self.current:
            with self._guard():
                _send(self._files[0], _AT_ONCE)
        while not self.current:
            with self._guard():
                self._receive()
            if time.monotonic() >= end:
                break
            time.sleep(_TICK)
        return self._update

    def close(self) -> None:
        """Ends the process and waits for its end; updates that have come stay. A forked copy does nothing."""
        process = self._process
        self._process = None
        folder, self._folder = self._folder, None
        if folder is None or self._owner != os.getpid():
            return
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for file in self._files:
            file.close()
        shutil.rmtree(folder, ignore_errors=True)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of the interpreter anything may be gone
            self.close()

    def _receive(self) -> None:
        assert self._process is not None
        assert self._folder is not None
        code = self._process.poll()
        for rows, update, problem in _received(self._files[1], self._rest):
            self._answered = rows
            if update is not None:
                self._update = update
                self.alarms += update.alarms
            elif rows >= _FEWEST:
                self._guard.warn(f"no update of the run: {problem}", 5)
        if code is not None:
            lines = (self._folder / "errors").read_text(errors="replace").strip().splitlines()
            raise WorkerError(f"its process ended with code {code}{': ' if lines else ''}{plain(''.join(lines[-1:]))}")


def _started(folder: Path, share: int) -> subprocess.Popen[bytes]:
    """Starts the process, with so many threads, without the trainer's accelerator and JAX settings."""
    path = [os.path.abspath(x) for x in sys.path if isinstance(x, str)]  # "" is the current folder, which may change
    kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    try:
        with (folder / "errors").open("wb") as errors:
            return subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(path), str(folder), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=kept | threads(share) | {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""},
            )
    except (OSError, ValueError) as error:
        raise WorkerError(f"expected a Python process, could not start one ({error})") from None


def _send(file: FileIO, message: Any) -> None:
    file.write(pickle.dumps(message).hex().encode() + b"\n")


def _received(file: FileIO, rest: bytearray) -> list[Any]:
    """Messages that have come since the last call; the part of one that is being written stays in `rest`."""
    rest += file.read()
    *whole, rest[:] = bytes(rest).split(b"\n")
    return [pickle.loads(bytes.fromhex(line.decode())) for line in whole]


def serve(folder: str, parent: int) -> None:
    """Life of the process: answers rows with updates, each about all rows so far.

    ``folder`` has the two files, and ``parent`` is the number of the trainer's process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the trainer
    with contextlib.suppress(OSError, AttributeError):
        os.nice(_NICENESS)

    def end() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)  # another thread may be inside XLA

    def end_with_input() -> None:
        sys.stdin.buffer.read()
        end()

    def end_with_parent() -> None:  # a fork of the trainer, such as a loader of its data, may keep our input open
        while os.getppid() == parent:
            time.sleep(_GRACE)
        end()

    # Opened before anything may remove the folder: a file made while it is emptied would keep it.
    come, answers = (FileIO(Path(folder, name), "a+") for name in _FILES)
    come.seek(0)
    for wait in (end_with_input, end_with_parent):
        threading.Thread(target=wait, daemon=True).start()
    warnings.simplefilter("ignore")
    rest = bytearray()
    rows = []
    begun = -float("inf")
    setup, *messages = _received(come, rest)
    memory: Memory | None = setup.memory
    from bayes_grpo.logs.assembling import run_of
    from bayes_grpo.watching.watch import update_of

    while True:
        messages += _received(come, rest)
        due = _AT_ONCE in messages or time.monotonic() - begun >= setup.every
        if not due or not any(messages):
            messages = [x for x in messages if x]
            time.sleep(_TICK)
            continue
        rows = rows + [row for message in messages for row in message]
        messages = []
        begun = time.monotonic()
        try:
            update, memory = update_of(run_of(rows, setup.facts, setup.settings), setup.watching, memory)
            _send(answers, (len(rows), update, ""))
        except Exception as error:  # the next row may be better
            _send(answers, (len(rows), None, plain(f"{type(error).__name__}: {error}", 500)))
