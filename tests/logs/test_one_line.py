"""What needs more rows than a log has says so; logs of one line are in ``samples/one_line.txt``."""

import pytest

import bayes_grpo as bg
from bayes_grpo.common.errors import FitError
from tests.helpers.command import call


def test_what_needs_more_rows_says_so(write):
    path = write("a.jsonl", [{"step": s, "reward": 0.25 * s} for s in (1, 2)])
    for needing in (bg.fit, bg.forecast):
        with pytest.raises(FitError, match=r"needs at least \d+ rows with a value of reward, found 2"):
            needing(bg.read_log(path))
    for command in ("inspect", "diagnose"):
        assert call(command, path).code == 0
