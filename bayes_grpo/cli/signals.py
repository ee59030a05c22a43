"""Ctrl-C and a request to end stop the program at once.

An exception in the main thread is not enough for that. XLA compiles for seconds without asking Python; and where Python
runs a callback of JAX, at a collection of garbage, an exception that is raised there is printed and forgotten. So a
thread of its own waits for the signal, takes back what is half done, and ends the process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SIGNALS = tuple(s for name in ("SIGINT", "SIGTERM", "SIGHUP") if (s := getattr(signal, name, None)) is not None)
_UNHEARD = (signal.SIG_DFL, signal.default_int_handler)
_SHOW_CURSOR = "\x1b[?25h"


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within the block a signal ends the process within a moment, with the exit code 128 and its number.

    Only for a process that is a command line, and in its main thread; elsewhere, or within another such block, nothing
    changes. A signal that was ignored before, as under nohup, stays ignored. Everything is as it was after the block.
    """
    outside = threading.current_thread() is not threading.main_thread()
    handled = [] if outside else [s for s in _SIGNALS if signal.getsignal(s) in _UNHEARD]
    if not handled:
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = {s: signal.signal(s, _handled_by_the_thread) for s in handled}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    thread = threading.Thread(target=_wait, args=(reader,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for s, handler in before.items():
            signal.signal(s, handler)
        os.close(writer)  # which ends the thread
        thread.join()
        os.close(reader)


def _handled_by_the_thread(*_: object) -> None:
    """A handler: with one, Python writes the number of the signal into the pipe at once."""


def _wait(reader: int) -> None:
    while number := os.read(reader, 1):
        if number[0] in _SIGNALS:
            _end(number[0])


def _end(number: int) -> None:
    """Takes back what is half done and ends the process; nothing that a thread does can hold it up."""
    threading.Thread(target=_exit_late, args=(number,), daemon=True).start()
    with suppress(Exception):
        from bayes_grpo.common.files import undo_all

        undo_all()
    with suppress(Exception):
        if (processes := sys.modules.get("multiprocessing")) is not None:
            for child in processes.active_children():
                child.kill()
    with suppress(Exception):
        how = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        cursor = _SHOW_CURSOR + "\r\x1b[K" if os.isatty(2) else ""
        os.write(2, f"{cursor}bayes-grpo: {how}\n".encode())
    # Threads may still be inside XLA; tearing the interpreter down under them crashes.
    os._exit(128 + number)


def _exit_late(number: int) -> None:
    """Ends the process where cleanup takes too long."""
    threading.Event().wait(0.5)
    os._exit(128 + number)
