"""The rows that a fit was made on, rebuilt from the fit alone, so that a loaded fit can do all that a new one can."""

from __future__ import annotations

from bayes_grpo.fitting.result import Fit
from bayes_grpo.logs.run import Provenance
from bayes_grpo.rows.table import Optimizer, RowTable


def rows_of_fit(fit: Fit) -> RowTable:
    """The rows of a fit.

    Args:
        fit: A fit, new or loaded.

    Returns:
        The same rows as `bayes_grpo.rows.table.rows_of` gave when the fit was made.
    """
    attrs, constant = fit.data.attrs, fit.data["constant_data"].dataset
    rested_on = [fit.settings.get(name, {}) for name in ("momentum", "refresh_interval")]
    return RowTable(
        signal=str(attrs["signal"]),
        step=fit.step(),
        y=fit.observed(),
        window=constant["row_window"].to_numpy(),
        start=float(attrs["start"]),
        rate=constant["row_rate"].to_numpy(),
        weight=constant["row_weight"].to_numpy(),
        reference_rate=float(attrs["reference_learning_rate"]),
        from_rest=bool(int(attrs["from_rest"])),
        optimizer=Optimizer(
            momentum=float(attrs["momentum"]),
            convention=str(attrs["momentum_convention"]),
            refresh=float(attrs["refresh_interval"]),
            stated=all(
                s.get("value") is not None and s.get("provenance") != Provenance.ASSUMED.value for s in rested_on
            ),
        ),
        notes=fit.notes,
        entropy=constant["row_entropy"].to_numpy() if "row_entropy" in constant else None,
    )
