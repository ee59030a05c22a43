"""The first seconds of a call: what cannot work is refused without imports."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from bayes_grpo import REGIMES, diagnose, read_log
from bayes_grpo.cli import checks
from bayes_grpo.cli.printing import EXIT_INPUT
from bayes_grpo.common.errors import BayesGrpoError, LogReadError
from tests.helpers.command import call
from tests.helpers.selection import few

ROWS = [{"step": s, "reward": 0.2 + 0.005 * s, "kl": 0.01} for s in range(1, 101)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    return path


@pytest.mark.parametrize(
    ("words", "reason"),
    few(
        [
            (["fit", "LOG", "--regime", "spline"], "--regime: expected one of bernoulli"),
            (["compare", "LOG", "--regimes", "flat,spline"], "--regime: expected one of bernoulli"),
            (["forecast", "LOG", "--horizon", "20"], "the horizon lies in the past"),
            (["fit", "LOG", "--signal", "loss"], "--signal: expected auto, reward or eval"),
            (["diagnose", "LOG", "--colour"], "No such option"),
            (["report", "nothing-here"], "found nothing there"),
        ],
        "the horizon lies in the past",
        "No such option",
        by=lambda case: case[1],
    ),
)
def test_what_cannot_work_is_refused_before_anything_numeric_is_imported(log: Path, words: list[str], reason: str):
    program = (
        "import sys; from bayes_grpo.cli.app import main\n"
        f"sys.argv = ['bayes-grpo', *{[str(log) if w == 'LOG' else w for w in words]!r}]\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    code = stop.code\n"
        "print(code, sorted({'jax', 'numpyro', 'scipy', 'matplotlib', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert reason in " ".join(done.stderr.split())
    assert done.stdout.split()[-2:] == [str(EXIT_INPUT if "found nothing" in reason else 2), "[]"], done.stdout


def test_names_of_regimes_are_those_of_the_registry():
    assert checks.regime_names() == tuple(REGIMES)


def test_a_misspelt_log_is_guessed(log: Path):
    with pytest.raises(LogReadError, match=r"found nothing there; is run\.jsonl meant"):
        checks.check_logs_exist([log.with_name("runn.jsonl")])
    with pytest.raises(LogReadError, match="found nothing there; check the path"):
        checks.check_logs_exist([log.with_name("other.csv")])


@pytest.mark.parametrize(
    ("words", "flag", "parameter"),
    [
        (["diagnose", "LOG", "--set", "group_size=many"], "--set", "settings"),
        (["diagnose", "LOG", "--column", "kl=nowhere"], "--column", "columns"),
        (["diagnose", "LOG", "--format", "wax"], "--format", "format"),
        (["diagnose", "LOG", "--run", "other"], "--run", "run"),
        (["diagnose", "LOG", "--up-to-step", "0"], "--up-to-step", "up_to_step"),
    ],
)
def test_a_wrong_value_has_the_name_that_its_reader_knows(log: Path, words, flag, parameter):
    done = call(*(str(log) if word == "LOG" else word for word in words))
    assert done.code == 2
    assert done.err.startswith(f"bayes-grpo: {flag}: ")
    calls = {
        "settings": lambda: read_log(log, settings={"group_size": "many"}),
        "columns": lambda: read_log(log, columns={"kl": "nowhere"}),
        "format": lambda: read_log(log, format="wax"),
        "run": lambda: read_log(log, run="other"),
        "up_to_step": lambda: diagnose(log, up_to_step=0.0),
    }
    with pytest.raises(BayesGrpoError) as error:
        calls[parameter]()
    assert error.value.parameter == parameter
    assert str(error.value).startswith(f"{parameter}: ")
    assert "--" not in str(error.value)
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.parameter, again.message) == (str(error.value), parameter, error.value.message)


TWO_RUNS = '{"first": [{"reward": 0.1}], "second": [{"reward": 0.2}]}'


@pytest.mark.parametrize(
    ("content", "in_a_call", "as_a_flag"),
    [
        (
            "step,reward_a,reward_b\n1,0.1,0.9\n2,0.2,0.3\n",
            'with columns={"reward": "KEY"}',
            "with --column reward=KEY",
        ),
        ("step,loss\n1,0.5\n2,0.4\n", 'with columns={"reward": "KEY"}', "with --column reward=KEY"),
        ("step,reward\na,0.5\nb,0.4\n", 'with columns={"step": "KEY"}: ', "with --column step=KEY: "),
        (TWO_RUNS, 'choose with run="NAME"', "choose with --run NAME"),
        ("once upon a time\n", 'pass format="NAME" with one', "pass --format NAME with one"),
    ],
)
def test_what_mends_an_error_is_an_argument_in_a_call_and_a_flag_on_the_command_line(
    tmp_path: Path, content, in_a_call, as_a_flag
):
    path = tmp_path / ("log.json" if content.startswith("{") else "log.csv" if "," in content else "log.txt")
    path.write_text(content)
    with pytest.raises(BayesGrpoError) as error:
        read_log(path)
    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == str(error.value) == error.value.message
    assert in_a_call in str(error.value)
    assert "--" not in str(error.value)
    assert again.worded(lambda argument: f"<{argument.parameter}>").count(f"<{again.mended_by.parameter}>") == 1
    done = call("inspect", path)
    assert as_a_flag in done.err
    assert in_a_call not in done.err
