import subprocess
import sys

import pytest

SCRIPT = """
import sys
from bayes_grpo.common.imports import nuts_kernels, preload
thread = preload()
kernels = nuts_kernels()  # at once: the thread is on its way through the same packages
thread.join()
assert all(callable(kernel) for kernel in kernels)
assert "arviz_base" in sys.modules, "the thread failed"
"""


@pytest.mark.thorough
def test_two_threads_may_ask_for_slow_packages_at_once():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
