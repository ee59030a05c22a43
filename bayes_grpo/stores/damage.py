"""What a store's file has lost: a last record that is half written, and places where bytes are not what was written."""

from __future__ import annotations

from dataclasses import dataclass

from bayes_grpo.common.errors import LogReadError
from bayes_grpo.common.wording import counted

_MAX_PLACES = 1_000


@dataclass
class Damage:
    """Counts what a reader leaves out.

    Attributes:
        cut: Bytes of a last record that is not there in full: normal while a run goes on.
        places: Damaged places in the middle of the file.
    """

    cut: int = 0
    places: int = 0

    def at(self, more: int) -> None:
        """Counts damaged places.

        Raises:
            LogReadError: There are very many.
        """
        self.places += more
        if self.places > _MAX_PLACES:
            raise LogReadError(
                f"expected a file as its store wrote it, found checksums that fail in more than {_MAX_PLACES} places; "
                f"copy the file again"
            )

    def nothing(self, what: str) -> LogReadError:
        """The error of a file without a row.

        Args:
            what: What the file is, in words.
        """
        lost = "".join(f" ({note})" for note in self.notes())
        return LogReadError(f"expected rows of metrics in {what}, found none{lost}; wait for the first logged row")

    def notes(self) -> tuple[str, ...]:
        """The counts in words."""
        said = []
        if self.places:
            said.append(f"checksums fail in {counted(self.places, 'place')}; the records there are left out")
        if self.cut:
            said.append(f"the last record is cut: {counted(self.cut, 'byte')} dropped")
        return tuple(said)
