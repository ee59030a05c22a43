"""The program `bayes-grpo`; from its first moment on it exits promptly on SIGINT and SIGTERM (`cli/signals.py`)."""

from __future__ import annotations

import gc
import os

from bayes_grpo.cli.signals import ended_by_signals
from bayes_grpo.common.runtime import keep_little_memory


def main() -> None:
    """Entry point of the program."""
    # Our matrices are small: threads of BLAS would only wait for each other, a fifth of a report's processor time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # An interrupted process leaves the semaphores of its workers to a tracker, which removes them without a report.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker")
    # What imports make lives as long as the process; looking through it for garbage is a tenth of a fit's time.
    gc.set_threshold(50_000, 20, 100)
    keep_little_memory()
    with ended_by_signals():
        from bayes_grpo.cli.app import main as commands

        commands()
