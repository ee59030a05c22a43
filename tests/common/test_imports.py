"""Packages that several threads ask for at once."""

import pytest

from tests.helpers.command import printed_by

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

FIT = """
import sys, threading, traceback
import bayes_grpo as bg
from bayes_grpo.common import imports
run = bg.read_log([{"step": s, "reward": 0.8 - 0.6 * 0.9**s + 0.02 * (-1) ** s} for s in range(1, 31)])
outside = []
def note(event, details):
    if event == "import" and details[0].startswith("scipy.") and threading.active_count() > 1:
        stack = traceback.extract_stack()
        if not any(frame.filename == imports.__file__ for frame in stack):
            outside.append((details[0], [frame.name for frame in stack]))
sys.addaudithook(note)
short = bg.SamplerSettings(num_chains=2, num_warmup=50, num_samples=100)
bg.analyze(run, ("fit", "check", "diagnosis"), settings=bg.AnalysisSettings(regime="exponential", sampler=short))
assert not outside, outside[0]
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("script", "cache"), [(FIT, ""), (FIT, "cache"), (SCRIPT, "")], ids=["fit", "cached", "threads"]
)
def test_slow_packages_are_imported_by_one_thread_at_a_time(tmp_path, monkeypatch, script, cache):
    """JAX found SciPy half-made by the thread that imported ArviZ: a first fit on a fresh machine had a traceback."""
    monkeypatch.setenv("BAYES_GRPO_CACHE", str(tmp_path / cache) if cache else "")
    assert printed_by(script) == ""
