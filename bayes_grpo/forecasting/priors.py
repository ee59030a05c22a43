"""Priors for forecasting: weak about where the reward will settle and when, not only about what was seen so far.

The default priors of a fit scale with the log: a plateau within 3 standard deviations of its rows, a time of a fifth
of its length. That describes a log whose curve has happened. Early in a run it has not: a reward that has not moved
yet has a small spread, and priors tied to it deny every later rise. So, for the laws with a trend,

- the law's time has the log's own length as median and ranges over two orders of magnitude: what is to come may take
  as long as what was seen;
- the plateau lies about the mean of the last rows plus 3 standard deviations of the rows, give or take 6: training
  moves the reward up more often than down, and by more than the rows have shown;
- a slow start looks flat for as long as it lasts, so what its rows have spread over says nothing of its plateau: of a
  reward whose rows all lie in [0, 1] (a share of successes), the laws with slow starts expect it half way up to 1,
  give or take all of the way, where that is more than the above;
- the start lies near the first rows;
- a slow start (a small initial success rate, a steep sigmoid) is as likely as a fast one; both range as widely as they
  do over public logs (2.5 logits, 1.1 e-folds over 125 logs of 15 repositories).

The fluctuation about every law, also about the one without a trend, may last as long as a good part of the log: where
the reward stands today is then worth something tomorrow, which the mean of the last rows takes for granted.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.regimes.base import Regime
from bayes_grpo.regimes.parameters import Prior
from bayes_grpo.rows.table import RowTable

_LAST = 10
"""Rows that say where the reward is now, at most; a third of the log where that is shorter."""
_SLOW = ("initial_success", "exponent")
"""Parameters that make a slow start."""
_TIMES = ("relaxation_time", "response_time", "half_gain_step", "midpoint", "learning_time")


def forecast_priors(regime: Regime, table: RowTable) -> dict[str, Prior]:
    """Prior overrides of a regime for forecasting; see the module's text.

    Args:
        regime: The law.
        table: Rows of the log up to the forecast's origin.

    Returns:
        Parameter name → prior.
    """
    names = {p.name for p in regime.parameters}
    lasting = Prior(table.length / 5.0, 1.2)
    if "initial_reward" not in names:
        return {"fluctuation_time": lasting} if "fluctuation_time" in names else {}
    n, spread = len(table.y), table.scale
    end = float(np.mean(table.y[-max(3, min(_LAST, n // 3)) :]))
    begin = float(np.mean(table.y[: max(3, n // 5)]))
    room = 1.0 - end if names & set(_SLOW) and table.is_share else 0.0
    reach = max(6.0 * spread, room)
    priors = {
        "fixed_point": Prior(end + 0.5 * reach, reach),
        "initial_reward": Prior(begin, 2.0 * spread),
        "fluctuation_time": lasting,
        "exponent": Prior(2.0, 1.0),
        "initial_success": Prior(0.12, 2.5),
    }
    priors |= {name: Prior(table.length, 1.25) for name in _TIMES}
    return {name: prior for name, prior in priors.items() if name in names}
