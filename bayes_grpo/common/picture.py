"""Writing a figure to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bayes_grpo.common.files import check_picture, written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_plot(figure: Figure, path: str | Path) -> Path:
    """Writes a figure whole or not at all; the suffix names the format (png, pdf, svg).

    Returns:
        The path written.

    Raises:
        OutputError: The place cannot be written to, or the suffix is no picture format.
    """
    check_picture(path)
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=130, format=Path(path).suffix.lstrip(".").lower())
    return Path(path)
