"""Settings of a page."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bayes_grpo.analysis.settings import PARTS, AnalysisSettings
from bayes_grpo.common.errors import SettingError
from bayes_grpo.common.text import plain
from bayes_grpo.views.document import Reference


@dataclass(frozen=True, kw_only=True)
class ReportSettings(AnalysisSettings):
    """Settings of a page: those of an analysis, and what only a page has. Checked when they are made.

    Attributes:
        without: Names in `bayes_grpo.analysis.settings.PARTS` that are left out.
        docs: Where the built documentation lies, for links from the sections; "" without.
        run_link: Address of the run's own page, such as that of a tracker; "" without.
        commit: Commit that the run ran: an address, or its name alone; "" without.

    Raises:
        SettingError: An unknown part, or an address that a page must not link to.
    """

    without: tuple[str, ...] = ()
    docs: str = ""
    run_link: str = ""
    commit: str = ""

    def __post_init__(self) -> None:
        unknown = [name for name in self.without if name not in PARTS]
        if unknown:
            raise SettingError(f"--without: expected some of {', '.join(PARTS)}, found {unknown[0]!r}")

        for flag, address in (("--docs", self.docs), ("--run-link", self.run_link), ("--commit", self.commit)):
            known = address.startswith(("https://", "http://", "file:///")) and not any(c in address for c in " \"'<>")
            if address and not known and (flag != "--commit" or ":" in address):
                raise SettingError(
                    f"{flag}: expected an address that begins with https://, http:// or file:///, found {address!r}"
                )

    @property
    def docs_base(self) -> str:
        """The address under which the documentation lies, ending in a slash; "" for none."""
        return f"{self.docs.rstrip('/')}/" if self.docs else ""

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
