"""The seam between a regime and everything that fits, compares or forecasts it.

A regime is a law of the reward curve, and one file: its parameters in physical words with weak priors, and how they
become a state space on the rows of a log. What nearly every law has in common is a default here, so that a file says
only what its law is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bayes_grpo.regimes.curve import Curve
from bayes_grpo.rows.padding import Rows
from bayes_grpo.rows.table import RowTable

if TYPE_CHECKING:
    from bayes_grpo.regimes.distribution import RowsDistribution


@dataclass(frozen=True)
class Regime(Curve):
    """A law of the reward curve.

    A subclass states `name`, `title`, `parameters` and `state_space`; the rest has defaults, see `Curve`. Without
    fields of its own it needs no decorator; with fields (options of the law) it is a frozen dataclass. Instances are
    hashable, because compiled programs are kept by them.
    """

    def distribution(self, values: Mapping[str, Any], rows: Rows) -> RowsDistribution:
        """The law on rows as a NumPyro distribution; see `bayes_grpo.regimes.distribution`.

        Args:
            values: Every parameter by name, in its unit; batch shapes broadcast. A linear parameter may be a pair
                (mean, sd) instead: it is then integrated out under that normal prior.
            rows: Rows, from `bayes_grpo.rows.padding`.

        Returns:
            A distribution over the logged values, event shape (T,); NaN is a missing value.
        """
        # NumPyro takes a second to import.
        from bayes_grpo.regimes.distribution import rows_distribution

        return rows_distribution(self, values, rows)

    def model(self, rows: RowTable, priors: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The law as a NumPyro model that `numpyro.infer.MCMC` takes; see `bayes_grpo.regimes.model`.

        Args:
            rows: Rows of a log, from `bayes_grpo.rows_of`.
            priors: Overrides, parameter → NumPyro distribution, or (median, spread).

        Returns:
            Every parameter by name.
        """
        from bayes_grpo.regimes.model import model

        return model(self, rows, priors)
