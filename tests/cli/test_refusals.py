"""Calls that cannot work: one line on standard error that says why, an exit code, and nothing printed or written."""

from pathlib import Path

import numpy as np
import pytest

from bayes_grpo.probing.file import save_probes
from tests.helpers.command import call
from tests.helpers.probes import noisy_probes

USAGE, INPUT = 2, 3
FILES = {
    "cut.json": '{"log_history": [{"step": 1',
    "three_rows.csv": "step,reward\n1,0.5\n2,0.6\n3,0.7\n",
    "constant.csv": "step,reward\n" + "".join(f"{i},0.5\n" for i in range(1, 31)),
    "prose.jsonl": "Prose, not a log.\n",
    "file": "x",
    "full/mine.txt": "kept",
    "folder.png/x": "",
}
"""Files beside the log and the probe of every call."""
UNREADABLE = ("missing.json", "nowhere/log.csv", "loop.csv", "/dev/zero", "empty")
BAD_PLACES = (
    ("folder.png", "folder.png", "a directory", "give a file name"),
    ("nowhere/fit.png", "nowhere", "does not exist"),
    ("file/fit.png", "fit.png", "choose another place"),
    ("/proc/fit.png", "/proc/fit.png", "choose another place"),
)
AHEAD = "forecast run.csv --horizon 80"
PLANNED = "plan --learning-rate 1e-6"
NOT_TAKEN = "a backtest does not take it; leave it or --backtest out"
ONE_COST = "--value-per-reward: found a cost without a value"
REFUSED: tuple[tuple[int, str, *tuple[str, ...]], ...] = (
    # Priors, regimes, signals, settings.
    (USAGE, "fit run.csv --regime exponential --prior damping_ratio=3,0.5",
     "damping_ratio", "exponential", "relaxation_time, observation_sd"),
    (USAGE, "fit run.csv --prior relaxation_time=3,4,5", "NAME=MEDIAN,SPREAD", "relaxation_time=3,4,5"),
    (USAGE, "fit run.csv --prior relaxation_time=three", "NAME=NUMBER", "relaxation_time=three"),
    (USAGE, "fit run.csv --prior relaxation_time", "NAME=MEDIAN,SPREAD"),
    (USAGE, "compare run.csv --regimes pendulum", "expected one of bernoulli"),
    (USAGE, "fit run.csv --signal loss", "'loss'", "auto, reward or eval"),
    (INPUT, "fit run.csv --signal eval", "run.csv", "--signal reward"),
    # Logs and paths.
    *((INPUT, f"fit {log} --out fit.nc --plot fit.png --json", log, *said) for log, *said in (
        ("cut.json", "cut off", "checkpoint"), ("three_rows.csv", "at least", "found 3"),
        ("constant.csv", "0.5 in all 30 rows"),
    )),
    *((INPUT, f"{command} {path}", Path(path).name, "expected")
      for command in ("fit", "inspect") for path in UNREADABLE),
    *((INPUT, f"fit run.csv {option} {place}", *said) for option in ("--out", "--plot") for place, *said in BAD_PLACES),
    # Refused before any sampling: the log is not even opened.
    *((INPUT, f"fit missing.json {option} {place}", "missing.json", "check the path")
      for option in ("--out", "--plot") for place, *_ in BAD_PLACES),
    *((INPUT, f"{command} run.csv --plot fit.xyz", "fit.xyz", ".png") for command in ("fit", "inspect")),
    (INPUT, "mcp missing", "expected a folder"),
    (INPUT, "simulate plateau --out full", "expected a new directory"),
    (INPUT, "report missing.json --out page.html", "check the path"),
    (INPUT, "report run.csv --out nowhere/page.html", "does not exist"),
    (INPUT, "rollouts missing", "expected a file or folder of rollouts"),
    # Questions.
    (USAGE, "forecast run.csv --horizon 20", "the horizon lies in the past"),
    (USAGE, f"{AHEAD} --schedule linear --total-steps 30", "already reaches step 40"),
    (USAGE, f"{AHEAD} --regimes spline", "expected one of"),
    (USAGE, f"{AHEAD} --cost-per-step 1", ONE_COST),
    (USAGE, f"{AHEAD} --part math --reference-runs .", "--part: reference runs are compared by the total"),
    *((USAGE, f"forecast run.csv --backtest {flag} {value}", f"{flag}: {NOT_TAKEN}")
      for flag, value in (("--plot", "net.png"), ("--part", "math"), ("--cost-per-step", 1))),
    (INPUT, PLANNED, "expected a log, a stiffness or a probe"),
    (INPUT, "plan absent.nc", "absent.nc: no such file"),
    (USAGE, "plan --stiffness 1 --probe probe.json", "--probe: expected one of --stiffness and --probe"),
    (USAGE, f"{PLANNED} --probe probe.json --momentum 1", "--momentum: expected values"),
    (USAGE, f"{PLANNED} --probe probe.json --refresh 0", "--refresh: expected at least 1"),
    (USAGE, "report run.csv --out page.html --without nonsense", "--without: expected some of fit, regimes"),
    (USAGE, "report run.csv --out page.html --cost-per-step 3", ONE_COST),
    (USAGE, "diagnose run.csv --fail-on hacking:0.5", "--fail-on: ", "MODE:P"),
    (USAGE, "diagnose run.csv --fail-on any:7", "--fail-on: ", "MODE:P"),
    (USAGE, "diagnose run.csv --up-to-step 0.5", "--up-to-step: ", "later step"),
    # Watches.
    (INPUT, "watch nowhere/log.jsonl", "check the path"),
    (INPUT, "watch missing.jsonl --once --state state.json", "expected a log, found none"),
    (INPUT, "watch empty --once --state state.json", "log"),
    (INPUT, "watch prose.jsonl --once --state state.json", "found no rewards"),
    (USAGE, "watch missing.jsonl --interval 0", "--interval: expected seconds above 0"),
    (USAGE, "watch missing.jsonl --webhook host", "--webhook: expected"),
    (USAGE, "watch missing.jsonl --cost-per-step 1", ONE_COST),
)  # fmt: skip
"""Exit code, words of the command line, parts of the line."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, curve: np.ndarray) -> Path:
    """A folder with a log, a probe and what cannot be read."""
    found = tmp_path_factory.mktemp("refused")
    (found / "run.csv").write_text("step,reward\n" + "".join(f"{s},{y}\n" for s, y in enumerate(curve, 1)))
    for name, text in FILES.items():
        (found / name).parent.mkdir(exist_ok=True)
        (found / name).write_text(text)
    (found / "loop.csv").symlink_to(found / "loop.csv")
    (found / "empty").mkdir()
    save_probes(noisy_probes(1), found / "probe.json")
    return found


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[1])
def test_a_call_that_cannot_work_is_refused_in_a_line(folder, monkeypatch, case):
    code, words, *said = case
    if missing := [x for x in ("/dev/zero", "/proc") if x in words and not Path(x).exists()]:
        pytest.skip(f"no {missing[0]} here")
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    done = call(*words.split())
    assert (done.code, done.out) == (code, ""), done
    assert done.err.startswith("bayes-grpo: ")
    assert done.err.endswith("\n")
    assert done.err.count("\n") == 1
    assert not [part for part in said if part not in done.err], done.err
    assert sorted(folder.rglob("*")) == before
