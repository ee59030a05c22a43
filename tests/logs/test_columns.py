"""Any column can be named: in a call, on the command line, in a file; what is not recognized is suggested."""

import pytest

import bayes_grpo as bg
from bayes_grpo.common.errors import LogReadError, SettingError
from bayes_grpo.logs.options import CANONICAL_COLUMNS
from bayes_grpo.views.diagnosis import diagnosis_document
from bayes_grpo.views.logs import log_document
from tests.helpers import shown
from tests.helpers.command import call
from tests.logs.log_samples import assert_read

OWN = {"reward": "train/ret", "entropy": "policy/ent_mean", "kl": "ref_divergence", "heldout": "benchmark/acc"}


def rows(n=40):
    return [
        {"iteration": i, "train/ret": 0.2 + 0.01 * i, "policy/ent_mean": 1.2 - 0.01 * i, "mine": 2.0 * i}
        | {"ref_divergence": 0.001 * i, "benchmark/acc": 0.3 + 0.005 * i}
        for i in range(1, n + 1)
    ]


def check_read(run):
    signals = {"entropy": 1.2 - 0.01 * run.step, "kl": 0.001 * run.step}
    assert_read(run, reward=0.2 + 0.01 * run.step, signals=signals, evals={s: 0.3 + 0.005 * s for s in range(1, 41)})


def test_columns_of_a_call_and_of_a_file_beside_the_log(write):
    path = write("log.jsonl", rows())
    check_read(bg.read_log(path, columns=OWN))
    check_read(bg.read_log(rows(), columns=OWN))
    write("bayes_grpo.toml", "[columns]\n" + "".join(f'{k} = "{v}"\n' for k, v in OWN.items()) + 'step = "iteration"\n')
    check_read(bg.read_log(path))
    assert bg.read_log(path, columns={"step": "mine"}).step[-1] == 80.0


def test_columns_on_the_command_line(write):
    path = write("log.jsonl", rows())
    flags = [x for name, key in OWN.items() for x in ("--column", f"{name}={key}")]
    shown = call("inspect", path, *flags).out
    assert all(key in shown for key in OWN.values())
    refused = call("inspect", path, "--column", "entropy")
    assert "--column: expected NAME=KEY, found 'entropy'" in " ".join(refused.err.replace("│", " ").split())


@pytest.mark.parametrize("name", CANONICAL_COLUMNS)
def test_every_column_can_be_named(write, name):
    run = bg.read_log(write("log.jsonl", rows()), columns={"reward": "train/ret", name: "mine"})
    assert run.keys["eval_reward" if name == "heldout" else name] == "mine"


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"entropi": "x"}, SettingError, r"columns: expected a column among step, reward, heldout, .*found 'entropi'"),
        ({"entropy": 3}, SettingError, r"columns: expected a key of the log for entropy, found 3"),
        (["entropy"], SettingError, r"columns: expected name = key lines, found list"),
        (
            {"entropy": "no"},
            LogReadError,
            r"columns: .*expected a key with numbers for entropy, .*'no' is not in the log; .*policy/ent_mean",
        ),
    ],
)
def test_what_names_no_column_is_refused(write, columns, error, message):
    with pytest.raises(error, match=message):
        bg.read_log(write("log.jsonl", rows()), columns=columns)


def test_what_is_not_recognized_is_suggested_by_name_and_range(write):
    path = write("log.jsonl", [row | {"flat_share": 7.0 + row["mine"], "kl_steps": 3.0} for row in rows()])
    run = bg.read_log(path, columns={"reward": "train/ret"})
    assert {name: run.suggested[name] for name in OWN if name != "reward"} == {
        name: (key,) for name, key in OWN.items() if name != "reward"
    }
    assert "frac_reward_zero_std" not in run.suggested  # no share is above 1
    assert "mine" not in str(run.suggested)
    sections = {x.title: x.lines for x in log_document(run).sections}
    assert "entropy: maybe policy/ent_mean (--column entropy=policy/ent_mean)" in sections["Not recognized"]
    unchecked = diagnosis_document(bg.diagnose(run)).unchecked
    assert "not recognized in this log; " in unchecked
    assert "--column kl=ref_divergence" in unchecked


def test_an_action_names_the_column_that_is_there():
    from types import SimpleNamespace
    from typing import Any, cast

    from bayes_grpo.diagnosis.action_words import action_clause
    from bayes_grpo.diagnosis.actions import ACTIONS

    facts = SimpleNamespace(view=SimpleNamespace(run=SimpleNamespace(suggested={"kl": ("ref_divergence",)})))
    message = [action_clause(ACTIONS[name].of(cast(Any, facts))) for name in ("log KL", "log evaluation")]
    assert message == [
        "name the column with --column kl=ref_divergence if it is the right one",
        "log an evaluation reward every 10 to 20 steps",
    ]


def test_what_a_column_may_be_stands_on_the_first_screen():
    logged = [{"step": i, "reward": 0.01 * i, "policy_kl": 0.1 * i, "gen_length_mean": 9.0} for i in range(1, 31)]
    run = bg.read_log(logged)
    assert run.keys["completion_length"] == "gen_length_mean"
    assert "Maybe: --column kl=policy_kl" in shown.text_of(run, 200, details=False)
