"""Families of laboratory runs: what is set to go wrong, in wide ranges.

A draw depends on the family, the seed and the run's number alone. Every family starts from the settings of a healthy
run and applies its causes; whether they bite is judged afterwards (`deep_truth`). Runs that share their static
settings train side by side.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from bayes_grpo.simulate.settings import Numbers
from benchmarks.lab.settings import LabNumbers
from benchmarks.lab.setups import SETUPS, WARM_SEEDS, Setup

Cause = Literal[
    "plateau",
    "loophole",
    "length",
    "concentration",
    "explosion",
    "rate",
    "stale",
    "hard",
    "solved",
    "broken",
]
FamilyName = Literal[
    "healthy",
    "plateau",
    "hacking_loophole",
    "hacking_length",
    "concentration",
    "explosion",
    "collapse_rate",
    "collapse_stale",
    "too_hard",
    "solved",
    "broken_reward",
    "mixture",
]
MIXED: tuple[Cause, ...] = ("loophole", "length", "concentration", "explosion", "rate", "stale", "broken")
"""Causes that a mixture takes two of."""
_ADAM = tuple(setup for setup in SETUPS if setup.lab.structure.optimizer == "adam")
ABLE = tuple(setup for setup in SETUPS if setup.task != "brackets")
"""Setups whose small network learns all that there is to learn."""


@dataclass(frozen=True)
class Draw:
    """Settings of one run before it is trained.

    Attributes:
        family: What it was drawn from.
        index: Its number.
        setup: Static settings.
        numbers: Numeric settings, scalars.
        success: Success rate that the warm start is to have.
        warm_seed: Which fresh network.
        clumsy: Share of warm-up answers followed by more tokens.
        logging_steps: Steps averaged into a logged row.
        seed: Seed of its sampling.
        causes: What was set to go wrong.
    """

    family: str
    index: int
    setup: Setup
    numbers: LabNumbers
    success: float
    warm_seed: int
    clumsy: float
    logging_steps: int
    seed: int = 0
    causes: tuple[Cause, ...] = ()

    def base(self, **changes: float) -> Draw:
        """With other numbers of the optimizer and the loss."""
        return replace(self, numbers=self.numbers._replace(base=self.numbers.base._replace(**changes)))

    def reward(self, **changes: float) -> Draw:
        """With other weights of the reward, temperature or shortening of gradients."""
        return replace(self, numbers=self.numbers._replace(**changes))

    def moved(self, setup: Setup) -> Draw:
        """In another setup, at as much of its learning rate."""
        return replace(self, setup=setup).faster(setup.rate / self.setup.rate)

    def faster(self, factor: float) -> Draw:
        """With a higher learning rate."""
        return self.base(learning_rate=self.numbers.base.learning_rate * factor)


def draw_run(family: str, seed: int, index: int) -> Draw:
    """Draws the settings of a run.

    Args:
        family: One of `deep_families`.
        seed: Seed of the set, at least 0.
        index: The run's number within it.

    Returns:
        The draw.
    """
    rng = np.random.default_rng([seed, zlib.crc32(f"deep {family}".encode()), index])
    draw = replace(_healthy(rng), family=family, index=index)
    if family == "mixture":
        causes = tuple(MIXED[i] for i in sorted(rng.choice(len(MIXED), 2, replace=False)))
    else:
        causes = FAMILIES[family]
    for cause in causes:
        draw = CAUSES[cause](rng, draw)
    return replace(draw, seed=int(rng.integers(2**31)), causes=causes)


def deep_families() -> tuple[str, ...]:
    """Names of the families."""
    return get_args(FamilyName)


def _spread(rng: np.random.Generator, low: float, high: float) -> float:
    """A number that is as likely in any doubling of its range."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _healthy(rng: np.random.Generator) -> Draw:
    """Starts at a success rate of 0.05–0.45 and learns at about the rate of its setup."""
    setup = SETUPS[rng.integers(len(SETUPS))]
    adam = setup.lab.structure.optimizer == "adam"
    interval, epochs = ((1, 1), (1, 1), (2, 1), (2, 2), (4, 2))[rng.integers(5)]
    momentum = 0.9 if adam else rng.uniform(0.5, 0.9)
    base = Numbers(
        # A heavy ball moves by the rate over 1 − μ; a setup's rate is for μ = 0.9.
        learning_rate=setup.rate * _spread(rng, 0.5, 1.5) * (1.0 if adam else (1.0 - momentum) / 0.1),
        momentum=momentum,
        refresh_interval=interval,
        clip_high=rng.choice([0.2, 0.28]),
        kl_weight=rng.choice([0.0, 0.0, 0.001, 0.01, 0.04]),
        entropy_weight=rng.choice([0.0, 0.0, 0.001]),
        warmup_steps=int(rng.integers(0, 21)),
        adam_beta2=rng.choice([0.99, 0.999]),
    )
    numbers = LabNumbers(
        base=base,
        epochs=epochs,
        temperature=rng.choice([0.8, 1.0, 1.0, 1.2]),
        max_grad_norm=rng.choice([1.0 if adam else 5.0, np.inf]),
        partial=rng.choice([0.0, 0.0, 0.2]),
        ended=rng.choice([0.0, 0.0, 0.1]),
    )
    return Draw(
        family="healthy",
        index=0,
        setup=setup,
        numbers=numbers,
        success=rng.uniform(0.05, 0.45),
        warm_seed=int(rng.integers(WARM_SEEDS)),
        clumsy=0.5 if rng.random() < 0.3 else 0.0,
        logging_steps=int(rng.choice([1, 1, 2, 5, 10])),
    )


def _plateau(rng: np.random.Generator, draw: Draw) -> Draw:
    """A penalty that holds the policy near its start, or a rate that hardly moves it."""
    if rng.random() < 0.5:
        return draw.base(kl_weight=_spread(rng, 0.3, 3.0))
    return replace(draw, success=rng.uniform(0.2, 0.8)).faster(_spread(rng, 0.005, 0.03))


def _loophole(rng: np.random.Generator, draw: Draw) -> Draw:
    """A verifier that looks for the answer anywhere, and a policy that knows how to write on."""
    weight = rng.choice([0.0, 0.0, 0.2])
    draw = replace(draw, clumsy=0.5, success=rng.uniform(0.05, 0.3))
    return draw.reward(right=weight, anywhere=1.0, partial=0.0, ended=0.0, length=rng.choice([0.05, 0.15, 0.4]))


def _length(rng: np.random.Generator, draw: Draw) -> Draw:
    """A reward of long completions, or of those that end, heavier than that of the answer."""
    if rng.random() < 0.8:
        draw = replace(draw, clumsy=0.5, success=rng.uniform(0.1, 0.4))
        return draw.reward(length=_spread(rng, 1.5, 6.0), partial=0.0, ended=0.0)
    draw = replace(draw, clumsy=0.5, success=_spread(rng, 0.005, 0.03))
    return draw.reward(ended=_spread(rng, 2.0, 6.0), partial=0.0)


def _concentration(rng: np.random.Generator, draw: Draw) -> Draw:
    """Few of the answers are found before a large step takes the policy's entropy away."""
    # A heavy ball hardly moves while few groups have spread: it keeps its entropy. An answer of one token is the
    # easiest to settle on wrongly; longer ones rather collapse.
    short = rng.random() < 0.6
    usual = [setup for setup in _ADAM if (setup.task == "modular_sum") == short]
    draw = draw.moved(usual[rng.integers(len(usual))]).faster(_spread(rng, 5.0, 15.0))
    draw = replace(draw, success=_spread(rng, 0.02, 0.2))
    draw = draw.base(kl_weight=0.0, entropy_weight=0.0, clip_low=rng.choice([0.2, 10.0]), warmup_steps=0)
    return draw.reward(temperature=rng.choice([0.6, 0.8, 1.0]), partial=rng.choice([0.0, 0.3, 1.0]))


def _explosion(rng: np.random.Generator, draw: Draw) -> Draw:
    """An entropy bonus that outweighs the reward."""
    return draw.base(entropy_weight=_spread(rng, 0.2, 3.0), kl_weight=0.0).faster(_spread(rng, 1.0, 3.0))


def _rate(rng: np.random.Generator, draw: Draw) -> Draw:
    """A learning rate of 5 to 50 times what works."""
    draw = replace(draw, success=rng.uniform(0.2, 0.8)).faster(_spread(rng, 5.0, 50.0))
    return draw.base(kl_weight=rng.choice([0.0, 0.01])).reward(max_grad_norm=np.inf)


def _stale(rng: np.random.Generator, draw: Draw) -> Draw:
    """A sampling policy held for 8 to 32 steps, its gradients uncorrected or by ratios with and without clipping."""
    clip = float(rng.choice([0.2, 1e3]))
    draw = replace(draw, success=rng.uniform(0.2, 0.8)).faster(_spread(rng, 3.0, 20.0))
    draw = draw.base(
        refresh_interval=int(rng.choice([8, 16, 32])),
        lag_exposure=rng.choice([0.0, 1.0, 1.0]),
        clip_low=min(clip, 1.0),
        clip_high=clip,
        kl_weight=0.0,
    )
    return draw.reward(epochs=int(rng.choice([1, 2, 4])), max_grad_norm=np.inf)


def _hard(rng: np.random.Generator, draw: Draw) -> Draw:
    """A start that finds no answer, or hardly one."""
    draw = replace(draw, success=_spread(rng, 0.0005, 0.005)).faster(_spread(rng, 0.1, 0.7))
    return draw.reward(partial=0.0, ended=0.0)


def _solved(rng: np.random.Generator, draw: Draw) -> Draw:
    """A start that answers nearly everything."""
    draw = draw.moved(ABLE[rng.integers(len(ABLE))]).faster(_spread(rng, 0.03, 0.3))
    draw = replace(draw, clumsy=0.0, success=rng.uniform(0.97, 1.0))
    return draw.reward(partial=0.0, ended=0.0, temperature=rng.choice([0.6, 0.8, 1.0]))


def _broken(rng: np.random.Generator, draw: Draw) -> Draw:
    """The verifier fails: from a step on every completion gets the same reward."""
    steps = draw.setup.lab.structure.n_steps
    return draw.reward(broken_from=float(np.floor(steps * rng.uniform(0.15, 0.7))))


CAUSES: dict[Cause, Callable[[np.random.Generator, Draw], Draw]] = {
    "plateau": _plateau,
    "loophole": _loophole,
    "length": _length,
    "concentration": _concentration,
    "explosion": _explosion,
    "rate": _rate,
    "stale": _stale,
    "hard": _hard,
    "solved": _solved,
    "broken": _broken,
}
"""What each cause sets."""

FAMILIES: dict[str, tuple[Cause, ...]] = {
    "healthy": (),
    "plateau": ("plateau",),
    "hacking_loophole": ("loophole",),
    "hacking_length": ("length",),
    "concentration": ("concentration",),
    "explosion": ("explosion",),
    "collapse_rate": ("rate",),
    "collapse_stale": ("stale",),
    "too_hard": ("hard",),
    "solved": ("solved",),
    "broken_reward": ("broken",),
}
"""Causes of each family; a mixture draws its own."""
