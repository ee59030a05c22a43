"""The GitHub Action: its script runs as it stands, in this environment, on a log."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.helpers.pages import ROOT


def script() -> dict:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = [x for x in action["runs"]["steps"] if "diagnose" in x.get("run", "")]
    return step


def test_no_input_stands_in_a_command():
    assert "${{" not in script()["run"]
    assert set(script()["env"].values()) == {f"${{{{ inputs.{x} }}}}" for x in ("log", "fail-on", "page")}


@pytest.mark.thorough
@pytest.mark.parametrize(("fail_on", "code"), [("", 0), ("any:0.0001", 5)])
def test_the_script_runs(tmp_path: Path, fail_on: str, code: int):
    log = tmp_path / "a run; touch hurt.jsonl"
    log.write_text("\n".join(json.dumps({"step": s, "reward": 0.2 + 0.01 * s % 0.3}) for s in range(1, 41)))
    summary = tmp_path / "summary"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {"LOG": str(log), "FAIL_ON": fail_on, "PAGE": "", "GITHUB_STEP_SUMMARY": str(summary), "PATH": path}
    words = ["bash", "-eo", "pipefail", "-c", script()["run"]]
    done = subprocess.run(words, cwd=tmp_path, env=os.environ | given, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert summary.read_text().strip() == json.loads((tmp_path / "diagnosis.json").read_text())["headline"]
    assert not (tmp_path / "hurt.jsonl").exists()
