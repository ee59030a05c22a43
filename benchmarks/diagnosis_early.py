"""When is a failure named? Before its damage, within ten rows of it, and could anything see it coming?

Laboratory runs have a date of damage: the step from which on the failure's condition holds to the end. They are
diagnosed at cuts, each seeing the rows before it alone. Alarm thresholds, ours and those of plain statistics of the
same signals, hold at two looks in a row and are set so that equally few unfailed runs ever raise one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.stats import rankdata

from bayes_grpo.diagnosis.classes import MODES
from bayes_grpo.diagnosis.classify import posterior
from bayes_grpo.diagnosis.features import gather_all
from bayes_grpo.diagnosis.layer import Layer
from bayes_grpo.laboratory.learners.lab_logs import LabLog
from bayes_grpo.logs.run import Run

CUTS, LEAST = 12, 8
"""Cuts of a log, and rows before the first."""
FALSE = 0.05
"""Share of unfailed runs that may ever raise an alarm."""
WITHIN = 10
"""Rows after the damage within which a collapse shall be certain."""
AHEAD = 0.2
"""Share of a run in which a collapse counts as near."""
BATCH = 96


def probabilities(runs: Sequence[Run], layer: Layer | None) -> np.ndarray:
    """Probability that each failure is under way, shape (runs, modes); 0 where there is too little to tell."""
    found = [g for first in range(0, len(runs), BATCH) for g in gather_all(runs[first : first + BATCH])]
    none = dict.fromkeys(MODES, 0.0)
    owns = [none if g is None else posterior(g.features, None, layer).own for g in found]
    return np.array([[own[mode] for mode in MODES] for own in owns])


def cuts_of(run: Run) -> np.ndarray:
    """Rows after which a log is looked at, shape (CUTS,)."""
    return np.unique(np.linspace(min(LEAST, len(run.step)), len(run.step), CUTS).astype(int))


def statistics(run: Run) -> np.ndarray:
    """What plain thresholds look at, larger is worse: one number for each of `MODES`, shape (4,).

    Hacking: gain of the train reward less that of the held-out one. Degeneracy: share of groups without spread over
    the last ten rows. Concentration: e-folds of entropy lost. Instability: share of the best reward lost (ten-row
    means), or the largest gradient norm over a hundred times the median, whichever is more.
    """

    def ends(x: np.ndarray) -> tuple[float, float]:
        k = max(2, len(x) // 10)
        return float(np.mean(x[:k])), float(np.mean(x[-k:]))

    out = np.full(len(MODES), -np.inf)
    seen = {k: v[np.isfinite(v)] for k, v in {**run.signals, "reward": run.reward, "held": run.eval_reward}.items()}
    if len(seen["reward"]) >= LEAST:
        smooth = np.convolve(seen["reward"], np.ones(5) / 5, "valid")
        out[3] = (smooth.max() - smooth[-1]) / max(np.abs(smooth).max(), 1e-9)
        if len(seen["held"]) >= 3:
            (a, b), (c, d) = ends(seen["reward"]), ends(seen["held"])
            out[0] = (b - a) - (d - c)
    if len(seen.get("frac_reward_zero_std", ())) >= LEAST:
        out[1] = float(seen["frac_reward_zero_std"][-10:].mean())
    if len(seen.get("entropy", ())) >= LEAST:
        first, last = ends(seen["entropy"])
        out[2] = float(np.log(max(first, 1e-6) / max(last, 1e-6)))
    norm = seen.get("grad_norm", np.empty(0))
    norm = norm[norm > 0]  # without a gradient a row is no measure of the others
    if len(norm) >= LEAST:
        out[3] = max(out[3], float(norm.max() / np.median(norm)) / 100.0)
    return out


class Watched(NamedTuple):
    """A run looked at row by row.

    Attributes:
        log: The run.
        step: Steps of the cuts, shape (cuts,).
        ours: Probabilities at the cuts, shape (cuts, modes).
        theirs: `statistics` at the cuts, shape (cuts, modes).
    """

    log: LabLog
    step: np.ndarray
    ours: np.ndarray
    theirs: np.ndarray


def watched(logs: Sequence[LabLog], layer: Layer | None) -> list[Watched]:
    """Looks at every cut of every log."""
    steps = [x.run.step[cuts_of(x.run) - 1] for x in logs]
    cut = [x.run.until(s) for x, places in zip(logs, steps, strict=True) for s in places]
    p, plain = probabilities(cut, layer), np.array([statistics(run) for run in cut])
    ends = np.cumsum([len(places) for places in steps])[:-1]
    parts = zip(logs, steps, np.split(p, ends), np.split(plain, ends), strict=True)
    return [Watched(*x) for x in parts]


def thresholds(unfailed: np.ndarray) -> np.ndarray:
    """Thresholds at which at most `FALSE` of the runs ever raise an alarm, as many by every mode, shape (modes,).

    Args:
        unfailed: Largest values of unfailed runs, shape (runs, modes).
    """
    for each in np.linspace(FALSE, FALSE / len(MODES), 30):
        found = np.quantile(unfailed, 1.0 - each, axis=0, method="higher")
        if (unfailed > found).any(axis=1).mean() <= FALSE:
            return found
    return unfailed.max(axis=0)


def warned(seen: Sequence[Watched]) -> dict[str, Any]:
    """By failure: how many are named, how many of them before the damage and by how much; beside plain thresholds."""
    out: dict[str, Any] = {}
    for kind in ("ours", "theirs"):
        level = thresholds(np.array([getattr(w, kind).max(axis=0) for w in seen if not w.log.modes]))
        for k, mode in enumerate(MODES):
            failed = [w for w in seen if w.log.label == mode]
            first = np.array([_first(w.step, getattr(w, kind)[:, k] > level[k]) for w in failed])
            damage = np.array([w.log.onset for w in failed])
            named, length = np.isfinite(first), np.array([w.step[-1] for w in failed])
            early = first < damage
            out.setdefault(mode, {"runs": len(failed)})[kind] = {
                "threshold": float(level[k]),
                "named": float(named.mean()),
                "before damage": float(early.mean()),
                "median lead, share of the run": _median(((damage - first) / length)[early]),
                "median delay, share of the run": _median(((first - damage) / length)[named]),
            }
    return out


def _first(step: np.ndarray, alarm: np.ndarray) -> float:
    return float(step[alarm.argmax()]) if alarm.any() else np.inf


def _median(x: np.ndarray) -> float | None:
    return float(np.median(x)) if len(x) else None


def certain(logs: Sequence[LabLog], layer: Layer | None) -> dict[str, Any]:
    """Collapses of which instability is sure (P ≥ .9) or likely (P ≥ .5) `WITHIN` rows after the reward was lost."""
    k = MODES.index("dynamical_instability")
    kept, cut = [], []
    for x in logs:
        row = int(np.searchsorted(x.run.step, x.lost)) + WITHIN  # beyond the end where nothing was lost
        if x.label == MODES[k] and row < len(x.run.step):
            kept.append(x.name)
            cut.append(x.run.until(x.run.step[row]))
    p = probabilities(cut, layer)[:, k] if cut else np.empty(0)
    return {
        "collapses": len(p),
        "sure": int((p >= 0.9).sum()),
        "likely": int((p >= 0.5).sum()),
        "others": {name: round(float(v), 2) for name, v in zip(kept, p, strict=True) if v < 0.9},
    }


def half_lost(run: Run) -> int | None:
    """Row from which on, to the end, a reward has lost half of its gain, or of its level where it began high.

    Rewards are running means over a fortieth of the log; None where it ends with more than that.
    """
    y = run.reward if run.has_reward else run.eval_reward
    y = np.where(np.isfinite(y), y, np.nanmedian(y))
    width = max(2, len(y) // 40)
    mean = np.convolve(y, np.ones(width) / width, "valid")
    top, start = np.maximum.accumulate(mean), mean[0]
    kept = top - mean <= 0.5 * np.where(start > 0.5 * top, top, top - start)
    if kept[-1]:
        return None
    last = np.flatnonzero(kept)
    return (int(last[-1]) + 1 if len(last) else 0) + width - 1


def certain_after(run: Run, row: int, layer: Layer | None) -> float:
    """Largest probability of instability from a row to `WITHIN` rows after it, each judged without what came later."""
    step = run.step if run.has_reward else run.eval_step
    at = np.unique(np.minimum(row + np.array([0, WITHIN // 2, WITHIN]), len(step) - 1))
    return float(probabilities([run.until(s) for s in step[at]], layer)[:, MODES.index("dynamical_instability")].max())


def hazard(learned: Sequence[LabLog], test: Sequence[LabLog]) -> dict[str, Any]:
    """Is a collapse announced? Area under the ROC curve of signs that theory names, before any damage.

    Rows before the damage (all rows of runs without collapse) at every cut: does the run collapse within the next
    `AHEAD` of its length? A logistic regression on all signs, learned on other runs; and every sign alone.
    """
    (x, y, _), (u, v, owner) = _signs(learned), _signs(test)
    middle, scale = np.median(x, axis=0), x.std(axis=0) + 1e-9
    score = _logistic((x - middle) / scale, y)((u - middle) / scale)
    rng = np.random.default_rng(0)
    names = np.unique(owner)
    repeated = []
    for _ in range(200):  # whole runs are drawn: cuts of one run depend on each other
        chosen = np.concatenate([np.flatnonzero(owner == name) for name in rng.choice(names, len(names))])
        if 0 < v[chosen].sum() < len(chosen):
            repeated.append(auc(score[chosen], v[chosen]))
    return {
        "cuts": len(v),
        "followed by a collapse": int(v.sum()),
        "auc": auc(score, v),
        "auc interval": np.quantile(repeated, [0.05, 0.95]).tolist(),
        "auc of each": {name: auc(u[:, i], v) for i, name in enumerate(SIGNS)},
    }


SIGNS: dict[str, Callable[[Mapping[str, np.ndarray]], float]] = {
    "variance of the reward": lambda s: _ratio(s["reward"], lambda x: np.diff(x).std()),
    "autocorrelation of the reward": lambda s: _lag_one(s["reward"]),
    "gradient norm": lambda s: _ratio(s["grad_norm"], np.median),
    "bursts of the gradient norm": lambda s: _ratio(s["grad_norm"], np.max),
    "entropy": lambda s: _ratio(s["entropy"], np.mean),
    "KL": lambda s: _ratio(s["kl"], np.mean),
    "share of clipped tokens": lambda s: _ratio(s["clip_ratio"], np.mean),
    "updates of a rollout": lambda s: float(np.log(s["interval"][0])),
    "learning rate": lambda s: float(np.log(max(s["learning_rate"][-1], 1e-12))),
}
"""Signs of what is to come, from the columns of a log up to now: late values against early ones, in logarithms."""


def _ratio(x: np.ndarray, of: Callable[[np.ndarray], Any]) -> float:
    x = x[np.isfinite(x)]
    k = len(x) // 3
    if k < 3:
        return 0.0
    late, early = abs(float(of(x[-k:]))), abs(float(of(x[:k])))
    return float(np.clip(np.log((late + 1e-6) / (early + 1e-6)), -5.0, 5.0))


def _lag_one(x: np.ndarray) -> float:
    x = x[np.isfinite(x)][-max(LEAST, len(x) // 3) :]
    away = x - np.polyval(np.polyfit(np.arange(len(x)), x, 1), np.arange(len(x)))
    return float(away[1:] @ away[:-1] / max(away @ away, 1e-12))


def _signs(logs: Sequence[LabLog]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Signs (n, signs), whether a collapse followed (n,), and whose run it was (n,)."""
    rows, followed, owner = [], [], []
    for x in logs:
        collapses = x.label == "dynamical_instability"
        for cut in cuts_of(x.run)[:-1]:
            step = x.run.step[cut - 1]
            if step >= x.onset:
                break
            columns = {k: v[:cut] for k, v in x.run.signals.items()}
            nothing = np.full(cut, np.nan)
            columns = {
                k: columns.get(k, nothing) for k in ("grad_norm", "entropy", "kl", "clip_ratio", "learning_rate")
            }
            interval = float(x.run.settings.refresh_interval.value or 1)
            columns |= {"reward": x.run.reward[:cut], "interval": np.array([interval])}
            rows.append([of(columns) for of in SIGNS.values()])
            followed.append(collapses and x.onset <= step + AHEAD * x.run.step[-1])
            owner.append(x.name)
    return np.nan_to_num(np.array(rows)), np.array(followed, bool), np.array(owner)


def _logistic(x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Ridge logistic regression."""

    def loss(w: np.ndarray) -> float:
        score = w[0] + x @ w[1:]
        return float(np.logaddexp(0.0, np.where(y, -score, score)).sum() + 0.5 * w[1:] @ w[1:])

    w = minimize(loss, np.zeros(x.shape[1] + 1), method="L-BFGS-B").x
    return lambda u: w[0] + u @ w[1:]


def auc(score: np.ndarray, happened: np.ndarray) -> float:
    """Probability that a case has a higher score than a non-case; ties count half."""
    cases = int(happened.sum())
    ranks = rankdata(score)[happened].sum()
    return float((ranks - cases * (cases + 1) / 2) / max(cases * (len(score) - cases), 1))
