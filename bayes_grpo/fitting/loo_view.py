"""A fit as ArviZ's leave-one-out functions read one.

The rows of a run depend on each other. What leave-one-out needs of a row is therefore its density given all other rows,
and no factor of the run's likelihood; the fit keeps the two apart, and this view puts the former where ArviZ looks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bayes_grpo.common.errors import FitFileError
from bayes_grpo.fitting.result import Fit

if TYPE_CHECKING:
    from xarray import DataTree


def loo_view(fit: Fit | DataTree) -> DataTree:
    """The leave-one-out terms of a fit under the names that ArviZ expects.

    For ``arviz.loo``, ``compare``, ``loo_pit``, ``loo_expectations`` and their plots:
    ``arviz.compare({"oscillator": loo_view(one), "flat": loo_view(other)})``. For leave-one-out alone: its terms do not
    add up to the likelihood, so that power scaling belongs on the fit itself.

    Args:
        fit: A fit, or its DataTree as ``arviz.from_netcdf`` reads it.

    Returns:
        DataTree with the parameters of the law in `posterior`, log p(row | all other rows, draw) in `log_likelihood`,
        values drawn from that conditional in `posterior_predictive`, each as ``y`` with the dimension ``step``, and
        `observed_data`.

    Raises:
        FitFileError: The DataTree is none of this package.
    """
    from xarray import DataTree

    tree = fit.data if isinstance(fit, Fit) else fit
    if "leave_one_out" not in tree.children or "priors" not in tree.attrs:
        raise FitFileError(
            f"expected a fit of bayes-grpo with the group leave_one_out, found the groups {', '.join(tree.children)}; "
            "fit the log again"
        )
    terms = tree["leave_one_out"].to_dataset()
    view = DataTree.from_dict(
        {
            # Derived quantities can be NaN, and ArviZ takes the mean efficiency over all that it finds here.
            "posterior": tree["posterior"].to_dataset()[list(json.loads(tree.attrs["priors"]))],
            "log_likelihood": terms[["log_density"]].rename(log_density="y").astype("float64"),
            "posterior_predictive": terms[["predicted"]].rename(predicted="y"),
            "observed_data": tree["observed_data"].to_dataset(),
        }
    )
    view.attrs.update(tree.attrs)
    return view
