"""Which runs are a family, and the one line for those that are not."""

import numpy as np
import pytest

from bayes_grpo.common.errors import FitError, LogReadError, SettingError
from bayes_grpo.families.members import (
    members_of,
    named_settings,
    read_runs,
    repetitions,
    settings_in_name,
    settings_that_differ,
    varied_in,
)
from bayes_grpo.families.recipes import differences
from tests.families.made import relaxing, swept
from tests.helpers.runs import make_run, steps

GROUPS = [relaxing(f"g{g}", seed=g, group_size=g) for g in (4, 8, 16)]
EVALS = make_run([], [], evals={float(s): 0.1 * s for s in range(1, 9)}, name="evals", group_size=32)


def test_a_scheduled_rate_is_reported_at_its_highest():
    falling = [
        make_run(steps(30), np.linspace(0.1, 0.5, 30) ** (1 + i), name=f"r{i}", schedule="logged",
                 signals={"learning_rate": (1 + i) * 1e-6 * np.linspace(1.0, 0.0, 30)})
        for i in range(3)
    ]  # fmt: skip
    members, _ = members_of(falling, ["learning_rate"])
    assert [m.settings["learning_rate"] for m in members] == [1e-6, 2e-6, 3e-6]


@pytest.mark.parametrize(
    ("runs", "vary", "words"),
    [
        (GROUPS, "refresh_interval", "refresh_interval: not known of run g4"),
        (GROUPS, "model_size", "of a bayes_grpo.toml next to the log"),
        (swept(4), "group_size", "at least two values among 4 runs, found 8 alone"),
        (GROUPS[:2], "group_size", "at least 3 runs, found 2"),
        ([*GROUPS, GROUPS[0]], "group_size", "g4 cannot be compared with g4: the run itself, or a copy of it"),
        ([*GROUPS, EVALS], "group_size", "evals cannot be compared with g4: another signal: eval_reward in place of"),
        (GROUPS, "", "expected names of settings"),
        (GROUPS, "group_size group_size", "each once"),
    ],
)
def test_what_is_no_sweep_is_one_line(runs, vary, words):
    with pytest.raises((FitError, SettingError)) as error:
        members_of(runs, vary.split())
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_runs_with_too_few_or_constant_rows_are_left_out_and_named():
    short = make_run(steps(5), [0.1, 0.3, 0.2, 0.4, 0.3], name="short", group_size=32)
    still = make_run(steps(30), np.full(30, 0.5), name="still", group_size=64)
    members, left_out = members_of([*GROUPS, short, still], ["group_size"])
    assert [m.run.name for m in members] == ["g4", "g8", "g16"]
    assert [x.name for x in left_out] == ["short", "still"]
    assert "regime exponential: needs at least 7 rows" in left_out[0].why
    assert [x.settings for x in left_out] == [{"group_size": 32.0}, {"group_size": 64.0}]


def test_what_differs_is_varied():
    runs = [*GROUPS, relaxing("again", seed=5, group_size=8)]
    assert varied_in(runs) == ["group_size"]
    other = [*runs[:3], relaxing("again", seed=5, group_size=8, schedule="constant")]
    assert varied_in(other) == ["group_size"]
    assert list(settings_that_differ(GROUPS)) == ["group_size"]
    nearly = [relaxing("n", learning_rate=1e-5), relaxing("m", learning_rate=9.999e-6)]
    assert settings_that_differ(nearly) == {}
    with pytest.raises(SettingError, match="no setting is known for all runs and differs"):
        varied_in([GROUPS[0], GROUPS[0]])


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("sweep_lr5e5", {"learning_rate": 5e-5}),
        ("grpo_lr5em06", {"learning_rate": 5e-6}),
        ("lr1em05_seed2", {"learning_rate": 1e-5}),
        ("lr5e-06", {"learning_rate": 5e-6}),
        ("lr_5e-6", {"learning_rate": 5e-6}),
        ("run_5e-06", {"learning_rate": 5e-6}),
        ("kl_1e-3_5em06", {"kl_weight": 1e-3, "learning_rate": 5e-6}),
        ("1e-6_to_1e-5", {}),
        ("x_lr_1e-6_g8", {"learning_rate": 1e-6, "group_size": 8.0}),
        ("lora_rank_16.beta0.04", {"lora_rank": 16.0, "kl_weight": 0.04}),
        ("num_groups=4 mu_2 temperature-0.7", {"prompts_per_step": 4.0, "epochs": 2.0, "temperature": 0.7}),
        ("qwen3_8b_gsm8k_seed1_v2_kl0", {}),
        ("steps_500_lr1.5.2_img8", {}),
    ],
)
def test_names_state_settings_by_their_words(name, settings):
    assert settings_in_name(name) == settings


def test_runs_whose_names_state_no_value_are_at_the_middle_of_the_others():
    runs = [relaxing(name, seed=i) for i, name in enumerate(("base", "lora_rank_8", "lora_rank_32", "lr_1e-6"))]
    assert varied_in(runs) == ["lora_rank"]  # one value alone is no difference
    members, _ = members_of(runs, ["lora_rank"])
    assert [m.settings["lora_rank"] for m in members] == [pytest.approx(16.0), 8.0, 32.0, pytest.approx(16.0)]
    (named,) = named_settings(runs).values()
    assert (named.others, named.to_dict()["provenance"], named.sentence) == (2, "file name", "lora_rank 8, 32")
    assert differences(runs[1:2], runs[2:3]) == ("lora rank 8 in A, 32 in B (file names)",)


def test_a_setting_that_a_log_states_to_be_0_is_not_varied():
    names = ("base", "lr_1e-6_beta0.01", "lr_2e-6_beta0.04", "lr_4e-6")
    runs = [relaxing(name, seed=i) for i, name in enumerate(names)]
    runs.append(relaxing("lr_4e-6_zero", seed=4, kl_weight=0.0))
    assert varied_in(runs) == ["learning_rate"]  # 0 has no logarithm
    with pytest.raises(SettingError, match="kl_weight: expected a number above 0 for run lr_4e-6_zero"):
        members_of(runs[1:3] + runs[4:], ["kl_weight"])


def test_a_name_states_what_a_flag_gives_all_logs_and_a_log_what_a_name_does(tmp_path, write_trl_log):
    for name, rate in (("base", None), ("lr_2e-6", None), ("lr_3e-6", 4e-6)):
        write_trl_log(tmp_path / f"{name}.json", GROUPS[0].reward, learning_rate=rate)
    alone, given = read_runs(tmp_path), read_runs(tmp_path, {"settings": {"learning_rate": 1e-6}})
    assert settings_that_differ(alone)["learning_rate"] == [None, 2e-6, 4e-6]
    assert settings_that_differ(given)["learning_rate"] == [1e-6, 2e-6, 3e-6]


def test_repetitions_have_all_settings_and_names_alike():
    def named(*names, **settings):
        return [relaxing(name, seed=i, **settings) for i, name in enumerate(names)]

    assert repetitions(named("grpo_seed1", "grpo_seed22", "grpo_kl_seed1")) == (("grpo_seed1", "grpo_seed22"),)
    assert repetitions(named("run0", "run1", "run 2")) == (("run0", "run1", "run 2"),)
    # A number that is no seed's may be a setting that no log states.
    assert repetitions(named("lora_rank_8", "lora_rank_16", "lr_1e-6", "lr_2e-6", "run1.5", "run2.5")) == ()
    assert repetitions([*named("run0", group_size=8), *named("run1", group_size=16)]) == ()
    assert repetitions([*named("run0", group_size=8), *named("run1", group_size=8, kl_weight=0.1)]) == ()


def test_nothing_to_read_is_an_error(tmp_path):
    for given in ([], str(tmp_path / "*.json"), tmp_path / "none.json"):
        with pytest.raises(LogReadError):
            read_runs(given)
