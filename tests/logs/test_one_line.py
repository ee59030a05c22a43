"""A log of one or two rows, also cut at its end, is read; what needs more says so."""

import numpy as np
import pytest

import bayes_grpo as bg
from bayes_grpo.common.errors import FitError, LogReadError
from tests.helpers.command import call
from tests.logs.log_samples import assert_read

TRL = "{'loss': 0.0, 'grad_norm': 0.5, 'reward': 0.25, 'reward_std': 0.0, 'kl': 0.0004, 'epoch': 0.01}"
JSON = '{"step": 4, "reward": 0.25, "kl": 0.0004, "grad_norm": 0.5, "loss": 0.1}'
VERL = "step:4 - critic/score/mean:0.25 - actor/kl_loss:0.0004 - actor/grad_norm:0.5 - response_length/mean:9.0"


@pytest.mark.parametrize(("name", "line"), [("a.log", TRL), ("a.jsonl", JSON), ("b.log", VERL)])
@pytest.mark.parametrize("end", ["\n", "", "cut"])
def test_one_line_is_read_as_far_as_it_goes(write, name, line, end):
    text = line[:-8] if end == "cut" else line + end
    run = bg.read_log(write(name, text))
    assert_read(run, reward=[0.25], step=[1 if line == TRL else 4], signals={"kl": 0.0004, "grad_norm": 0.5})
    assert bg.diagnose(run).status.status == ("watch" if "reward_std" in run.signals else "unclear")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f"{VERL} - critic/advantages/max:0.0", "Every group of this step has equal rewards (zero variance)"),
        (TRL.replace("'reward_std': 0.0", "'frac_reward_zero_std': 0.9"), "90% of the groups of this step have equal"),
        (
            TRL.replace("'reward_std': 0.0", "'num_tokens': 9.0, 'sampling/importance_sampling_ratio/mean': 0.46"),
            "The mean importance weight of trainer to sampler is 0.46 (healthy: 0.5 to 2)",
        ),
        (f"{VERL} - rollout_corr/k3_kl:0.3", "The mismatch of sampler and trainer is 0.3 (healthy: 0 to 0.002)"),
    ],
)
def test_one_line_says_what_its_groups_and_its_weights_are(write, line, says):
    status = bg.diagnose(write("a.log", line)).status
    assert status.status == "watch"
    assert says in status.sentence
    healthy = line.replace("0.46", "0.95").replace("0.3", "0.001").replace("0.9,", "0.4,").replace("max:0.0", "max:1.8")
    assert bg.diagnose(write("b.log", healthy)).status.status == "unclear"


def test_what_needs_more_rows_says_so(write):
    path = write("a.log", f"{TRL}\n{TRL.replace('0.25', '0.5')}\n")
    run = bg.read_log(path)
    assert_read(run, reward=[0.25, 0.5])
    for ask in (bg.fit, bg.forecast):
        with pytest.raises(FitError, match=r"needs at least \d+ rows with a value of reward, found 2"):
            ask(run)
    for command in ("inspect", "diagnose"):
        assert call(command, path).code == 0


def test_no_row_at_all_is_refused(write):
    with pytest.raises(LogReadError, match="without a finite number"):
        bg.read_log(write("a.csv", "step,reward\n1,nan\n"))


def lengths(longest, **more):
    rows = zip(longest, *more.values(), strict=True)
    keys = ("response_length/max", *more)
    return [
        {"step": i, "critic/score/mean": 0.1 * i} | dict(zip(keys, row, strict=True)) for i, row in enumerate(rows, 1)
    ]


def test_a_limit_that_most_rows_reach_binds_whatever_the_ratio_says():
    zero, limit = [0.0] * 10, [2048.0] * 9 + [2011.0]
    run = bg.read_log(lengths(limit, **{"response_length/clip_ratio": zero}))
    assert_read(run, "2048 tokens in 90% of the rows ('response_length/max'): a length limit cuts completions")
    assert_read(run, "'response_length/clip_ratio', 0 throughout, is of another limit and left out")
    assert "completions_clipped_ratio" not in run.signals
    assert_read(bg.read_log(lengths(limit)), "a length limit cuts completions")


@pytest.mark.parametrize(
    ("longest", "more"),
    [
        (np.linspace(900, 1800, 10), {"response_length/clip_ratio": [0.0] * 10}),
        ([2048.0] * 10, {"response_length/clip_ratio": [0.25] * 10}),  # it is counted
        ([2.0] * 10, {"response_length/clip_ratio": [0.0] * 10}),  # answers of one word
        ([53.0] * 10, {"completions/max_terminated_length": [53.0] * 10}),  # they ended by themselves
    ],
)
def test_no_limit_is_seen_where_none_binds_or_it_is_counted(longest, more):
    run = bg.read_log(lengths(longest, **more))
    assert_read(run, without=["length limit"])
    assert ("completions_clipped_ratio" in run.signals) == ("response_length/clip_ratio" in more)


TRL_ROWS = [TRL, TRL.replace("0.25", "0.5"), TRL.replace("0.25", "0.75")]


@pytest.mark.parametrize(
    "after", ["", "\n```\nIs this right, or not?\n", "\n  3%|▎   | 3/90 [00:32<26:08, 32.02s/it]\n"]
)
def test_a_last_row_that_is_cut_after_its_reward_is_kept(write, after):
    run = bg.read_log(write("a.log", "\n".join(TRL_ROWS)[: -len(", 'epoch': 0.01}")] + after))
    assert_read(run, reward=[0.25, 0.5, 0.75], signals={"grad_norm": 0.5})
    assert np.isfinite(run.values("kl")).tolist() == [True, True, False]  # the cut may have shortened its number


def test_a_row_that_another_one_interrupts_is_kept_as_far_as_it_goes(write):
    run = bg.read_log(write("a.log", "\n".join([TRL_ROWS[0], TRL_ROWS[1][:-20], TRL_ROWS[2]])))
    assert_read(run, reward=[0.25, 0.5, 0.75])


@pytest.mark.parametrize(
    "end", ["{'loss': 0.0, 'grad_norm': 0.5, 'rewards/format/mean': 0.75, 'rew", "{'loss': 0.0, 'reward': 0."]
)
def test_a_row_that_is_cut_before_its_reward_is_no_row(write, end):
    assert_read(bg.read_log(write("a.log", "\n".join([*TRL_ROWS[:2], end]))), reward=[0.25, 0.5])
