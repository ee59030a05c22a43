"""Regime `logistic`: a Bernoulli policy under advantages that are only centered (Dr. GRPO, arXiv 2503.20783).

With the logit z of the success rate p, dz/dt = r p (1 - p), where r = η (1 - 1/G) for groups of G: the expected
policy gradient of one logit, exactly. The reward's drift is then dp/dt = r (p (1 - p))², slower at both ends than
`bernoulli`, and the ceiling is approached as 1/(r t). The textbook's logistic curve, dp/dt = r p (1 - p), would need a
logit that moves at constant speed, which no centered advantage gives; a curve of that family is `sigmoid`.
"""

from bayes_grpo.dynamics.flows import CENTRED
from bayes_grpo.regimes.built_in.bernoulli import SuccessRegime


class Logistic(SuccessRegime):
    r"""The flow under centered advantages, :math:`\dot p = r\,u\,(p(1-p))^2`."""

    name = "logistic"
    title = "success rate under mean-only advantages (power-law tail 1/t)"
    on_request = True
    flow = CENTRED
    spread = 1.1  # as wide a prior of the curve's shape as 1.5 is for the normalized flow


REGIME = Logistic()
