"""What is known of a run when an action is chosen: numbers and yes or no, each from the logged rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from bayes_grpo.common.text import plain
from bayes_grpo.diagnosis.rows import Logged, RunSoFar, lost_strength
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.fallen import fallen_of
from bayes_grpo.events.learning_rate import rate_spent_at
from bayes_grpo.events.trend import Trend
from bayes_grpo.logs.run import Provenance, Run
from bayes_grpo.risk.failing import shared_rate
from bayes_grpo.rows.table import is_share


@dataclass(frozen=True, kw_only=True)
class Sign:
    """A sign of instability that a log shows.

    Attributes:
        words: What moved and how far, a clause.
        strong: Whether it is worth a look by itself.
    """

    words: str
    strong: bool


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What an action's conditions may ask.

    Attributes:
        rows: Logged rewards.
        failing: Probability that something fails.
        signs: Signs of instability in reward, held-out reward, gradient norm, entropy and KL.
        kl_known: Whether a KL is logged, or its weight is stated to be 0.
        held_out: Whether a held-out or gold reward is logged, or is what the run is judged by.
        checkpoint: Step of the best policy by what is logged; None where nothing can choose one.
        chosen_by: What chooses it, in words.
        rose: Whether the reward rose since the start.
        resting: Whether it has moved over its last half by no more than its noise, in enough rows.
        level: Where it stands, as a share of its range; NaN where that is unknown.
        solved: Whether a held-out reward stands at its top too, so that the task itself is solved.
        waste: Share of groups, or rows, without spread; NaN where no signal tells.
        all_wrong: Whether the reward was never above its lowest value.
        constant: Whether it was the same in every row.
        truncated: Share of completions that run into the limit; NaN where it is not logged.
        truncated_pays: Whether the reward stands higher, or rose more, than completions that end could earn.
        not_finite: Signals that are NaN at the end.
        learning_rate: Highest learning rate; None where it is unknown.
        shared_rate: The same on the scale that runs share; None where it has none.
        step_text: How a sentence names a step of this log.
        group_size: Completions a prompt; None where nobody states it.
        entropy: Whether an entropy is logged.
        noise: Standard deviation of a row.
        rate_spent: Step at which the learning rate ended; None where it has not.
        planned: Planned steps where the run has reached them; None elsewhere.
        falls: Components and environments that fall, in words.
        suggested: Column that was not recognized → keys of the log that it may be.
    """

    rows: int
    failing: float = 0.0
    signs: tuple[Sign, ...] = ()
    kl_known: bool = False
    held_out: bool = False
    checkpoint: float | None = None
    chosen_by: str = ""
    rose: bool = False
    resting: bool = False
    level: float = np.nan
    solved: bool = False
    waste: float = np.nan
    all_wrong: bool = False
    constant: bool = False
    truncated: float = np.nan
    truncated_pays: bool = False
    not_finite: tuple[str, ...] = ()
    learning_rate: float | None = None
    shared_rate: float | None = None
    step_text: Callable[[float], str] = "step {:.6g}".format
    group_size: float | None = None
    entropy: bool = False
    noise: float = np.nan
    rate_spent: float | None = None
    planned: float | None = None
    falls: tuple[str, ...] = ()
    suggested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def high(self) -> bool:
        """Whether the reward stands high in a range that is known."""
        return self.level > BORDERS.near_top

    @property
    def top(self) -> bool:
        """Whether it stands at the top of it."""
        return self.level > BORDERS.solved


def facts_of(trends: RunTrends, rows: RunSoFar, failing: float, not_finite: tuple[str, ...] = ()) -> Facts:
    """The facts of a run.

    Args:
        trends: Trends of the run, for its settings.
        rows: All of its rows.
        failing: Probability that something fails.
        not_finite: Signals that are NaN at the end.
    """
    run, y, held = trends.run, rows.reward, rows.held_out
    rate = _highest_rate(run)
    settings = run.settings
    weight, group, total = settings.kl_weight, settings.group_size, settings.total_steps
    no_kl = weight.value is not None and weight.provenance is not Provenance.ASSUMED and float(weight.value) == 0.0
    cut = rows.signals.get("completions_clipped_ratio")
    truncated = np.nan if cut is None or not cut.rows else float(np.median(cut.late(BORDERS.late_part)))
    judged = held if held.rows >= BORDERS.least_rows else (y if rows.uses_eval else None)
    step, by = _checkpoint(trends.reward, rows, judged)
    planned = total.value if total.value and total.provenance is not Provenance.ASSUMED else None
    return Facts(
        rows=y.rows,
        failing=failing,
        signs=_signs(rows),
        kl_known="kl" in rows.signals or no_kl,
        held_out=judged is not None,
        checkpoint=step,
        chosen_by=by,
        rose=rows.rose,
        resting=y.rows >= BORDERS.waste_rows and abs(rows.late_change) <= 1.0,
        level=float(min(rows.level, 1.0)) if rows.has_range else np.nan,
        solved=judged is not None and is_share(judged.value) and judged.now > BORDERS.solved,
        waste=rows.waste,
        all_wrong=rows.has_range and bool(np.all(y.value <= rows.low)),
        constant=rows.constant,
        truncated=truncated,
        truncated_pays=bool(truncated > BORDERS.truncated) and (rows.rise > 1.0 or rows.level > 1.0 - truncated),
        not_finite=not_finite,
        learning_rate=rate,
        shared_rate=shared_rate(rate, settings.momentum_convention.value),
        step_text=run.step_text,
        group_size=float(group.value) if group.value and float(group.value) >= 2 else None,
        entropy="entropy" in rows.signals,
        noise=y.noise,
        rate_spent=rate_spent_at(run.step, run.signals.get("learning_rate")),
        planned=float(planned) if planned is not None and len(run.step) and run.step[-1] >= planned else None,
        falls=_falls(run),
    )


def _highest_rate(run: Run) -> float | None:
    """Highest learning rate, stated or logged."""
    stated = run.settings.learning_rate.value
    if stated is not None:
        return float(stated)
    rates = run.signals.get("learning_rate", np.empty(0))
    rates = rates[np.isfinite(rates) & (rates > 0.0)]
    return float(rates.max()) if len(rates) else None


def _checkpoint(trend: Trend, rows: RunSoFar, judged: Logged | None) -> tuple[float | None, str]:
    """The step before which a checkpoint is best: by a held-out reward, else by a train reward that is being lost."""
    if judged is not None:
        best = float(judged.step[int(np.argmax(judged.value))])
        return (best, "held-out score") if best > rows.reward.step[0] else (None, "")  # before it nothing was learned
    y = rows.reward
    if lost_strength(y, rows.low, rows.high, BORDERS.trend_rows) > 1.0:
        fallen = fallen_of(trend, rows.span, rows.low)  # what forecast and decision go by
        step = y.step[int(y.means.argmax()) + y.window - 1] if fallen is None else fallen.best_step
        return float(step), "train reward"
    return None, ""


def _signs(rows: RunSoFar) -> tuple[Sign, ...]:
    """Signs of instability, the strongest first."""
    found = []
    for name, y in (("the reward", rows.reward), ("the held-out score", rows.held_out)):
        if y.rows < BORDERS.held_out_rows - 1:
            continue
        fall = y.best - y.now
        unit = is_share(y.value)
        if fall > BORDERS.going_errors * y.error and fall > BORDERS.sign_fall * (y.best if unit else np.ptp(y.value)):
            clear = y is not rows.reward and fall > BORDERS.gain_errors * y.error
            found.append(Sign(words=f"{name} fell from {y.best:.2g} to {y.now:.2g}", strong=clear))
    for name, signal, most, strong in (
        ("the gradient norm", "grad_norm", BORDERS.sign_grad, BORDERS.strong_grad),
        ("the entropy", "entropy", BORDERS.calm_entropy, np.inf),
        ("the KL", "kl", BORDERS.kl_times, np.inf),
    ):
        w = rows.signals.get(signal)
        if w is None or w.rows < BORDERS.trend_rows:
            continue
        size = np.abs(w.value)
        quarter = len(size) // BORDERS.late_part
        early, late = float(np.median(size[:quarter])), float(np.quantile(size[-quarter:], 0.75))
        if signal == "kl" and late < BORDERS.calm_kl:
            continue
        if early > 0.0 and late > most * early:
            words = f"{name} grew {late / early:.2g}-fold, from {early:.2g} to {late:.2g}"
            found.append(Sign(words=words, strong=late > strong * early))
    return tuple(sorted(found, key=lambda s: not s.strong))


def _falls(run: Run) -> tuple[str, ...]:
    """Components and environments in [0, 1] that are being lost."""
    out = []
    for name, values in {**run.components, **run.environments}.items():
        part = Logged.of(run.step, values)
        if is_share(part.value) and lost_strength(part, 0.0, 1.0, BORDERS.trend_rows) > 1.0:
            out.append(f"{plain(name, 40)} fell from {part.best:.2g} to {part.now:.2g}")
    return tuple(out)
