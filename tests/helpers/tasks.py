"""Tasks for worker processes: they have to stand in a module that every process can import."""

import os
import signal
import time
from pathlib import Path
from typing import Any


def doubled(x: float) -> float:
    return 2 * x


def process_of(_: Any) -> tuple[int, str | None, int]:
    """Which process, how many threads JAX is told to start, and whether Ctrl-C is heard."""
    return os.getpid(), os.environ.get("NPROC"), int(signal.getsignal(signal.SIGINT) is not signal.SIG_IGN)


def failing(x: int) -> int:
    if x == 1:
        raise ValueError("one is not welcome")
    return x


class AwkwardError(Exception):
    """An error that cannot be pickled."""

    def __init__(self, left: str, right: str) -> None:
        super().__init__(f"{left} and {right}")


def awkward(x: int) -> Any:
    if x == 1:
        raise AwkwardError("this", "that")
    return (lambda: 0) if x == 2 else x


def leave_a_mark(folder: Path, name: str) -> None:
    """A file for each time that a task is begun."""
    (folder / f"{name}.{time.monotonic_ns()}").touch()


def killed(argument: tuple[Path, int]) -> int:
    """Task 2 is killed when it begins."""
    folder, x = argument
    leave_a_mark(folder, str(x))
    if x == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def slow(argument: tuple[Path, int]) -> int:
    """Takes long, and leaves a mark when it begins."""
    folder, x = argument
    leave_a_mark(folder, str(x))
    time.sleep(30.0)
    return x
