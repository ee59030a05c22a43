"""A process beside this one, and pipes to it that are never waited for.

The process is a fresh interpreter, neither forked nor spawned by `multiprocessing`: a fork would copy the trainer's GPU
context, and `multiprocessing` would run the trainer's script again. It computes on the processor alone, at the lowest
priority, and ends when its pipe closes, so when its parent ends, however that comes about.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

from bayes_grpo.common.errors import WorkerError
from bayes_grpo.common.machine import threads
from bayes_grpo.common.text import plain

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from bayes_grpo.training.serve import serve; "
    "serve(int(sys.argv[2]))"
)
_HIDDEN = ("XLA_FLAGS", "JAX_PLATFORM_NAME", "JAX_ENABLE_X64", "JAX_DISABLE_JIT", "JAX_DEBUG_NANS")
"""What a trainer may set for its own JAX; XLA ends a process at a flag that it does not know."""
_CHUNK = 65_536
_SIZE = 4
"""Bytes that hold the length of a message."""
_GRACE = 1.0
"""Seconds that the process has to end by itself."""
_TICK = 0.02
_TAIL = 4_000


class Link:
    """Messages to and from a process of its own, none of which holds up who sends or asks.

    Args:
        threads_: Threads that it may use.

    Raises:
        WorkerError: The process cannot be started.
    """

    def __init__(self, threads_: int = 1) -> None:
        path = [
            os.path.abspath(x) for x in sys.path if isinstance(x, str)
        ]  # "" is where we are, and we may go elsewhere
        self._owner = os.getpid()
        self._unsent, self._unread = bytearray(), bytearray()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(path), str(self._owner)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=surroundings(threads_),
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            self._errors.close()
            raise WorkerError(f"expected a Python process of our own, could not start one ({error})") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        for pipe in (self._to, self._from):
            os.set_blocking(pipe, False)

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def send(self, message: Any) -> None:
        """Sends what the pipe takes at once; the rest goes with the next call.

        Raises:
            WorkerError: The process has ended.
        """
        self._unsent += framed(message)
        self.flush()

    def flush(self) -> None:
        """Sends what earlier calls could not.

        Raises:
            WorkerError: The process has ended.
        """
        try:
            while self._unsent:
                del self._unsent[: os.write(self._to, self._unsent[:_CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            raise WorkerError(self._ended()) from None

    def received(self) -> list[Any]:
        """Messages that have come since the last call.

        Raises:
            WorkerError: The process has ended.
        """
        ended = False
        try:
            while chunk := os.read(self._from, _CHUNK):
                self._unread += chunk
            ended = True
        except BlockingIOError:
            pass
        except OSError:
            ended = True
        messages = list(messages_in(self._unread))
        if ended and not messages:
            raise WorkerError(self._ended())
        return messages

    def wait(self, seconds: float) -> Iterator[Any]:
        """Messages as they come, for at most so many seconds. Meant for ends and tests, not for a step.

        Raises:
            WorkerError: The process has ended.
        """
        until = time.monotonic() + seconds
        while True:
            self.flush()
            yield from self.received()
            if time.monotonic() >= until:
                return
            time.sleep(_TICK)

    def close(self) -> None:
        """Ends the process and waits until it is gone. A second call, or one of a forked copy, does nothing."""
        if self._owner != os.getpid() or self._errors.closed:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of the interpreter anything may be gone
            self.close()

    def _ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        self._errors.seek(0)
        said = self._errors.read()[-_TAIL:].decode("utf-8", "replace").strip().splitlines()
        why = f": {plain(said[-1])}" if said else ""
        return f"the process beside this one ended with code {self._process.poll()}{why}"


def messages_in(data: bytearray) -> Iterator[Any]:
    """Takes whole messages from the front of what was read."""
    while len(data) >= _SIZE and len(data) >= (end := _SIZE + int.from_bytes(data[:_SIZE], "big")):
        yield pickle.loads(bytes(data[_SIZE:end]))
        del data[:end]


def framed(message: Any) -> bytes:
    """A message as it goes through a pipe."""
    data = pickle.dumps(message)
    return len(data).to_bytes(_SIZE, "big") + data


def surroundings(share: int) -> Mapping[str, str]:
    """Environment of the process: the trainer's, without its accelerator and its JAX settings.

    Args:
        share: Threads that it may use.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    return kept | threads(share) | {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
