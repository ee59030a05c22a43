"""`Run`: what a trainer logged, in one shape for every trainer.

Conventions: time is the optimizer step; t = 0 is the first update. The reward logged at step ``s`` is the
mean over the ``window`` steps that end at ``s``, that is over ``(s - window, s]``. NaN means "no number here":
`Run.logged` tells a value that was not logged from one that the trainer logged as NaN or infinite (`Run.not_finite`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from bayes_grpo.common.errors import FitError, SettingError
from bayes_grpo.common.results import Displayed, json_safe
from bayes_grpo.common.text import StepName, clean, counted, listed
from bayes_grpo.logs.settings import CLOSED, Setting, Settings


class Caution(str):
    """A note on what was sorted or left out, which changes what is read; the first screen of `inspect` shows it."""

    __slots__ = ()


class LoggedColumn(NamedTuple):
    """One logged column: the trainer's key, number of finite values, the range, first and last of them."""

    key: str
    finite: int
    low: float | None = None
    high: float | None = None
    first: float | None = None
    last: float | None = None


class LoggedTraining(NamedTuple):
    """One of several trainings in a file: its name for ``--run``, rows, one a step, and steps; whether it was read.

    ``rewards`` are its rows with a reward.
    """

    name: str
    rows: int
    first_step: float | None
    last_step: float | None
    rewards: int
    taken: bool = False

    @property
    def text(self) -> str:
        """Name, rows and steps."""
        steps = "" if self.first_step is None else f", steps {self.first_step:g} to {self.last_step:g}"
        return f"{self.name} ({counted(self.rows, 'row')}{steps}{'' if self.rewards else ', no reward'})"


_BY_ROW = ("signals", "components", "environments", "logged")
"""Fields of a run that map names to arrays over its rows."""
_OF_TOTAL = ("reward_std", "frac_reward_zero_std", "accuracy", "gold_reward")
"""Signals that say nothing of a single part of the reward."""


@dataclass(frozen=True, eq=False)
class Run(Displayed):
    """One training run as it was logged. Immutable; arrays are read-only.

    Attributes:
        name: Short name, from the file or directory.
        source: Path (or paths, joined by "; ") that was read.
        format: Name of the reader that produced it, e.g. "trl_trainer_state".
        log_hash: SHA-256 of the bytes read, hexadecimal.
        step: Optimizer steps of the train rows, shape (n,), strictly increasing.
        reward: Mean train reward of each row, shape (n,), NaN where not logged.
        window: Steps averaged into each row, shape (n,), > 0.
        signals: Canonical signal name → values on ``step``, each of shape (n,). Only logged ones.
        eval_step: Steps of evaluations, shape (m,), strictly increasing; m may be 0.
        eval_reward: Evaluation reward, shape (m,).
        settings: Settings with provenance.
        keys: Canonical name → the key in the log it was read from.
        notes: What the reader did that a user should know (duplicates dropped, rows skipped, …).
        components: Reward function → its mean reward of each row, shape (n,), where the trainer logs them one by one.
        unused: Key of the log → why nothing was made of it.
        logged: "reward", signal or "rewards/COMPONENT" → whether a value was logged in each row, shape (n,), bool. A
            name without an entry was logged exactly where it is finite.
        environments: Environment → its mean reward of each row, shape (n,), where the reward is a mean over them.
        step_counter: What ``step`` counts: "optimizer step", "rollout step", "log row", or the log's own word.
        second_counter: Key of another counter of the log, and its value in each row, shape (n,); None without any.
        resumes: Steps at which the training was resumed.
        trainings: All trainings in the file, where it holds several.
        suggested: Column that was not recognized → the keys of the log that it may be.
        definitions: Signal → the word for what its key measures: one of the definitions of its row in
            `bayes_grpo.logs.signals.SIGNALS`, "unknown" where the key does not say which, or "standard" where there is
            one alone.
        part_keys: "rewards/FUNCTION" or "environments/ENVIRONMENT" → the key in the log it was read from.
    """

    name: str
    source: str
    format: str
    log_hash: str
    step: np.ndarray
    reward: np.ndarray
    window: np.ndarray
    signals: Mapping[str, np.ndarray]
    eval_step: np.ndarray
    eval_reward: np.ndarray
    settings: Settings
    keys: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    components: Mapping[str, np.ndarray] = field(default_factory=dict)
    unused: Mapping[str, str] = field(default_factory=dict)
    logged: Mapping[str, np.ndarray] = field(default_factory=dict)
    environments: Mapping[str, np.ndarray] = field(default_factory=dict)
    step_counter: str = "optimizer step"
    second_counter: tuple[str, np.ndarray] | None = None
    resumes: tuple[float, ...] = ()
    trainings: tuple[LoggedTraining, ...] = ()
    suggested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    definitions: Mapping[str, str] = field(default_factory=dict)
    part_keys: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Freezes arrays and checks shapes, so that later rooms need not."""
        put = partial(object.__setattr__, self)
        for name in ("step", "reward", "window", "eval_step", "eval_reward"):
            put(name, _read_only(getattr(self, name)))
        for name in ("keys", "unused", "suggested", "definitions", "part_keys"):
            put(name, MappingProxyType(dict(getattr(self, name))))
        rows = [self.reward, self.window]
        for name in _BY_ROW:
            kind = np.bool_ if name == "logged" else np.float64
            put(name, MappingProxyType({k: _read_only(v, kind) for k, v in getattr(self, name).items()}))
            rows += getattr(self, name).values()
        if self.second_counter is not None:
            put("second_counter", (self.second_counter[0], _read_only(self.second_counter[1])))
            rows.append(self.second_counter[1])
        if {x.shape for x in rows} != {(len(self.step),)} or self.eval_step.shape != self.eval_reward.shape:
            raise ValueError("arrays over the rows of a Run, and those over its evaluations, must share one shape")
        for name in ("step", "eval_step"):
            if np.any(np.diff(getattr(self, name)) <= 0):
                raise ValueError(f"{name} must be strictly increasing")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its fields, for worker processes: a read-only mapping cannot be pickled."""
        values = (getattr(self, f.name) for f in fields(self) if f.init)
        return type(self), tuple(dict(v) if isinstance(v, MappingProxyType) else v for v in values)

    @property
    def sentence(self) -> str:
        """Name, rows and steps."""
        steps = f", steps {self.step[0]:g} to {self.step[-1]:g}" if len(self.step) else ""
        rows = f"{counted(len(self.step), 'row')}{steps}, {counted(len(self.eval_step), 'evaluation')}"
        return f"{clean(self.name, 200)}: {rows}"

    @property
    def columns(self) -> dict[str, LoggedColumn]:
        """The reward, every signal and "eval_reward", with their keys and ranges."""
        return self._described({"reward": self.reward, **self.signals, "eval_reward": self.eval_reward})

    @property
    def cautions(self) -> tuple[str, ...]:
        """The notes on what was sorted or left out."""
        return tuple(note for note in self.notes if isinstance(note, Caution))

    @property
    def parts(self) -> dict[str, LoggedColumn]:
        """The parts of the reward, "rewards/FUNCTION" and "environments/ENVIRONMENT", with their keys and ranges."""
        functions = {f"rewards/{name}": values for name, values in self.components.items()}
        return self._described(functions | {f"environments/{name}": x for name, x in self.environments.items()})

    def _described(self, columns: Mapping[str, np.ndarray]) -> dict[str, LoggedColumn]:
        """Columns, of any length each, with their keys and ranges."""
        keys = {**self.part_keys, **self.keys}
        found = {}
        for name, values in columns.items():
            known = values[np.isfinite(values)]
            ends = map(float, (known.min(), known.max(), known[0], known[-1])) if len(known) else ()
            found[name] = LoggedColumn(keys.get(name, ""), len(known), *ends)
        return found

    def to_dict(self) -> dict[str, Any]:
        """The log, JSON-ready: counts and ranges in place of arrays; texts are on one line and shortened."""
        reward, *signals, evals = self.columns.items()
        ends = [float(x) for x in self.step[[0, -1]]] if len(self.step) else [None, None]
        settings = {
            k: {"value": x.value, "provenance": "none" if x.value is None else x.provenance, "note": x.note}
            for k, x in self.settings.items()
        }
        found = {
            **{name: getattr(self, name) for name in ("name", "source", "format", "log_hash")},
            "rows": len(self.step),
            "first_step": ends[0],
            "last_step": ends[1],
            "window": (self.window.min(), self.window.max()) if len(self.step) else None,
            "reward": reward[1],
            "signals": dict(signals),
            "parts": self.parts,
            "evals": evals[1],
            "eval_rows": len(self.eval_step),
            "settings": settings,
            **{name: getattr(self, name) for name in ("notes", "unused", "trainings", "suggested", "definitions")},
        }
        return _plain(json_safe(found))

    @property
    def has_reward(self) -> bool:
        """True if any train reward was logged."""
        return bool(np.isfinite(self.reward).any())

    @property
    def has_eval(self) -> bool:
        """True if any evaluation reward was logged."""
        return bool(np.isfinite(self.eval_reward).any())

    @property
    def rewards(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values of the train rewards, or of the evaluation rewards of a run without any, shape (k,) each."""
        step, reward = (self.step, self.reward) if self.has_reward else (self.eval_step, self.eval_reward)
        known = np.isfinite(reward)
        return step[known], reward[known]

    @property
    def last_planned_step(self) -> float | None:
        """Last of N planned steps: N, or N - 1 where a train reward stands at step 0; None where N is unknown."""
        planned = self.settings.total_steps.explicit
        if not planned:
            return None
        from_zero = bool(len(self.step) and self.step[0] == 0.0 and np.isfinite(self.reward[0]))
        return float(planned) - from_zero

    def values(self, name: str) -> np.ndarray:
        """The reward, a signal, or a component under "rewards/NAME", shape (n,); NaN throughout where there is none."""
        if name == "reward":
            return self.reward
        found = self.signals.get(name, self.components.get(name.removeprefix("rewards/")))
        return np.full(len(self.step), np.nan) if found is None else found

    def not_finite(self, name: str) -> np.ndarray:
        """Rows in which the trainer wrote NaN or an infinity, shape (n,), bool; none before its first value, if any."""
        finite = np.isfinite(self.values(name))
        begun = np.logical_or.accumulate(finite) | ~finite.any()  # a buffer may have to fill first
        return self.logged.get(name, np.zeros_like(finite)) & ~finite & begun

    def step_name(self, step: float) -> StepName:
        """A step as sentences name it: "step 141", or "step 141 (grpo_step 36)" where the log has a second counter."""
        counter = "row" if self.step_counter == "log row" else "step"
        if self.second_counter is None:
            return StepName(step, counter)
        name, values = self.second_counter
        known = np.flatnonzero(np.isfinite(values) & (self.step <= step))
        return StepName(step, counter, name, float(values[known[-1]])) if len(known) else StepName(step, counter)

    def with_settings(self, values: Mapping[str, Setting]) -> Run:
        """The run with some settings in place of its own; the windows of its rows follow `logging_window`."""
        changed = replace(self, settings=replace(self.settings, **values))
        if "logging_window" not in values:
            return changed
        return replace(changed, window=row_windows(self.step, float(values["logging_window"].value)))

    def until(self, step: float) -> Run:
        """The run as its log stood at an optimizer step: rows that end at it or before, settings known by then."""
        cut = self.where(self.step <= step, self.eval_step <= step)
        settings = self.settings
        if settings.total_steps.note == CLOSED and step < settings.total_steps.value:
            settings = replace(settings, total_steps=Setting())
        return replace(cut, settings=settings, resumes=tuple(s for s in self.resumes if s <= step))

    def of_part(self, name: str) -> Run:
        """The run with one of its reward functions or environments as the reward; what belongs to the total goes.

        Raises:
            SettingError: There is no such part.
            FitError: It has too few values.
        """
        parts = {**self.environments, **self.components}
        shown = clean(name, 40)
        if name not in parts:
            known = listed(parts) if parts else "a log that has none"
            expected = f"expected a reward function or environment of {clean(self.name)}"
            raise SettingError(f"{expected}, found {shown!r} and {known}", parameter="part")
        values = parts[name]
        steps = self.step[np.isfinite(values)]
        if len(steps) < 3:
            raise FitError(f"part {shown}: expected 3 rewards or more, found {len(steps)}; it appears late")
        logged = self.logged.get(f"rewards/{name}")
        return replace(
            self,
            name=f"{self.name}, {shown}",
            reward=values,
            signals={k: v for k, v in self.signals.items() if k not in _OF_TOTAL},
            eval_step=np.empty(0),
            eval_reward=np.empty(0),
            settings=replace(self.settings, reward_low=Setting(), reward_high=Setting(), reward_std_kind=Setting()),
            notes=(*self.notes, f"the reward is the part {shown}, which has values from step {steps[0]:g} on"),
            components={},
            environments={},
            logged={} if logged is None else {"reward": logged},
        )

    def where(self, rows: np.ndarray, evaluations: np.ndarray) -> Run:
        """Some of the rows, shape (n,), and of the evaluations, shape (m,), both bool. Settings are kept."""
        return replace(
            self,
            step=self.step[rows],
            reward=self.reward[rows],
            window=self.window[rows],
            eval_step=self.eval_step[evaluations],
            eval_reward=self.eval_reward[evaluations],
            second_counter=self.second_counter and (self.second_counter[0], self.second_counter[1][rows]),
            **{name: {k: v[rows] for k, v in getattr(self, name).items()} for name in _BY_ROW},
        )


def row_windows(step: np.ndarray, logging_window: float) -> np.ndarray:
    """Steps averaged into each row, shape (n,): the logging window, less where the previous row is nearer.

    A first row at step ``s`` cannot average more than ``s`` steps; a row at step 0 counts as one.
    """
    if not len(step):
        return np.empty(0)
    first = step[0] if step[0] > 0 else min(1.0, logging_window)
    return np.minimum(logging_window, np.r_[first, np.diff(step)])


def _plain(value: Any) -> Any:
    """The texts in a value, keys too, on one line and without control characters."""
    if isinstance(value, dict):
        return {clean(k, 200): _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return clean(value, 200) if isinstance(value, str) else value


def _read_only(values: Any, kind: Any = np.float64) -> np.ndarray:
    array = np.array(values, dtype=kind)
    array.setflags(write=False)
    return array
