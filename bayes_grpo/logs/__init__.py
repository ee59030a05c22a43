"""Readers of trainers' logs, which make one `Run` of them.

`read_log` takes a path and returns a `Run`: steps, train reward, signals, evaluation reward, and settings of
which each says where it comes from.
"""

from bayes_grpo.logs.reading import read_log, to_frame
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import Provenance, Setting, Settings
from bayes_grpo.logs.signals import SIGNALS

__all__ = ["SIGNALS", "Provenance", "Run", "Setting", "Settings", "read_log", "to_frame"]
