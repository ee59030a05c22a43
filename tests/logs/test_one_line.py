"""A log of one or two rows, also cut at its end, is read; what needs more says so."""

import pytest

import bayes_grpo as bg
from bayes_grpo.common.errors import FitError
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
