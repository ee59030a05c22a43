"""Weak priors for forecasting, on the plateau and on the time scale.

The default priors of a fit scale with the log: a plateau within 3 standard deviations of its rows, a time of a fifth
of its length. They suit a complete curve. Early in a run the rows have a small spread, and such priors exclude every
later rise. So, for the regimes with a trend,

- the time scale has the length of the log as median and ranges over two orders of magnitude: the future may take as
  long as the past;
- the plateau has the mean of the last rows plus 3 standard deviations of the rows as center, and 6 as scale: training
  raises the reward more often than it lowers it, and by more than the rows show;
- a slow start looks flat, so the spread of its rows does not inform its plateau: for a reward with all rows in [0, 1]
  (a share of successes), the regimes with slow starts center it half way up to 1, with the whole way as scale, where
  that is more than the above;
- the start lies near the first rows;
- a slow start (a small initial success rate, a steep sigmoid) is as likely as a fast one; both range as widely as over
  public logs (2.5 logits, 1.1 e-folds over 125 logs of 15 repositories).

The fluctuation around every regime, also around the flat one, may last as long as a large part of the log: the present
reward then informs the next rows, as in the last-value forecaster.
"""

from __future__ import annotations

import numpy as np

from bayes_grpo.regimes.base import Prior, Regime
from bayes_grpo.rows.series import Series, is_share

_LAST = 10
"""Maximum number of last rows for the present reward; a third of the log where that is shorter."""
_SLOW = ("initial_success", "exponent")
"""Parameters of a slow start."""
_TIMES = ("relaxation_time", "response_time", "half_gain_step", "midpoint", "learning_time")


def forecast_priors(regime: Regime, table: Series) -> dict[str, Prior]:
    """Prior overrides of a regime for forecasting; see the module's text.

    Args:
        regime: The regime.
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
    room = 1.0 - end if names & set(_SLOW) and is_share(table.y) else 0.0
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
