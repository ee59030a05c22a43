"""Regime `bernoulli`: a Bernoulli policy under advantages divided by the group's standard deviation.

With the logit z of the success rate p and r the effective learning rate, dz/dt = r sqrt(p (1 - p)): an anharmonic
drift dp/dt = r (p (1 - p))^(3/2) that is slow near the floor, fastest at p = 1/2 and dies at the ceiling, which is
approached as 4/(r t)², not exponentially. The exact flow for many completions a group (GRPO, arXiv 2402.03300).
"""

from bayes_grpo.dynamics.flows import NORMALISED
from bayes_grpo.regimes.success import SuccessRegime


class Bernoulli(SuccessRegime):
    """The flow under normalized advantages; see the module's text."""

    name = "bernoulli"
    title = "success rate under std-normalised advantages (power-law tail 1/t²)"
    flow = NORMALISED
    spread = 1.5


REGIME = Bernoulli()
