"""Settings out of TRL's arguments, as trackers and scripts keep them with a log."""

import pytest

from bayes_grpo.logs import Provenance, read_log

FIELDS = {"num_generations": 16, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 4, "max_steps": 700}
FIELDS |= {"steps_per_generation": 8, "generation_batch_size": 128, "num_iterations": 2, "adam_beta1": 0.95}
FIELDS |= {"optim": "adamw_torch_fused", "lr_scheduler_type": "cosine", "logging_steps": 5, "save_steps": 50}


@pytest.fixture
def settings_with(write):
    """The settings of a log next to TRL's configuration, with some fields changed."""

    def read(**changed):
        rows = [{"step": 5 * s, "reward": 0.1 * s, "rewards/f/mean": 0.1 * s} for s in range(1, 6)]
        return read_log(write("log.json", {"config": FIELDS | changed, "history": rows})).settings

    return read


def test_arguments_become_settings(settings_with):
    values = {
        "group_size": 16,
        "prompts_per_step": 4,  # 128 completions in 8 micro-steps, of which 4 make an optimizer step
        "refresh_interval": 4,
        "momentum": 0.95,
        "momentum_convention": "ema",
        "schedule": "cosine",
        "total_steps": 700,
        "logging_window": 5,
        "save_steps": 50,
    }
    found = settings_with()
    assert {name: getattr(found, name).value for name in values} == values
    assert {getattr(found, name).provenance for name in values} == {Provenance.CONFIG}
    assert "num_generations in the run's configuration" in found.group_size.note
    prompts = settings_with(generation_batch_size=None, num_generations=8).prompts_per_step  # of all processes
    assert (prompts.value, prompts.provenance) == (4, Provenance.ASSUMED)
    assert "one process" in prompts.note


@pytest.mark.parametrize(
    ("changed", "setting", "value"),
    [
        ({"num_generations": -8}, "group_size", 8),
        ({"num_generations": -8}, "prompts_per_step", None),
        ({"num_generations": 10**400}, "group_size", 8),
        ({"adam_beta1": 1.5}, "momentum", 0.9),
        ({"lr_scheduler_type": "constant_with_warmup"}, "schedule", "constant"),
        ({"max_steps": -1}, "total_steps", None),
    ],
)
def test_impossible_and_unusual_values_are_passed_over(settings_with, changed, setting, value):
    found = getattr(settings_with(**changed), setting)
    assert found.value == value
    assert found.provenance is Provenance.ASSUMED or setting == "schedule"


@pytest.mark.parametrize(
    ("config", "scaling"),
    [
        *(({"scale_rewards": x}, "group") for x in (True, "True", "group", 1)),
        *(({"scale_rewards": x}, "none") for x in (False, "false", "none", 0)),
        ({"scale_rewards": "batch"}, "batch"),
        ({"scale_rewards": True, "multi_objective_aggregation": "normalize_then_sum"}, "gdpo"),
        ({"scale_rewards": True, "loss_type": "gdpo"}, "gdpo"),
        ({"algorithm/norm_adv_by_std_in_grpo": False}, "none"),
        ({"algorithm/norm_adv_by_std_in_grpo": True}, None),
        ({"algorithm/adv_estimator": "gdpo"}, "gdpo"),
        ({"scale_rewards": "often"}, None),
    ],
)
def test_how_advantages_are_scaled(settings_with, config, scaling):
    found = settings_with(**config).advantage_scaling
    assert found.value == scaling
    assert scaling is None or (found.provenance is Provenance.CONFIG and "in the run's configuration" in found.note)


@pytest.mark.parametrize("where", ["algorithm/filter_groups/enable", "dynamic_filtering", "grpo/use_dynamic_sampling"])
def test_filtered_groups(settings_with, where):
    for on, found in ((True, "after"), ("true", "after"), (False, None)):
        assert settings_with(**{where: on}).group_filter.value == found


@pytest.mark.parametrize("name", ["entropy_coef", "actor_rollout_ref/actor/entropy_coeff", "entropy_weight"])
def test_an_entropy_bonus_is_a_setting_unless_it_is_adapted(settings_with, name):
    assert settings_with(**{name: 0.01}).entropy_weight.value == 0.01
    rows = [{"step": s, "reward": 0.1 * s, "entropy_coef": 0.01 * s} for s in range(1, 6)]
    run = read_log(rows)
    assert run.settings.entropy_weight.value is None
    assert "'entropy_coef' is adapted, from 0.01 to 0.05; it is no constant setting" in run.notes
    stated = read_log([row | {"entropy_coef": 0.01} for row in rows]).settings.entropy_weight
    assert (stated.value, stated.provenance) == (0.01, Provenance.LOGGED)
