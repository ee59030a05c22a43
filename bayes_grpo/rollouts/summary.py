"""`describe_rollouts`: everything that rollouts say of a run, in one result."""

from __future__ import annotations

from dataclasses import dataclass

from bayes_grpo.common.errors import FitError
from bayes_grpo.common.results import Result
from bayes_grpo.logs.run import Run
from bayes_grpo.rollouts.decompose import decompose
from bayes_grpo.rollouts.decomposition import Decomposition
from bayes_grpo.rollouts.groups import GroupSummary, groups_of
from bayes_grpo.rollouts.join import Joined, join
from bayes_grpo.rollouts.records import Rollouts


@dataclass(frozen=True, eq=False, kw_only=True)
class RolloutSummary(Result):
    """Summary of rollouts: parts of the gain, groups, fit to a log; None where not known.

    ``missing`` says what is missing, and why.
    """

    rollouts: Rollouts
    gain: Decomposition | None
    groups: GroupSummary | None
    joined: Joined | None
    missing: tuple[str, ...]

    also_in_json = ("sentence",)

    @property
    def sentence(self) -> str:
        """The parts of the gain and the use of the groups; the size of the rollouts where neither is known."""
        return " ".join(self.sentences)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The same, a sentence each."""
        gain = () if self.gain is None else (self.gain.sentence,)
        groups = () if self.groups is None else self.groups.sentences
        return (*gain, *groups) or (self.rollouts.sentence,)


def describe_rollouts(
    rollouts: Rollouts, run: Run | None = None, *, formatted: str | None = None, seed: int = 0
) -> RolloutSummary:
    """Sizes, groups, what a gain is made of, and whether the completions fit a log of the same run.

    ``formatted`` names the part that says whether an answer is formatted; without it one is found by its name. Where
    there is no such part, or it is not yes or no, that is a `SettingError`.
    """
    missing: list[str] = []

    def none_if_too_few(made):
        try:
            return made()
        except FitError as error:
            missing.append(str(error))
            return None

    return RolloutSummary(
        rollouts=rollouts,
        gain=none_if_too_few(lambda: decompose(rollouts, formatted=formatted, seed=seed)),
        groups=none_if_too_few(lambda: groups_of(rollouts, seed=seed)),
        joined=None if run is None else none_if_too_few(lambda: join(run, rollouts)),
        missing=tuple(dict.fromkeys(missing)),
    )
