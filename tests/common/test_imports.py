import subprocess
import sys

import pytest

SCRIPT = """
import threading
from bayes_grpo.common.imports import nuts_kernels, scores
found = []
threads = [threading.Thread(target=lambda f=f: found.append(f())) for f in (scores, nuts_kernels, nuts_kernels)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(map(len, found)) == [2, 2, 3], found
"""


@pytest.mark.thorough
def test_two_threads_may_ask_for_slow_packages_at_once():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
