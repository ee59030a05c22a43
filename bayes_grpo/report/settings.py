"""What a page is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.text import plain
from bayes_grpo.decision.question import Question
from bayes_grpo.fitting.sampling.nuts import SamplerSettings
from bayes_grpo.rollouts.records import Rollouts
from bayes_grpo.siblings.gather import Like
from bayes_grpo.views.document import Reference
from bayes_grpo.views.manual import checked_address, docs_base

PARTS = ("fit", "laws", "check", "forecast", "diagnosis", "stability")
"""What is computed for a page; what was logged is shown always."""


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """What a page is asked for. Checked when it is made.

    Attributes:
        until: Horizon of the forecast, an optimizer step; None for the planned length, or half as long again.
        question: What is asked about stopping.
        signal: "auto", "reward" (train) or "eval" (held-out).
        regime: Law of the section on the fit.
        history: Cuts of the log at which to say what would have been said then.
        without: Names in `PARTS` that are left out.
        seed: Seed of all randomness.
        sampler: Length and care of NUTS; None for the default.
        paths: Paths of the forecast.
        rollouts: Completions of the run, which tell what its gain is made of; None without.
        docs: Where the built documentation lies, for links from the sections; "" without.
        run_link: Address of the run's own page, such as that of a tracker; "" without.
        commit: Commit that the run ran: an address, or its name alone; "" without.
        like: Siblings of the run: files, folders, stores, patterns and runs; None without.

    Raises:
        SettingError: An unknown part, or an address that a page must not link to.
    """

    until: float | None = None
    question: Question = field(default_factory=Question)
    signal: str = "auto"
    regime: str = "oscillator"
    history: int = 12
    without: tuple[str, ...] = ()
    seed: int = 0
    sampler: SamplerSettings | None = None
    paths: int = 2000
    rollouts: Rollouts | None = None
    docs: str = ""
    run_link: str = ""
    commit: str = ""
    like: Like | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.without if name not in PARTS]
        if unknown:
            raise SettingError(f"--without: expected some of {', '.join(PARTS)}, found {unknown[0]!r}")

        docs_base(self.docs)
        checked_address("--run-link", self.run_link)
        if ":" in self.commit:
            checked_address("--commit", self.commit)

    @property
    def links(self) -> tuple[Reference, ...]:
        """Where run and commit are found, for the top of the page."""
        found = [Reference("This run", self.run_link)] if self.run_link else []
        if self.commit:
            address = self.commit if ":" in self.commit else ""
            found.append(Reference(f"Commit {plain(self.commit.rstrip('/').rpartition('/')[2], 60)}", address))
        return tuple(found)

    def until_step(self, until: float) -> ReportSettings:
        """The same with a horizon."""
        return replace(self, until=until)
