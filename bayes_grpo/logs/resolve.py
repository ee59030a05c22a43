"""Settings of a run from all that states them: user, sidecar file, log, trainer's defaults, in that order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayes_grpo.logs.columns import Columns
from bayes_grpo.logs.formats import Parsed
from bayes_grpo.logs.hygiene import LARGEST_STEP, usual_spacing
from bayes_grpo.logs.keyindex import normal
from bayes_grpo.logs.options import ROW_KEYS, checked, configured, settings_of_run
from bayes_grpo.logs.run import Run
from bayes_grpo.logs.settings import CLOSED, Provenance, Setting, Settings
from bayes_grpo.logs.table import Table, to_float
from bayes_grpo.logs.trainers import GENERIC

_CLOSE = 0.05
_MIN_ROWS = 5


def spread_kind(columns: Columns) -> tuple[str, str]:
    """Kind of reward_std, "within" groups or "total", and why; "unknown" where the log cannot tell.

    Three tests, each valid on its own: groups without any spread cannot leave a within-group std; a single
    reward function logs its own total std; a binary reward of mean p has the total std √(p(1 − p)).
    """
    std = columns.train.get("reward_std")
    reward = columns.train["reward"]
    if std is None or not np.isfinite(std).any():
        return "unknown", "reward_std is not logged"
    flat = columns.train.get("frac_reward_zero_std")
    if flat is not None:
        rows = (flat > 0.999) & np.isfinite(std)
        if np.sum(rows & (std > 1e-4)) > 0.5 * max(np.sum(rows), 1):
            return "total", "reward_std is above 0 where every group has none"
    found = columns.index.find(("rewards/*/std", "rewards/**/std"), ("", "train/"))
    single = list({k for group in found for k in group})
    if len(single) == 1:
        total = columns.index.table.column(single[0])
        rows = np.isfinite(total) & np.isfinite(std) & (total > 1e-6) & (std >= 0)
        if np.sum(rows) >= _MIN_ROWS:
            ratio = float(np.median(std[rows] / total[rows]))
            if abs(ratio - 1) < 0.01:
                return "total", "reward_std equals the std of the only reward function"
            if ratio < 1 - _CLOSE:
                return "within", f"reward_std is {ratio:.2f} of the total std of the only reward function"
    rows = np.isfinite(reward) & np.isfinite(std)
    binary = not np.any((reward[rows] < 0) | (reward[rows] > 1))
    rows &= (reward > 0.05) & (reward < 0.95)
    if binary and np.sum(rows) >= _MIN_ROWS:
        p = reward[rows]
        ratios = std[rows] / np.sqrt(p * (1 - p))
        middle = np.median(ratios)
        if abs(middle - 1) < _CLOSE and np.mean(np.abs(ratios - middle) < _CLOSE) > 0.8:
            return "total", "reward_std is that of a binary reward over all completions, sqrt(p(1 - p))"
    if columns.trainer.std_kind:
        return columns.trainer.std_kind, f"{columns.trainer.name} logs it so"
    return "unknown", "the log does not tell"


_UPDATE_STEPS = ("optimizer_step", "update", "train_step", "train/step")
"""Keys whose steps are optimizer updates, in logs whose rollouts serve several."""
_BATCHES = ("epochs_per_rollout_batch", "rollout_batch_size", "train_batch_size")
_PLANNED_BATCHES = ("n_batches", "num_batches", "total_batches")
"""Settings of scripts for the number of batches of a training."""
_OF_EVALUATION = re.compile(r"(?:eval|val|valid|validation|test|dev)[/_]")
UNSTATED = "the log does not state it; --set {}=… does, or a line in bayes_grpo.toml"
"""Note on an unknown part of the batch: fits, plans and diagnoses are sharper with it."""
_LEAST_AGES = 3
"""Rows with a staleness from which on its mean is believed."""
DECAYS = ("linear", "cosine")
"""Schedules that have an end."""


def resolve_settings(
    parsed: Parsed,
    columns: Columns,
    run: Run,
    sidecar: Mapping[str, Setting],
    user: Mapping[str, Any],
    run_closed: bool = False,
) -> Settings:
    """Every setting with the most trustworthy of its values; bounds of the reward that cross are an error.

    A run of which the trainer's closing line is there has as many steps as it has logged.
    """
    trainer = columns.trainer
    origin = "assumed for an unknown trainer" if trainer is GENERIC else f"{trainer.name}'s documented default"
    found = {name: Setting(value, Provenance.ASSUMED, origin) for name, value in trainer.defaults.items()}
    kind, why = spread_kind(columns)
    spacing = None if columns.step is None else usual_spacing(run.step)
    note = "one step a row" if columns.step is None else "the rows have no constant spacing"
    found["reward_std_kind"] = Setting(kind, note=why)
    found["logging_window"] = Setting(spacing or 1, note=note if spacing is None else "the spacing of the rows")
    constant = {k: float(x[0]) for k, x in settings_in_rows(parsed.table).items() if np.ptp(x) == 0}
    repeated = {normal(k).rpartition("/")[2]: int(x) if x.is_integer() else x for k, x in constant.items()}
    in_records = configured(repeated, "{!r} in every record")
    found |= {k: replace(v, provenance=Provenance.LOGGED) for k, v in in_records.items()}
    found |= configured(parsed.config, "{!r} next to the records")
    found |= settings_of_run(parsed.config, trainer)
    found = _planned_batches(parsed.config, columns, run) | found
    found |= _from_batches({**repeated, **parsed.config}, columns, found.get("group_size", Setting()))
    found |= _planned_in_rows(columns, run)
    found |= parsed.settings
    found |= _logged(parsed, columns, run, found.get("refresh_interval", Setting()))
    found |= sidecar
    found |= {name: Setting(value, Provenance.USER) for name, value in user.items()}
    checked({name: found[name].value for name in ("reward_low", "reward_high") if name in found}, "settings")
    found["schedule"] = _followed(found, columns, run)
    if run_closed and len(run.step) and found.get("total_steps", Setting()).value is None:
        found["total_steps"] = Setting(float(run.step[-1]), Provenance.LOGGED, CLOSED)
    unknown = [x for x in ("group_size", "prompts_per_step") if found.get(x, Setting()).value is None]
    return Settings(**found | {name: Setting(note=UNSTATED.format(name)) for name in unknown})


def _followed(found: Mapping[str, Setting], columns: Columns, run: Run) -> Setting:
    """The schedule as fits and forecasts follow it, and why where it is not the configured or documented one.

    A decay of unknown length cannot be followed, nor can a rate that was not logged: the rate is then constant.
    A setting of the user or the log keeps its value, with a note; a default gives way.
    """
    schedule = found.get("schedule", Setting())
    total = found.get("total_steps", Setting()).value
    if schedule.value is None:
        return Setting("constant", Provenance.ASSUMED, "no schedule and no learning rate are logged")
    assumed = schedule.provenance is Provenance.ASSUMED
    why = ""
    if schedule.value == "logged" and "learning_rate" not in columns.train:
        why = "no learning rate is logged"
    elif schedule.value in DECAYS and total is None:
        why = "total_steps is not known"
    elif schedule.value in DECAYS and assumed and total < max(0, *run.step[-1:], *run.eval_step[-1:]):
        why = f"the log has passed the {total:g} steps planned"
    if not why:
        return schedule
    if assumed:
        return Setting("constant", Provenance.ASSUMED, f"{schedule.note} is {schedule.value} decay, but {why}")
    return replace(schedule, note="; ".join(x for x in (schedule.note, f"taken as constant: {why}") if x))


def settings_in_rows(table: Table) -> dict[str, np.ndarray]:
    """Key of records that states a setting → its numbers, shape (k,), k > 0."""
    known = {k: normal(k).rpartition("/")[2] for k in table.keys if not _OF_EVALUATION.match(normal(k))}
    keys = [k for k, name in known.items() if name in ROW_KEYS or name in _BATCHES]
    return {k: values[np.isfinite(values)] for k in keys if np.isfinite(values := table.column(k)).any()}


def _planned_batches(config: Mapping[str, Any], columns: Columns, run: Run) -> dict[str, Setting]:
    """Planned steps where rows are batches, or nothing says what they are, and a file states how many these will be."""
    counted_in = columns.keys.get("step", "batch")
    total, key = next(((to_float(config[k]), k) for k in _PLANNED_BATCHES if k in config), (0.0, ""))
    if not normal(counted_in).endswith("batch") or not len(run.step) or not total >= run.step[-1]:
        return {}
    return {"total_steps": Setting(total, Provenance.CONFIG, f"{key!r} next to the records, a batch a row")}


def _planned_in_rows(columns: Columns, run: Run) -> dict[str, Setting]:
    """Planned steps where every row states them beside the step of the training, which has not passed them."""
    key = columns.index.first(("max_steps",), GENERIC.prefixes)
    planned = {x for x in columns.index.table.column(key or "").tolist() if x == x}
    counted = normal(columns.keys.get("step", "")).rpartition("/")[2]
    if counted != "global_step" or len(planned) != 1 or not len(run.step) or min(planned) < run.step[-1]:
        return {}
    return {"total_steps": Setting(min(planned), Provenance.LOGGED, f"{key!r} in every row")}


def _from_batches(config: Mapping[str, Any], columns: Columns, group_size: Setting) -> dict[str, Setting]:
    """Prompts of a step and updates of a rollout where a file states the batches, in completions."""
    epochs, drawn, used = (to_float(config.get(name)) for name in _BATCHES)
    group = to_float(group_size.value)
    if not (epochs > 0 and drawn > 0 and used > 0 and group > 0):
        return {}
    updates = columns.rows_without_rollout or columns.keys.get("step") in _UPDATE_STEPS
    note = f"{', '.join(_BATCHES)} of the log, {'an update' if updates else 'a rollout'} a step"
    refresh, prompts = (max(epochs * drawn / used, 1), used / group) if updates else (1, drawn / group)
    values = {"refresh_interval": refresh, "prompts_per_step": prompts}
    return {name: Setting(value, Provenance.CONFIG, note) for name, value in values.items() if value <= LARGEST_STEP}


def _logged(parsed: Parsed, columns: Columns, run: Run, refresh: Setting) -> dict[str, Setting]:
    """Logged settings, and the refresh interval that lags as much as completions do, unless a longer one is known.

    A policy used for K steps is (K - 1)/2 of them old on average (`bayes_grpo.dynamics.reduction.mean_lag`).
    """
    planned = {"total_steps": (parsed.total_steps, ""), "logging_window": (parsed.logging_steps, "logging_steps")}
    found: dict[str, tuple[Any, str]] = {name: x for name, x in planned.items() if x[0]}
    if np.any(run.signals.get("learning_rate", np.empty(0)) > 0):
        found["schedule"] = ("logged", f"key {columns.keys['learning_rate']!r}")
    rewarded = np.isfinite(run.reward)
    if columns.rows_without_rollout and usual_spacing(run.step) == 1 and rewarded.any():
        gap = usual_spacing(run.step[rewarded])
        if gap is not None and gap > 1:
            found["refresh_interval"] = (gap, f"a reward, so a new rollout, in every {gap} steps")
            refresh = Setting(gap, Provenance.LOGGED)
    age = run.signals.get("staleness", np.empty(0))
    age = age[np.isfinite(age)]
    if len(age) >= _LEAST_AGES and age.min() >= 0.0:
        lag = round(1.0 + 2.0 * float(age.mean()))
        longer = refresh.provenance is not Provenance.ASSUMED and to_float(refresh.value) > lag
        if not longer and lag <= LARGEST_STEP:
            note = f"{columns.keys['staleness']!r} is {age.mean():.3g} steps on average, as of a policy used for {lag}"
            found["refresh_interval"] = (lag, note)
    return {name: Setting(value, Provenance.LOGGED, note) for name, (value, note) in found.items()}
