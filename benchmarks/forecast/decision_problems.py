"""Runs of all kinds with a decision to make, what their policies deserve, and forecasts of them kept on disk.

A run is worth what its policy deserves: the share of right answers, in units of the reward's range, whatever a broken
or hacked verifier pays. Eight of the kinds are scenarios of `bayes_grpo.simulate`, where it is exact; the others are
families of the deep laboratory, where it is the share of right completions, smoothed over a few steps.

Every twentieth of the plan a checkpoint is kept, and each is scored once on `PROMPTS` completions.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np

from bayes_grpo import read_log
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.fitting.sampling.adaptive import ImportanceSettings
from bayes_grpo.forecasting.fits import FORECAST_REGIMES, fit_ensemble, trusted
from bayes_grpo.forecasting.forecast import Forecast, forecast_of_regimes
from bayes_grpo.forecasting.inputs import inputs_of_run
from bayes_grpo.logs.run import Run
from bayes_grpo.rows.schedule import future_grid
from bayes_grpo.signals.loss import Fallen
from bayes_grpo.simulate.scenarios import SCENARIOS, SimulatedRun, simulate_scenario
from bayes_grpo.simulate.trainer_log import write_runs
from benchmarks.lab.truth import smoothed

LOGGING_STEPS = 5
CHECK_EVERY = 0.1
"""Share of the plan between two looks."""
MOST_ROWS = 80
"""Longer logs are averaged down to about so many rows before they are forecast, to spare time."""
KEPT_EVERY = 0.05
"""Share of the plan between two checkpoints."""
PROMPTS = 128
"""Completions behind the score of a checkpoint."""
POINTS = ImportanceSettings(effective=1000.0, rounds=12, draws=500)
"""Points of the forecast of a look."""
DRAWS = 600
"""Paths of a forecast."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One run with a decision to make.

    Attributes:
        scenario: Where it is from.
        run: Its whole log; policies see the rows up to their step only.
        true: Deserved reward after each number of updates, shape (T + 1,), in units of the logged reward's range.
        now: Last step of the log when the decision is made.
        cost: C, per step.
        value: V over ``reach``, per unit of reward.
        reach: Range of the reward, all of which is worth V.
        kept: Steps of the checkpoints, shape (k,).
        score: Noisy score of the policy after each number of updates, shape (T + 1,).
        key: What tells it from others.
    """

    scenario: str
    run: Run
    true: np.ndarray
    now: int
    cost: float
    value: float
    reach: float
    kept: np.ndarray
    score: np.ndarray
    key: str

    @property
    def end(self) -> int:
        """Planned length."""
        return len(self.true) - 1

    @property
    def worth(self) -> float:
        """V."""
        return self.value * self.reach

    def place(self, step: float) -> int:
        """A stopping step as one that there is."""
        return int(min(max(round(step), self.now), self.end))

    def on_disk(self, stop: float) -> np.ndarray:
        """Checkpoints to choose from after a stop, itself among them."""
        at = self.place(stop)
        return np.unique([*self.kept[self.kept <= at], at])

    def best_scored(self, stop: float) -> int:
        """Of them the one of the best score; the last one where none has one."""
        there = self.on_disk(stop)
        score = np.where(np.isnan(self.score[there]), -np.inf, self.score[there])
        return int(there[-1] if np.isinf(score.max()) else there[np.argmax(score)])

    def net(self, stop: float, taken: int | None = None) -> float:
        """Deserved net value of stopping at a step with a checkpoint, against keeping the present policy.

        Args:
            stop: The step.
            taken: Step of the checkpoint; the one of the best score if None.
        """
        s = self.place(stop)
        taken = self.best_scored(s) if taken is None else taken
        return self.value * (self.true[taken] - self.true[self.now]) - self.cost * (s - self.now)

    def best_net(self) -> float:
        """Net value of the best stopping step in hindsight, with the best checkpoint by then."""
        stops = range(self.now, self.end + 1)
        return max(
            self.value * (self.true[self.on_disk(s)].max() - self.true[self.now]) - self.cost * (s - self.now)
            for s in stops
        )

    def looks(self) -> list[int]:
        """Steps at which a policy looks: now, and the first row after every tenth of the plan from there on."""
        out, step = [self.now], float(self.now)
        while True:
            later = self.run.step[self.run.step >= step + CHECK_EVERY * self.end]
            if not len(later) or later[0] >= self.end:
                return out
            step = float(later[0])
            out.append(int(step))


@lru_cache(maxsize=1)
def problems(count: int, seed: int, lab: tuple[Path, ...] = ()) -> list[Problem]:
    """Runs of all scenarios, and of all families of the laboratory, in turn, with random decisions."""
    names = tuple(SCENARIOS)
    families = families_in(lab)
    each = -(-count // (len(names) + len(families)))
    out: list[list[Problem]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            runs = simulate_scenario(name, each, seed)
            paths = write_runs(runs, Path(folder) / name, logging_steps=LOGGING_STEPS)
            out.append([_problem(run, read_log(path), seed) for run, path in zip(runs, paths, strict=True)])
    out += [[_deep_problem(place, seed) for place in places[:each]] for places in families.values()]
    return [kind[i] for i in range(each) for kind in out if i < len(kind)][:count]


def families_in(folders: Sequence[Path]) -> dict[str, list[Path]]:
    """Family of the laboratory → folders of its runs."""
    found: dict[str, list[Path]] = {}
    for path in sorted(p.parent for folder in folders for p in folder.glob("*/truth.json")):
        found.setdefault(path.name.rsplit("-", 2)[0], []).append(path)
    return found


def _deep_problem(place: Path, seed: int) -> Problem:
    truth = json.loads((place / "truth.json").read_text(encoding="utf-8"))
    name = f"deep {place.name.rsplit('-', 2)[0]}"
    gold = smoothed(np.array(truth["gold_reward"], float))
    return _decision(name, read_log(place), gold, [seed, crc32(place.name.encode())])


def _problem(simulated: SimulatedRun, run: Run, seed: int) -> Problem:
    gold = np.asarray(simulated.trajectory.gold_reward, float)
    return _decision(simulated.scenario, run, gold, [seed, simulated.seed, simulated.index])


def _decision(scenario: str, run: Run, before: np.ndarray, seeds: list[int]) -> Problem:
    """A random decision on a run whose share of right answers before every update is known."""
    rng = np.random.default_rng(seeds)
    total = len(before)
    seen = rng.uniform(0.2, 0.6)
    now = int(run.step[np.searchsorted(run.step, seen * total)])
    value = float(np.exp(rng.uniform(np.log(100.0), np.log(10_000.0))))
    # The cost of the whole run is 1% to 50% of what one unit of reward is worth.
    share = float(np.exp(rng.uniform(np.log(0.01), np.log(0.5))))
    reach = float(run.settings.reward_high.value or 1.0)
    right = np.append(before, before[-1])  # what the last update brought is not recorded
    score = right + np.sqrt(np.clip(right * (1.0 - right), 0.0, None) / PROMPTS) * rng.standard_normal(len(right))
    kept = np.unique(np.round(np.arange(KEPT_EVERY, 1.0, KEPT_EVERY) * total).astype(int))
    key = f"{scenario.replace(' ', '_')}-{'-'.join(map(str, seeds))}"
    return Problem(
        scenario, run, reach * right, now, share * value / total, value / reach, reach, kept, reach * score, key
    )


def coarser(run: Run, most: int = MOST_ROWS) -> Run:
    """A log of at most about so many rows, each the mean of several."""
    k = -(-len(run.step) // most)
    if k == 1:
        return run
    first = len(run.step) % k  # the last row stays the last one

    def mean(x: np.ndarray) -> np.ndarray:
        return x[first:].reshape(-1, k).mean(axis=1)

    return replace(
        run,
        step=run.step[first:][k - 1 :: k],
        reward=mean(run.reward),
        window=k * mean(run.window),
        signals={name: mean(x) for name, x in run.signals.items()},
        components={name: mean(x) for name, x in run.components.items()},
        settings=replace(run.settings, logging_window=replace(run.settings.logging_window, value=k * run.window[-1])),
    )


def forecasts_of(problem: Problem, cache: Path) -> Iterator[tuple[int, Any]]:
    """Forecasts of a run at all its looks, from the cache where they are there.

    Yields:
        Step of the look, and the forecast; None where there is none.
    """
    folder = cache / problem.key
    folder.mkdir(parents=True, exist_ok=True)
    for look in problem.looks():
        path = folder / f"{look}.npz"
        if not path.exists():
            _write(path, *_forecast(problem, look))
        yield look, _read(path)


def _forecast(problem: Problem, look: int) -> tuple[Any, dict[str, Any]]:
    """A forecast of a look, and what the diagnosis says."""
    seen = coarser(problem.run.until(float(look)))
    diagnosis = diagnose(seen)
    onsets = {name: [x.step.low, x.step.median, x.step.high] for name, x in diagnosis.onsets.items()}
    said = {"own": dict(diagnosis.probability), "onsets": onsets, "status": diagnosis.status.status}
    return ahead_of(seen, float(problem.end)), said


def ahead_of(seen: Run, until: float) -> Forecast | None:
    """A quick forecast of a run; None with too few rows, or a reward that never changes.

    Args:
        seen: The run so far.
        until: Horizon.
    """
    try:
        inputs = inputs_of_run(seen)
        asked = future_grid(inputs.table, until, inputs.ahead)
        fitted = fit_ensemble(
            inputs.table, FORECAST_REGIMES, reward=inputs.reward, seed=0, settings=POINTS, strict=False
        )
        return forecast_of_regimes(inputs, trusted(fitted), asked, draws=DRAWS)
    except BayesGrpoError:
        return None


def _write(path: Path, found: Any, diagnosis: dict[str, Any]) -> None:
    arrays = {"diagnosis": np.array(json.dumps(diagnosis, default=float))}
    if found is not None:
        names = ("step", "latent_now", "latent", "rows", "logged_step", "logged", "event", "regime")
        arrays |= {name: np.asarray(getattr(found, name)) for name in names}
        arrays |= {k: np.asarray(getattr(found, k)) for k in ("now", "lag", "low", "high")}
        arrays["ends"] = np.asarray(found.schedule.ends)
        if found.fallen is not None:
            arrays["fallen"] = np.asarray(found.fallen, float)
    partial = path.with_suffix(".part.npz")
    with partial.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    partial.rename(path)


def _read(path: Path) -> Any:
    with np.load(path) as stored:
        found = {name: stored[name] for name in stored.files}
    diagnosis = json.loads(str(found.pop("diagnosis")))
    if "step" not in found:
        return SimpleNamespace(step=None, diagnosis=diagnosis)
    plain = {k: float(found.pop(k)) for k in ("now", "lag", "low", "high", "ends")}
    fallen = found.pop("fallen", None)
    return SimpleNamespace(
        **found,
        now=plain["now"],
        lag=plain["lag"],
        low=plain["low"],
        high=plain["high"],
        schedule=SimpleNamespace(ends=plain["ends"]),
        fallen=None if fallen is None else Fallen(*map(float, fallen[:5]), at_once=bool(fallen[5])),
        assumed=(),
        diagnosis=diagnosis,
    )
