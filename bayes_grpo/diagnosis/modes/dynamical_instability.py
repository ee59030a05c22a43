"""Dynamical instability: damping near or below zero, bursts, and a fall after a rise.

The damping is that of the reward's trend (`bayes_grpo.diagnosis.damping`). A fall is how far the trend ends below its
best; fluctuation is set against what sampling so many completions explains; bursts are rows of gradient norm and KL far
above their own trend.
"""

from __future__ import annotations

import math

import numpy as np

from bayes_grpo.common.intervals import LEVEL, Interval, interval, probability_text
from bayes_grpo.diagnosis.advice import fails_at, fails_fresh, rate_times, setting_text, span_text, swings_of
from bayes_grpo.diagnosis.evidence import ModeEvidence, quantity
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import RunRows, lost_strength
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.dynamics.thresholds import critical_gain
from bayes_grpo.events.borders import BORDERS
from bayes_grpo.events.collapse import best_so_far, collapsed, declined, fallen
from bayes_grpo.events.fallen import fallen_of, last_near_best
from bayes_grpo.events.swings import swing_sd
from bayes_grpo.logs.run import Provenance
from bayes_grpo.rows.table import is_share

_MARGIN = (
    "learning time over refresh interval; the rule asks for more than 1, but from a lagged curve it is met by "
    "construction"
)
_FACTORS = tuple(np.geomspace(1.0, BORDERS.slowest, 40).tolist())
"""Factors on the learning rate that a linear law is trusted to advise, the largest first."""


def _swinging(trends: RunTrends) -> bool:
    """Whether the reward swings rather than falls: then the spread of its rows tells when it began, not its best."""
    return trends.swinging > BORDERS.probable


class DynamicalInstability(Mode):
    """Dynamical instability."""

    name = "dynamical_instability"
    label = "dynamical instability"
    signals = ("grad_norm", "kl")
    is_defined = True

    def evidence(self, trends: RunTrends) -> ModeEvidence:
        """Damping, fall after a rise, fluctuation beyond sampling noise, bursts."""
        trend = trends.reward
        quantities, missing = [], []
        parts: list[tuple[bool, str]] = []  # whether it speaks for the mode, and what it says
        used = ["eval_reward" if trends.uses_eval else "reward"]
        reach = trends.span
        lost, sank = collapsed(trend, reach, trends.low), declined(trend, reach)
        quantities.append(quantity("fall", fallen(trend), "reward", "from the best of the trend to its end"))
        f = quantities[0].posterior
        fell, swung = float(np.mean(lost | sank)), trends.swinging
        ends = f"the reward ends {span_text(f, '.3g')} below its best"
        parts.append((fell > BORDERS.probable, ends))
        probability = 1.0 - (1.0 - fell) * (1.0 - swung)
        damping = trends.damping
        if damping is not None:
            drawn = np.random.default_rng(0).choice(len(damping.weight), 2000, p=damping.weight)
            ratio = damping.damping_ratio[drawn]
            quantities.append(quantity("damping_ratio", ratio, "", "ζ = c / (2 sqrt(mk)): below 1 oscillatory, below 0 "
                                       "unstable"))  # fmt: skip
            unstable, slow, swing, growing = map(
                probability_text, (damping.unstable, damping.underdamped, damping.oscillates, damping.swings_grow)
            )
            size = (
                f"the reward swings by {swing_sd(trend):.2g} (sd) about its trend: " if swung > BORDERS.probable else ""
            )
            law = f"by a linear law undamped with probability {unstable}, weakly damped with {slow}; "
            law += f"a full swing in the log {swing}, one that"
            if (
                fell <= BORDERS.probable or swung > BORDERS.probable
            ):  # a fall is no swing, whatever a linear law makes of it
                parts.append((swung > BORDERS.probable, f"{size}{law} grows {growing}"))
            held = trends.run.settings.refresh_interval
            if held.value and held.provenance is not Provenance.ASSUMED:
                steps = damping.response_time[drawn] * (trend.step[-1] - trend.step[0])
                quantities.append(quantity("stability_margin", steps / float(held.value), "", _MARGIN))
        norms = _norms(trends)
        if len(norms):
            used.append("grad_norm")
            burst = float(norms.max() / np.median(norms))
            parts.append((burst > BORDERS.calm_burst, f"largest gradient norm {burst:.3g} times the median"))
        elif "grad_norm" not in trends.run.signals:
            missing.append("grad_norm")
        kl = trends.signals.get("kl")
        if kl is None:
            missing.append("kl")
        else:
            used.append("kl")
        said = "; ".join(text for _, text in sorted(parts, key=lambda part: not part[0]))
        return ModeEvidence(self.name, probability, tuple(quantities), tuple(used), tuple(missing), said)

    def strength(self, rows: RunRows) -> float:
        """A reward or a held-out reward that is lost, a gradient norm or a KL that has exploded."""
        y, held = rows.reward, rows.held_out
        found = [lost_strength(y, rows.low, rows.high, BORDERS.trend_rows)]
        ends = (0.0, 1.0) if is_share(held.value) else (np.nan, np.nan)
        found.append(lost_strength(held, *ends, BORDERS.held_out_rows))
        norm, kl = (rows.signals.get(name) for name in ("grad_norm", "kl"))
        if norm is not None and norm.rows >= BORDERS.burst_rows:
            early, _, peak = _bursts(norm.value)
            found.append(peak / max(BORDERS.grad_times * early, 1e-12) if early > 0.0 else 0.0)
        if kl is not None and kl.rows >= BORDERS.burst_rows:
            _, usual, peak = _bursts(kl.value)
            found.append(min(peak / BORDERS.kl_high, peak / (BORDERS.kl_times * max(usual, BORDERS.least_kl))))
        return max(found)

    def began(self, rows: RunRows) -> Interval | None:
        """From the best of what is lost to where half of the fall was over."""
        return _began(rows)

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """How far the reward lies below its best so far at its worst, or how wide it swings."""
        trend = trends.reward
        inside = (trend.step >= first) & (trend.step <= last)
        fall = (best_so_far(trend) - trend.draws)[:, inside].max(axis=1)
        if _swinging(trends) and float(np.median(fall)) < BORDERS.decline * trends.span:
            return f"the reward swings by {swing_sd(trend):.2g} (sd) about its trend"
        return f"the reward falls {span_text(interval(fall), '.2g')} below its best"

    def remedies(self, trends: RunTrends, evidence: ModeEvidence, onset: Interval | None) -> tuple[str, ...]:
        """The checkpoint before, a smaller learning rate times refresh interval, clipped gradients."""
        run, out = trends.run, []
        if onset is not None:
            lost = fallen_of(trends.reward, trends.span, trends.low)
            swung = lost is None and _swinging(trends)
            at_once = onset.median <= trends.reward.step[BORDERS.first_rows - 1] or (lost is not None and lost.at_once)
            if at_once:
                out.append(f"start anew: the reward {'swings' if swung else 'was lost'} from its first rows on")
            else:  # where the reward is lost, a decision goes back to the same checkpoint
                near = last_near_best(trends.reward, onset.median) if lost is None else lost.best_step
                back = onset.median if swung else near
                when = "before it began to swing" if swung else "when the reward was last near its best"
                out.append(f"stop, and go back to the checkpoint of about step {back:.0f}, {when}")
        out += [*_slower(trends), *_fresher(trends)]
        norms = _norms(trends)
        if not len(norms):
            out.append("log and clip the gradient norm")
        else:
            usual, most = float(np.median(norms)), float(norms.max())
            found = f"its median is {usual:.2g}, its largest {most:.2g}"
            if most > BORDERS.clip * usual:
                out.append(f"clip the gradient norm at about {BORDERS.clip * usual:.2g}: {found}")
            else:
                out.append(f"the gradient norm had no bursts ({found}): clipping it would change little")
        prompts = run.settings.prompts_per_step
        more = f" ({setting_text('B', prompts)}; {4 * float(prompts.value):g} would halve it)" if prompts.value else ""
        out.append(f"more prompts a step if the fluctuation is the batch's{more}")
        return tuple(out)


def _began(rows: RunRows) -> Interval | None:
    """Steps between the best mean of what is lost and the first mean below half of the fall."""
    ends = (0.0, 1.0) if is_share(rows.held_out.value) else (np.nan, np.nan)
    for y, low, high, least in (
        (rows.reward, rows.low, rows.high, BORDERS.trend_rows),
        (rows.held_out, *ends, BORDERS.held_out_rows),
    ):
        if lost_strength(y, low, high, least) > 1.0:
            best = int(y.means.argmax())
            half = best + int(np.argmax(y.means[best:] < y.best - BORDERS.half * (y.best - y.now)))
            first, last = (float(y.step[i + y.window - 1]) for i in (best, half))
            return Interval(0.5 * (first + last), first, last, LEVEL)
    return None


def _bursts(values: np.ndarray) -> tuple[float, float, float]:
    """Sizes of a signal: median of its first quarter, of the rest, and of the highest quarter of the rest."""
    size, quarter = np.abs(values), len(values) // BORDERS.late_part
    rest = np.sort(size[quarter:])
    highest = rest[-max(BORDERS.least_rows, quarter // BORDERS.late_part) :]
    return float(np.median(size[:quarter])), float(np.median(rest)), float(np.median(highest))


def _norms(trends: RunTrends) -> np.ndarray:
    """Gradient norms of the rows that had a gradient; empty where there are too few for a trend."""
    trend = trends.signals.get("grad_norm")
    return np.empty(0) if trend is None else np.exp(trend.raw)


def _slower(trends: RunTrends) -> list[str]:
    """A smaller learning rate, with what the dynamics expect of it where the trend swings."""
    run = trends.run
    found, half = swings_of(trends), f"lower {rate_times(run, BORDERS.slower)} first"
    others = (
        f"; beside public runs that failed, half the rate has {fails_at(run, BORDERS.slower, True)}, a fifth "
        f"{fails_at(run, 0.2, True)}"
    )
    if found is None:
        return [f"{half}: the trend shows no swing that would tell how far it is above the border of stability{others}"]
    known = [
        setting_text("momentum", run.settings.momentum),
        setting_text("refresh interval", run.settings.refresh_interval),
    ]
    now, then = interval(found.damping_ratio), interval(found.damping_at(BORDERS.slower))
    line = (
        f"{half}: with {' and '.join(x for x in known if x)} and a damping ratio of {span_text(now)} one expects "
        f"{span_text(then)} there"
    )
    border = interval(found.border)
    if np.isfinite(border.median) and border.median < BORDERS.border_far:
        line += f"; the border of stability lies at about {rate_times(run, border.median).rpartition('to ')[2]}"
    calm = [f for f in _FACTORS if np.median(found.damping_at(f)) >= BORDERS.calm_damping]
    if calm and calm[0] < BORDERS.slower:
        line += f"; swings would end at about {rate_times(run, calm[0]).rpartition('to ')[2]}"
    return [line + others]


def _fresher(trends: RunTrends) -> list[str]:
    """A fresher sampling policy, where it is held for more than one step."""
    settings = trends.run.settings
    held, momentum = settings.refresh_interval.value, settings.momentum.value
    if not held or float(held) <= 1.0 or momentum is None:
        return []
    now, then = (critical_gain(float(momentum), math.ceil(float(k)), "hold") for k in (held, 1))
    stated = setting_text("refresh interval", settings.refresh_interval)
    return [
        f"refresh the sampling policy every step ({stated}): the border of stability moves up by a "
        f"factor of {then / now:.2g}, from a gain of {now:.2g} to {then:.2g} "
        f"({fails_fresh(trends.run, float(held))})"
    ]


MODE = DynamicalInstability()
