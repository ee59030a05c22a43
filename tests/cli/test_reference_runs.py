"""Reference runs on the command line: commands hand on what was named, or what stands beside the log."""

from pathlib import Path

import pytest

from bayes_grpo.common.errors import FitError
from tests.helpers.command import call

ROWS = "\n".join(["step,reward,learning_rate", *(f"{i},{0.5 + 0.01 * (i % 3)},1e-5" for i in range(1, 31))])


def test_siblings_are_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import bayes_grpo as bg

    log, asked = tmp_path / "run.csv", []
    log.write_text(ROWS)

    def seen(*_, reference_runs=None, **__):
        asked.append(reference_runs)
        raise FitError("seen")

    monkeypatch.setattr(bg, "plan", seen, raising=False)
    call("plan", log, "--reference-runs", tmp_path, "--reference-runs", "other")
    (tmp_path / "bayes_grpo.toml").write_text('reference_runs = ["others"]\n')
    call("plan", log)
    assert asked == [[str(tmp_path), "other"], [str(tmp_path / "others")]]
