"""`account`: one story of a run.

What happened comes first, then what a law says of the rows that it may describe, then what is to come and whether it is
worth waiting for; each is told given what stands before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayes_grpo.accounts.advice import advised, given
from bayes_grpo.accounts.span import LawSpan, law_span
from bayes_grpo.common.errors import BayesGrpoError
from bayes_grpo.common.results import Result
from bayes_grpo.decision.price import priced
from bayes_grpo.decision.question import Question
from bayes_grpo.decision.recall import doubt_of
from bayes_grpo.decision.result import Decision
from bayes_grpo.diagnosis.diagnose import diagnose
from bayes_grpo.diagnosis.result import Diagnosis
from bayes_grpo.diagnosis.status import TopLine
from bayes_grpo.fitting.fit import fit
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.fitting.summary import Summary, summarize
from bayes_grpo.forecasting.forecast import forecast
from bayes_grpo.forecasting.summary import ForecastSummary, summarize_forecast
from bayes_grpo.logs.run import Run


@dataclass(frozen=True, eq=False)
class Account(Result):
    """What is said of a run, in the order in which it is said.

    Attributes:
        top: How it stands and what to do.
        diagnosis: What happened and is under way.
        span: Rows that a law may describe.
        fit: What the law says of them; None where there is none.
        forecast: What is to come; None where it cannot be forecast.
        decision: What stopping is worth; None where nobody asked.
        reasons: Part → why it is missing.
    """

    top: TopLine
    diagnosis: Diagnosis
    span: LawSpan
    fit: Summary | None
    forecast: ForecastSummary | None
    decision: Decision | None
    reasons: dict[str, str]

    in_json = ("sentence", "top", "diagnosis", "fit", "forecast", "decision", "reasons")

    @property
    def sentence(self) -> str:
        """The account in words."""
        parts = [self.top.sentence, self.diagnosis.sentence]
        parts += [] if self.fit is None else [f"{self.fit.verdict[:1].upper()}{self.fit.verdict[1:]}"]
        for part in (self.forecast, self.decision):
            said = "" if part is None else given(self.top, part.sentence)
            parts.append(f"{said[:1].upper()}{said[1:]}")
        return " ".join(x for x in parts if x)


def account(
    run: Run,
    *,
    until: float | None = None,
    question: Question | None = None,
    regime: str = "oscillator",
    signal: str = "auto",
    seed: int = 0,
    sampler: SamplerSettings | None = None,
) -> Account:
    """One story of a run, whose sentences are true together.

    Args:
        run: The run.
        until: Horizon of the forecast, optimizer step; None for the planned length, or half as long again.
        question: Costs and values behind the advice to stop; None where it is not asked.
        regime: Law to fit.
        signal: "auto", "reward" (train) or "eval" (held-out).
        seed: Seed.
        sampler: Length and care of the sampling.

    Returns:
        The account; a part that cannot be computed is None, and its reason is kept.
    """
    diagnosis, span, reasons = diagnose(run), law_span(run, signal), {}
    fitted = ahead = decision = None
    try:
        made = fit(span.checked(), regime, signal=signal, seed=seed, sampler=sampler)
        fitted = span.leads(summarize(made))
    except BayesGrpoError as error:
        reasons["fit"] = str(error)
    try:
        found = forecast(run, until, signal=signal, seed=seed)
        ahead = summarize_forecast(found)
        decision = None if question is None else priced(question, run).answer(found, doubt_of(diagnosis))
    except BayesGrpoError as error:
        reasons["forecast"] = str(error)
    return Account(advised(diagnosis.top, ahead, decision), diagnosis, span, fitted, ahead, decision, reasons)
