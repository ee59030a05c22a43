"""Reward hacking: the train reward rises and what it stands for does not.

    coupling C = ΔR_held-out / ΔR_train       (1: all of it carries over; 0: none; negative: gold turns over)

Both curves have their own noise, so the coupling is a ratio of draws of two trends. The turnover is the fall of
the held-out reward from its best while the train reward went on rising (over-optimisation, Gao et al. 2022,
https://arxiv.org/abs/2210.10760). The KL to the reference growing on when the reward no longer does is weak evidence,
and all there is without a held-out signal.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import interval
from bayes_grpo.diagnosis.components import reward_functions
from bayes_grpo.diagnosis.coupling import coupling, turnover
from bayes_grpo.diagnosis.evidence import ModeEvidence, quantity, span_text
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.rows import RunSoFar
from bayes_grpo.diagnosis.thresholds import THRESHOLDS
from bayes_grpo.diagnosis.trend import Trend
from bayes_grpo.diagnosis.trends import RunTrends
from bayes_grpo.rows.table import is_share


class RewardHacking(Mode):
    """Reward hacking."""

    name = "reward_hacking"
    label = "reward hacking"
    signals = ("kl", "completion_length")
    shown_by = "a held-out or gold reward"
    is_defined = True

    def evidence(self, trends: RunTrends) -> ModeEvidence:
        """Coupling, turnover and growth of the KL."""
        train = trends.reward
        quantities, used, missing, parts = [], [], [], []
        held = trends.held_out
        name = "gold" if trends.held_out_name == "gold_reward" else "held-out"
        if held is not None:
            first, last = max(train.step[0], held.step[0]), min(train.step[-1], held.step[-1])
            if last > first:
                used += ["eval_reward" if trends.held_out_name == "eval_reward" else "gold_reward"]
                carried = coupling(train, held, first, last)
                quantities += [
                    quantity("coupling", carried, "", "change of the held-out reward over that of the train reward"),
                    quantity(
                        "turnover",
                        turnover(train, held, first, last)[0],
                        "reward",
                        "fall of the held-out reward from its best while the train reward rose",
                    ),
                ]
                c = quantities[0].posterior
                parts.append(
                    f"the {name} reward moved {c.median:.2f} [{c.low:.2f}, {c.high:.2f}] ({c.level:.0%}) for each "
                    f"unit of the train reward"
                )
        else:
            missing.append("gold or held-out reward beside the train reward")
            changed = float(np.median(train.change()))
            parts.append(
                f"the log has a held-out reward alone, which changed by {changed:.3g}: where it falls, hacking and "
                "instability look alike, and the train reward would tell"
                if trends.uses_eval
                else "no held-out signal beside the train reward, so a hacked and an honest rise look alike"
            )
        kl = trends.signals.get("kl")
        if kl is not None:
            used.append("kl")
            ahead = _ahead(trends)
            quantities.append(quantity("kl_ahead", ahead, "", "share of the KL gained in the second half minus the "
                                       "reward's share"))  # fmt: skip
            more = float(ahead.mean())
            by, side = f"{abs(more):.2f}", "above" if more > 0 else "below"
            than = f"{by} {side} the reward's" if float(by) else "that of the reward"
            parts.append(f"the share of the KL's growth that lies in the second half is {than}")
        else:
            missing.append("kl")
        functions = reward_functions(trends)
        if functions is not None and functions.sentence:
            used.append("components")
            quantities += functions.quantities
            parts.append(functions.sentence)
            if held is not None and functions.rises is not None and quantities[0].posterior.high < THRESHOLDS.half:
                parts.append(f"the rise of {functions.rises.name} is what the {name} reward does not share")
        length = trends.signals.get("completion_length")
        if length is not None:
            used.append("completion_length")
            change = np.exp(length.change())
            meaning = "completion length at the end over that at the start"
            quantities.append(quantity("length_ratio", change, "", meaning))
        return ModeEvidence(self.name, np.nan, tuple(quantities), tuple(used), tuple(missing), "; ".join(parts))

    def strength(self, rows: RunSoFar) -> float:
        """The train reward has risen; the held-out one stays at nothing, or has lost what it had."""
        train, held = rows.reward, rows.held_out
        if held.rows < THRESHOLDS.least_rows:
            return np.nan
        if train.rows < THRESHOLDS.trend_rows:
            return 0.0
        gain, share = train.now - train.start, is_share(held.value)
        rose = min(gain / (THRESHOLDS.fall_errors * train.error), gain / (THRESHOLDS.hack_rise * rows.span))
        hollow = 0.0
        if share and rows.has_range and held.now - held.start < THRESHOLDS.hack_shared * gain:
            hollow = min(THRESHOLDS.hollow / max(held.now, 1e-6), rows.level / THRESHOLDS.stands)
        top = float(held.value.max())
        fall, level = top - held.now, top - (0.0 if share else float(held.value.min()))
        turned = 0.0
        if held.rows >= THRESHOLDS.held_out_rows - 1 and held.now <= held.start + held.error:
            turned = min(fall / (THRESHOLDS.fall_errors * held.error), fall / max(THRESHOLDS.turned * level, 1e-9))
        return min(rose, max(hollow, turned))

    def depth(self, trends: RunTrends, first: float, last: float) -> str:
        """How both rewards moved up to the end of the episode."""
        train, held = trends.reward, trends.held_out
        if held is None:
            return ""
        name = "gold" if trends.held_out_name == "gold_reward" else "held-out"
        begin, end = max(train.step[0], held.step[0]), min(last, held.step[-1])
        if end <= begin:
            return ""
        rise, carried = interval(train.change(begin, end)), interval(held.change(begin, end))
        return (
            f"since step {begin:g} the train reward changed by {span_text(rise, '.2g')}, the {name} one by "
            f"{span_text(carried, '.2g')}"
        )


def _ahead(trends: RunTrends) -> np.ndarray:
    """Draws of the KL's share of growth in the second half minus the reward's, each kept within [-1, 2]."""
    kl, train = trends.signals["kl"], trends.reward
    first, last = train.step[0], train.step[-1]
    middle = 0.5 * (first + last)

    def late_share(trend: Trend) -> np.ndarray:
        whole, late = trend.change(first, last), trend.change(middle, last)
        size = np.abs(whole) + trend.noise_sd
        return np.clip(late / size, -1.0, THRESHOLDS.late_share_most)

    return late_share(kl) - late_share(train)


MODE = RewardHacking()
