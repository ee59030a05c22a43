"""The result of a check: its findings, its verdict and the sentence that says them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from bayes_grpo.common.results import About, Result, fields_of, frame_of

if TYPE_CHECKING:
    import pandas as pd

ALERT = 0.05
"""Familywise error rate of the residual checks, by Holm's method.

A break has its own limit (`bayes_grpo.rows.changes.CLEAR_FACTOR`)."""


class Residuals(NamedTuple):
    """Standardized residuals at posterior draws.

    Attributes:
        innovation: One-step-ahead residual over its sd, given the draw and the rows before, shape (draws, n).
        loo: Residual over its sd given the draw and all other rows, shape (draws, n).
    """

    innovation: Any
    loo: Any


@dataclass(frozen=True)
class Finding:
    """One check.

    Attributes:
        name: "autocorrelation", "variance", "outliers" or "break".
        statistic: Its statistic on the rows, median over draws.
        limit: Its 95% quantile on replicated rows; of a break the log Bayes factor from which it counts.
        tail: Probability that replicated rows have a larger one; of a break the inverse of its Bayes factor.
        step: Step at which the defect sits, where it sits somewhere.
        sentence: What was found, in words.
    """

    name: str
    statistic: float
    limit: float
    tail: float
    step: float | None
    sentence: str


@dataclass(frozen=True, eq=False)
class Check(Result):
    """Results of the checks of a fitted regime.

    Attributes:
        sentence: The verdict.
        findings: The four checks.
        residuals: Standardized residuals at posterior draws, for pictures.
        about: Which rows were fitted.
        regime: Name of the regime.
        converged: Whether the sampler of the checked fit passed its own checks.
    """

    sentence: str
    findings: tuple[Finding, ...]
    residuals: Residuals
    about: About
    regime: str
    converged: bool

    also_in_json = ("misses",)
    not_in_json = ("residuals",)

    @property
    def misses(self) -> tuple[str, ...]:
        """Names of the failed checks: residual checks at familywise rate `ALERT`, a break by its own limit."""
        return _rejected(self.findings)

    def to_frame(self) -> pd.DataFrame:
        """One row a check: the fields of `Finding`, and whether the check fails."""
        return frame_of((fields_of(f) | {"missed": f.name in self.misses} for f in self.findings), "name")


def _rejected(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """Holm's method for the residual checks: at most a share `ALERT` of right regimes has any false alarm."""
    out = [f.name for f in findings if f.name == "break" and f.statistic >= f.limit]
    of_residuals = [f for f in findings if f.name != "break"]
    for i, f in enumerate(sorted(of_residuals, key=lambda f: f.tail)):
        if f.tail >= ALERT / (len(of_residuals) - i):
            break
        out.append(f.name)
    return tuple(f.name for f in findings if f.name in out)


_WORDS = {
    "autocorrelation": "its residuals are autocorrelated",
    "variance": "the noise level changes",
    "outliers": "there are outliers",
}
_AT = {
    "variance": "the noise level changes near step {:g}",
    "outliers": "the row at step {:g} is an outlier",
}


def _words(f: Finding) -> str:
    """What a check found, with its step where it has one; of breaks each with its steps."""
    if f.name == "break":
        clauses = f.sentence.partition(" (Bayes")[0].split("; ")
        return ", ".join(x[:1].lower() + x[1:] for x in clauses)
    return _WORDS[f.name] if f.step is None or f.name not in _AT else _AT[f.name].format(f.step)


def check_sentence(findings: tuple[Finding, ...], regime: str, n: int) -> str:
    """The verdict of the checks in words, at familywise rate `ALERT`."""
    missed = _rejected(findings)
    if missed:
        found = ", and ".join(_words(f) for f in findings if f.name in missed)
        return f"{regime} misses something in these {n} rows: {found}."
    return f"{regime} fits these {n} rows: no check speaks against it."
