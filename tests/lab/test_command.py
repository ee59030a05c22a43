"""`python -m benchmarks.lab`."""

import sys

import pytest

from bayes_grpo import read_log
from benchmarks.lab import __main__ as command
from benchmarks.lab import families
from tests.helpers.lab import TINY


@pytest.mark.thorough
def test_deep_runs_are_simulated_and_read_like_any_log(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(families, "SETUPS", (TINY,))
    words = ["lab", "hacking_length", "--out", str(tmp_path / "runs"), "-n", "2"]
    monkeypatch.setattr(sys, "argv", words)
    command.main()
    assert "2 runs of family hacking_length" in capsys.readouterr().out
    assert read_log(tmp_path / "runs" / "run-001").settings.group_size.value == 4
    with pytest.raises(SystemExit):
        command.main()
    assert "expected a new directory" in capsys.readouterr().err
