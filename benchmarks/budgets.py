"""A sweep with steps for a part of it: the best reward reached, by our split, by halving and by running to the end.

    python -m benchmarks.budgets [--families 4] [--seed 0] [--index INDEX ...] [--keep]

Families of 16 small policies (`bayes_grpo.simulate`) share their prompts and differ in learning rate and penalty; a
run is worth the exact reward of its policies. Sweeps of an index (column ``family``, four runs at least) are replayed,
a run worth the trend of its rows. Everybody has 25 or 50% of the steps of all runs, and keeps in the end the policy of
the best mean of `LAST` rows in a row. "Ours" begins all runs as halving does, and then gives a third of what is left at
a time. "Halving" is successive halving, its last steps to the next best; "all to the end" runs as many as it can pay,
in random order, on average over orders; "equal shares" runs all as far as it can pay.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayes_grpo import read_log
from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning
from bayes_grpo.decision.split import split_budget
from bayes_grpo.diagnosis.smoothing import fit_trend
from bayes_grpo.logs.run import Run
from bayes_grpo.simulate import Numbers, Structure, contextual_bandit, simulate, trainer_state, write_json
from benchmarks.common import keep, say
from benchmarks.decision_problems import ahead_of, coarser

SHARES = (0.25, 0.5)
MEMBERS, STEPS, LAST, ORDERS = 16, 300, 3, 200
LEAST_ROWS = 24
"""Rows of a public run that is replayed at least."""


class Member(NamedTuple):
    """One run of a sweep: its log, and what its policy is worth at each row, shape (n,)."""

    run: Run
    true: np.ndarray

    @property
    def end(self) -> float:
        """Its last step."""
        return float(self.run.step[-1])


Sweep = Sequence[Member]


def simulated(seed: int) -> list[Member]:
    """A family: one set of prompts, 16 learning rates and penalties."""
    rng = np.random.default_rng([seed, 7])
    structure = Structure(n_steps=STEPS, group_size=8, prompts_per_step=16, optimizer="adam", eval_every=50)
    environment = contextual_bandit(rng, difficulty_mean=rng.uniform(0.2, 2.5), difficulty_sd=rng.uniform(1.0, 2.4))
    rates = np.exp(rng.uniform(np.log(0.001), np.log(0.2), MEMBERS))
    penalties = np.exp(rng.uniform(np.log(0.01), np.log(0.5), MEMBERS))
    numbers = Numbers(learning_rate=rates, momentum=0.9, kl_weight=penalties)
    found = simulate(structure, numbers, environment, rng.integers(2**31, size=MEMBERS))
    out, prompts = [], len(environment.train.reference_logit)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(MEMBERS):
            one = type(found)(*(x[i] for x in found))
            place = Path(folder) / f"run{i}"
            place.mkdir()
            write_json(place / "trainer_state.json", trainer_state(one, structure, prompts, 5))
            run = read_log(place, settings={"reward_low": 0.0, "reward_high": 1.0})
            out.append(Member(run, np.asarray(one.true_reward, float)[run.step.astype(int) - 1]))
    return out


def public(indices: Sequence[Path]) -> Iterator[tuple[str, list[Member]]]:
    """Sweeps of an index that have enough runs and rows."""
    found: dict[str, list[Member]] = {}
    for index in indices:
        with index.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if not row.get("family"):
                    continue
                try:
                    run = coarser(read_log(index.parent / "csv" / f"{row['run_id']}.csv"))
                except BayesGrpoError:
                    continue
                trend = fit_trend(run.step, run.reward, seed=1)
                if trend is not None and np.isfinite(run.reward).all() and len(run.step) >= LEAST_ROWS:
                    name = f"{row['repo'].split('/')[0]}: {row['family']}"
                    found.setdefault(name, []).append(Member(run, trend.at(run.step).mean(axis=0)))
    yield from ((name, members) for name, members in found.items() if len(members) >= 4)


def reached(sweep: Sweep, until: np.ndarray) -> float:
    """What the taken policy is worth where each run has gone to a step, shape (runs,)."""
    best, worth = -np.inf, min(float(m.true[0]) for m in sweep)
    for member, last in zip(sweep, until, strict=True):
        n = int(np.searchsorted(member.run.step, last, side="right"))
        for i in range(LAST, n + 1):
            mean = float(member.run.reward[i - LAST : i].mean())
            if mean > best:
                best, worth = mean, float(member.true[i - 1])
    return worth


def standing(member: Member, until: float) -> float:
    """How a run stands by its last rows; minus infinity before there are any."""
    n = int(np.searchsorted(member.run.step, until, side="right"))
    return float(member.run.reward[max(0, n - LAST) : n].mean()) if n else -np.inf


def begun(sweep: Sweep, budget: float) -> np.ndarray:
    """Steps that every run gets first: half of what the budget allows each, or what `LAST` rows take."""
    ends = np.array([m.end for m in sweep])
    first = 0.5 * budget / ends.sum() * ends
    return np.maximum(first, [m.run.step[min(7, len(m.run.step) - 1)] for m in sweep])


def _by_standing(sweep: Sweep, until: np.ndarray, some: Sequence[int]) -> list[int]:
    """Numbers of runs, the one that stands highest first."""
    return sorted(some, key=lambda i: -standing(sweep[i], float(until[i])))


def halving(sweep: Sweep, budget: float) -> np.ndarray:
    """Successive halving: after each rung the better half goes on to twice the steps, while there are any."""
    ends, until = np.array([m.end for m in sweep]), begun(sweep, budget)
    left, alive = budget - until.sum(), list(range(len(sweep)))
    while left > 0.0 and (until < ends).any():
        alive = _by_standing(sweep, until, alive)[: max(1, len(alive) // 2)]
        if (until[alive] >= ends[alive]).all():  # the best are at their end: the next best go on
            alive = _by_standing(sweep, until, [int(i) for i in np.flatnonzero(until < ends)])[:1]
        for i in alive:
            more = min(until[i], ends[i] - until[i], left)
            until[i], left = until[i] + more, left - more
    return until


def ours(sweep: Sweep, budget: float) -> np.ndarray:
    """Our split, made anew each time that a third of what is left has been run."""
    ends, until = np.array([m.end for m in sweep]), begun(sweep, budget)
    left, known, starts = budget - until.sum(), {}, [{} for _ in sweep]
    while left > 0.01 * budget:
        for i, member in enumerate(sweep):
            if until[i] < ends[i] and known.get(i, (None, 0.0))[1] != until[i]:
                known[i] = (ahead_of(member.run.until(until[i]), ends[i], starts[i]), until[i])
        live = {str(i): f for i, (f, _) in known.items() if f is not None and until[i] < ends[i]}
        if not live:
            break
        # Half of it at least is spent on what is left at the end, where nothing more is expected to pay either.
        part = left if left < 0.1 * budget else left / 3.0
        split = split_budget(live, part)
        spent = 0.0
        for run in split.runs:
            i = int(run.name)
            later = sweep[i].run.step[sweep[i].run.step >= run.until]
            to = float(later[0]) if len(later) else ends[i]
            if run.steps > 0.0:
                spent += to - until[i]
                until[i] = to
        if spent == 0.0:
            break
        left -= spent
    return until


def to_the_end(sweep: Sweep, budget: float) -> float:
    """What is reached on average by running as many to their end as can be paid, in random order."""
    ends, rng, found = np.array([m.end for m in sweep]), np.random.default_rng(0), []
    for _ in range(ORDERS):
        order, until, left = rng.permutation(len(sweep)), np.zeros(len(sweep)), budget
        for i in order:
            until[i] = min(ends[i], left)
            left -= until[i]
        found.append(reached(sweep, until))
    return float(np.mean(found))


def judged(sweep: Sweep, share: float) -> dict[str, float]:
    """Way → what is reached, as a share of the way from the start to the best policy of the whole sweep."""
    ends = np.array([m.end for m in sweep])
    low, top = min(float(m.true[0]) for m in sweep), max(float(m.true.max()) for m in sweep)
    budget = share * float(ends.sum())
    ways: dict[str, Callable[[], float]] = {
        "ours": lambda: reached(sweep, ours(sweep, budget)),
        "halving": lambda: reached(sweep, halving(sweep, budget)),
        "all to the end": lambda: to_the_end(sweep, budget),
        "equal shares": lambda: reached(sweep, share * ends),
        "whole budget": lambda: reached(sweep, ends),
    }
    return {name: (way() - low) / max(top - low, 1e-12) for name, way in ways.items()}


def main() -> None:
    """The program; its options are told by ``--help``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--index", type=Path, nargs="*", default=[])
    parser.add_argument("--most", type=int, default=6, help="public sweeps")
    parser.add_argument("--keep", action="store_true", help="keep the result among the stored ones")
    options = parser.parse_args()
    warnings.simplefilter("ignore", BayesGrpoWarning)
    sweeps = {"laboratory": [(f"family {k}", simulated(options.seed + k)) for k in range(options.families)]}
    sweeps["public"] = sorted(public(options.index), key=lambda x: -len(x[1]))[: options.most]
    result: dict[str, object] = {}
    for kind, some in sweeps.items():
        for share in SHARES:
            found = []
            for name, sweep in some:
                line = judged(sweep, share)
                say(f"{name} ({len(sweep)} runs), {share:.0%}: {', '.join(f'{k} {v:.3f}' for k, v in line.items())}")
                found.append(line)
            if found:
                means = {name: float(np.mean([x[name] for x in found])) for name in found[0]}
                print(
                    f"{kind}, {len(found)} sweeps, {share:.0%}: {', '.join(f'{k} {v:.3f}' for k, v in means.items())}"
                )
                result[f"{kind} {share:.0%}"] = means | {"sweeps": len(found)}
    if options.keep:
        keep("budgets", result)


if __name__ == "__main__":
    main()
