"""Memory of a process: what it gives back, and how many heaps its threads make."""

import subprocess
import sys

import pytest

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
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert float(found.stdout) > 100.0


HEAPS = """
import ctypes, sys, threading
from bayes_grpo.common.runtime import share_heap

def work():
    kept.append([bytes(2000) for _ in range(10_000)])
    done.wait()

kept, done = [], threading.Event()
if sys.argv[1] == "one":
    share_heap()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
while len(kept) < 4:
    pass
library = ctypes.CDLL(None)
library.fdopen.restype = ctypes.c_void_p
library.malloc_info(0, ctypes.c_void_p(library.fdopen(1, b"w")))  # XML with an element for each heap
library.fflush(None)
done.set()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no heap for each thread")
@pytest.mark.parametrize(("heaps", "expected"), [("one", 1), ("many", 5)])
def test_threads_share_a_heap(heaps, expected):
    found = subprocess.run([sys.executable, "-c", HEAPS, heaps], capture_output=True, text=True, check=True)
    assert found.stdout.count("<heap nr") == expected
