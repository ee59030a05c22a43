"""The command line, called in this process, and programs in one of their own: the one way of every test."""

import io
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

import pytest

from bayes_grpo.cli.app import main
from tests.helpers.pages import ROOT


class Outcome(NamedTuple):
    """What a call left behind: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


def call(*words: object) -> Outcome:
    """Runs the command line with these words, as `bayes-grpo` would."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["bayes-grpo", *map(str, words)])
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    return Outcome(code, out.getvalue(), err.getvalue())


def printed_by(program: str, *words: object, text: str | None = None) -> str:
    """What a program prints in an interpreter of its own, which has to end well and to complain of nothing."""
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, input=text, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    return done.stdout.strip()


def comes_true(condition: Callable[[], Any], seconds: float = 30.0) -> bool:
    """Whether a condition comes true so soon."""
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return bool(found)
