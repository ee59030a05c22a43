"""Memory of a process that waits long."""

import sys

import pytest

from tests.helpers.command import printed_by

PROGRAM = """
import os, sys, threading
from bayes_grpo.common.runtime import release_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

def work():
    kept = [bytes(2000) for _ in range(100_000)]
    last.append(kept[-1])  # above what is free, so that the heap does not shrink by itself

last = []
thread = threading.Thread(target=work)
thread.start()
thread.join()
before = resident()
release_memory()
print(before - resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems take freed memory back by themselves")
def test_freed_memory_goes_back_to_the_system():
    assert float(printed_by(PROGRAM)) > 100.0
