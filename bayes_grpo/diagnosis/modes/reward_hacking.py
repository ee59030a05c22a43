"""Reward hacking: the train reward rises and what it stands for does not.

    coupling C = ΔR_held-out / ΔR_train       (1: all of it carries over; 0: none; negative: gold turns over)

Both curves have their own noise, so the coupling is a ratio of draws of two courses. The turnover is the fall of
the held-out reward from its best while the train reward went on rising (over-optimisation, Gao et al. 2022,
https://arxiv.org/abs/2210.10760). The KL to the reference growing on when the reward no longer does is weak evidence,
and all there is without a held-out signal.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.common.intervals import Interval, interval
from bayes_grpo.diagnosis.advice import span_text
from bayes_grpo.diagnosis.components import parts_of
from bayes_grpo.diagnosis.courses import Courses
from bayes_grpo.diagnosis.events import coupling, sure, turnover, uncoupled
from bayes_grpo.diagnosis.evidence import Evidence, quantity
from bayes_grpo.diagnosis.mode import Mode
from bayes_grpo.diagnosis.onset import last_true, steps_between
from bayes_grpo.diagnosis.trend import Trend


class RewardHacking(Mode):
    """Reward hacking."""

    name = "reward_hacking"
    label = "reward hacking"
    signals = ("kl", "completion_length")

    def evidence(self, courses: Courses) -> Evidence:
        """Coupling, turnover and growth of the KL."""
        train = courses.progress
        features: dict[str, float] = {"uncoupled": np.nan}
        quantities, used, missing, parts = [], [], [], []
        probability = np.nan
        held = courses.held_out
        name = "gold" if courses.held_out_name == "gold_reward" else "held-out"
        if held is not None:
            first, last = max(train.step[0], held.step[0]), min(train.step[-1], held.step[-1])
            if last > first:
                used += ["eval_reward" if courses.held_out_name == "eval_reward" else "gold_reward"]
                carried = coupling(train, held, first, last)
                event = uncoupled(courses, held, first, last)
                probability = float(np.mean(event))
                features["uncoupled"] = sure(event)
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
                if courses.uses_eval
                else "no held-out signal beside the train reward, so a hacked and an honest rise look alike"
            )
        kl = courses.signals.get("kl")
        if kl is not None:
            used.append("kl")
            ahead = _ahead(courses)
            quantities.append(quantity("kl_ahead", ahead, "", "share of the KL gained in the second half minus the "
                                       "reward's share"))  # fmt: skip
            parts.append(f"the KL's growth in the second half runs {ahead.mean():+.2f} against the reward's")
        else:
            missing.append("kl")
        functions = parts_of(courses)
        if functions is not None and functions.sentence:
            used.append("components")
            quantities += functions.quantities
            parts.append(functions.sentence)
            if held is not None and functions.rises is not None and probability > 0.5:
                parts.append(f"the rise of {functions.rises.name} is what the {name} reward does not share")
        length = courses.signals.get("completion_length")
        if length is not None:
            used.append("completion_length")
            change = np.exp(length.change())
            meaning = "completion length at the end over that at the start"
            quantities.append(quantity("length_ratio", change, "", meaning))
        return Evidence(
            self.name, probability, tuple(quantities), tuple(used), tuple(missing), "; ".join(parts), features
        )

    def onset(self, courses: Courses) -> tuple[np.ndarray, str] | None:
        """Where the train reward's rise and the held-out reward's part for the last time."""
        train, held = courses.progress, courses.held_out
        if held is None:
            return None
        first, last = max(train.step[0], held.step[0]), min(train.step[-1], held.step[-1])
        if last <= first:
            return None
        steps = steps_between(first, last)
        rise, carried = train.at(steps), held.at(steps)
        gap = (rise - rise[:, :1]) - (carried - carried[:, :1])
        small = gap <= 0.15 * np.maximum(gap[:, -1:], 1e-12)
        return steps[last_true(small)], "train and held-out reward part"

    def remedies(self, courses: Courses, evidence: Evidence, onset: Interval | None) -> tuple[str, ...]:
        """The checkpoint before, a look at the completions, a tighter KL."""
        out = []
        if onset is not None:
            out.append(f"go back to the checkpoint of about step {onset.median:.0f}, where the two rewards part")
        if courses.held_out is None:
            out.append("log a held-out or gold reward every 10 to 20 steps: without one this cannot be confirmed")
        else:
            out.append(
                "read 20 completions of the last steps with a high train and a low held-out reward; mend the reward"
            )
        functions = parts_of(courses)
        if functions is not None and functions.rises is not None:
            out.append(f"the reward function that rises is {functions.rises.name}: bound it or lower its weight")
        kl = courses.signals.get("kl")
        if kl is None:
            out.append("log the KL to the reference, and raise its weight or stop at a KL budget")
        elif onset is None:
            out.append(f"raise the KL weight or stop at a KL budget below {_kl(courses, kl.step[-1])}, where it stands")
        else:
            then, now = _kl(courses, onset.median), _kl(courses, kl.step[-1])
            out.append(f"raise the KL weight, or stop at a KL budget of {then}: there the two parted, now it is {now}")
        return tuple(out)


def _kl(courses: Courses, step: float) -> str:
    """The KL at a step with its interval."""
    return span_text(interval(courses.signals["kl"].at(np.array([step]))[:, 0]))


def _ahead(courses: Courses) -> np.ndarray:
    """Draws of the KL's share of growth in the second half minus the reward's, each kept within [-1, 2]."""
    kl, train = courses.signals["kl"], courses.progress
    first, last = train.step[0], train.step[-1]
    middle = 0.5 * (first + last)

    def late_share(course: Trend) -> np.ndarray:
        whole, late = course.change(first, last), course.change(middle, last)
        size = np.abs(whole) + course.noise_sd
        return np.clip(late / size, -1.0, 2.0)

    return late_share(kl) - late_share(train)


MODE = RewardHacking()
